"""What a history and a nightly gate are evidence of."""

from __future__ import annotations

from collections.abc import Iterator

from replay.history.series import HistoryView, Series
from replay.report.check import headline
from replay.report.explain.words import MODELLED, SHOWN, counted_sources, notes, percent, version, when
from replay.report.history import unchanged
from replay.results.check import Check, CheckedCase
from replay.results.explanation import Explained
from replay.text import duration, number, shown


def explain_check(source: str, result: Check) -> Explained:
    """Of `replay check`."""
    return Explained(
        source,
        "check",
        f"the snapshots of {shown(result.corpus, 80) or 'a folder'} against {shown(result.baseline, 80)}",
        headline(result),
        list(_cases(result)),
        list(_check_conditions(result)),
        list(_check_checked(result)),
        list(_check_unchecked(result)),
        list(_check_next(result)),
        any(case.source == "modelled" for case in result.cases),
    )


def _cases(result: Check) -> Iterator[str]:
    told = sorted((case for case in result.cases if case.verdict != "PASS"), key=lambda case: not case.alert)
    for case in told[:SHOWN]:
        alert = "ALERT" if case.alert else "no alert"
        text = f"{_named(case)}: {case.verdict}, {alert}"
        if case.time_ns is not None and case.baseline_ns is not None:
            text += (
                f": {duration(case.baseline_ns)} before, {duration(case.time_ns)} now "
                f"({percent(case.ratio)}, {case.source})"
            )
        text += f"; {shown(case.reason, 200)}" if case.reason else ""
        text += f"; seen in {number(case.replays, 'independent replay')}" if case.replays > 1 else ""
        text += f"; quarantined: {shown(case.quarantined, 120)}" if case.quarantined else ""
        yield text + (f"; owner {shown(case.team, 60)}" if case.team else "")
    if len(told) > SHOWN:
        yield f"{number(len(told) - SHOWN, 'more case')} did not pass: --json of the command has all"
    passed = [case for case in result.cases if case.verdict == "PASS"]
    if passed:
        ratios = [case.ratio for case in passed if case.ratio is not None]
        spread = (
            f", between {percent(min(ratios))} and {percent(max(ratios))} of the baseline" if ratios else ""
        )
        yield f"{number(len(passed), 'case')} passed{spread}"


def _named(case: CheckedCase) -> str:
    window = "" if case.window is None else f" window {case.window}"
    return f"{shown(case.snapshot, 80)}{window} ({shown(case.kernel, 80)})"


def _check_conditions(result: Check) -> Iterator[str]:
    yield when(result.created_utc, result.tool_version)
    machines = {(case.device, case.driver_version) for case in result.cases if case.device}
    for device, driver in sorted(machines)[:SHOWN]:
        yield f"On {shown(device, 80)}, {version(driver)}"
    if text := counted_sources({case.source for case in result.cases if case.source}):
        yield text


def _check_checked(result: Check) -> Iterator[str]:
    timed = [case for case in result.cases if case.baseline_ns is not None]
    yield f"Times of {number(len(timed), 'case')} against the baseline"
    compared = sum(case.outputs in ("match", "wrong", "nondeterministic", "unsure") for case in result.cases)
    if compared:
        yield f"Outputs of {number(compared, 'case')} against the captured ones"
    again = [case for case in result.cases if case.replays > 1]
    if again:
        yield (
            f"What looked slow, wrong or failed ({number(len(again), 'case')}) was replayed again "
            "in fresh processes"
        )


def _check_unchecked(result: Check) -> Iterator[str]:
    for verdict, what in (
        ("NEW", "without a baseline on this device"),
        ("FAILED", "that could not be replayed"),
    ):
        count = sum(case.verdict == verdict for case in result.cases)
        if count:
            yield f"{number(count, 'case')} {what}"
    silent = sum(case.outputs == "not_compared" for case in result.cases)
    if silent:
        yield f"Outputs of {number(silent, 'case')}: none were captured to compare with"
    if any(case.source == "modelled" for case in result.cases):
        yield MODELLED
    yield "Changes smaller than the limit: the baseline is of another day, and a device drifts"
    yield from notes(result.notes)


def _check_next(result: Check) -> Iterator[str]:
    for case in result.alerts[:3]:
        name = shown(case.snapshot, 80) + ("" if case.window is None else f" --window {case.window}")
        if case.verdict == "SLOWER":
            yield (
                f"`replay compare` an older and a newer state of {name}, or `replay bisect {name} --over ...`"
            )
        elif case.verdict == "WRONG":
            yield f"`replay run {name} --save-outputs DIR` shows where the outputs differ"
        else:
            yield f"`replay run {name}` says why it could not be replayed"
        if case.link:
            yield f"{shown(case.team, 60) or 'the owners'}: {shown(case.link, 200)}"
    if any(case.verdict == "NOISY" for case in result.cases):
        yield "What is NOISY: `replay doctor` (clocks, other processes), or quarantine it"
    if any(case.verdict == "NEW" for case in result.cases):
        yield "What is NEW: `replay check ... --history DIR`, then `replay baseline set DIR`"
    if all(case.verdict in ("PASS", "FASTER") for case in result.cases):
        yield "Nothing: every case passed"


