"""What `replay capture --list` prints."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from replay.text import Cells, Column, Screen, dimensions, duration, heading, listing, number, shown, size

if TYPE_CHECKING:
    from replay.capture.launches import LaunchList, ListedLaunch, ListReport
    from replay.results.captured import LaunchesPrinted

SHOWN_COMMANDS = 5


def render_launches(report: ListReport, screen: Screen) -> str:
    """For stdout: a table for each process, and the commands that would capture the first rows."""
    parts = []
    for process in report.processes:
        title = f"Process {process.pid}: " if len(report.processes) > 1 else ""
        kernels = number(len({row.name for row in process.rows}), "kernel")
        parts.append(heading(f"{title}{number(process.launches, 'launch', 'launches')} of {kernels}", screen))
        parts.append(_table(process, report.driver.emulated, screen))
        if process.in_graphs:
            parts.append(
                f"{number(process.in_graphs, 'launch', 'launches')} of these by launches of graphs; they are not timed "
                "one by one."
            )
        if process.unlisted:
            parts.append(
                f"{number(process.unlisted, 'launch', 'launches')} of further kernels or geometries had no room here; "
                "--kernel REGEX narrows the list."
            )
        parts.append("")
    commands = [report.capture_command(row) for row in report.processes[0].rows[:SHOWN_COMMANDS]]
    parts.append(heading("To capture the first launch of a row", screen))
    parts += [f"{place:>3}  {shown(command)}" for place, command in enumerate(commands, 1)]
    if len(report.processes[0].rows) > SHOWN_COMMANDS:
        parts.append("     ... --json has the command of every row")
    return "\n".join(parts)


def _table(process: LaunchList, modelled: bool, screen: Screen) -> str:
    time = "modelled" if modelled else "GPU time"
    places = count(1)
    cells: Cells[ListedLaunch] = [
        (Column("row", "right"), lambda row: str(next(places))),
        (Column("launches", "right"), lambda row: f"{row.launches:,}"),
        (Column(f"{time}, all", "right"), lambda row: _time(row.total_ns, "not timed")),
        (Column("each", "right"), lambda row: _time(row.mean_ns, "")),
        (Column("grid"), lambda row: dimensions(row.grid)),
        (Column("block"), lambda row: dimensions(row.block)),
        (Column("shared", "right"), lambda row: size(row.shared_bytes)),
        (Column("shortest .. longest", if_filled=True, spare=True), _spread),
        (Column("kernel", cut="middle"), lambda row: shown(row.demangled)),
    ]
    return listing(process.rows, cells, screen)


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

    def row_of(row: ListedLaunch) -> LaunchesRow:
        figures = vars(row).copy()
        kernel, command = figures.pop("name"), report.capture_command(row)
        return LaunchesRow(kernel=kernel, demangled=row.demangled, command=command, **figures)

    processes = [
        LaunchesOfProcess(
            one.pid, one.launches, one.in_graphs, one.unlisted, [row_of(row) for row in one.rows]
        )
        for one in report.processes
    ]
    application, driver = application_and_driver(report)
    return LaunchesPrinted(
        application, driver, driver.emulated, processes, report.failure, report.advice, report.problems
    )
