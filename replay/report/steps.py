"""A step for its owner: the text of an issue, with what a search found for it, where there was one."""

from __future__ import annotations

from collections.abc import Iterator

from replay.privacy import without_places
from replay.report import bisect as bisect_text
from replay.report.commands import joined
from replay.report.markdown import fenced, plain
from replay.results.bisection import Bisection
from replay.results.check import CheckedCase
from replay.results.fleet import FleetCase
from replay.text import MODELLED, Screen, duration, heading, percent, shown

_WIDE = Screen(160, False)


def of_check(case: CheckedCase) -> FleetCase:
    """A step of `replay check`, as a night has it."""
    return FleetCase(
        case.snapshot, case.snapshot, case.window, case.kernel, "", "", case.verdict, case.reason, case.ratio,
        a_ns=case.baseline_ns, b_ns=case.time_ns, source=case.source, device=case.device, alert=case.alert,
        team=case.team, link=case.link,
    )  # fmt: skip


def render_step(case: FleetCase, found: Bisection, screen: Screen) -> str:
    """For the terminal, below the table."""
    title = heading(f"{shown(case.kernel, 80)} ({shown(case.window_name, 60)})", screen, "")
    return f"{title}\n{bisect_text.render_bisection(found, screen)}"


def issue_text(case: FleetCase, found: Bisection | None = None, document: str = "") -> str:
    """Markdown. document: where the search is kept."""
    change = "" if case.ratio is None else f" {percent(case.ratio, 1)}"
    parts = [f"# {plain(shown(case.kernel, 120))}: {case.verdict}{change}"]
    parts.append("\n".join(f"- {name}: {plain(shown(text, 400))}" for name, text in _facts(case) if text))
    if found is not None:
        parts.append(f"## {plain(bisect_text.answer(found))}")
        if found.steps:
            parts.append(fenced(bisect_text.render_bisection(found, _WIDE), "text"))
    parts.append("To see it, and to make the folder that goes with this text:")
    parts.append(fenced("\n".join(_commands(case, found, document)), "sh"))
    if case.source == "modelled":
        parts.append(MODELLED)
    return without_places("\n\n".join(parts)) + "\n"


def _facts(case: FleetCase) -> Iterator[tuple[str, str]]:
    yield "for", " ".join(filter(None, (case.team, case.link)))
    yield "snapshot", case.window_name
    yield "compared", case.comparison and f"{case.a or 'captured'} with {case.b or 'captured'} on {case.kind}"
    if case.a_ns is not None and case.b_ns is not None:
        interval = ""
        if case.low is not None and case.high is not None:
            interval = f", {percent(case.low, 1)} to {percent(case.high, 1)}"
        yield "time", f"{duration(case.a_ns)} before, {duration(case.b_ns)} now{interval}"
    yield "measured on", f"{case.node} {case.device}".strip()
    yield "confirmed by", case.confirmed_by
    yield "why", case.reason
    yield "to be known", "; ".join(case.warnings)


def _commands(case: FleetCase, found: Bisection | None, document: str) -> Iterator[str]:
    a, b = case.a, case.b
    if found is not None and found.steps:
        a, b = (found.candidates[at].variant for at in (found.steps[0].last_good, found.steps[0].first_bad))
    words = ["replay", "compare", case.snapshot]
    words += ["--a", a] if a else []
    words += ["--b", b] if b else []
    yield shown(joined(words))
    yield shown(joined(["replay", "attach", case.snapshot, *filter(None, [document])]))
