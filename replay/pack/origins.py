"""Where the launches of a window came from, as a snapshot keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from replay.api.vocabulary import NoteCode, RecordKind
from replay.pack.inductor import written_by_inductor
from replay.pack.survey.stacks import ORIGIN_TEXTS, Stacks
from replay.pack.texts import Texts
from replay.raw.records import RawFile
from replay.snapshot.schema import INSTALLED_FOLDERS, Frame, Origins

LAUNCHES_IN_OBJECT = 100_000
FRAMES_IN_OBJECT = 20_000  # of up to 5 KB in the raw capture; few have more than 200 bytes
OBJECT_BYTES = 8 << 20
MAXIMUM_REASONS = 4

_TEXTS_OF_STACKS = ORIGIN_TEXTS - {"origin"}
_ORIGIN_UNKNOWN = int(NoteCode.ORIGIN_UNKNOWN).to_bytes(4, "little")


def stacks_of(path: Path) -> tuple[Stacks, list[str]]:
    """What a record file says of the stacks that launches came from, and why some are not known, in words.

    Raises FormatError, OSError.
    """
    found, reasons = Stacks(), []
    with RawFile(path) as raw:
        for record in raw.records():
            if record.kind == RecordKind.NOTE and record.payload[:4] == _ORIGIN_UNKNOWN:
                reasons.append(record.payload[8:].rstrip(b"\0").decode("utf-8", "replace"))
            if record.kind != RecordKind.PROCESS:
                continue
            for line in record.payload.rstrip(b"\0").decode("utf-8", "replace").splitlines():
                key, _, text = line.partition("=")
                kind, _, number = key.rpartition(".")
                if kind in _TEXTS_OF_STACKS:
                    found.take(kind, number, text, [])
    return found, reasons[:MAXIMUM_REASONS]


class KeptOrigins:
    """Of one process. Paths of files are those that replay/privacy.py lets through."""

    def __init__(self, raw: Stacks, texts: Texts) -> None:
        self._raw = raw
        self._texts = texts
        self._kept: dict[int, Frame] = {}

    def frames(self, stack: int) -> list[Frame]:
        """Of a stack, the innermost first; empty when it is not known."""
        return [self._frame(number) for number in self._raw.stacks.get(stack, ())]

    def _frame(self, number: int) -> Frame:
        if number not in self._kept:
            frame = self._raw.frames[number]
            domain = frame.domain if frame.domain is None else self._texts.name(frame.domain)
            told = written_by_inductor(frame.file, frame.line)
            self._kept[number] = replace(
                frame, file=self._file(frame.file), function=self._texts.name(frame.function), domain=domain,
                told=self._texts.name(told),
            )  # fmt: skip
        return self._kept[number]

    def _file(self, file: str) -> str:
        """Of what is installed the part that says so stays, wherever the environment is."""
        begins = [at for folder in INSTALLED_FOLDERS if (at := file.rfind(folder)) >= 0]
        return file[max(begins) + 1 :] if begins and not self._texts.keep else self._texts.path(file)

    def objects(self, origins: list[tuple[int, int, int]]) -> Iterator[Origins]:
        """Those of a window, from (call, thread, stack) of the launches where a thread's stack changes."""
        draft = _Draft()
        for call, thread, stack in origins:
            if draft.is_full:
                yield draft.value
                draft = _Draft()
            draft.add(call, thread, stack, self._raw, self.frames(stack))
        if draft.value.launches:
            yield draft.value


class _Draft:
    def __init__(self) -> None:
        self.value = Origins([], [], [])
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[int, int] = {}
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return (
            len(self.value.launches) >= LAUNCHES_IN_OBJECT
            or len(self._frames) >= FRAMES_IN_OBJECT
            or self._bytes >= OBJECT_BYTES
        )

    def add(self, call: int, thread: int, stack: int, raw: Stacks, frames: list[Frame]) -> None:
        if frames and stack not in self._stacks:
            self.value.stacks.append([self._place(frame) for frame in frames])
            self._stacks[stack] = len(self.value.stacks)
            self._bytes += 4 * len(frames)
            if stack in raw.cut:
                self.value.cut.append(len(self.value.stacks) - 1)
        self.value.launches.append([call, thread, self._stacks.get(stack, 0)])
        self._bytes += 16

    def _place(self, frame: Frame) -> int:
        if frame not in self._frames:
            self._frames[frame] = len(self._frames)
            self.value.frames.append(frame)
            self._bytes += 32 + 4 * (
                len(frame.file) + len(frame.function) + len(frame.domain or "") + len(frame.told)
            )
        return self._frames[frame]
