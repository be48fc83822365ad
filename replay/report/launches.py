"""What `replay capture --list` prints."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from replay.inspection.origins import origin_text
from replay.text import Cells, Column, Screen, dimensions, duration, heading, listing, number, shown, size

if TYPE_CHECKING:
    from replay.capture.launches import LaunchList, ListedLaunch, ListReport, Place
    from replay.results.captured import LaunchesPrinted, LaunchesRow
    from replay.snapshot.schema import Frame

SHOWN_COMMANDS = 5


def render_launches(report: ListReport, screen: Screen) -> str:
    """For stdout: a table for each process, and the commands that would capture the first rows."""
    parts = []
    for process in report.processes:
        title = f"Process {process.pid}: " if len(report.processes) > 1 else ""
        kernels = number(len({row.name for row in process.rows}), "kernel")
        parts.append(heading(f"{title}{number(process.launches, 'launch', 'launches')} of {kernels}", screen))
        places = process.places if report.selection.keeps_origins else []
        parts.append(_table(process, places, report.driver.emulated, screen))
        if places:
            parts += ["", _places(places, report.driver.emulated, screen)]
        if process.in_graphs:
            parts.append(
                f"{number(process.in_graphs, 'launch', 'launches')} of these by launches of graphs; they are not timed "
                "one by one."
            )
        if process.unlisted:
            parts.append(
                f"{number(process.unlisted, 'launch', 'launches')} of further kernels, geometries or places had no "
                "room here; --kernel REGEX narrows the list."
            )
        parts.append("")
    commands = [report.capture_command(row) for row in report.processes[0].rows[:SHOWN_COMMANDS]]
    parts.append(heading("To capture the first launch of a row", screen))
    parts += [f"{place:>3}  {shown(command)}" for place, command in enumerate(commands, 1)]
    if len(report.processes[0].rows) > SHOWN_COMMANDS:
        parts.append("     ... --json has the command of every row")
    return "\n".join(parts)


def _table(process: LaunchList, places: list[Place], modelled: bool, screen: Screen) -> str:
    time = "modelled" if modelled else "GPU time"
    rows = count(1)
    numbers = {place.origin: str(number) for number, place in enumerate(places, 1)}
    cells: Cells[ListedLaunch] = [
        (Column("row", "right"), lambda row: str(next(rows))),
        (Column("launches", "right"), lambda row: f"{row.launches:,}"),
        (Column(f"{time}, all", "right"), lambda row: _time(row.total_ns, "not timed")),
        (Column("each", "right"), lambda row: _time(row.mean_ns, "")),
        (Column("from", "right", if_filled=True), lambda row: numbers.get(row.origin, "")),
        (Column("grid"), lambda row: dimensions(row.grid)),
        (Column("block"), lambda row: dimensions(row.block)),
        (Column("shared", "right"), lambda row: size(row.shared_bytes)),
        (Column("shortest .. longest", if_filled=True, spare=True), _spread),
        (Column("kernel", cut="middle"), lambda row: shown(row.demangled)),
    ]
    return listing(process.rows, cells, screen)


def _places(places: list[Place], modelled: bool, screen: Screen) -> str:
    time = "modelled" if modelled else "GPU time"
    numbers = count(1)
    cells: Cells[Place] = [
        (Column("from", "right"), lambda place: str(next(numbers))),
        (Column("launches", "right"), lambda place: f"{place.launches:,}"),
        (Column(f"{time}, all", "right"), lambda place: _time(place.total_ns, "not timed")),
        (Column("launched from", wrap=True), lambda place: shown(origin_text(place.origin) or "not known")),
    ]
    return listing(places, cells, screen)


def _time(ns: float | None, unknown: str) -> str:
    return unknown if ns is None else duration(ns)


def _spread(row: ListedLaunch) -> str:
    if row.shortest_ns is None or row.longest_ns is None or row.shortest_ns == row.longest_ns:
        return ""
    return f"{duration(row.shortest_ns)} .. {duration(row.longest_ns)}"


def launches_value(report: ListReport) -> LaunchesPrinted:
    """For JSON."""
    from replay.report.capture import application_and_driver
    from replay.results.captured import LaunchesOfProcess, LaunchesPrinted, LaunchesRow

    def row_of(row: ListedLaunch, numbers: dict[tuple[Frame, ...], int]) -> LaunchesRow:
        figures = vars(row).copy()
        kernel, command = figures.pop("name"), report.capture_command(row)
        origin = numbers.get(figures.pop("origin"))
        return LaunchesRow(kernel=kernel, demangled=row.demangled, command=command, origin=origin, **figures)

    def process_of(one: LaunchList) -> LaunchesOfProcess:
        origins = [place.origin for place in one.places if place.origin]
        numbers = {origin: number for number, origin in enumerate(origins)}
        rows = [row_of(row, numbers) for row in one.rows]
        return LaunchesOfProcess(
            one.pid, one.launches, one.in_graphs, one.unlisted, rows, [list(origin) for origin in origins]
        )

    processes = [process_of(one) for one in report.processes]
    application, driver = application_and_driver(report)
    return LaunchesPrinted(
        application, driver, driver.emulated, processes, report.failure, report.advice, report.problems
    )
