"""The first page: what changed tonight, by owner, the matrix, and the devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replay.report.commands import fleet_commands
from replay.report.fleet import counted, headline
from replay.report.html.cells import course_cell
from replay.report.html.links import link
from replay.report.html.model import MAXIMUM_ROWS, Key, Section, Table, more
from replay.report.html.page import assembled, page_style, part
from replay.report.html.plots import draw
from replay.report.pictures import FLAT
from replay.results.fleet import VERDICTS, Fleet, FleetCase
from replay.text import duration, number, percent, shown

# Told apart without colour
SIGNS = {
    "WRONG": "✗", "SLOWER": "▲", "QUARANTINED": "⊘", "FAILED": "!", "UNSUPPORTED": "∅", "UNSURE": "?", "FASTER": "▼",
    "OPEN": "…", "SAME": "=",
}  # fmt: skip
NOBODY = "nobody's"
_UNCHANGED = ("SAME", "UNSURE", "OPEN", "UNSUPPORTED")
Course = Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Mark:
    """A verdict as it is shown."""

    verdict: str
    sign: str
    change: str = ""


def front_page(
    night: Fleet, pages: Mapping[str, str], canaries: Mapping[tuple[str, str], Course], files: Sequence[str]
) -> str:
    """pages: kernel -> address of its page. canaries: node and device -> times over all nights. files: beside it."""
    columns = sorted({_column(case) for case in night.cases})
    rows = _matrix(night.cases, columns, pages)
    present = {case.verdict for case in night.cases}
    verdicts = [verdict for verdict in VERDICTS if verdict in present]
    sections = [_devices(night, canaries), *_rest(night)]
    sections[-1].commands = fleet_commands(night)
    done = f"{night.done:,} of {number(night.units, 'unit')} done"
    return assembled(
        "dashboard/dashboard.html.jinja",
        page_style() + "\n" + part("dashboard/dashboard.css"),
        part("dashboard/dashboard.js"),
        title=f"{shown(night.night, 80)}: {headline(night)}",
        verdict=next((case.verdict for case in night.cases if case.alert), ""),
        key=list(_key(night, done)),
        verdicts=verdicts,
        owners=_owners(night.cases, pages),
        legend=[_mark(verdict) for verdict in verdicts],
        columns=columns,
        matrix=rows[:MAXIMUM_ROWS],
        left_out=" ".join(more(rows, MAXIMUM_ROWS, "kernels: fleet.csv has all")),
        sections=sections,
        devices=len(night.devices),
        draw=lambda plot: draw(plot, 0),
        files=files,
    )


def _mark(verdict: str, ratio: float | None = None) -> Mark:
    changed = ratio is not None and verdict in ("SLOWER", "FASTER", "UNSURE")
    return Mark(verdict, SIGNS.get(verdict, "·"), percent(ratio or 1.0, 1) if changed else "")


def _column(case: FleetCase) -> str:
    return f"{shown(case.kind, 60)}, {shown(case.comparison, 60)}"


def _key(night: Fleet, done: str) -> list[Key]:
    slowest = max(
        (case for case in night.cases if case.ratio), key=lambda case: case.ratio or 0.0, default=None
    )
    found = [Key("alerts", f"{len(night.alerts):,}", done)]
    if slowest is not None and (slowest.ratio or 0) > 1:
        found.append(Key("slowest", percent(slowest.ratio or 1.0, 1), shown(slowest.kernel, 200)))
    excluded = sum(device.state == "excluded" for device in night.devices)
    found.append(Key("devices", f"{len(night.devices):,}", f"{excluded} excluded"))
    return found


def _owners(cases: Sequence[FleetCase], pages: Mapping[str, str]) -> list[dict[str, object]]:
    """Whoever has most alerts first. What nobody has to look at is left to the matrix."""
    of: dict[str, list[FleetCase]] = {}
    for case in cases:
        if case.verdict not in _UNCHANGED or case.single:
            of.setdefault(case.team, []).append(case)
    owners: list[dict[str, object]] = []
    for team, found in sorted(of.items(), key=lambda item: (-sum(c.alert for c in item[1]), item[0])):
        address = next((case.link for case in found if case.link), "")
        owners.append({
            "team": shown(team or NOBODY),
            "name": link(address, team or NOBODY) if address else shown(team or NOBODY),
            "counted": counted(found),
            "rows": [_row(case, pages) for case in found[:MAXIMUM_ROWS]],
            "more": " ".join(more(found, MAXIMUM_ROWS, "units: fleet.csv has all")),
        })  # fmt: skip
    return owners


def _row(case: FleetCase, pages: Mapping[str, str]) -> dict[str, object]:
    where = f"{case.node} {case.device}".strip()
    confirmed = f", confirmed by {case.confirmed_by}" if case.confirmed_by else ""
    quarantined = f"quarantined: {case.quarantined}; " if case.quarantined else ""
    return {
        "unit": case.unit, "mark": _mark(case.verdict, case.ratio), "kernel": shown(case.kernel, 300),
        "page": pages.get(case.kernel, ""), "snapshot": shown(case.window_name, 200), "kind": shown(case.kind),
        "comparison": shown(case.comparison), "on": shown(where + confirmed, 200),
        "a": "" if case.a_ns is None else duration(case.a_ns), "b": "" if case.b_ns is None else duration(case.b_ns),
        "why": shown("; ".join(filter(None, (quarantined + case.reason, *case.warnings))), 400),
        "find": shown(" ".join((case.kernel, case.window_name, case.kind, case.comparison, case.team, where)), 600),
    }  # fmt: skip


def _matrix(
    cases: Sequence[FleetCase], columns: Sequence[str], pages: Mapping[str, str]
) -> list[dict[str, object]]:
    """Kernels with what is worst first."""
    of: dict[str, dict[str, FleetCase]] = {}
    teams: dict[str, str] = {}
    for case in cases:
        cells = of.setdefault(case.kernel, {})
        before = cells.get(_column(case))
        if before is None or case.place < before.place:
            cells[_column(case)] = case
        teams[case.kernel] = case.team
    worst = sorted(of.items(), key=lambda item: (min(case.place for case in item[1].values()), item[0]))
    return [
        {
            "kernel": shown(kernel, 300), "page": pages.get(kernel, ""),
            "find": shown(f"{kernel} {teams[kernel]}", 600),
            "verdicts": " ".join(dict.fromkeys(case.verdict for case in cells.values())),
            "cells": [_mark(cells[name].verdict, cells[name].ratio) if name in cells else None for name in columns],
        }
        for kernel, cells in worst
    ]  # fmt: skip


def _devices(night: Fleet, canaries: Mapping[tuple[str, str], Course]) -> Section:
    section = Section("Devices")
    table = Table(["node", "device", "kind", "state", "units", "noise", "canary", "canary so far", "why"])
    for item in night.devices:
        course = canaries.get((item.node, item.device), ())
        times = [ns for _, ns in course]
        words = f"{number(len(times), 'canary', 'canaries')}, the last {duration(times[-1])}" if times else ""
        table.rows.append([
            shown(item.node), shown(item.device), shown(item.kind), item.state, f"{item.units:,}",
            "" if item.noise is None else f"{100 * item.noise:.2f} %",
            "" if item.canary_ratio is None else percent(item.canary_ratio, 1),
            course_cell(times, [], words, FLAT) if len(times) > 1 else words, shown(item.reason, 300),
        ])  # fmt: skip
    section.tables.append((
        "Noise: half of the interval of a unit, in the middle. Canary: the last one against the history of this device",
        table.without_empty(),
    ))  # fmt: skip
    return section


def _rest(night: Fleet) -> list[Section]:
    found = []
    if night.changes:
        found.append(
            Section("Not as in the night before", lines=[shown(line, 300) for line in night.changes])
        )
    lines = [f"{shown(item.where, 200)}: {shown(item.why, 300)}" for item in night.problems]
    if lines or night.notes:
        notes = [shown(note, 400) for note in night.notes]
        found.append(Section("Left out, and to be known", lines=[*notes, *lines[:MAXIMUM_ROWS]]))
    return found
