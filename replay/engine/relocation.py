"""The proof that a snapshot gives the same outputs wherever its memory is: `replay run --shift`.

Two more workers replay the window with all memory moved, each by other distances, while the captured addresses stay
held. Only if both give the captured outputs the snapshot is proven relocatable.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from replay.engine.run import RunOptions, run_snapshot
from replay.errors import ReplayError
from replay.results import schema

SHIFTS = (1, 2)

_BEFORE_ANYTHING_MOVED = ("starting", "holding", "loading the driver", "reading", "opening", "placing")


def run_and_prove(
    path: str | os.PathLike[str], options: RunOptions, progress: Callable[[str], None] = lambda text: None
) -> schema.RunResult:
    """`run_snapshot`, and then whether its outputs are the same with all memory elsewhere. Raises what that raises."""
    result = run_snapshot(path, options, progress)
    shifted = replace(options, timing=None, counters=False, expand_graphs=False, save_outputs=None)
    return replace(result, relocation=prove(path, shifted, result, progress))


def prove(
    path: str | os.PathLike[str],
    options: RunOptions,
    result: schema.RunResult,
    progress: Callable[[str], None] = lambda text: None,
) -> schema.Relocation:
    """Replay with all memory moved, twice. `result` is that of the replay at the captured addresses."""
    verdict = result.verification.verdict
    if verdict != "match":
        why = {
            "wrong": "the outputs differ from the captured ones before anything is moved",
            "nondeterministic": "the outputs differ between two replays of the same input, moved or not",
        }.get(verdict, f"no outputs can be compared: {result.verification.reason}")
        return schema.Relocation("unsure", why)
    replays = [_shifted(path, replace(options, shift=number), progress) for number in SHIFTS]
    wrong = next((one for one in replays if one.verdict not in ("match", "not_done")), None)
    if wrong is not None:
        return schema.Relocation("failed", wrong.reason or "moved memory gives other outputs", replays)
    undone = next((one for one in replays if one.verdict == "not_done"), None)
    if undone is not None:
        return schema.Relocation("unsure", undone.reason, replays)
    if any(one.unmoved_ranges for one in replays):
        return schema.Relocation("unsure", "not all memory could be moved", replays)
    return schema.Relocation("proven", "", replays)


def _shifted(
    path: str | os.PathLike[str], options: RunOptions, progress: Callable[[str], None]
) -> schema.ShiftedReplay:
    stage = ""

    def show(text: str) -> None:
        nonlocal stage
        stage = text
        progress(f"memory moved ({options.shift} of {len(SHIFTS)}): {text}")

    try:
        result = run_snapshot(path, options, show)
    except ReplayError as error:
        verdict = "not_done" if stage.startswith(_BEFORE_ANYTHING_MOVED) or not stage else "failed"
        return schema.ShiftedReplay(options.shift, verdict, reason=str(error))  # type: ignore[arg-type]
    assert result.relocation is not None
    return result.relocation.replays[0]
