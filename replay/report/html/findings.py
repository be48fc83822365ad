"""The sections of a bisection, a history, and what the nightly gate found."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from replay.difference import CodeFiles, step_differences
from replay.report import bisect as bisect_text
from replay.report import check as check_text
from replay.report.commands import bisection_commands, check_commands
from replay.report.history import changed_levels, untimed
from replay.report.html.charts import bar
from replay.report.html.code import code_section
from replay.report.html.model import (
    MAXIMUM_DETAILS,
    MAXIMUM_ROWS,
    Section,
    Table,
    facts,
    more,
    scale,
    worst,
)
from replay.report.html.plots import Curve, Panel, Plot
from replay.results.bisection import Bisection
from replay.results.check import Check, CheckedCase
from replay.text import MODELLED, cuda_version, duration, number, percent, shown

if TYPE_CHECKING:
    from replay.history.series import HistoryView, Series

SHOWN_PASSED = 100
SHOWN_PROBLEMS = 10
SHOWN_DEVICES = 8


def bisection_section(result: Bisection, files: CodeFiles) -> Section:
    """The answer, and every candidate with the probability that it is the first bad one."""
    verdict = "SLOWER" if result.symptom == "slower" else "WRONG"
    section = Section(bisect_text.answer(result), verdict if result.steps else "UNSURE")
    if result.source == "modelled":
        section.lines.append(MODELLED)
    section.lines += [shown(text) for text in (bisect_text.more(result) if result.steps else ())]
    section.notes += [shown(text) for text in result.notes]
    if result.ended:
        section.lines.append(shown(result.ended, 400))
    section.tables.append(
        ("", facts(result.device, result.driver, result.driver_version, result.created_utc))
    )
    against = "against good" if result.symptom == "slower" else "shows it"
    table = Table(["", "candidate", "registers", "code", "rounds", against, "first bad?", "probability", ""])
    bad = {step.first_bad for step in result.steps}
    for at, item in enumerate(result.candidates[:MAXIMUM_ROWS]):
        likely = item.probability >= 0.0005
        table.rows.append([
            "first bad" if at in bad else "",
            shown(item.label),
            *("" if result.steps else text for text in bisect_text.made_of(item)),
            len(item.observations) or "",
            bisect_text.seen(item, result.symptom),
            f"{100 * item.probability:.1f} %" if likely else "",
            bar(item.probability, f"{100 * item.probability:.1f} %") if likely else "",
            bisect_text.said(item, at, result),
        ])  # fmt: skip
    section.tables.append(("", table.without_empty()))
    section.lines += more(result.candidates, MAXIMUM_ROWS, "candidates")
    for step in result.steps if files.given else ():
        found = step_differences(result, step, files)
        section.details += map(code_section, found)
        if not found:
            section.notes.append("The kernels of last good and first bad have the same images.")
    if not files.given and result.steps and result.snapshot:
        section.notes.append(
            f"For the difference of their code, name the snapshot, too: {shown(result.snapshot)}"
        )
    section.commands = bisection_commands(result)
    return section


def history_section(view: HistoryView) -> Section:
    """The course of each series, those that changed first."""
    series = sorted(view.series, key=lambda item: not item.changes)
    changed = sum(len(item.changes) for item in series)
    title = f"History of {number(len(series), 'series', 'series')}, {number(view.results, 'result')}"
    section = Section(title + (f": {number(changed, 'change')} of level" if changed else ""))
    if any(item.source == "modelled" for item in series):
        section.lines.append(MODELLED)
    if not series:
        section.lines.append("There are no results with times in this folder.")
    section.lines += untimed(view)
    section.lines += [f"{shown(path)}: {shown(why, 200)}" for path, why in view.problems[:SHOWN_PROBLEMS]]
    section.lines += more(view.problems, SHOWN_PROBLEMS, "files that are no results")
    if len(series) > 1:
        section.tables.append(("", _listed(series[:MAXIMUM_ROWS])))
    section.details = [_series(item) for item in series[:MAXIMUM_DETAILS]]
    if len(series) > MAXIMUM_DETAILS:
        section.notes.append(f"{MAXIMUM_DETAILS} series are shown in detail, those that changed first")
    section.lines += more(series, MAXIMUM_ROWS, "series: `replay history` lists them")
    section.commands = [shown(shlex.join(["replay", "history", view.folder]))]
    return section


def _listed(series: list[Series]) -> Table:
    table = Table(["kernel", "device", "results", "latest", "against baseline", "changes of level"])
    for item in series:
        table.rows.append([
            shown(item.kernel) + (f", {shown(item.variant)}" if item.variant else ""),
            shown(item.device),
            len(item.points),
            duration(item.latest_ns),
            percent(item.latest_ns / item.baseline_ns, 1) if item.baseline_ns else "",
            shown(", ".join(changed_levels(item))),
        ])  # fmt: skip
    return table.without_empty()


def _series(item: Series) -> Section:
    divisor, unit = scale([point.median_ns for point in item.points])
    paths = {change.path for change in item.changes}
    marks = [place for place, point in enumerate(item.points) if point.path in paths]
    plot = Plot(
        f"history of {shown(item.kernel, 200)}",
        "result",
        [
            Panel(
                "median",
                unit,
                [Curve("median", [point.median_ns / divisor for point in item.points], "a", True)],
                None if item.baseline_ns is None else item.baseline_ns / divisor,
            )
        ],
        [f"{point.created_utc}, CUDA {cuda_version(point.driver_version)}" for point in item.points],
        marks,
    )
    detail = Section(shown(item.kernel) + (f", {shown(item.variant)}" if item.variant else ""))
    results = number(len(item.points), "result")
    detail.lines.append(f"{shown(item.device)}, {item.source}, {results}, latest {duration(item.latest_ns)}")
    detail.lines += [
        f"{percent(change.ratio, 1)} on {shown(change.created_utc)} ({shown(change.path)})"
        for change in item.changes
    ]
    legend = ["median of each result"]
    legend += ["upright, dashed: the level changed"] if marks else []
    legend += ["level, dashed: the baseline"] if item.baseline_ns is not None else []
    detail.charts.append(("; ".join(legend), plot))
    return detail


_CHECK_ORDER = ("WRONG", "FAILED", "SLOWER", "UNSURE", "NOISY", "NEW", "FAULT", "FASTER", "PASS")


def check_section(result: Check) -> Section:
    """What the gate found, alerts first."""
    verdict = worst((case.verdict for case in result.alerts), _CHECK_ORDER)
    section = Section(check_text.headline(result), verdict or "PASS")
    if any(case.source == "modelled" for case in result.cases) and not any(
        "modelled" in n for n in result.notes
    ):
        section.lines.append(MODELLED)
    section.notes += [shown(note, 400) for note in result.notes]
    devices = dict.fromkeys((case.device, case.driver_version) for case in result.cases if case.device)
    for device, version in list(devices)[:SHOWN_DEVICES] or [("", 0)]:
        section.tables.append(("", facts(device, "", version, result.created_utc)))
    if len(devices) > SHOWN_DEVICES:
        section.notes.append(f"... and {number(len(devices) - SHOWN_DEVICES, 'more device')}")
    if not result.cases:
        section.lines.append("There was no snapshot in the corpus.")
    alerts = [case for case in result.cases if case.alert]
    others = [case for case in result.cases if not case.alert and case.verdict != "PASS"]
    passed = [case for case in result.cases if not case.alert and case.verdict == "PASS"]
    for caption, cases, limit in (
        ("Alerts", alerts, MAXIMUM_ROWS),
        ("Other cases that did not pass", others, MAXIMUM_ROWS),
        ("Passed", passed, SHOWN_PASSED),
    ):
        if cases:
            hidden = f", {limit} of {len(cases):,}" if len(cases) > limit else ""
            section.tables.append((caption + hidden, _cases(cases[:limit])))
    section.commands = check_commands(result)
    return section


def _cases(cases: list[CheckedCase]) -> Table:
    table = Table(["verdict", "kernel", "snapshot", "before", "now", "change", "why", "team", "link"])
    for case in cases:
        quarantined = f"quarantined: {case.quarantined}; " if case.quarantined else ""
        table.rows.append([
            case.verdict,
            shown(case.kernel),
            shown(case.snapshot) + ("" if case.window is None else f" window {case.window}"),
            "" if case.baseline_ns is None else duration(case.baseline_ns),
            "" if case.time_ns is None else duration(case.time_ns),
            "" if case.ratio is None else percent(case.ratio, 1),
            shown(quarantined + case.reason, 300),
            shown(case.team),
            shown(case.link),
        ])  # fmt: skip
    return table.without_empty()
