"""Results made by hand, for tests of what reads, compares and prints them."""

from __future__ import annotations

import dataclasses

from replay.results.run.origin import ApplicationFacts, DeviceFacts, DriverFacts, SnapshotFacts, WindowFacts
from replay.results.run.placement import Placement
from replay.results.run.timing import TimeSummary, Timing, Warning_
from replay.results.run.verification import Verification
from replay.results.schema import FORMAT, RunResult


def summary(median_ns):
    return TimeSummary(3, median_ns, median_ns, median_ns, median_ns, median_ns, median_ns, 0.0)


def make_result(**changes):
    timing = Timing(
        "cold", "measured", [5000, 5100, 5200], [9000, 9100, 9200], summary(5100.0), summary(9100.0),
        warnings=[Warning_("noisy", "the samples scatter", "lock the clocks")], stop_text="noise is low",
    )  # fmt: skip
    result = RunResult(
        format=FORMAT,
        tool_version="0.1.0",
        created_utc="2026-01-01T00:00:00+00:00",
        snapshot=SnapshotFacts("x.rsnap", 1000, "ab" * 16),
        driver=DriverFacts("system", "/usr/lib/libcuda.so.1", 13000, False),
        device=DeviceFacts(0, "Test GPU", "9.0", multiprocessors=132),
        placement=Placement(3, 3 << 20),
        window=WindowFacts(1, 1, ["vector_add"]),
        verification=Verification("match", 3, 3 << 20),
        timing=timing,
        application=ApplicationFacts("Test GPU", 12090, False, 20_000),
    )
    return dataclasses.replace(result, **changes)


def modelled():
    result = make_result()
    return dataclasses.replace(
        result,
        driver=dataclasses.replace(result.driver, emulated=True),
        timing=dataclasses.replace(result.timing, source="modelled"),
    )
