"""Contents of memory as steps of a program: loads, comparisons, and the words that depend on where variables live."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from replay.engine.census import NOTHING
from replay.engine.contents.appearing import Appearing
from replay.engine.contents.arrays import LiveArrays
from replay.engine.program import Program
from replay.engine.translation.translation import Translation
from replay.errors import EngineError
from replay.export.buffers import ExportedBuffers
from replay.export.recording import RecordingDriver
from replay.export.steps import (
    Call,
    Compare,
    CompareBlock,
    ContentsFile,
    ExportPlan,
    Load,
    Point,
    Reference,
    Word,
)
from replay.inspection.pieces import describe, read_chunk, read_contents
from replay.planning.spans import is_global, is_host
from replay.snapshot.schema import CHUNK_BYTES, Contents, Range

MAXIMUM_WORDS = 10_000  # of one output that are addresses of variables


class _Appearing(Appearing):
    def live_bytes(self, captured_bytes: int, told: int) -> int:
        """Nothing is loaded here: the program's driver will know, and refuse what is too much."""
        return captured_bytes


class ExportedMemory:
    """Notes down what happens to the captured ranges, in the steps that the recorder has at that moment."""

    def __init__(
        self,
        program: Program,
        plan: ExportPlan,
        recorder: RecordingDriver,
        translation: Translation,
        buffers: ExportedBuffers,
        note: Callable[[str], None],
    ) -> None:
        self._program = program
        self._reader = program.reader
        self._plan = plan
        self._recorder = recorder
        self._handles, self._addresses, self._buffers = translation.handles, translation.addresses, buffers
        self.appearing = _Appearing(translation.addresses, program.ranges.values(), self.load, self._point_to)
        self._note = note
        self._files: dict[object, int] = {}

    def _live(self, range_: Range) -> Word:
        live = self._addresses.home(range_)
        if live is None:
            raise EngineError(f"{describe(range_)} is not loaded", next="capture again with `--all`")
        return self._recorder.word(live)

    def is_written(self, range_: Range) -> bool:
        """Whether the window may change the range."""
        shared = range_.id in self._program.changed or range_.id in self._program.shared
        return shared or range_.after is None or range_.after != range_.before

    def _file(self, kind: str, contents: Contents) -> int:
        key = (contents.size_bytes, contents.digests)
        if key not in self._files:
            number = self._files[key] = len(self._plan.files) + 1
            self._plan.files[number] = ContentsFile(
                f"{kind}-{number}.bin", contents.size_bytes, contents.digests
            )
        return self._files[key]

    def load(self, range_: Range) -> None:
        """The contents of a range, and in them the words that depend on where variables live."""
        covered = self._program.families.covered.get(range_.id, 0)
        if range_.before is None or not range_.before.size_bytes or covered >= range_.size_bytes:
            return
        if range_.array is not None:
            self._move_array(range_, range_.before)
            return
        target, host = self._live(range_), is_host(range_)
        file = self._file("memory", range_.before)
        self._recorder.steps.append(Load(target, file, host, describe(range_)))
        for word in self._program.census.ranges.get(range_.id, NOTHING).words:
            value = self._addresses.find(word.target)
            known = self._recorder.reference(value) if value is not None else None
            if known is not None and word.offset + 8 <= range_.before.size_bytes:
                self._recorder.steps.append(Point(target, word.offset, known, host))

    def compare(self, range_: Range) -> None:
        """The range must hold what it held in the application."""
        if range_.after is None or not range_.after.size_bytes:
            return
        if self._addresses.home(range_) is None:
            self._note(f"{describe(range_)}: nothing in the program loads it, so it is not compared")
            return
        if range_.array is not None:
            self._move_array(range_, range_.after, compare=True)
            return
        words = self._words_to_variables(range_.after)
        file = self._file("memory", range_.after)
        self._recorder.steps.append(
            Compare(self._live(range_), file, is_host(range_), describe(range_), tuple(words))
        )

    def _words_to_variables(self, contents: Contents) -> list[tuple[int, Reference]]:
        """Words of an output that are addresses of variables, some of which the window itself wrote."""
        import numpy

        variables = [item for item in self._program.ranges.values() if is_global(item)]
        found: list[tuple[int, Reference]] = []
        for number, digest in enumerate(contents.chunk_digests() if variables else ()):
            size = min(CHUNK_BYTES, contents.size_bytes - number * CHUNK_BYTES)
            words = numpy.frombuffer(read_chunk(self._reader, digest, size), "<u8", size // 8)
            for variable in variables:
                inside = (words >= variable.address) & (
                    words < variable.address + max(variable.size_bytes, 1)
                )
                for place in numpy.flatnonzero(inside).tolist():
                    value = self._addresses.find(int(words[place]))
                    known = self._recorder.reference(value) if value is not None else None
                    if known is not None and len(found) < MAXIMUM_WORDS:
                        found.append((number * CHUNK_BYTES + 8 * place, known))
        return found

    def _move_array(self, range_: Range, contents: Contents, compare: bool = False) -> None:
        """Contents of an array go through cuMemcpy3D, from or to memory of the program."""
        data = read_contents(self._reader, contents)
        buffer = self._buffers.room(len(data))
        ctypes.memmove(buffer, data, len(data))
        arrays = LiveArrays(self._recorder, self._handles.find)
        self._recorder.what = describe(range_)
        if not compare:
            arrays.write(range_, 0, len(data), ctypes.addressof(buffer))
            return
        before = len(self._recorder.steps)
        arrays.read(range_, 0, len(data), ctypes.addressof(buffer))
        rooms = [
            b
            for step in self._recorder.steps[before:]
            if isinstance(step, Call)
            for b in step.blocks
            if b.data is None
        ]
        at = 0
        for room in rooms:
            piece = self._recorder.block(data[at : at + room.size_bytes], scan=False)
            self._recorder.steps.append(CompareBlock(room.number, 0, piece, describe(range_)))
            at += room.size_bytes

    def _point_to(self, variable: Range) -> None:
        for range_id, site in self._program.census.ranges.items():
            holder = self._program.ranges[range_id]
            for word in site.words:
                if not variable.address <= word.target < variable.address + variable.size_bytes:
                    continue
                value = self._addresses.find(word.target)
                known = self._recorder.reference(value) if value is not None else None
                if known is not None and self._addresses.home(holder) is not None:
                    self._recorder.steps.append(
                        Point(self._live(holder), word.offset, known, is_host(holder))
                    )
