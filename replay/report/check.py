"""Text of `replay check`, JUnit XML, and the annotations and summary of a GitHub workflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from replay.privacy import private_value
from replay.report.junit import Case, document
from replay.results.check import Check, CheckedCase
from replay.snapshot.schema import from_wire, to_wire
from replay.text import Column, Screen, duration, flow, heading, number, percent, shown, table

_ORDER = ("WRONG", "FAILED", "SLOWER", "UNSURE", "NOISY", "NEW", "FAULT", "FASTER", "PASS")
SHOWN_CASES = 200
_LONGEST_NAME = 200


def headline(result: Check) -> str:
    """How many cases, alerts and verdicts."""
    counts = Counter(case.verdict for case in result.cases)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _ORDER if counts[verdict])
    return f"{number(len(result.alerts), 'alert')} in {number(len(result.cases), 'case')}: {verdicts}"


def render_check(result: Check, screen: Screen) -> str:
    """Every case whose verdict is not PASS, alerts first, with who is notified."""
    parts = [heading(headline(result), screen, "FAILED" if result.alerts else "PASS")]
    rows = sorted((case for case in result.cases if case.verdict != "PASS"),
                  key=lambda case: (not case.alert, _place(case.verdict)))  # fmt: skip
    if rows:
        columns = [
            Column("verdict", verdicts=True),
            Column("kernel", cut="middle"),
            Column("snapshot", cut="middle"),
            Column("before", "right", if_filled=True),
            Column("now", "right", if_filled=True),
            Column("change", "right", if_filled=True),
            Column("team", if_filled=True),
        ]
        shown_rows = rows[: screen.most(SHOWN_CASES)]
        with_reasons = [*columns, Column("why")], [_row(case) for case in shown_rows]
        lines = table(*with_reasons, Screen(screen.width, is_terminal=False))
        if max(map(len, lines.splitlines())) <= screen.width:
            parts += ["", table(*with_reasons, screen)]
        else:
            parts += ["", table(columns, [_row(case)[:-1] for case in shown_rows], screen), ""]
            parts += [flow(f"  {line}", screen) for line in _reasons(shown_rows)]
        parts += screen.rest(rows, SHOWN_CASES, "case")
    if result.notes:
        parts += ["", *(flow(f"  {note}", screen) for note in result.notes)]
    return "\n".join(parts)


def _place(verdict: str) -> int:
    """Of a verdict in the table; one of a newer replay comes after all others."""
    return _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER)


def _reasons(cases: Sequence[CheckedCase]) -> Iterator[str]:
    """Below the table, each reason once."""
    names: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        if why := _row(case)[-1]:
            names.setdefault((case.verdict, why), []).append(shown(_name(case)))
    for (verdict, why), named in names.items():
        whom = named[0] if len(named) == 1 else number(len(named), "case")
        yield f"{verdict} {why}" if why.startswith(f"{whom}: ") else f"{verdict} {whom}: {why}"


def _row(case: CheckedCase) -> list[str]:
    quarantined = f"quarantined: {case.quarantined}; " if case.quarantined else ""
    return [
        case.verdict,
        shown(case.kernel),
        shown(_name(case)),
        "" if case.baseline_ns is None else duration(case.baseline_ns),
        "" if case.time_ns is None else duration(case.time_ns),
        _change(case),
        shown(case.team),
        shown(quarantined + case.reason, 300),
    ]


def _change(case: CheckedCase) -> str:
    return "" if case.ratio is None else percent(case.ratio, 1)


def _name(case: CheckedCase) -> str:
    return case.snapshot + ("" if case.window is None else f" window {case.window}")


def junit(result: Check) -> str:
    """One test case for each window. Alerts are failures, what could not be replayed is an error, the rest of what did
    not pass is skipped or system output."""
    result = _for_others(result)
    cases = [
        Case(case.snapshot, _title(case), _outcome(case), case.verdict, _explained(case), case.wall_s)
        for case in result.cases
    ]
    return document("replay check", result.created_utc, result.wall_s, cases)


def _outcome(case: CheckedCase) -> Literal["", "error", "failure", "skipped", "system-out"]:
    if case.alert:
        return "error" if case.verdict == "FAILED" else "failure"
    if case.verdict in ("NEW", "NOISY", "UNSURE", "WRONG", "FAILED", "SLOWER"):
        return "skipped"
    return "system-out" if case.verdict == "FASTER" else ""


def _for_others(result: Check) -> Check:
    return from_wire(Check, private_value(to_wire(result)))


def _title(case: CheckedCase) -> str:
    return case.kernel[:_LONGEST_NAME] + ("" if case.window is None else f" (window {case.window})")


def _explained(case: CheckedCase) -> str:
    change = f" {_change(case)}".rstrip()
    team = f" [{case.team}]" if case.team else ""
    link = f" {case.link}" if case.link else ""
    reason = f": {case.reason}" if case.reason else ""
    quarantined = f", quarantined ({case.quarantined})" if case.quarantined else ""
    return f"{case.verdict}{change}{team}{quarantined}{reason}{link}"


def github_annotations(result: Check) -> Iterator[str]:
    """Workflow commands: errors for alerts, warnings for what is noisy or quarantined."""
    for case in _for_others(result).cases:
        if not case.alert and case.verdict not in ("NOISY", "UNSURE", "WRONG", "SLOWER", "FAILED"):
            continue
        title = _escaped(f"{case.verdict} {_title(case)}", True)
        text = _escaped(f"{_name(case)}: {_explained(case)}")
        yield f"::{'error' if case.alert else 'warning'} title={title}::{text}"


def _escaped(text: str, is_property: bool = False) -> str:
    """As GitHub's runner unescapes it; a name must not end the command and begin another."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if is_property else text


def github_summary(result: Check) -> str:
    """Markdown for the summary of a job."""
    result = _for_others(result)
    lines = [f"### replay check: {headline(result)}", ""]
    rows = [case for case in result.cases if case.verdict not in ("PASS", "NEW")]
    if rows:
        lines += [
            "| verdict | kernel | snapshot | change | team | why |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for case in rows[:SHOWN_CASES]:
            team = f"[{_cell(case.team or case.link)}]({_link(case.link)})" if case.link else _cell(case.team)
            quarantined = f"quarantined: {case.quarantined}; " if case.quarantined else ""
            names = [_cell(case.kernel[:_LONGEST_NAME]), _cell(_name(case))]
            cells = [_cell(case.verdict), *names, _change(case), team, _cell(quarantined + case.reason)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *map(_cell, result.notes), ""])


def _cell(text: str) -> str:
    """Text that is neither HTML nor Markdown, and does not end its cell."""
    return "".join(f"&#{ord(c)};" if c in "\\`*_{}[]<>()#+!|&~" else c for c in shown(text))


def _link(text: str) -> str:
    return "".join(
        c if c.isalnum() or c in "-._~:/?#@!$&'*+,;=%" else f"%{ord(c):02X}" for c in text if ord(c) < 128
    )
