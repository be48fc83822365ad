"""Where a launch came from: Python frames and NVTX ranges of its thread, as the capture kept them (`--python-stacks`,
`--nvtx-stacks`)."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Sequence

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect
from replay.inspection.frameworks import TEXTS, framework_text
from replay.snapshot.schema import INSTALLED_FOLDERS, Call, Frame, Origins, Source, all_of

BETWEEN = ", called by "
AROUND = ", in "  # before each range
RANGE = "NVTX range "
_NEXT_RANGE = re.compile(AROUND + "(?=" + "|".join([RANGE, *(f"{row.what} " for row in TEXTS)]) + ")")
_NOT_KNOWN: list[Frame] = []
_MADE_UP = ("<frozen ", "<string>")


class LaunchOrigins:
    """Of the window that a snapshot is at. Raises FormatError for what does not fit."""

    def __init__(self, source: Source) -> None:
        self._calls: dict[int, list[int]] = {}
        self._stacks: dict[int, list[list[Frame]]] = {}
        for item in all_of(source, Origins):
            stacks = [
                [item.frames[place] for place in stack if 0 <= place < len(item.frames)]
                for stack in item.stacks
            ]
            for launch in item.launches:
                if len(launch) != 3:
                    continue
                call, thread, stack = launch
                self._calls.setdefault(thread, []).append(call)
                known = stacks[stack - 1] if 0 < stack <= len(stacks) else _NOT_KNOWN
                self._stacks.setdefault(thread, []).append(known)

    def of(self, call: Call) -> list[Frame]:
        """The frames of a launch, the innermost first, then its ranges; empty: not known, or no launch."""
        function = by_symbol().get(call.function) if call.section == "window" else None
        if function is None or function.effect not in (Effect.LAUNCH, Effect.GRAPH_LAUNCH):
            return []
        return self.at(call.thread, call.number)

    def at(self, thread: int, number: int) -> list[Frame]:
        """Of the launch that is this call of the window; launches from one place share one list."""
        place = bisect_right(self._calls.get(thread, ()), number)
        return self._stacks[thread][place - 1] if place else _NOT_KNOWN


def own_frames(frames: Sequence[Frame]) -> list[Frame]:
    """Those of Python that are not a framework's, where a reader looks first; all where there are no others."""
    python = [frame for frame in frames if frame.domain is None]
    return [frame for frame in python if not _is_installed(frame.file)] or python


def ranges(frames: Sequence[Frame]) -> list[Frame]:
    """The NVTX ranges among them."""
    return [frame for frame in frames if frame.domain is not None]


def _is_installed(file: str) -> bool:
    return file.startswith(_MADE_UP) or any(part in f"/{file}" for part in INSTALLED_FOLDERS)


def place_text(frame: Frame) -> str:
    """`train.py:120 (forward)`, `NVTX range step@training (payload 7)`, `XLA module jit_step`."""
    if frame.domain is not None:
        if told := framework_text(frame):
            return told
        domain = f"@{frame.domain}" if frame.domain else ""
        more = [f"payload {frame.payload}"] if frame.payload else []
        more += [f"category {frame.category}"] if frame.category else []
        return f"{RANGE}{frame.function or '(without a name)'}{domain}" + (
            f" ({', '.join(more)})" if more else ""
        )
    line = f":{frame.line}" if frame.line >= 0 else ""
    said = ": ".join(filter(None, (frame.function, frame.told)))
    return f"{posixpath.normpath(frame.file)}{line}" + (f" ({said})" if said else "")


def origin_text(frames: Sequence[Frame], most: int = 3) -> str:
    """One line: the frames to look at first, the innermost first, and the ranges around them; "" when none is known."""
    called = BETWEEN.join(place_text(frame) for frame in own_frames(frames)[:most])
    around = list(dict.fromkeys(map(place_text, ranges(frames))))  # PyTorch enters an operator several times
    return AROUND.join(filter(None, [called, *around[:most]]))


def shorter(text: str, most: int) -> str:
    """What `origin_text` gives with fewer frames, of what it gave."""
    called, *around = _NEXT_RANGE.split(f"{AROUND}{text}")
    called = BETWEEN.join(called.removeprefix(AROUND).split(BETWEEN)[:most])
    return AROUND.join(filter(None, [called, *around[:most]]))
