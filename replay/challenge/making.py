"""Prepares the challenges for a window: the CPU driver says what each instruction of the captured kernels reads and
writes, and the captured kernels are run on other inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect, Work
from replay.challenge.accesses import Accesses, accesses, without
from replay.challenge.varying import Inputs
from replay.errors import ReplayError
from replay.redaction.proof import Prover
from replay.redaction.taint.words import Touches
from replay.run.challenge import Challenge
from replay.run.parent import RunOptions
from replay.run.touched import runs_of
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Range, all_of
from replay.snapshot.windows import choose_window

if TYPE_CHECKING:
    from replay.run.touched import Runs

Progress = Callable[[str], None]
_LAUNCHES = (Effect.LAUNCH, Effect.GRAPH_LAUNCH)
_TRACE_S = 60.0  # without progress


@dataclass
class Challenges:
    """Of several replays, such as those of a session: each window's are made once. A context manager; its files are
    gone afterwards."""

    _made: dict[Any, Challenge] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Challenges:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the other inputs."""
        self._stack.close()
        self._made.clear()

    def options(self, path: Path, options: RunOptions, progress: Progress) -> RunOptions:
        """The same options with the challenges that they ask for."""
        if not (options.untrusted or options.vary_inputs) or options.challenge is not None:
            return options
        driver = options.variant.driver or options.driver
        key = str(path), options.window, driver, options.untrusted, options.vary_inputs
        if key not in self._made:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="replay-inputs-")))
            plain = replace(options, driver=driver)
            self._made[key] = _Making(path, plain, folder, progress).challenge()
        return replace(options, challenge=self._made[key])


class _Making:
    def __init__(self, path: Path, options: RunOptions, folder: Path, progress: Progress) -> None:
        self._path, self._options, self._folder = path, options, folder
        timeout_s = min(options.timeout_s, _TRACE_S)
        self._prover = Prover(path, options.driver, progress, timeout_s)
        self._progress = progress

    def challenge(self) -> Challenge:
        """What can be prepared; what cannot is said in it."""
        left_out: list[tuple[str, str]] = []
        poison, varied_bytes = b"", 0
        varied: list[Path] = []
        touched = self._folder / "touched"
        try:
            self._progress("looking at what the captured kernels touch")
            result = self._prover.replay(self._path, self._options.window, touched=touched)
            if result.placement.moved:
                raise ReplayError("memory is elsewhere than it was captured, so what is touched is not known")
            touches = Touches.read_file(touched)
            found = self._accesses(touched)
        except ReplayError as error:
            why = f"what the captured kernels touch is not known: {error.what}"
            left_out += [("poison", why), ("inputs", why)]
            return Challenge(left_out=tuple(left_out))
        finally:
            touched.unlink(missing_ok=True)
        read_bytes, written_bytes = _bytes(without(found.read, found.written)), _bytes(found.written)
        total = None if result.counters is None else result.counters.total
        instructions = 0 if total is None else total.counters.get("warp_instructions", 0)
        if self._options.untrusted:
            poison = without(found.written, found.read_first).astype("<u8").tobytes()
        if self._options.vary_inputs:
            try:
                inputs = Inputs(self._path, self._options, self._folder, self._prover, touches)
                varied, varied_bytes = inputs.make(self._options.vary_inputs, self._progress)
            except ReplayError as error:
                left_out.append(("inputs", f"inputs cannot be varied: {error.what}"))
        return Challenge(
            poison, tuple(varied), varied_bytes, read_bytes, written_bytes, instructions, tuple(left_out)
        )

    def _accesses(self, touched: Path) -> Accesses:
        with SnapshotReader(self._path) as reader:
            choose_window(reader, self._options.window)
            ranges = runs_of(
                [[item.address, item.address + item.size_bytes]] for item in all_of(reader, Range)
            )
            calls = (call for call in all_of(reader, Call) if call.section == "window")
            rows = (by_symbol().get(call.function) for call in calls)
            works = (row for row in rows if row is not None and (row.work or row.effect in _LAUNCHES))
            first = next(works, None)
        return accesses(touched, ranges, begins_with_copy=first is not None and first.work == Work.COPY)


def _bytes(runs: Runs) -> int:
    return int((runs[:, 1] - runs[:, 0]).sum())
