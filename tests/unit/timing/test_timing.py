"""Stopping rules, samples and figures: all on plain numbers, with a clock that tests turn."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from replay.timing.clocks import Clocks
from replay.timing.sampler import DISCARD_PAUSE_S, Sample, measure
from replay.timing.statistics import outliers, quantile, samples_for, summarize
from replay.timing.stopping import StoppingParameters, StoppingRule

MS = 1_000_000


def feed(rule, times, wall_step_ns=MS):
    for number, time_ns in enumerate(times, 1):
        stop = rule.add(time_ns, number * wall_step_ns)
        if stop:
            return number, stop
    return None, None


def test_quiet_samples_stop_once_enough_gpu_time_is_gathered():
    rule = StoppingRule(StoppingParameters(minimum_gpu_time_ns=105 * MS))
    count, stop = feed(rule, [10 * MS + i % 2 for i in range(1000)])
    assert (count, stop.code) == (11, "noise-low")  # more than 105 ms


def test_minimum_of_samples_holds_for_long_kernels():
    count, stop = feed(StoppingRule(StoppingParameters()), [1000 * MS] * 100)
    assert (count, stop.code) == (10, "noise-low")


def test_noisy_samples_go_on_until_the_noise_has_settled():
    generator = random.Random(7)
    rule = StoppingRule(StoppingParameters(minimum_gpu_time_ns=MS, maximum_wall_ns=10**18))
    count, stop = feed(rule, (1e6 * generator.gauss(1, 0.05) for _ in range(100_000)))
    assert stop.code == "noise-settled"
    assert 512 < count < 20_000
    assert rule.noise == pytest.approx(0.05, rel=0.1)


def test_time_limit_ends_it_and_names_what_was_unmet():
    generator = random.Random(7)
    rule = StoppingRule(StoppingParameters(maximum_wall_ns=50 * MS))
    count, stop = feed(rule, (1e6 * generator.gauss(1, 0.05) for _ in range(1000)))
    assert (count, stop.code) == (51, "timeout")
    assert "GPU time" in stop.text
    assert "noise" in stop.text


def test_modelled_clock_stops_after_equal_samples():
    count, stop = feed(StoppingRule(StoppingParameters(), modelled=True), [5492] * 100)
    assert (count, stop.code) == (3, "modelled-constant")


def test_modelled_clock_with_injected_noise_is_sampled_like_a_real_one():
    times = [1e8 * (1 + 0.1 * (i % 2)) for i in range(10_000)]
    _, stop = feed(StoppingRule(StoppingParameters(maximum_wall_ns=10**18), modelled=True), times)
    assert stop.code == "noise-settled"


def test_modelled_clock_with_injected_noise_needs_no_minimum_of_gpu_time():
    times = [5000 * (1 + 0.001 * (i % 2)) for i in range(100)]
    count, stop = feed(StoppingRule(StoppingParameters(), modelled=True), times)
    assert (count, stop.code) == (10, "noise-low")


def test_measured_clock_never_stops_for_equal_samples():
    count, _ = feed(StoppingRule(StoppingParameters()), [5492] * 9)
    assert count is None


def test_fixed_number_of_samples_overrides_every_other_rule():
    count, stop = feed(StoppingRule(StoppingParameters(fixed_samples=2), modelled=True), [5492] * 9)
    assert (count, stop.code) == (2, "sample-count")


def test_noise_of_one_sample_is_unknown():
    rule = StoppingRule(StoppingParameters())
    rule.add(1e6, 0)
    assert math.isinf(rule.noise)


def test_summary_agrees_with_the_standard_library():
    generator = random.Random(3)
    samples = [generator.lognormvariate(10, 0.1) for _ in range(997)]
    summary = summarize(samples)
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    assert summary.median_ns == pytest.approx(middle)
    assert (summary.lower_quartile_ns, summary.upper_quartile_ns) == (pytest.approx(low), pytest.approx(high))
    assert summary.mean_ns == pytest.approx(statistics.fmean(samples))
    assert summary.noise == pytest.approx(statistics.stdev(samples) / statistics.fmean(samples))


def test_summary_of_nothing_is_an_error():
    with pytest.raises(ValueError):
        summarize([])


def test_quantiles_of_one_value():
    assert quantile([7.0], 0.25) == 7.0


def test_outliers_are_found_and_ordinary_scatter_is_not():
    generator = random.Random(5)
    samples = [generator.gauss(100, 1) for _ in range(200)]
    assert outliers(samples) == []
    samples[17] = 160
    assert outliers(samples) == [17]
    assert outliers([5.0] * 10) == []


def test_samples_needed_grow_with_the_square_of_the_noise():
    assert samples_for(0.05, 0.005) == 100
    assert samples_for(0.0, 0.005) == 2


class FakeWindow:
    """Gives prepared samples and turns the clock by what they took."""

    def __init__(self, samples):
        self.samples = iter(samples)
        self.now = 0
        self.slept = []

    def sample(self):
        sample = next(self.samples)
        self.now += sample.host_ns
        return sample

    def measure(self, parameters, modelled=False):
        return measure(
            self, parameters, modelled=modelled, now_ns=lambda: self.now, sleep_s=self.slept.append
        )


def test_first_run_is_kept_apart():
    window = FakeWindow([Sample(900 * MS, 950 * MS)] + [Sample(100 * MS, 110 * MS)] * 20)
    result = window.measure(StoppingParameters())
    assert result.first.gpu_ns == 900 * MS
    assert {sample.gpu_ns for sample in result.samples} == {100 * MS}
    assert len(result.samples) == 10


def test_warm_up_of_short_windows_takes_25_ms_of_gpu_time():
    taken = []

    class Counting(FakeWindow):
        def sample(self):
            taken.append(1)
            return super().sample()

    window = Counting([Sample(5 * MS, 5 * MS)] * 500)
    result = window.measure(StoppingParameters(fixed_samples=10))
    assert len(taken) == 5 + 10
    assert len(result.samples) == 10


def test_samples_with_a_slow_clock_are_discarded_and_the_pause_grows():
    slow, good = Sample(90 * MS, 90 * MS, 700, slow_clock=True), Sample(60 * MS, 60 * MS, 1700)
    window = FakeWindow([good, slow, slow, *[good] * 20])
    result = window.measure(StoppingParameters())
    assert result.discarded == 2
    assert window.slept == [DISCARD_PAUSE_S, 2 * DISCARD_PAUSE_S]
    assert all(sample.sm_clock_mhz == 1700 for sample in result.samples)


def test_a_clock_that_stays_slow_does_not_sample_for_ever():
    window = FakeWindow([Sample(60 * MS, 60 * MS, 700, slow_clock=True)] * 500)
    result = window.measure(StoppingParameters(fixed_samples=5))
    assert len(result.samples) == 5
    assert result.discarded > 0


def test_window_without_events_is_judged_by_host_time():
    result = FakeWindow([Sample(None, 100 * MS)] * 30).measure(StoppingParameters())
    assert result.stop.code == "noise-low"


def test_host_time_of_the_cpu_driver_decides_nothing():
    result = FakeWindow([Sample(None, i * MS) for i in range(1, 99)]).measure(
        StoppingParameters(), modelled=True
    )
    assert result.stop.code == "no-gpu-time"
    assert len(result.samples) == 3


def test_absent_clocks_are_recorded_as_unavailable():
    clocks = Clocks(None, "GPU-0")
    assert clocks.unavailable
    assert clocks.sm_mhz() is None
    assert clocks.throttle_reasons() == []
    assert clocks.state() == {}


class FakeNvml:
    """Knows a device, its clock and why it is slow; refuses everything else, as many devices do."""

    def device_get_handle_by_uuid(self, uuid):
        return uuid

    def device_get_clock_info(self, device, kind):
        return {1: 1200, 2: 2600}[kind]

    def device_get_max_clock_info(self, device, kind):
        return 1980

    def device_get_current_clocks_event_reasons(self, device):
        return 0x1 | 0x4 | 0x40


def test_clocks_and_throttle_reasons_that_spoil_a_measurement_are_reported():
    clocks = Clocks(FakeNvml(), "GPU-0")
    assert clocks.throttle_reasons() == ["software-power-cap", "hardware-thermal-slowdown"]
    assert clocks.state() == {"sm_clock_mhz": 1200, "memory_clock_mhz": 2600, "maximum_sm_clock_mhz": 1980}
    assert clocks.default_mhz == 1980