def explain_history(source: str, view: HistoryView) -> Explained:
    """Of `replay history`."""
    changed = [item for item in view.series if item.changes]
    verdict = f"{number(len(changed), 'series', 'series')} of {len(view.series)} changed their level"
    return Explained(
        source,
        "history",
        f"{number(view.results, 'result')} of {number(len(view.series), 'series', 'series')}",
        verdict if view.series else "there are no results with times",
        list(_courses(view)),
        list(_history_conditions(view)),
        list(_history_checked(view)),
        list(_history_unchecked(view)),
        list(_history_next(view, changed)),
        any(item.source == "modelled" for item in view.series),
    )


def _courses(view: HistoryView) -> Iterator[str]:
    ordered = sorted(view.series, key=lambda item: not item.changes)
    for item in ordered[:SHOWN]:
        latest = f"latest {duration(item.latest_ns)} ({item.source})" if item.points else "no time"
        held = ""
        if item.baseline_ns and item.points:
            held = f", {percent(item.latest_ns / item.baseline_ns)} against the baseline"
        count = number(len(item.points), "result")
        if item.changes:
            changes = ", ".join(
                f"{percent(change.ratio)} on {shown(change.created_utc[:10], 10)}"
                for change in item.changes[:SHOWN]
            )
            yield f"{_series(item)}: changed its level {changes}; {latest}{held}, {count}"
        else:
            yield f"{_series(item)}: {unchanged(item)}; {latest}{held}"
    if len(ordered) > SHOWN:
        yield f"{number(len(ordered) - SHOWN, 'more series', 'more series')}: `replay history` lists all"


def _series(item: Series) -> str:
    window = f" (window {item.window})" if item.window else ""
    variant = f", {shown(item.variant, 80)}" if item.variant else ""
    return f"{shown(item.kernel, 80)}{window} on {shown(item.device, 60)}{variant}"


def _history_conditions(view: HistoryView) -> Iterator[str]:
    days = sorted(point.created_utc[:10] for item in view.series for point in item.points)
    if days:
        until = "" if days[0] == days[-1] else f" to {shown(days[-1], 10)}"
        yield f"From {shown(days[0], 10)}{until} UTC"
    drivers = sorted({point.driver_version for item in view.series for point in item.points})
    if drivers:
        yield f"With drivers of {', '.join(version(item) for item in drivers[:SHOWN])}"
    if text := counted_sources({item.source for item in view.series}):
        yield text


def _history_checked(view: HistoryView) -> Iterator[str]:
    outcomes = [point.outputs for item in view.series for point in item.points]
    for name, text in (
        ("match", "match"),
        ("wrong", "are WRONG"),
        ("nondeterministic", "are nondeterministic"),
        ("unsure", "differ, and the capture is in doubt about what the window was given"),
    ):
        if count := outcomes.count(name):
            yield f"Outputs of {number(count, 'result')} {text}"


def _history_unchecked(view: HistoryView) -> Iterator[str]:
    silent = sum(
        point.outputs not in ("match", "wrong", "nondeterministic", "unsure")
        for item in view.series
        for point in item.points
    )
    if silent:
        yield f"Outputs of {number(silent, 'result')}"
    short = sum(len(item.points) < 8 for item in view.series)
    if short:
        yield (
            f"Changes of level in {number(short, 'series', 'series')} with fewer than 8 results: 4 "
            "must be on each side"
        )
    if any(item.source == "modelled" for item in view.series):
        yield MODELLED
    yield "Results of different days are no evidence of a small change: a device drifts"
    if view.problems:
        yield (
            f"{number(len(view.problems), 'file')} left out: {shown(view.problems[0][0], 80)}: "
            f"{shown(view.problems[0][1], 120)}"
        )


def _history_next(view: HistoryView, changed: list[Series]) -> Iterator[str]:
    for item in changed[:3]:
        change = item.changes[-1]
        yield (
            f"Compare the results around {shown(change.path, 80)}, or the snapshots of both sides with "
            f"`replay compare`, to see whether {shown(item.kernel, 60)} changed or the machine did"
        )
    if view.series and all(item.baseline_ns is None for item in view.series):
        yield f"`replay baseline set {shown(view.folder, 120)}` sets what later results are compared with"
    if not view.series:
        yield f"`replay run SNAP --history {shown(view.folder, 120)}` adds a result"
