"""The proof that a snapshot gives the same outputs wherever its memory is: `replay run --shift`.

Two more workers replay the window with all memory moved, each by other distances, while the captured addresses stay
held. Only if both give the captured outputs the snapshot is proven relocatable. Where they do not, words that may be
why are looked for, and tried: a pointer that was missed is confirmed by a replay that patches it and then gives the
right outputs, a number that was taken for a pointer by one that leaves it alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from replay.engine.relocation.known import Known
from replay.engine.relocation.shift import CensusChange
from replay.engine.relocation.suspects import (
    find_false,
    find_followed,
    find_missed,
    kind_of,
    touched_address,
)
from replay.errors import ReplayError
from replay.records import dataclass
from replay.results import schema
from replay.results.run.placement import Placement, Relocation, ShiftedReplay, SuspectWord
from replay.results.run.verification import Verification
from replay.run.parent import RunOptions, run_snapshot
from replay.snapshot.container import SnapshotReader
from replay.snapshot.windows import choose_window

SHIFTS = (1, 2)
MAXIMUM_TRIALS = 8  # replays to confirm suspects; each takes as long as one of the two

# In these steps no kernel has run: an error there says nothing of pointers.
_BEFORE_ANYTHING_MOVED = ("starting", "holding", "loading the driver", "reading", "opening", "placing")

Progress = Callable[[str], None]


def run_and_prove(
    path: str | os.PathLike[str], options: RunOptions, progress: Progress = lambda text: None
) -> schema.RunResult:
    """`run_snapshot`, and then whether its outputs are the same with all memory elsewhere. Raises what that raises."""
    result = run_snapshot(path, options, progress)
    shifted = replace(
        options, timing=None, counters=False, serialize=False, save_outputs=None, save_all=False
    )
    return replace(result, relocation=prove(path, shifted, result, progress))


def prove(
    path: str | os.PathLike[str],
    options: RunOptions,
    result: schema.RunResult,
    progress: Progress = lambda text: None,
) -> Relocation:
    """Replay with all memory moved, twice. `result` is that of the replay at the captured addresses."""
    verdict = result.verification.verdict
    if verdict not in ("match", "wrong", "unsure"):
        why = f"no outputs can be compared: {result.verification.reason}"
        if verdict == "nondeterministic":
            why = "the outputs differ between two replays of the same input, moved or not"
        return Relocation("unsure", why)
    return _Proof(path, options, progress, result.verification).carry_out()


@dataclass(frozen=True)
class _Move:
    """One replay with all memory moved. placement: None where it failed. differing_bytes: from the captured outputs;
    more than any memory has where it failed."""

    replayed: ShiftedReplay
    placement: Placement | None = None
    differing_bytes: int = 1 << 64


@dataclass
class _Proof:
    """The replays of one proof, in order."""

    path: str | os.PathLike[str]
    options: RunOptions
    progress: Progress
    unmoved: Verification
    tried: int = 0

    def carry_out(self) -> Relocation:
        """Both moves, and what explains an outcome that is not the captured one."""
        moves = [self._moved(number, {}, f"{number} of {len(SHIFTS)}") for number in SHIFTS]
        replays = [move.replayed for move in moves]
        if all(one.verdict == "match" for one in replays):
            if any(one.unmoved_ranges for one in replays):
                return Relocation("unsure", "not all memory could be moved", replays)
            alike = "the outputs differ from the captured ones in the same bytes, moved or not"
            return Relocation("proven", alike if self.unmoved.differing_digest else "", replays)
        failed = [one for one in replays if one.verdict in ("wrong", "failed")]
        if not failed:
            return Relocation(
                "unsure", next(one.reason for one in replays if one.verdict != "match"), replays
            )
        with SnapshotReader(self.path) as reader:
            choose_window(reader, self.options.window)
            known = Known.of(reader)
            replays = [replace(one, touched=touched_address(one.reason, known)) for one in replays]
            suspects = self._explain(reader, known, replays, moves)
        reason = next((one.reason for one in failed if one.reason), "") or "moved memory gives other outputs"
        if not known.complete:
            reason += "; not all memory was searched for the reason"
        return Relocation("failed", reason, replays, suspects, self.tried)

    def _explain(
        self,
        reader: SnapshotReader,
        known: Known,
        replays: Sequence[ShiftedReplay],
        moves: Sequence[_Move],
    ) -> list[SuspectWord]:
        """Words that explain it: only confirmed ones where there are any, else the likely ones."""
        self.progress("looking for pointers that were missed")
        touched = next((one.touched for one in replays if one.touched), 0)
        missed = find_missed(reader, known, touched)
        whole = [word for word in missed if word.form != "halves"]
        for trial in dict.fromkeys((tuple(missed[:1]), tuple(whole), tuple(missed))):
            if trial and self._explains(trial):
                return [replace(word, confirmed=True) for word in self._fewest(trial)]
        complete = [move.placement for move in moves if move.placement is not None]
        followed = []
        if len(complete) == len(SHIFTS):
            followed = find_followed(replays[0].words, replays[1].words, complete)
        numbers = find_false(known, followed, complete[0]) if complete else []
        # There may be several: one that makes fewer bytes differ is left alone from then on.
        left: list[SuspectWord] = []
        fewest = moves[0].differing_bytes
        for number in numbers:
            if self.tried >= MAXIMUM_TRIALS:
                break
            move = self._try([*left, number])
            if move.replayed.verdict == "match":
                return [replace(word, confirmed=True) for word in (*left, number)]
            if move.differing_bytes < fewest:
                left.append(number)
                fewest = move.differing_bytes
        # Of those that nothing confirms: what an output has followed, and what points to the memory that was touched.
        aim = known.range_at(touched, 1 << 21) if touched else None
        likely = [word for word in missed if aim is None or known.range_at(word.value) is aim]
        return likely + (numbers if followed else [])

    def _explains(self, words: Sequence[SuspectWord]) -> bool:
        return self._try(words).replayed.verdict == "match"

    def _fewest(self, words: Sequence[SuspectWord]) -> list[SuspectWord]:
        """Of words that together explain it, those without which they do not, as far as the trials reach."""
        left = list(words)
        step = len(left) // 2
        while step:
            for start in range(0, len(left), step):
                if self.tried >= MAXIMUM_TRIALS:
                    return left
                fewer = left[:start] + left[start + step :]
                if fewer and self._explains(fewer):
                    left = fewer
                    step = min(step, len(left) // 2)
                    break
            else:
                step //= 2
        return left

    def _try(self, words: Sequence[SuspectWord]) -> _Move:
        """Move 1 once more with these words patched, or left alone."""
        change: CensusChange = {"patch": [], "leave": []}
        for word in words:
            place: list[int | str] = [
                kind_of(word),
                word.call or word.range,
                word.offset_bytes,
            ]
            if word.kind == "missed":
                high = [word.high_offset_bytes] if word.form == "halves" else []
                change["patch"].append([*place, word.value, *high])
            else:
                change["leave"].append(place)
        self.tried += 1
        return self._moved(SHIFTS[0], change, f"trying a suspect, {self.tried}")

    def _moved(self, number: int, census: CensusChange, title: str) -> _Move:
        stage = ""

        def show(text: str) -> None:
            nonlocal stage
            stage = text
            self.progress(f"memory moved ({title}): {text}")

        try:
            result = run_snapshot(self.path, replace(self.options, shift=number, census=census), show)
        except ReplayError as error:
            done = stage and not stage.startswith(_BEFORE_ANYTHING_MOVED)
            verdict = "failed" if done else "not_done"
            reason = _without_advice(error)
            return _Move(ShiftedReplay(number, verdict, reason=reason))  # type: ignore[arg-type]
        assert result.relocation is not None
        replayed = result.relocation.replays[0]
        if replayed.verdict in ("match", "wrong", "unsure"):
            # What counts is the replay at the captured addresses, be its outputs the captured ones or not.
            moved, unmoved = result.verification, self.unmoved
            alike = (moved.differing_digest, moved.results) == (unmoved.differing_digest, unmoved.results)
            replayed = replace(replayed, verdict="match" if alike else "wrong")
        return _Move(replayed, result.placement, result.verification.differing_bytes)


def _without_advice(error: ReplayError) -> str:
    return error.what if error.where is None else f"{error.where}: {error.what}"
