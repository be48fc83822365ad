"""What bounds a kernel, and how near it comes to what a device can do."""

from __future__ import annotations

import dataclasses

import pytest

from replay.results.run.timing import KernelCounters, LaunchTime
from replay.timing.bounds import bound_of
from replay.timing.roofline import roofline

from ..helpers.result_factory import make_result, modelled

COUNTERS = {
    "warp_instructions": 48_000, "global_load_sectors": 800, "global_store_sectors": 200,
    "global_load_least_sectors": 200, "global_store_least_sectors": 50,
    "shared_load_wavefronts": 320, "shared_load_bank_conflicts": 300,
}  # fmt: skip


def kernel(**parts: float) -> KernelCounters:
    return KernelCounters("scan", 1, round(sum(parts.values())), COUNTERS, parts)


def test_the_largest_part_of_the_work_is_the_bound_and_what_would_help_is_said() -> None:
    found = bound_of(kernel(launch=2000, blocks=100, compute=3000, memory=9000, shared=50, latency=10))
    assert found is not None
    assert (found.part, found.next_part, found.costly) == ("memory", "compute", "sectors")
    assert found.share == pytest.approx(9000 / 11100)
    assert found.saving == pytest.approx(
        6000 / 11100
    )  # a quarter of the sectors would do: compute bounds it then
    assert "bandwidth of global memory (81 % of the modelled time)" in found.sentence
    assert "54 % less" in found.sentence


def test_bank_conflicts_are_what_helps_where_shared_memory_is_dearer() -> None:
    found = bound_of(kernel(launch=100, compute=300, memory=10, shared=900))
    assert found is not None
    assert (found.part, found.costly) == ("shared", "conflicts")
    assert "no bank" in found.sentence


def test_a_short_kernel_is_bound_by_its_start() -> None:
    found = bound_of(kernel(launch=2000, blocks=20, compute=30, memory=9))
    assert found is not None
    assert found.part == "start"
    assert (
        found.sentence
        == "is bound by its start: the launch itself, and that of its blocks (99 % of the modelled time)"
    )


def test_nothing_is_said_of_results_that_do_not_have_the_parts() -> None:
    assert bound_of(KernelCounters("scan", 1, 10, COUNTERS)) is None
    assert bound_of(kernel(launch=0.0, compute=0.0)) is None


def test_limits_are_those_at_the_clock_that_the_samples_saw() -> None:
    result = make_result()
    timing = dataclasses.replace(result.timing, sm_clock_mhz=[1000, 1500, 2000])
    device = dataclasses.replace(
        result.device, clocks={"memory_clock_mhz": 2619, "sm_clock_mhz": 99}, memory_bus_bits=5120
    )
    result = dataclasses.replace(result, timing=timing, device=device)
    found = roofline(result, [kernel(memory=1.0)])
    assert found is not None
    assert found.instructions == pytest.approx(132 * 4 * 1.5)
    assert found.sectors * 32 == pytest.approx(3352.3, abs=0.1)  # GB/s, of an H100
    (point,) = found.points
    assert point.intensity == 48
    assert point.rate == pytest.approx(48_000 / 5100)  # the window's one launch took its median
    assert not found.modelled


def test_launches_that_were_timed_one_by_one_give_the_time_of_a_kernel() -> None:
    result = make_result(
        launch_times=[LaunchTime(1, "cuLaunchKernel", "scan", 0, time, None) for time in (100.0, 140.0)]
    )
    result = dataclasses.replace(
        result, timing=dataclasses.replace(result.timing, effective_clock_mhz=[1000.0])
    )
    found = roofline(result, [kernel(memory=1.0), KernelCounters("other", 1, 5, COUNTERS)])
    assert found is not None
    assert [(point.kernel, point.rate) for point in found.points] == [("scan", 48_000 / 240)]
    assert found.sectors == 0.0  # no clock of the memory: no bandwidth
    assert found.roof(0.001) == found.instructions


def test_without_a_clock_there_is_no_roofline() -> None:
    assert roofline(make_result(), [kernel(memory=1.0)]) is None


def test_on_the_cpu_driver_limits_and_times_are_modelled() -> None:
    result = modelled()
    result = dataclasses.replace(
        result, timing=dataclasses.replace(result.timing, effective_clock_mhz=[1500.0])
    )
    found = roofline(result, [kernel(launch=1000, memory=1000)])
    assert found is not None
    assert found.modelled
    assert found.points[0].rate == 48_000 / 2000
