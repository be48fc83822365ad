"""Other inputs for a window: floats that are only computed with are drawn anew, and what the captured kernels leave of
them is replayed. What decides an address or a branch stays, and pointers do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from replay.challenge.drawing import drawn
from replay.errors import EngineError
from replay.redaction.noise.level import Choices, Noising
from replay.redaction.noise.noise import ptx_of
from replay.redaction.proof import Prover
from replay.redaction.rewriting import Level, rewrite
from replay.redaction.taint.words import Touches, words_of
from replay.run.parent import RunOptions, declared_types
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Attachment, Call, Change, Range, all_of, first_of
from replay.snapshot.windows import choose_window, each_window


class Varying(Noising):
    """As with noise, but what calls copy from the host stays, since the worker runs the captured window."""

    values = staticmethod(drawn)
    clears_unread = False

    def attachment(self, call: Call, side: str, key: str, value: Attachment) -> Attachment:
        """What the host gave stays; what it got is of the replay."""
        of = Level if side == "inputs" else Noising
        return of.attachment(self, call, side, key, value)


class Inputs:
    """Makes other inputs in a private folder."""

    def __init__(
        self, path: Path, options: RunOptions, folder: Path, prover: Prover, touches: Touches
    ) -> None:
        self._path, self._folder, self._prover, self._window = path, folder, prover, options.window
        with SnapshotReader(path) as reader:
            choose_window(reader, options.window)
            if first_of(reader, Change) is not None:
                raise EngineError("the host writes into memory inside the window")
            words = words_of(touches, list(ptx_of(reader)))
            ranges = list(all_of(reader, Range))
            declared = dict(declared_types(ranges, options.dtypes)) if options.dtypes else {}
        if words.reason:
            raise EngineError(words.reason)
        self._choices = Choices(words, {}, declared, False, b"", window=options.window)

    def make(self, count: int, progress: Callable[[str], None]) -> tuple[list[Path], int]:
        """So many snapshots, and how many bytes of each are others. Raises EngineError where nothing can be varied, or
        the captured kernels do not leave the same twice."""
        made, changed = [], 0
        for number in range(1, count + 1):
            progress(f"running the captured kernels on other inputs ({number} of {count})")
            path, changed = self._one(number)
            made.append(path)
        return made, changed

    def _one(self, number: int) -> tuple[Path, int]:
        path, outputs = self._folder / f"inputs-{number}.rsnap", self._folder / f"outputs-{number}"
        choices = Choices(
            self._choices.words, {}, self._choices.declared, False, os.urandom(32), window=self._window
        )
        self._write(path, choices)
        changed = sum(item.noise_bytes for item in choices.buffers.values())
        if not changed:
            raise EngineError("no value of the inputs is of a floating-point type that is only computed with")
        outputs.mkdir()
        self._prover.replay(path, self._window, counters=False, save=outputs)
        choices.outputs = outputs
        self._write(path, choices)
        shutil.rmtree(outputs, ignore_errors=True)
        again = self._prover.replay(path, self._window, counters=False).verification
        if again.verdict != "match":
            raise EngineError(f"the captured kernels do not leave the same twice ({again.verdict})")
        return path, changed

    def _write(self, path: Path, choices: Choices) -> None:
        """Only the window that is replayed has other inputs."""
        with SnapshotReader(self._path) as reader:
            windows = [None if window is None else window.number for window in each_window(reader)]
        order = iter(windows)

        def level(reader: SnapshotReader, writer: object) -> Noising:
            window = next(order)
            mine = choices if window == self._window or len(windows) == 1 else _unchanged(choices)
            return Varying(reader, writer, mine)  # type: ignore[arg-type]

        rewrite(self._path, path, level, None)


def _unchanged(choices: Choices) -> Choices:
    """Of a window that is not replayed."""
    words = replace(choices.words, reason="another window")
    return Choices(words, {}, {}, False, choices.secret)
