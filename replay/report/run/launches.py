"""Launches that were timed one by one: by kernel, and each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from replay.images.demangle import demangle
from replay.report.pictures import course
from replay.results.run.timing import LaunchTime
from replay.results.schema import RunResult
from replay.text import Cells, Column, Screen, duration, flow, heading, listing, number, shown
from replay.timing.by_kernel import KernelTimes, by_kernel, cycles_of, time_of

SHOWN_LAUNCHES = 10  # of more than these there is a row for each kernel
SHOWN_KERNELS = 10
_COURSE = 16
_Timed = TypeVar("_Timed", KernelTimes, LaunchTime)
_MODES = (("cold", "cold_ns"), ("hot", "hot_ns"), ("application", "application_ns"))


def render_launch_times(result: RunResult, screen: Screen) -> list[str]:
    """Of a short window a row for each launch, of a longer one a row for each kernel."""
    launches = result.launch_times
    what = "modelled GPU time" if result.driver.emulated else "GPU time"
    lines = []
    if len(launches) > SHOWN_LAUNCHES:
        lines += [*_kernels(result, what, screen), ""]
    if len(launches) <= SHOWN_LAUNCHES or screen.verbose:
        title = f"Each launch, median {what} between two events"
        lines += [heading(title, screen), listing(launches, _launch_cells(launches), screen)]
    else:
        lines.pop()
    if any(cycles_of(item) is not None for item in launches):  # else the window says why there are none
        lines += [flow(line, screen) for line in _without_cycles(launches)]
    return lines


def _kernels(result: RunResult, what: str, screen: Screen) -> Iterator[str]:
    launches = result.launch_times
    kernels = by_kernel(launches)
    timed = f"{len(launches):,}"
    timed += "" if len(launches) >= result.window.launches else f" of {result.window.launches:,}"
    yield heading(f"{number(len(kernels), 'kernel')} by {what}, of {timed} launches timed one by one", screen)
    cells: Cells[KernelTimes] = [
        (Column("share", "right"), lambda item: f"{100 * item.share:.1f} %"),
        (Column("launches", "right"), lambda item: f"{len(item.launches):,}"),
        (Column("all", "right"), lambda item: duration(item.total_ns)),
        *_times(kernels, each="each "),
        (Column("SM cycles", "right", if_filled=True, spare=True), lambda item: _count(item.cycles)),
        (Column("in order", if_filled=True, spare=True), lambda item: _course(item, screen)),
        (Column("kernel", cut="middle"), lambda item: _name(item.kernel, item.function)),
    ]
    yield listing(kernels[: screen.most(SHOWN_KERNELS)], cells, screen)
    rest = kernels[screen.most(SHOWN_KERNELS) :]
    if rest:
        share = f"{100 * sum(item.share for item in rest):.1f} % of the time"
        yield flow(
            f"  ... and {number(len(rest), 'more kernel')}, {share}: --verbose shows them, and each launch",
            screen,
        )
    elif not screen.verbose:
        yield "  each launch: --verbose"


def _times(items: Sequence[_Timed], each: str = "") -> Iterator[tuple[Column, Callable[[_Timed], str]]]:
    """A column for each kind of time; one for those that are equal in every row."""
    columns: dict[tuple[float | None, ...], list[tuple[str, str]]] = {}
    for title, name in _MODES:
        values = tuple(getattr(item, name) for item in items)
        if any(value is not None for value in values):
            columns.setdefault(values, []).append((title, name))
    for same in columns.values():
        titles = [title for title, _ in same]
        spare = bool(each) and titles == ["application"]
        yield Column(each + ", ".join(titles), "right", spare=spare), partial(_time, same[0][1])


def _time(name: str, item: KernelTimes | LaunchTime) -> str:
    value = getattr(item, name)
    return "" if value is None else duration(value)


def _launch_cells(launches: Sequence[LaunchTime]) -> Cells[LaunchTime]:
    return [
        (Column("call", "right"), lambda item: str(item.call)),
        *_times(launches),
        (Column("SM cycles", "right", if_filled=True), lambda item: _count(cycles_of(item))),
        (Column("kernel", cut="middle"), lambda item: _name(item.kernel, item.function)),
    ]


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _course(item: KernelTimes, screen: Screen) -> str:
    return course(
        [value for launch in item.launches if (value := time_of(launch)) is not None], screen, _COURSE
    )


def _name(kernel: str, function: str) -> str:
    return shown(demangle(kernel)) if kernel else f"({function})"


def _without_cycles(launches: Sequence[LaunchTime]) -> Iterator[str]:
    reasons: dict[str, int] = {}
    for item in launches:
        if item.cycles_reason:
            reasons[item.cycles_reason] = reasons.get(item.cycles_reason, 0) + 1
    for reason, count in reasons.items():
        yield f"  {number(count, 'launch', 'launches')} without SM cycles: {shown(reason)}"
