"""Where allocations end, as steps of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from replay.engine.placing.ends import CONFINE, Ends
from replay.engine.placing.pieces import Placed
from replay.engine.program import Program
from replay.export.recording import RecordingDriver
from replay.export.steps import Confine


class _Telling:
    """Takes the place of a driver that can be told."""

    def __init__(self, recorder: RecordingDriver) -> None:
        self._recorder = recorder

    def own(self, symbol: str) -> Callable[..., int] | None:
        """What is unwritten matters to checks only, which an exported program does not make."""

        def confine(base: Any, size: Any, pieces: Any, count: Any) -> int:
            words = list(pieces)
            pairs = tuple(zip(words[::2], words[1::2], strict=True))
            self._recorder.steps.append(Confine(base.value, size.value, pairs))
            return 0

        return confine if symbol == CONFINE else None


def exported_ends(program: Program, recorder: RecordingDriver, placed: Iterable[Placed]) -> Ends:
    """Notes down what a replay would tell the driver."""
    driver: Any = _Telling(recorder)
    return Ends(driver, placed, program.ranges.values(), program.window.kinds(), program.stays)
