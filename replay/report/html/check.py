"""The section of what the nightly gate found."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from replay.report import check as check_text
from replay.report.commands import check_commands
from replay.report.html.cells import course_cell, interval_cell
from replay.report.html.links import link
from replay.report.html.model import MAXIMUM_ROWS, Key, Section, Table, facts, more, worst
from replay.report.pictures import FLAT
from replay.results.check import Check, CheckedCase
from replay.text import MODELLED, duration, number, percent, shown

SHOWN_PASSED = 100
SHOWN_DEVICES = 8
_ORDER = ("WRONG", "FAILED", "SLOWER", "UNSURE", "NOISY", "NEW", "FAULT", "FASTER", "PASS")


def check_section(result: Check) -> Section:
    """What the gate found, alerts first."""
    verdict = worst((case.verdict for case in result.alerts), _ORDER)
    section = Section(check_text.headline(result), verdict or "PASS")
    if any(case.source == "modelled" for case in result.cases) and not any(
        "modelled" in n for n in result.notes
    ):
        section.lines.append(MODELLED)
    section.key = list(_key(result))
    section.notes += [shown(note, 400) for note in result.notes]
    devices = dict.fromkeys((case.device, case.driver_version) for case in result.cases if case.device)
    for device, version in list(devices)[:SHOWN_DEVICES] or [("", 0)]:
        where = facts(device, "", version, result.created_utc)
        where.rows += [["corpus", shown(result.corpus)], ["baseline", shown(result.baseline)]]
        section.tables.append(("Where and of what", where))
    if len(devices) > SHOWN_DEVICES:
        section.notes.append(f"... and {number(len(devices) - SHOWN_DEVICES, 'more device')}")
    if not result.cases:
        section.lines.append("There was no snapshot in the corpus.")
    groups = {
        "Alerts": [case for case in result.cases if case.alert],
        "Other cases that did not pass": [
            case for case in result.cases if not case.alert and case.verdict != "PASS"
        ],
        "Passed": [case for case in result.cases if not case.alert and case.verdict == "PASS"],
    }
    for title, cases in groups.items():
        if cases:
            section.parts.append(_part(title, cases, SHOWN_PASSED if title == "Passed" else MAXIMUM_ROWS))
    section.commands = check_commands(result)
    return section


def _key(result: Check) -> Iterator[Key]:
    cases = result.cases
    yield Key("alerts", f"{len(result.alerts):,}", f"of {number(len(cases), 'case')}")
    changed = [case for case in cases if case.ratio is not None]
    if changed:
        most = max(changed, key=lambda case: case.ratio or 0.0)
        least = min(changed, key=lambda case: case.ratio or 0.0)
        for name, case in (("slowest against its baseline", most), ("fastest", least)):
            yield Key(name, percent(case.ratio or 1.0, 1), shown(case.kernel, 200))


def _changed_most(case: CheckedCase) -> tuple[int, float]:
    place = _ORDER.index(case.verdict) if case.verdict in _ORDER else len(_ORDER)
    return place, -abs((case.ratio or 1.0) - 1.0)


def _part(title: str, cases: list[CheckedCase], limit: int) -> Section:
    part = Section(title)
    cases = sorted(cases, key=_changed_most)
    drifts = [abs(case.ratio - 1) for case in cases if case.ratio is not None]
    reach = max([FLAT, *drifts])
    with_course = any(len(case.course) > 1 for case in cases)
    caption = f"{number(len(cases), 'case')}, the largest change first"
    if drifts and not with_course:
        caption += f". Drawn from {percent(1 - min(reach, 1.0), 0)} to {percent(1 + reach, 0)}"
    if with_course:
        caption += ". Course: the results before it, oldest first, and this one"
    table = Table(
        ["verdict", "kernel", "snapshot", "before", "now", "change", "drawn", "course", "owner", "why"]
    )
    for case in cases[:limit]:
        quarantined = f"quarantined: {case.quarantined}; " if case.quarantined else ""
        table.rows.append([
            case.verdict,
            shown(case.kernel),
            shown(case.snapshot) + ("" if case.window is None else f" window {case.window}"),
            "" if case.baseline_ns is None else duration(case.baseline_ns),
            "" if case.time_ns is None else duration(case.time_ns),
            "" if case.ratio is None else percent(case.ratio, 1),
            "" if with_course else _change(case, reach),
            _course(case),
            link(case.link, case.team) if case.link else shown(case.team),
            shown(quarantined + case.reason, 300),
        ])  # fmt: skip
    part.tables.append((caption, table.without_empty()))
    part.notes += more(cases, limit, "cases: `replay check --json` has all")
    return part


def _change(case: CheckedCase, reach: float) -> Markup | str:
    if case.ratio is None:
        return ""
    return interval_cell((case.ratio,) * 3, (1 - reach, 1 + reach), 1.0, percent(case.ratio, 1))


def _course(case: CheckedCase) -> Markup | str:
    if len(case.course) < 2 or case.time_ns is None:
        return ""
    times = [*(point.median_ns for point in case.course), case.time_ns]
    first, last = (duration(times[at]) for at in (0, -1))
    words = f"{number(len(times), 'result')} from {shown(case.course[0].created_utc[:10], 10)}, {first}, to {last} now"
    return course_cell(times, [], words, FLAT)
