"""SM cycles beside time: stamps that a kernel leaves before the window and after it."""

from __future__ import annotations

import struct
from dataclasses import replace

from replay.compare.rows import observation  # noqa: E402
from replay.report.run import render_run  # noqa: E402
from replay.text import Screen  # noqa: E402
from replay.timing.stamps import clock_between, cycles_of, decode_stamps  # noqa: E402

from ..helpers.small_snapshots import BASE, INCREMENT, u32, u64
from ..helpers.snapshot_factory import SnapshotFactory, vector_add

# Stamps are taken on the CPU driver too, as on a GPU.
FORCED = """
from replay.engine.measuring import measure, stamps
original = measure.WindowSampler._prepare_stamps
measure.WindowSampler._prepare_stamps = lambda self, emulated: original(self, False)
{more}
"""


def stamped(*pairs):
    """A table of stamps; None: a multiprocessor that left none."""
    return b"".join(struct.pack("<QQII8x", *(pair or (0, 0)), int(pair is not None), 0) for pair in pairs)


def test_the_clock_is_the_median_over_the_multiprocessors_that_left_both_stamps():
    before = decode_stamps(stamped((1_000, 500), None, (1_000, 7_000), (1_000, 90)))
    after = decode_stamps(stamped((101_000, 150_500), (101_000, 9), (101_000, 157_000), None))
    assert set(before) == {0, 2, 3}
    assert clock_between(before, after, 90_000) == 1500.0  # 150,000 cycles in 100,000 ns
    assert cycles_of(90_000, 1500.0) == 135_000


def test_stamps_that_the_events_contradict_are_not_believed():
    before = {0: (1_000, 500)}
    assert clock_between(before, {0: (11_000, 15_500)}, 10_000) == 1500.0
    assert clock_between(before, {0: (11_000, 15_500)}, 50_000) is None  # the window alone was longer
    assert clock_between(before, {0: (1_000, 15_500)}, 0) is None  # the timer stood still
    assert clock_between(before, {0: (11_000, 400)}, 10_000) is None  # the counter began anew
    assert clock_between(before, {0: (11_000, 500_000_000)}, 10_000) is None  # 50 GHz
    assert clock_between(before, {1: (11_000, 15_500)}, 10_000) is None  # another multiprocessor


def test_the_stamp_kernel_runs_around_the_window_and_disturbs_nothing(replayed, sabotage):
    plain = replayed(vector_add())
    # The CPU driver counts instructions of one launch for cycles, so only that both stamps are there can be seen on it.
    both = "stamps.clock_between = lambda before, behind, window_ns: 1234.0 if before.keys() & behind.keys() else None"
    sabotage(FORCED.format(more=both))
    result = replayed(vector_add())
    timing = result.timing
    assert (timing.cycles_source, timing.cycles_reason) == ("stamped", "")
    assert set(timing.effective_clock_mhz) == {1234.0}
    assert timing.cycles == [round(time_ns * 1.234) for time_ns in timing.gpu_time_ns]
    assert result.verification.verdict == "match"
    assert result.restore.verdict == "right"
    assert timing.gpu.median_ns == plain.timing.gpu.median_ns  # the stamps are outside of the events
    assert "SM cycles, stamped on the device around the window" in render_run(result, Screen(200, False))


def test_a_driver_that_refuses_the_stamp_kernel_is_told_and_times_stay(replayed, sabotage):
    sabotage(FORCED.format(more='stamps.STAMP_PTX = "not PTX"'))
    timing = (result := replayed(vector_add())).timing
    assert timing.gpu is not None
    assert timing.cycles == []
    assert timing.cycles_source == ""
    assert "cuModuleLoadData returned" in timing.cycles_reason
    assert "no SM cycles: the driver does not run the stamp kernel" in render_run(result, Screen(200, False))


def test_cycles_on_the_cpu_driver_are_those_of_its_model_and_called_so(replayed):
    result = replayed(vector_add())
    timing = result.timing
    assert timing.cycles_source == "modelled"
    assert set(timing.effective_clock_mhz) == {1500.0}
    assert timing.cycles == [round(time_ns * 1.5) for time_ns in timing.gpu_time_ns]
    assert "SM cycles, modelled: median" in render_run(result, Screen(80, False))


def test_a_comparison_takes_stamped_cycles_before_those_of_the_clock_that_nvml_gave(replayed):
    result = replayed(vector_add())
    timing = replace(
        result.timing, source="measured", cycles=[7, 9, 8], sm_clock_mhz=[1000], cycles_source="stamped"
    )
    assert observation(replace(result, timing=timing)).cycles == 8
    without = replace(timing, cycles=[], cycles_source="")
    assert observation(replace(result, timing=without)).cycles == timing.gpu.median_ns


# A clock of 2000 MHz in the first stretch of the window, 100 MHz more in each one after it.
MOVING = """
def clock_mhz(self, time_ns, first=0, last=1):
    if set((first, last)) - self._taken:
        return None
    return 1200.0 if (first, last) == (0, 1) else 2000.0 + 100 * max(first - 1, 0)
stamps.ClockStamps.clock_mhz = clock_mhz
from replay.engine.measuring import launch_times
launch_times.STRETCH_NS = {length_ns}
"""


def four_launches():
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.call("cuStreamCreate", [0x7F40, 1], section="setup", outputs={"phStream": u64(0x51)})
    for number, stream in enumerate((0, 0, 0x51, 0)):
        factory.range(BASE + 4096 * number, u32(5), u32(6))
        factory.launch(u64(BASE + 4096 * number), [(0, 8)], 1, 1, stream=stream)
    return factory


def test_each_launch_has_the_cycles_of_its_time_at_the_clock_around_the_window(replayed, sabotage):
    sabotage(FORCED.format(more=MOVING.format(length_ns=1_000_000)))
    launches = replayed(four_launches()).launch_times
    assert {item.cycles_source for item in launches} == {"stamped"}
    assert [item.cold_cycles for item in launches] == [round(1.2 * item.cold_ns) for item in launches]
    assert [item.hot_cycles for item in launches] == [round(1.2 * item.hot_ns) for item in launches]


def test_in_a_long_window_each_launch_has_the_clock_of_the_stretch_that_it_lies_in(replayed, sabotage):
    plain = replayed(four_launches()).launch_times
    sabotage(FORCED.format(more=MOVING.format(length_ns=1)))  # a stretch for each launch of the main stream
    result = replayed(four_launches())
    launches = result.launch_times
    assert [item.cold_ns for item in launches] == [
        item.cold_ns for item in plain
    ]  # no stamp between its events
    found = [item.cold_cycles and round(item.cold_cycles / item.cold_ns, 2) for item in launches]
    assert found == [2.0, 2.1, None, 2.2]
    assert "only along the stream of the first work" in launches[2].cycles_reason
    assert "1 launch without SM cycles: the clock is stamped only along" in render_run(
        result, Screen(200, False)
    )


def test_cycles_of_launches_on_the_cpu_driver_are_called_modelled(replayed):
    launches = replayed(four_launches()).launch_times
    assert {item.cycles_source for item in launches} == {"modelled"}
    assert [item.cold_cycles for item in launches] == [round(1.5 * item.cold_ns) for item in launches]
