"""What an untrusted variant was confronted with, in lines for the facts of a run."""

from __future__ import annotations

from collections.abc import Iterator

from replay.results.run.trust import Trust
from replay.text import duration, number, shown

SHOWN_FINDINGS = 6


def trust_lines(trust: Trust | None) -> Iterator[tuple[str, str]]:
    """Findings first; then each check that was made, and why one was not."""
    if trust is None:
        return
    for item in trust.findings[:SHOWN_FINDINGS]:
        where = f"{item.where}: " if item.where else ""
        yield "FOUND" if item.grave else "look at", shown(f"{where}{item.text}", 400)
    if hidden := trust.findings[SHOWN_FINDINGS:]:
        yield "FOUND", f"and {number(len(hidden), 'more finding')}: --json shows all"
    for check in trust.checks:
        yield "challenge", shown(check.text if check.done else f"not made: {check.text}", 400)
    if trust.bound_ns is not None:
        yield "bound", f"no run can take less than {duration(trust.bound_ns)}"
