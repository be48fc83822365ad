"""`replay explain`: the evidence of a result in short sentences, for people and for assistants.

Every sentence follows from a field of the result; none guesses beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.report import bisect as bisect_text
from replay.report import compare as compare_text
from replay.report.html.sources import Sources
from replay.report.text import duration, number, shown, size
from replay.results.bisection import Bisection
from replay.results.comparison import ComparedRow, Comparison
from replay.results.schema import RunResult

SHOWN = 8
_CAUSES = {
    "registers": "registers",
    "spill_store_bytes": "bytes of spill stores",
    "spill_load_bytes": "bytes of spill loads",
    "shared_bytes": "bytes of static shared memory",
    "local_bytes": "bytes of stack",
}


def explain(sources: Sources) -> list[str]:
    """Paragraphs, in the order of the sources."""
    return [
        *(" ".join(_comparison(item)) for item in sources.comparisons),
        *(" ".join(_bisection(item)) for item in sources.bisections),
        *(" ".join(_result(item)) for item in sources.results),
        *(" ".join(_series(view)) for view in sources.histories),
    ]


def _comparison(result: Comparison) -> Iterator[str]:
    yield f"{compare_text.headline(result)}."
    for row in result.rows[:SHOWN]:
        yield from _row(row)
    if len(result.rows) > SHOWN:
        yield f"{number(len(result.rows) - SHOWN, 'more row')}."
    if result.mean is not None:
        yield (
            f"The geometric mean of {number(result.mean.rows, 'row')} is {_percent(result.mean.ratio)} "
            f"[{_percent(result.mean.low)}, {_percent(result.mean.high)}]."
        )
    if any(row.source == "modelled" for row in result.rows):
        yield "The times are modelled by the CPU driver, not measured."


def _row(row: ComparedRow) -> Iterator[str]:
    name = shown(row.kernel, 80)
    rounds = number(len(row.rounds), "round")
    if row.verdict in ("SLOWER", "FASTER") and row.ratio is not None:
        yield (
            f"{name}: B takes {duration(row.b.time_ns or 0)} and A {duration(row.a.time_ns or 0)}, "
            f"{_percent(row.ratio)} with the interval [{_percent(row.low)}, {_percent(row.high)}] from {rounds}; "
            "0 lies outside of it."
        )
        if row.reason.startswith("clock"):
            yield "Both took the same number of SM cycles, so the clock changed and the code did not."
        yield from _made_of(row)
        if row.launches and (change := sum(item.b_ns - item.a_ns for item in row.launches)):
            first = row.launches[0]
            share = (first.b_ns - first.a_ns) / change
            yield f"{share:.0%} of the change is in call {first.call} ({shown(first.kernel, 80)})."
    elif row.verdict == "SAME":
        yield f"{name}: the interval of {rounds} lies within the smallest change that counts."
    else:
        yield f"{name}: {row.verdict}, {shown(row.reason, 300)}."
    if row.spoiled:
        yield f"{number(len(row.spoiled), 'round')} had to be repeated: {shown(row.spoiled[0], 120)}."


def _made_of(row: ComparedRow) -> Iterator[str]:
    for a, b in zip(row.a.kernels, row.b.kernels, strict=False):
        changes = [
            f"{getattr(a, name)} -> {getattr(b, name)} {what}"
            for name, what in _CAUSES.items()
            if getattr(a, name) is not None
            and getattr(b, name) is not None
            and getattr(a, name) != getattr(b, name)
        ]
        if changes:
            yield f"{shown(a.name, 80)} has {', '.join(changes)}."
        elif a.code and a.code == b.code:
            yield f"{shown(a.name, 80)} has the same machine code on both sides, so the code is not the cause."


def _bisection(result: Bisection) -> Iterator[str]:
    if not result.steps:
        yield "The bisection found nothing."
        return
    yield f"{bisect_text.answer(result)}."
    for line in bisect_text.more(result):
        yield f"{line[:1].upper()}{line[1:]}."
    merged = sum(item.group != at for at, item in enumerate(result.candidates))
    if merged:
        yield f"{number(merged, 'candidate')} had the machine code of the one before and needed no measuring."
    if result.source == "modelled":
        yield "The times are modelled by the CPU driver, not measured."


def _result(result: RunResult) -> Iterator[str]:
    from replay.report.run import outputs

    kernels = (
        ", ".join(shown(name, 80) for name in result.window.kernels[:SHOWN]) or "a window without kernels"
    )
    yield f"{kernels}: {outputs(result)}."
    placed = result.placement
    moved = placed.relocated_ranges
    yield (
        f"{number(placed.same_address_ranges, 'range')} ({size(placed.same_address_bytes)}) "
        "stood at the captured addresses" + (f", {number(moved, 'range')} did not." if moved else ".")
    )
    timing = result.timing
    if timing is not None:
        summary = timing.gpu or timing.host
        what = "GPU time" if timing.gpu else "host time"
        yield (
            f"The {timing.source} {what} is {duration(summary.median_ns)} "
            f"(median of {summary.count}, noise {summary.noise:.2%}); sampling ended because {timing.stop_text}."
        )
        for warning in timing.warnings:
            yield f"Warning {warning.code}: {shown(warning.text, 200)}; {shown(warning.advice, 200)}."
    if result.fidelity is not None and result.fidelity.deviation is not None:
        fidelity = result.fidelity
        if fidelity.reproduced:
            yield "The replay reproduces the time inside the application within 5 %."
        else:
            causes = "; ".join(shown(cause, 120) for cause in fidelity.causes) or "not known"
            change = _percent(1 + (fidelity.deviation or 0))
            yield f"The application took {change} against the replay; likely: {causes}."
    for note in result.notes[:SHOWN]:
        yield f"Note: {shown(note, 300)}."


def _series(view: object) -> Iterator[str]:
    from replay.history.series import HistoryView

    assert isinstance(view, HistoryView)
    yield f"{number(view.results, 'result')} in {number(len(view.series), 'series', 'series')}."
    for item in view.series[:SHOWN]:
        if item.changes:
            changes = ", ".join(
                f"{_percent(change.ratio)} on {change.created_utc[:10]}" for change in item.changes
            )
            yield f"{shown(item.kernel, 80)} ({item.source}) changed its level: {changes}."
        else:
            count = number(len(item.points), "result")
            yield f"{shown(item.kernel, 80)} ({item.source}) shows no change of level in {count}."


def _percent(ratio: float | None) -> str:
    return "?" if ratio is None else f"{(ratio - 1) * 100:+.2f} %"
