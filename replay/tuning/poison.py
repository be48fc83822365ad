"""Whether each configuration computes its outputs. An earlier launch may have left the same ones in memory: one that
writes too few of them would look right there, and fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from replay.bisect.laboratory import ReplayLaboratory
from replay.challenge.making import Challenges
from replay.errors import CancelledError, ReplayError
from replay.outputs.wording import finding
from replay.results.schema import RunResult
from replay.tuning.contest import REFERENCE
from replay.variants.assemblers.wheels import CacheError

_NOT_DONE = "outputs may be left from before: they were not filled with other bytes before a run"


def with_poison(
    laboratory: ReplayLaboratory, candidates: Sequence[int], progress: Callable[[str], None]
) -> tuple[dict[int, tuple[str, str]], str]:
    """Replays each once, with other random bytes in its outputs before. candidates: the reference first. Returns those
    that do not leave the captured outputs then, each with a verdict and a reason; and why that could not be tried, ""
    where it was."""
    asked = replace(laboratory.options, untrusted=True, vary_inputs=0)
    with Challenges() as challenges:
        challenge = challenges.options(laboratory.snapshot, asked, progress).challenge
    if challenge is None or not challenge.poison:
        left_out = {} if challenge is None else dict(challenge.left_out)
        return {}, f"{_NOT_DONE}: {left_out.get('poison', 'all that is written is read before')}"
    found: dict[int, tuple[str, str]] = {}
    for at in candidates:
        progress(f"outputs of configuration {at}" if at != REFERENCE else "outputs of the captured kernel")
        try:
            ended = _judged(laboratory.replay(at, timing=None, challenge=challenge))
        except (CancelledError, CacheError):
            raise
        except ReplayError as error:
            ended = "FAILED", str(error)
        if ended is not None and at == REFERENCE:
            return (
                {},
                f"{_NOT_DONE}: the captured kernel itself does not leave the captured ones then ({ended[1]})",
            )
        if ended is not None:
            found[at] = ended
    return found, ""


def _judged(result: RunResult) -> tuple[str, str] | None:
    said = result.verification
    if said.verdict == "match":
        return None
    if said.verdict not in ("wrong", "nondeterministic"):
        return "UNSURE", said.reason or finding(said)
    first = next((f", first in {item.label}" for item in said.differences), "")
    return "WRONG", f"outputs differ from the captured ones{first}, when other bytes were in them before"
