"""Whether the replay takes as long as the application: decided and explained from plain values."""

from __future__ import annotations

import pytest

from replay.report.run.times import beside_captured
from replay.results.run.origin import ApplicationFacts, DeviceFacts, WindowFacts
from replay.results.run.placement import Placement
from replay.results.run.timing import LaunchTime, Warning_
from replay.text import PIPED_WIDTH, Screen, flow
from replay.timing.fidelity import Conditions, fidelity
from replay.timing.sampler import Measurement, Sample
from replay.timing.stopping import Stop, StoppingParameters
from replay.timing.warnings import DeviceConditions, warnings

US = 1000


def launch(application_us=None, cold_us=None, hot_us=None):
    times = [None if value is None else value * US for value in (cold_us, hot_us, application_us)]
    return LaunchTime(1, "cuLaunchKernel", "k", 0, *times)


def application(**changes):
    return ApplicationFacts(**{"device": "GPU", "driver_version": 13000, "emulated": False, **changes})


def here(
    emulated=False, device="GPU", driver_version=13000, streams=1, warned=(), relocated=0, expanded=False
):
    class Timed:
        warnings = [Warning_(code, "", "") for code in warned]

    placement = Placement(1, 1, relocated_ranges=relocated)
    window = WindowFacts(1, 1, ["k"], streams=streams)
    return Conditions(
        DeviceFacts(0, device, "9.0"), driver_version, emulated, window, placement, Timed(), expanded
    )


def test_a_variant_has_nothing_to_reproduce():
    from dataclasses import replace

    found = fidelity([launch(166, 100, 100)], application(), replace(here(), varied=True))
    assert (found.reproduced, found.causes, found.of_variant) == (None, [], True)
    assert found.deviation == pytest.approx(0.66)
    assert (
        beside_captured(found)
        == "the variant takes 0.60 x as long as the captured kernel did inside the application"
    )
    same = fidelity([launch(100, 100, 100)], application(), replace(here(), varied=True))
    assert (
        beside_captured(same) == "the variant takes as long as the captured kernel did inside the application"
    )


@pytest.mark.parametrize(
    ("application_us", "cold_us", "hot_us", "deviation"),
    [
        (100, 100, 90, 0.0),
        (95, 100, 90, 0.0),  # between hot and cold: the caches were warm in part
        (104, 100, 90, 0.04),
        (110, 100, 90, 0.10),
        (81, 100, 90, -0.10),
        (110, 100, None, 0.10),
        (110, None, 100, 0.10),
        (95, 90, 100, 0.0),  # hot may take longer than cold
    ],
)
def test_the_nearest_time_between_hot_and_cold_counts(application_us, cold_us, hot_us, deviation):
    found = fidelity([launch(application_us, cold_us, hot_us)], application(), here())
    assert found.deviation == pytest.approx(deviation)
    assert found.reproduced == (abs(deviation) <= 0.05)
    assert bool(found.causes) == (not found.reproduced)


def test_only_launches_that_were_timed_on_both_sides_are_summed():
    launches = [launch(100, 100, 90), launch(None, 500, 500), launch(50, 50, 40)]
    found = fidelity(launches, application(), here())
    assert (found.launches, found.application_ns, found.cold_ns, found.hot_ns) == (
        2,
        150 * US,
        150 * US,
        130 * US,
    )
    assert fidelity([launch(None, 500, 500)], application(), here()) is None
    assert fidelity([launch(100)], application(), here()) is None


@pytest.mark.parametrize(("there", "now"), [(True, False), (False, True)])
def test_a_modelled_time_is_never_held_against_a_measured_one(there, now):
    found = fidelity([launch(100, 300, 300)], application(emulated=there), here(emulated=now))
    assert (found.deviation, found.reproduced, found.causes) == (None, None, [])
    assert "modelled" in found.reason
    assert (found.application_source, found.source) == tuple(
        "modelled" if emulated else "measured" for emulated in (there, now)
    )


