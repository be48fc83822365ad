"""What a comparison and a bisection are evidence of."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from replay.compare.verdict import LOOKS
from replay.difference import CodeFiles, differences, step_differences
from replay.report import bisect as bisect_text
from replay.report import compare as compare_text
from replay.report.code import code_advice
from replay.report.explain.words import (
    MODELLED,
    SHOWN,
    code,
    counted_sources,
    first,
    interval,
    notes,
    percent,
    version,
    when,
    with_variant,
)
from replay.results.bisection import Bisection, Step
from replay.results.comparison import ComparedRow, ComparedSide, Comparison
from replay.results.explanation import Explained
from replay.text import duration, number, shown

_CAUSES = {
    "registers": "registers",
    "spill_store_bytes": "bytes of spill stores",
    "spill_load_bytes": "bytes of spill loads",
    "shared_bytes": "bytes of static shared memory",
    "local_bytes": "bytes of stack",
}


def explain_comparison(source: str, result: Comparison, files: CodeFiles) -> Explained:
    """Of `replay compare`."""
    timed: set[str] = {row.source for row in result.rows if row.ratio is not None}
    return Explained(
        source,
        "comparison",
        _sides(result),
        compare_text.headline(result),
        [*_evidence(result), *_compared_code(result, files)],
        list(_conditions(result, timed)),
        list(_checked(result)),
        list(_unchecked(result, timed)),
        [*_next(result), *([] if files.given else filter(None, [code_advice(result)]))],
        "modelled" in timed,
    )


def _compared_code(result: Comparison, files: CodeFiles) -> Iterator[str]:
    for row in result.rows[:SHOWN] if files.given else ():
        yield from code(differences(row, files))


def _step_code(result: Bisection, step: Step, files: CodeFiles) -> Iterator[str]:
    return code(step_differences(result, step, files) if files.given else [])


def _sides(result: Comparison) -> str:
    if not result.rows:
        return "B against A"
    a, b = (_named(side) for side in (result.rows[0].a, result.rows[0].b))
    more = f" and {number(len(result.rows) - 1, 'further row')}" if len(result.rows) > 1 else ""
    return f"B ({b}) against A ({a}){more}"


def _named(side: ComparedSide) -> str:
    variant = f", {shown(side.variant, 120)}" if side.variant else ""
    window = "" if side.window is None else f" window {side.window}"
    return f"{shown(side.snapshot, 80)}{window}{variant}"


def _evidence(result: Comparison) -> Iterator[str]:
    for row in result.rows[:SHOWN]:
        yield from _row(row, result.minimum_effect)
    if len(result.rows) > SHOWN:
        yield f"{number(len(result.rows) - SHOWN, 'more row')}: --json of the command has all"
    if result.mean is not None:
        mean = result.mean
        yield (
            f"The geometric mean of {number(mean.rows, 'row')} is {percent(mean.ratio)} "
            f"{interval(mean.low, mean.high)}"
        )


def _row(row: ComparedRow, minimum_effect: float) -> Iterator[str]:
    name = shown(row.kernel, 80)
    rounds = number(len(row.rounds), "round")
    if row.ratio is not None and row.a.time_ns and row.b.time_ns:
        yield (
            f"{name}: A takes {duration(row.a.time_ns)} and B {duration(row.b.time_ns)} ({row.source} "
            f"{row.time}, {_caches(row)}medians over {rounds}); B against A is {percent(row.ratio)}, "
            f"interval {interval(row.low, row.high)}"
        )
        # Results on disk are no rounds by lot: none of them has B first.
        if row.low != row.high and len(row.rounds) >= LOOKS[0] and any(item.b_first for item in row.rounds):
            yield f"Such an interval misses the truth in less than 1 % of comparisons, whatever the noise ({rounds})"
    if row.verdict in ("SLOWER", "FASTER"):
        yield (
            "0 lies outside of the interval, and the change is at least "
            f"{minimum_effect * 100:.3g} %, so {name} is {row.verdict}"
        )
        if row.reason.startswith("clock"):
            yield "Both took the same number of SM cycles, so the clock changed and the code did not"
    elif row.verdict == "SAME":
        yield f"The interval lies within {minimum_effect * 100:.3g} % of no change, so {name} is SAME"
    else:
        reason = f": {shown(row.reason, 300)}" if row.reason else ""
        yield f"{name} is {row.verdict}{reason}"
    if row.smallest_effect is not None and row.verdict in ("SAME", "UNSURE"):
        yield f"A change of {row.smallest_effect * 100:.2g} % would have been found four times out of five"
    if row.single:
        yield f"Alone it would be {shown(row.single, 40)}; among so many rows that may be chance"
    yield from _made_of(row)
    if row.launches and (change := sum(item.b_ns - item.a_ns for item in row.launches)):
        largest = row.launches[0]
        share = (largest.b_ns - largest.a_ns) / change
        yield (
            f"{100 * share:.0f} % of the change is in call {largest.call} ({shown(largest.kernel, 80)}), "
            "launches timed one by one"
        )
    if row.spoiled:
        yield f"{number(len(row.spoiled), 'round')} had to be repeated: {shown(row.spoiled[0], 120)}"


def _caches(row: ComparedRow) -> str:
    return "cold caches, " if row.time == "GPU time" else ""


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
            yield f"{shown(a.name, 80)} has {', '.join(changes)}"
        elif a.code and a.code == b.code:
            yield f"{shown(a.name, 80)} has the same machine code on both sides, so the code is not the cause"
        elif a.image and a.image == b.image:
            yield f"{shown(a.name, 80)} comes from the same image on both sides"


def _conditions(result: Comparison, timed: set[str]) -> Iterator[str]:
    yield when(result.created_utc, result.tool_version)
    for name, attribute in (("A", "a"), ("B", "b")):
        sides = [getattr(row, attribute) for row in result.rows]
        machines = {
            f"{shown(side.device, 80)}, driver {shown(side.driver, 120)} ({version(side.driver_version)})"
            for side in sides
            if side.device
        }
        if machines:
            yield f"{name} on {'; '.join(sorted(machines)[:SHOWN])}"
    if timed:
        yield counted_sources(timed)
    if any(row.rounds for row in result.rows):
        yield "Each replay in a process of its own, A and B next to each other, in an order drawn by lot"


_OUTPUTS = {
    "match": "its outputs match the captured ones",
    "wrong": "its outputs are WRONG",
    "nondeterministic": "its outputs differ between replays of the same input",
    "unsure": "its outputs differ, and the capture is in doubt about what the window was given",
    "not_compared": "its outputs were not compared",
}


def _checked(result: Comparison) -> Iterator[str]:
    for name, attribute in (("A", "a"), ("B", "b")):
        sides = [getattr(row, attribute) for row in result.rows]
        for outcome in dict.fromkeys(side.outputs for side in sides):
            count = sum(side.outputs == outcome for side in sides)
            rows = "" if len(sides) == 1 else f" ({number(count, 'row')})"
            if outcome in ("match", "wrong", "nondeterministic", "unsure"):
                yield f"{name}: {_OUTPUTS[outcome]}{rows}"


def _unchecked(result: Comparison, timed: set[str]) -> Iterator[str]:
    for name, attribute in (("A", "a"), ("B", "b")):
        silent = [row for row in result.rows if getattr(row, attribute).outputs in ("", "not_compared")]
        if silent:
            kernels = ", ".join(shown(row.kernel, 60) for row in silent[:3])
            yield f"Outputs of {name} in {number(len(silent), 'row')} ({kernels})"
    if "modelled" in timed:
        yield MODELLED
    yield "Hot caches: both sides start cold"
    yield from first([shown(text, 300) for text in result.unmatched], "windows without a partner")
    yield from notes(result.notes)


def _next(result: Comparison) -> Iterator[str]:
    verdicts = {row.verdict for row in result.rows}
    if "WRONG" in verdicts:
        row = next(row for row in result.rows if row.verdict == "WRONG")
        side = row.b if row.b.outputs in ("wrong", "nondeterministic") else row.a
        yield (
            f"A time of wrong outputs means nothing: `replay run {shown(side.snapshot, 80)} "
            f"--save-outputs DIR`{with_variant(side.variant)} shows where they differ"
        )
    if "FAILED" in verdicts:
        yield "Replay the side that failed with `replay run`; its message says what is missing"
    if verdicts & {"SLOWER", "FASTER"}:
        yield "`replay bisect SNAP --over ...` finds since which compiler, driver, image or option it is so"
    unsure = {row.verdict == "UNSURE" and "unsure" in (row.a.outputs, row.b.outputs) for row in result.rows}
    if True in unsure:
        yield (
            "Where outputs are unsure, capture again as docs/limits.md says of the note that is named; no time of them "
            "is compared"
        )
    if any(row.verdict == "UNSURE" and "unsure" not in (row.a.outputs, row.b.outputs) for row in result.rows):
        yield "UNSURE is no verdict: more --rounds, locked clocks (`replay doctor`), or a larger --min-effect"
    if verdicts and verdicts <= {"SAME"}:
        yield (
            f"Nothing: a change of {result.minimum_effect * 100:.3g} % or more would count; a "
            "smaller --min-effect looks closer"
        )


def explain_bisection(source: str, result: Bisection, files: CodeFiles) -> Explained:
    """Of `replay bisect`."""
    ends = ""
    if result.candidates:
        labels = [shown(result.candidates[at].label, 80) for at in (0, -1)]
        ends = f" from {labels[0]} to {labels[1]}"
    what = shown(result.snapshot, 80) or "a command"
    title = f"{what}: where it becomes {shown(result.symptom, 40)}, {number(len(result.candidates), 'candidate')}{ends}"
    verdict = (
        bisect_text.answer(result)
        if result.steps
        else f"nothing was searched: {shown(result.ended, 200)}"
        if result.ended
        else "it found nothing"
    )
    return Explained(
        source,
        "bisection",
        title,
        verdict,
        [*_search(result), *(text for step in result.steps for text in _step_code(result, step, files))],
        list(_search_conditions(result)),
        list(_search_checked(result)),
        list(_search_unchecked(result)),
        list(_search_next(result)),
        result.source == "modelled",
    )


def _search(result: Bisection) -> Iterator[str]:
    if result.steps:
        yield from bisect_text.more(result)
    for step in result.steps:
        good, bad = (result.candidates[at] for at in (step.last_good, step.first_bad))
        if step.verdict == "symptom":
            seen, runs = (sum(bad.observations), len(bad.observations))
            spared, others = (sum(good.observations), len(good.observations))
            yield (
                f"The first bad one showed it in {seen:.0f} of {number(runs, 'run')}, the last good one in "
                f"{spared:.0f} of {others}"
            )
        else:
            yield f"The pair by itself, compared again by the full rule: {shown(step.verdict, 40)}"
    merged = sum(item.group != at for at, item in enumerate(result.candidates))
    if merged:
        yield f"{number(merged, 'candidate')} had the machine code of another and needed no measuring"


def _search_conditions(result: Bisection) -> Iterator[str]:
    yield when(result.created_utc, result.tool_version)
    if result.device:
        yield (
            f"On {shown(result.device, 80)}, driver {shown(result.driver, 120)} "
            f"({version(result.driver_version)})"
        )
    yield f"Over `{shown(result.over, 200)}`"
    if result.source:
        yield counted_sources({result.source})


def _search_checked(result: Bisection) -> Iterator[str]:
    seen = [item for item in result.candidates if item.observations]
    yield f"{len(seen)} of {number(len(result.candidates), 'candidate')} in {number(result.rounds, 'round')}"


def _search_unchecked(result: Bisection) -> Iterator[str]:
    skipped = [
        f"{shown(item.label, 80)}: {shown(item.skipped, 160)}" for item in result.candidates if item.skipped
    ]
    if skipped:
        yield f"{number(len(skipped), 'candidate')} could not be observed"
        yield from first(skipped, "candidates")
    if result.symptom == "slower":
        yield "Whether a candidate's outputs are right is no part of the search; `replay compare` checks them"
    unseen = sum(
        not item.observations and not item.skipped and item.group == at
        for at, item in enumerate(result.candidates[1:-1], 1)  # the ends are what all others are held against
    )
    if unseen:
        yield (
            f"{number(unseen, 'candidate')} did not need to be observed; the search infers that "
            "they are as their neighbours"
        )
    if result.source == "modelled":
        yield MODELLED
    yield from notes(result.notes)


def _search_next(result: Bisection) -> Iterator[str]:
    if not result.steps:
        yield "Widen the range, or look for another --symptom"
        return
    step = max(result.steps, key=lambda item: abs((item.ratio or 1) - 1))
    good, bad = (result.candidates[at].variant for at in (step.last_good, step.first_bad))
    if result.snapshot and good and bad:
        yield (
            f"`replay compare {shown(result.snapshot, 80)} --a {quote(shown(good, 200))} --b "
            f"{quote(shown(bad, 200))}` shows the pair side by side: times, registers, machine code"
        )
    if step.between:
        yield (
            "The change may lie in a candidate between the two that could not be observed: make "
            "one of them work"
        )
