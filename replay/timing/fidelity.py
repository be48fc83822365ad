"""Whether a replay takes as long as the application did: the same launches, there and here, and why they may differ.

Pure: decides from plain values. The application's figure is one run of each launch between two events, with the caches
and clocks that it happened to have; so it is compared with the replay's cold and hot medians, between which it may lie.
A variant need not take as long: it is compared with the captured kernel, and nothing is said of how true the replay is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from replay.records import dataclass
from replay.results.run.origin import ApplicationFacts, DeviceFacts, WindowFacts
from replay.results.run.placement import Placement
from replay.results.run.timing import Fidelity, LaunchTime, Timing
from replay.text import cuda_version

REPRODUCED = 0.05  # largest deviation
CACHE_EFFECT = 1.05  # cold over hot, from which on caches matter
SHORT_NS = 20_000  # per launch; below, the resolution of events counts


@dataclass(frozen=True)
class Conditions:
    """What the replay ran on and how. timing: cold, or hot where there is no cold one."""

    device: DeviceFacts
    driver_version: int
    emulated: bool
    window: WindowFacts
    placement: Placement
    timing: Timing | None
    expanded_graphs: bool = False
    varied: bool = False  # another kernel, compiler or geometry was replayed


def fidelity(
    launches: Sequence[LaunchTime], application: ApplicationFacts, here: Conditions
) -> Fidelity | None:
    """The comparison; None when no launch was timed both there and here."""
    both = [
        item
        for item in launches
        if item.application_ns is not None and (item.cold_ns is not None or item.hot_ns is not None)
    ]
    if not both:
        return None
    application_ns = sum(item.application_ns or 0 for item in both)
    cold_ns, hot_ns = _sum([item.cold_ns for item in both]), _sum([item.hot_ns for item in both])
    deviation, reason = None, ""
    if application.emulated != here.emulated:
        modelled, measured = (
            ("the application's time", "the replay's")
            if application.emulated
            else ("the replay's time", "the application's")
        )
        reason = f"{modelled} is modelled by the CPU driver, {measured} is measured on a GPU"
    elif application.device and application.device != here.device.name:
        reason = f"the application ran on {application.device}, the replay on {here.device.name}"
    elif application_ns > 0:
        deviation = _deviation(application_ns, [value for value in (cold_ns, hot_ns) if value is not None])
    reproduced = None if deviation is None or here.varied else abs(deviation) <= REPRODUCED
    return Fidelity(
        launches=len(both),
        application_ns=application_ns,
        application_source=_source(application.emulated),
        source=_source(here.emulated),
        cold_ns=cold_ns,
        hot_ns=hot_ns,
        deviation=deviation,
        reproduced=reproduced,
        of_variant=here.varied,
        reason=reason,
        causes=_causes(deviation or 0.0, application_ns / len(both), cold_ns, hot_ns, application, here)
        if reproduced is False
        else [],
    )


def _source(emulated: bool) -> Literal["measured", "modelled"]:
    return "modelled" if emulated else "measured"


def _sum(times: Sequence[float | None]) -> float | None:
    known = [value for value in times if value is not None]
    return sum(known) if len(known) == len(times) else None


def _deviation(application_ns: float, replays_ns: Sequence[float]) -> float:
    """Of the application's time from the nearest time between the replays'; positive: the application took longer."""
    nearest = min(max(application_ns, min(replays_ns)), max(replays_ns))
    return application_ns / nearest - 1 if nearest > 0 else 0.0


def _causes(
    deviation: float,
    launch_ns: float,
    cold_ns: float | None,
    hot_ns: float | None,
    application: ApplicationFacts,
    here: Conditions,
) -> list[str]:
    """Possible causes of a deviation, likeliest first."""
    slower_there = deviation > 0
    found = []
    if application.driver_version != here.driver_version:
        there, now = map(cuda_version, (application.driver_version, here.driver_version))
        found.append(f"another driver: CUDA {there} there, CUDA {now} here")
    if here.emulated:
        found.append(
            "the CPU driver's time depends on settings: REPLAY_EMULATOR_SLOWDOWN, _NOISE, _MULTIPROCESSORS, _FUSE"
        )
    if here.expanded_graphs:
        found.append("graphs were replayed node by node, which the device could overlap in the application")
    if here.window.streams > 1:
        found.append(
            "work in other streams ran beside these launches, there or here, and shared the device with them"
        )
    codes = {warning.code for warning in here.timing.warnings} if here.timing else set()
    if not here.emulated:
        if cold_ns is None and slower_there:
            found.append("caches: only the hot time was taken; add --cold")
        elif hot_ns is None and not slower_there:
            found.append(
                "caches: only the cold time was taken, and the application's may have been warm; add --hot"
            )
        elif cold_ns and hot_ns and cold_ns > CACHE_EFFECT * hot_ns:
            found.append(
                f"caches: they make the replay {cold_ns / hot_ns:.2f} x as long when cold as when hot"
            )
        clocks = "throttled" in codes or "clocks-unlocked" in codes
        found.append(
            "clocks: the SM clock was not steady here"
            if clocks
            else "clocks: those of the application are not known; lock them for both (nvidia-smi -lgc)"
        )
        found.append(
            "neighbours: other processes use this device now"
            if "shared-gpu" in codes
            else "neighbours: other work may have run on the device beside the application"
        )
        if launch_ns < SHORT_NS:
            found.append(
                "short launches: events resolve about 0.5 us, and the application's were not held back-to-back"
            )
        if here.placement.relocated_ranges:
            found.append("memory is at other addresses than in the application")
    if slower_there:
        found.append("the application's first launch of a kernel may have paid for loading its module")
    found.append("the application's figure is a single run of each launch")
    return found