def test_another_device_is_not_compared():
    found = fidelity([launch(100, 300, 300)], application(), here(device="Other GPU"))
    assert found.reproduced is None
    assert "Other GPU" in found.reason


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"driver_version": 13010}, "another driver: CUDA 13.0 there, CUDA 13.1 here"),
        ({"streams": 2}, "other streams"),
        ({"warned": ["throttled"]}, "clock was not steady"),
        ({"warned": ["shared-gpu"]}, "other processes use this device"),
        ({"relocated": 1}, "other addresses"),
        ({"expanded": True}, "node by node"),
        ({"emulated": True}, "REPLAY_EMULATOR_SLOWDOWN"),
    ],
)
def test_what_is_known_of_the_conditions_is_named_as_a_cause(changes, word):
    emulated = changes.get("emulated", False)
    found = fidelity([launch(200, 100, 50)], application(emulated=emulated), here(**changes))
    assert any(word in cause for cause in found.causes)
    plain = fidelity([launch(200, 100, 50)], application(), here())
    assert not any(word in cause for cause in plain.causes)


def test_caches_are_named_with_how_much_they_matter():
    found = fidelity([launch(200, 100, 50)], application(), here())
    assert any("2.00 x" in cause for cause in found.causes)


# -- warnings -----------------------------------------------------------------------------------------------------


def codes(times, first=None, stop="noise-low", parameters=None, device=None, modelled=False, **words):
    samples = [Sample(time, time, *words.get("clock", ())) for time in times]
    measurement = Measurement(
        samples, first and Sample(first, first), words.get("discarded", 0), Stop(stop, "text")
    )
    found = warnings(
        measurement, parameters or StoppingParameters(), device or DeviceConditions(), modelled=modelled,
        batch=words.get("batch", 1),
    )  # fmt: skip
    assert all(warning.text and warning.advice for warning in found)
    return {warning.code: warning for warning in found}


STEADY = [50 * US] * 20


def test_steady_samples_are_not_warned_of():
    assert codes(STEADY) == {}


def test_each_doubt_has_its_code():
    assert "first-run-slow" in codes(STEADY, first=500 * US)
    assert "outliers" in codes([*[50 * US, 50 * US + 10] * 10, 90 * US])
    assert "throttled" in codes(STEADY, device=DeviceConditions(["hardware-slowdown"]))
    assert "throttled" in codes(STEADY, discarded=3)
    assert "shared-gpu" in codes(STEADY, device=DeviceConditions((), {"other_processes": 2}))
    assert "short-kernel" in codes([5 * US] * 20)
    assert "short-kernel" not in codes([5 * US] * 20, batch=100)
    assert "timeout" in codes(STEADY, stop="timeout")
    assert codes([]) == {}


def test_a_clock_that_moves_is_not_locked():
    samples = [Sample(50 * US, 50 * US, 1200 + 10 * number) for number in range(10)]
    found = warnings(Measurement(samples), StoppingParameters(), DeviceConditions(), modelled=False)
    assert [warning.code for warning in found] == ["clocks-unlocked"]
    assert "-lgc 1200" in found[0].advice


def test_too_few_samples_come_with_the_number_that_would_do():
    found = codes([50 * US, 51 * US] * 5)  # 1 % noise; 0.5 % wanted
    assert "noisy" in found
    assert "too-few" not in found  # ten samples already bring the mean below 0.5 %
    found = codes([50 * US, 60 * US] * 5)
    assert "--samples" in found["too-few"].advice


def test_a_modelled_clock_is_warned_of_for_injected_noise_alone():
    times = [50 * US, 60 * US] * 5
    found = codes(
        times, first=500 * US, modelled=True, device=DeviceConditions(["x"], {"other_processes": 2})
    )
    assert set(found) == {"noisy", "too-few"}
    assert "REPLAY_EMULATOR_NOISE" in found["noisy"].advice


def test_sentences_flow_into_lines_that_fit_and_stay_whole_in_a_pipe():
    line = "  warning (noisy): " + "word " * 40
    lines = flow(line, Screen(80, True)).splitlines()
    assert max(map(len, lines)) <= 80
    assert [found[:4] for found in lines[1:]] == ["    "] * (len(lines) - 1)
    assert " ".join(" ".join(lines).split()) == " ".join(line.split())
    assert flow(line, Screen(PIPED_WIDTH, False)) == line
