"""Text of `replay doctor`."""

from __future__ import annotations

from replay.doctor.findings import Examination, Level
from replay.text import Screen, fields, flow, heading, number, shown


def render_examination(result: Examination, screen: Screen) -> str:
    """Problems first, each with its cure; then everything that was looked at."""
    parts = [heading(headline(result), screen, "FAILED" if result.problems else "PASS")]
    for finding in result.findings:
        if finding.level is Level.PROBLEM:
            parts += ["", flow(f"  {finding.area}: {shown(finding.text)}", screen)]
            parts += [flow(f"    cure: {shown(finding.cure)}", screen)] if finding.cure else []
    pairs: list[tuple[str, str]] = []
    for finding in result.findings:
        if finding.level is not Level.PROBLEM:
            hint = f" ({finding.cure})" if finding.cure else ""
            name = "" if pairs and any(finding.area == area for area, _ in pairs) else finding.area
            pairs.append((name, shown(finding.text + hint)))
    return "\n".join([*parts, "", fields(pairs, screen)])


def headline(result: Examination) -> str:
    """How many problems there are."""
    return number(result.problems, "problem") if result.problems else "no problem found"
