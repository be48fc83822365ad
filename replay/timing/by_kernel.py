"""Launches that were timed one by one, together by kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replay.records import dataclass
from replay.results.run.timing import LaunchTime
from replay.timing.statistics import median


@dataclass(frozen=True)
class KernelTimes:
    """The launches of one kernel, or of graphs by one driver function, in the order of the window. kernel: mangled, ""
    of a graph. total_ns: sum of their times with cold caches, or as they are known; share: of all launches.

    cold_ns, hot_ns, application_ns, cycles: medians over the launches that have them, None where none has."""

    kernel: str
    function: str
    launches: Sequence[LaunchTime]
    total_ns: float
    share: float
    cold_ns: float | None
    hot_ns: float | None
    application_ns: float | None
    cycles: float | None


def time_of(launch: LaunchTime) -> float | None:
    """With cold caches where that is known, else with hot ones, else in the application."""
    known = (launch.cold_ns, launch.hot_ns, launch.application_ns)
    return next((value for value in known if value is not None), None)


def cycles_of(launch: LaunchTime) -> float | None:
    """With cold caches, where that was measured."""
    return launch.hot_cycles if launch.cold_cycles is None else launch.cold_cycles


def by_kernel(launches: Iterable[LaunchTime]) -> list[KernelTimes]:
    """Those that take longest together first."""
    groups: dict[tuple[str, str], list[LaunchTime]] = {}
    for launch in launches:
        groups.setdefault((launch.kernel, "" if launch.kernel else launch.function), []).append(launch)
    totals = {key: sum(time_of(launch) or 0.0 for launch in group) for key, group in groups.items()}
    whole = sum(totals.values())
    found = [
        KernelTimes(
            kernel,
            group[0].function,
            group,
            totals[kernel, function],
            totals[kernel, function] / whole if whole else 0.0,
            _median(launch.cold_ns for launch in group),
            _median(launch.hot_ns for launch in group),
            _median(launch.application_ns for launch in group),
            _median(cycles_of(launch) for launch in group),
        )
        for (kernel, function), group in groups.items()
    ]
    return sorted(found, key=lambda item: -item.total_ns)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
