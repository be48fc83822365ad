"""Writes outputs of a replay beside the captured ones into a folder, for `--save-outputs`. Bounded, and never outside.

Names are made here, never taken from the snapshot. Raw bytes are `.bin`; elements whose type is known are `.npy`, of
types that numpy lacks (bf16, e4m3, e5m2) widened to f32, which is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from replay.engine.checking.comparing import Comparing
from replay.inspection.dump import npy_header
from replay.inspection.folder import OutputFolder
from replay.outputs.comparison import BufferComparison
from replay.outputs.elements import Region, values
from replay.results.documents import OUTPUTS
from replay.results.json import document
from replay.results.written_files import OutputsManifest, SavedBuffer, SavedFile
from replay.snapshot.schema import Range

MAXIMUM_BYTES = 4 << 30  # of all files together
MAXIMUM_BUFFERS = 1000
MAXIMUM_REGIONS = 16  # of one buffer, as .npy
_SIDES = ("expected", "actual")


@dataclass
class OutputSaver:
    """Saves buffers that differ; all: those that are equal, too. skipped: what was left out, and why."""

    folder: OutputFolder
    all: bool
    saved: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    _written_bytes: int = 0
    _buffers: list[SavedBuffer] = field(default_factory=list)

    @classmethod
    def into(cls, path: str, all_: bool) -> OutputSaver:
        """A saver that writes into the folder `path`, which is made where it is missing. Raises FileError."""
        return cls(OutputFolder(Path(path), force=False), all_)

    def save(self, comparing: Comparing, range_: Range, comparison: BufferComparison) -> None:
        """One buffer that was just compared, while it still holds what it held then."""
        assert range_.after is not None
        size = range_.after.size_bytes
        if not self._wanted(comparison, size):
            return
        contents = comparing.contents
        counted = contents.guessed_words, comparing.handle_words
        pieces = (
            (offset, actual if expected is None else expected, actual)
            for offset, expected, actual, _ in comparing.compared(range_)
        )
        self._write(
            f"memory-{range_.id:04d}", comparison, size, pieces, comparing.readings.of(range_).regions
        )
        contents.guessed_words, comparing.handle_words = counted  # it was compared once

    def save_host(self, comparison: BufferComparison, expected: bytes, actual: bytes) -> None:
        """What a call of the window wrote into memory of the host."""
        if self._wanted(comparison, len(actual)):
            number = sum(item.host for item in self._buffers) + 1
            self._write(f"host-{number:04d}", comparison, len(actual), [(0, expected, actual)], ())

    def finish(self) -> None:
        """Write `manifest.json`, which says what the files are."""
        with self.folder.create("manifest.json") as (file, _):
            file.write(document(OUTPUTS, OutputsManifest(self._buffers, self.skipped)).encode())
        self.folder.close()

    def _wanted(self, comparison: BufferComparison, size: int) -> bool:
        if comparison.equal and not self.all:
            return False
        if len(self._buffers) >= MAXIMUM_BUFFERS:
            self._skip(f"outputs of more than {MAXIMUM_BUFFERS} buffers are not saved")
            return False
        if self._written_bytes + 2 * size > MAXIMUM_BYTES:
            self._skip(f"{comparison.label} is not saved: more than {MAXIMUM_BYTES >> 30} GiB together")
            return False
        return True

    def _skip(self, text: str) -> None:
        if text not in self.skipped:
            self.skipped.append(text)

    def _write(
        self,
        name: str,
        comparison: BufferComparison,
        size: int,
        pieces: Iterable[tuple[int, bytes, bytes]],
        regions: Iterable[Region],
    ) -> None:
        typed = [item for item in regions if item.start < size][:MAXIMUM_REGIONS]
        self.folder.check_space(2 * size * (1 + 2 * bool(typed)))
        files: list[SavedFile] = []
        with ExitStack() as stack:

            def create(wanted: str, **facts: Any) -> BinaryIO:
                file, given = stack.enter_context(self.folder.create(wanted))
                files.append(SavedFile(given, **facts))
                self.saved.append(given)
                return file

            raw = [create(f"{name}-{side}.bin", side=side) for side in _SIDES]
            arrays = []
            for region in typed:
                whole = region.start == 0 and region.end >= size
                count = (min(region.end, size) - region.start) // region.type.size_bytes
                stem = name if whole else f"{name}-at-{region.start}-{region.type.name}"
                for side in _SIDES:
                    file = create(
                        f"{stem}-{side}.npy", side=side, dtype=region.type.name, source=region.source,
                        origin=region.origin, offset_bytes=region.start,
                    )  # fmt: skip
                    file.write(npy_header(_stored_as(region), count))
                    arrays.append((region, region.start + count * region.type.size_bytes, file))
            for offset, expected, actual in pieces:
                for file, data in zip(raw, (expected, actual), strict=True):
                    file.write(data)
                    self._written_bytes += len(data)
                for number, (region, end, file) in enumerate(arrays):
                    first, last = max(region.start - offset, 0), min(end - offset, len(actual))
                    if last > first:
                        file.write(_array_bytes((expected, actual)[number % 2][first:last], region))
        self._buffers.append(
            SavedBuffer(
                comparison.label,
                f"{comparison.address:#x}",
                size,
                comparison.differing_bytes,
                name.startswith("host"),
                files,
            )
        )


def _widened(region: Region) -> bool:
    return region.type.kind == "float" and "f" not in region.type.numpy


def _stored_as(region: Region) -> str:
    return "<f4" if _widened(region) else region.type.numpy


def _array_bytes(data: bytes, region: Region) -> bytes:
    return values(data, region.type).astype("<f4").tobytes() if _widened(region) else data
