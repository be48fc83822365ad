"""What `replay capture --list` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replay.text import Column, Screen, dimensions, duration, heading, number, shown, size, table

if TYPE_CHECKING:
    from replay.capture.launches import LaunchList, ListedLaunch, ListReport
    from replay.results.captured import LaunchesPrinted

SHOWN_COMMANDS = 5
WIDE = 120  # columns: from here on there is room for the spread of times


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
    wide = screen.width >= WIDE
    columns = [
        Column("row", "right"),
        Column("launches", "right"),
        Column(f"{time}, all", "right"),
        Column("each", "right"),
        *([Column("shortest .. longest")] if wide else []),
        Column("grid"),
        Column("block"),
        Column("shared", "right"),
        Column("kernel", cut=True),
    ]
    rows = [
        [
            str(place),
            f"{row.launches:,}",
            "not timed" if row.total_ns is None else duration(row.total_ns),
            "" if row.mean_ns is None else duration(row.mean_ns),
            *([_spread(row)] if wide else []),
            dimensions(row.grid),
            dimensions(row.block),
            size(row.shared_bytes),
            shown(row.demangled),
        ]
        for place, row in enumerate(process.rows, 1)
    ]
    return table(columns, rows, screen)


def _spread(row: ListedLaunch) -> str:
    if row.shortest_ns is None or row.longest_ns is None:
        return ""
    return f"{duration(row.shortest_ns)} .. {duration(row.longest_ns)}"


def launches_value(report: ListReport) -> LaunchesPrinted:
    """For JSON."""
    from replay.results.captured import (
        ApplicationEnd,
        ChosenDriver,
        LaunchesOfProcess,
        LaunchesPrinted,
        LaunchesRow,
    )

    def row_of(row: ListedLaunch) -> LaunchesRow:
        return LaunchesRow(
            row.name, row.demangled, row.launches, row.first, row.grid, row.block, row.shared_bytes, row.timed,
            row.mean_ns, row.shortest_ns, row.longest_ns, report.capture_command(row),
        )  # fmt: skip

    driver = report.driver
    return LaunchesPrinted(
        ApplicationEnd(report.application.pid, report.application.status),
        ChosenDriver(driver.name, driver.library, driver.emulated),
        driver.emulated,
        [
            LaunchesOfProcess(
                process.pid,
                process.launches,
                process.in_graphs,
                process.unlisted,
                [row_of(row) for row in process.rows],
            )
            for process in report.processes
        ],
        report.failure,
        report.advice,
        report.problems,
    )
