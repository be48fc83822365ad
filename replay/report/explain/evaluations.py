"""What the judgement of a candidate is evidence of."""

from __future__ import annotations

from collections.abc import Iterator

from replay.report.evaluation import brief, counter_cells, facts, title
from replay.report.explain.words import MODELLED, SHOWN, notes, version, when
from replay.results.evaluation import Evaluated
from replay.results.explanation import Explained
from replay.text import shown


def explain_evaluation(source: str, found: Evaluated) -> Explained:
    """Of `replay evaluate`."""
    return Explained(
        source,
        "evaluation",
        title(found),
        brief(found),
        list(_evidence(found)),
        [
            when(found.created_utc, found.tool_version),
            f"On {shown(found.device, 80)}, {version(found.driver_version)}",
        ],
        list(_checked(found)),
        list(_unchecked(found)),
        [shown(found.hint)] if found.hint else [],
        found.source == "modelled",
    )


def _evidence(found: Evaluated) -> Iterator[str]:
    for name, text in facts(found):
        if name in ("outputs", "time", "ratio", "FOUND"):
            yield f"{name.capitalize()}: {text}"
    if found.where:
        yield shown(found.where, 300)
    for item in found.counters[:SHOWN]:
        name, captured, candidate, _ = counter_cells(item)
        yield f"{name}: {captured} of the captured kernel, {candidate} of the candidate"


def _checked(found: Evaluated) -> Iterator[str]:
    if found.outputs:
        yield "Outputs against the captured ones"
    for check in found.trust.checks if found.trust is not None else ():
        if check.done:
            yield shown(check.text, 300)


def _unchecked(found: Evaluated) -> Iterator[str]:
    if found.trust is None:
        yield "Whether the candidate is made to deceive: it was said to be trusted"
    else:
        yield from (shown(check.text, 300) for check in found.trust.checks if not check.done)
    if found.counters_reason:
        yield shown(found.counters_reason, 300)
    if found.source == "modelled" and found.ratio is not None:
        yield MODELLED
    yield from notes(found.notes)
