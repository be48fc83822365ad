"""Text of `replay evaluate`."""

from __future__ import annotations

from collections.abc import Iterator

from replay.outputs.wording import difference_lines
from replay.report.run.trust import trust_lines
from replay.results.evaluation import Evaluated, MovedCounter
from replay.text import (
    MODELLED,
    Column,
    Screen,
    duration,
    fields,
    flow,
    heading,
    number,
    percent,
    shown,
    some,
    table,
)

SHOWN_KERNELS, SHOWN_LINES = 4, 20
_REASON = 1200  # characters: mangled names are long
_WITH_REASON = ("FAILED", "UNSURE", "WRONG")


def headline(found: Evaluated) -> str:
    """The verdict in one line."""
    return f"{_verdict(found)}: {title(found)}"


def brief(found: Evaluated) -> str:
    """The verdict in one line, with its reason where it is none of a time."""
    reason = f": {shown(found.reason, _REASON)}" if found.verdict in _WITH_REASON and found.reason else ""
    return f"{headline(found)}{reason}"


def title(found: Evaluated) -> str:
    """What was judged."""
    names = some([shown(name, 80) for name in found.kernels], SHOWN_KERNELS)
    return f"{shown(found.candidate, 80)} for {names or 'no kernel'}"


def render_evaluation(found: Evaluated, screen: Screen) -> str:
    """Verdict, place or times, what moved, and the hint."""
    parts = [heading(headline(found), screen, found.verdict), fields(facts(found), screen)]
    for difference in found.differences:
        parts += [flow(line, screen) for line in difference_lines(difference)]
    if found.more_differences:
        parts.append(
            f"  ... and {number(found.more_differences, 'more buffer')}: `replay run --json` shows all"
        )
    if found.error is not None and found.error.details:
        lines = found.error.details.splitlines()[:SHOWN_LINES]
        parts += ["", *(f"  {shown(line, 300)}" for line in lines)]
    if found.counters:
        columns = [
            Column("what moved"),
            *(Column(title, "right") for title in ("captured", "candidate", "ratio")),
        ]
        parts += ["", table(columns, [counter_cells(item) for item in found.counters], screen, indent=2)]
    if found.hint:
        parts += ["", flow(f"  {shown(found.hint)}", screen)]
    if found.source == "modelled" and found.ratio is not None:
        parts += ["", flow(f"  {MODELLED}", screen)]
    return "\n".join(parts)


def counter_cells(item: MovedCounter) -> list[str]:
    """Name, both figures, and their ratio."""
    ratio = f"{item.candidate / item.captured:.2f}" if item.captured else ""
    return [shown(item.name), _figure(item.captured), _figure(item.candidate), ratio]


def _figure(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,.2f}"


def _verdict(found: Evaluated) -> str:
    if found.ratio is None or found.verdict not in ("SLOWER", "FASTER"):
        return found.verdict
    return f"{found.verdict} {percent(found.ratio)}"


def facts(found: Evaluated) -> Iterator[tuple[str, str]]:
    """What is known, each with its name."""
    if found.verdict in _WITH_REASON and found.reason:
        yield "why", shown(found.reason, _REASON)
    if found.outputs:
        yield "outputs", found.outputs
    if found.captured_ns is not None and found.candidate_ns is not None:
        source = "modelled" if found.source == "modelled" else found.time
        yield "time", f"{duration(found.candidate_ns)}, captured {duration(found.captured_ns)} ({source})"
    if found.ratio is not None and found.low is not None and found.high is not None:
        interval = f"{percent(found.low)}, {percent(found.high)}"
        yield "ratio", f"{found.ratio:.4f} [{interval}] of {number(found.rounds, 'round')}"
    yield from trust_lines(found.trust)
    if found.compiler:
        yield "compiler", shown(found.compiler, 200)
    yield "device", shown(found.device)
