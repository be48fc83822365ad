"""Reads a snapshot that may come from a stranger: nothing is trusted, memory is bounded, damage is named.

A whole file is opened by its trailer and index, so only the frames that are asked for are read. A file without them
(its writer was killed, a download was cut) is scanned frame by frame, and everything up to the damage can be read.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.errors import DamagedError, FormatError, LimitError, ReplayError, TruncatedError
from replay.snapshot.container import frames
from replay.snapshot.container.catalogue import catalogue_of
from replay.snapshot.container.condition import Damage, KindSummary, VerifyReport
from replay.snapshot.container.frames import FrameRecord
from replay.snapshot.container.objects import (
    BLOCK_KIND,
    CHUNK_KINDS,
    KINDS_IN_BLOCKS,
    BlockCounter,
    block_of,
    chunk_parts,
    in_block,
    tally,
    unpack,
)
from replay.snapshot.container.references import REFERENCED, unpack_reference, unpack_weights
from replay.snapshot.container.source import (
    RECOMMENDATION,
    TABLE_DAMAGED,
    ChunkTable,
    FrameDecompressor,
    FrameFile,
)

if TYPE_CHECKING:
    from replay.store.elsewhere import Elsewhere
    from replay.store.model import Reference

CACHED_FRAMES = 4  # uncompressed; chunks of a buffer mostly follow each other


class SnapshotReader:
    """Objects and chunks of the snapshot `path`. A context manager; not thread safe.

    tolerant: objects in damaged frames are passed over and the damage is added to `damages`; otherwise reading one
    raises DamagedError. Raises FileError, FormatError, VersionError, TruncatedError or DamagedError when nothing of the
    file can be used.
    """

    def __init__(self, path: str | os.PathLike[str], *, tolerant: bool = False) -> None:
        self.path = Path(path)
        self.tolerant = tolerant
        self.damages: list[Damage] = []
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._elsewhere: Elsewhere | None = None
        self._block_calls = BlockCounter()
        self._file = FrameFile(self.path)
        self.file_bytes = self._file.size_bytes
        try:
            try:
                self.version = frames.parse_start(self._file.read(0, frames.START_SIZE))
            except DamagedError as error:
                if not tolerant:
                    raise
                self.version = (frames.NEWEST_MAJOR, frames.FORMAT_MINOR)
                self.damages.append(Damage(0, frames.START_SIZE, error.what))
            found = catalogue_of(self._file, self.version, self.damages)
            self.condition, self._frames, self._kinds = found.condition, found.frames, found.kinds
            self._windows, self._table, self._scanned_chunks = found.windows, found.table, found.chunks
            self._chosen: tuple[int, int] | None = None  # frames of the window that was chosen
        except ReplayError as error:
            self.close()
            raise self._located(error) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SnapshotReader:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def require_whole(self) -> None:
        """Raises TruncatedError, unless all of the file can be used."""
        if not self.condition.whole:
            raise TruncatedError(f"{self.condition}", where=self.path,
                                 next="make it again with `replay pack`, or get the file again")  # fmt: skip

    def close(self) -> None:
        """Close the file. Values that were read stay valid."""
        self._file.close()
        if self._elsewhere is not None:
            self._elsewhere.close()

    @property
    def window_count(self) -> int:
        """Windows of a file with several of them; 0 of a file with one."""
        return len(self._windows)

    @property
    def window_is_chosen(self) -> bool:
        """Whether `objects` gives those of one window only."""
        return self._chosen is not None

    def choose_window(self, index: int | None) -> None:
        """From now on `objects` gives those of one window (from 0) and those that belong to all; None: everything."""
        if index is None:
            self._chosen = None
        else:
            following = self._windows[index + 1] if index + 1 < len(self._windows) else len(self._frames)
            self._chosen = (self._windows[index], following)

    @property
    def kinds(self) -> dict[str, KindSummary]:
        """Every kind of object in the file, from only the index, in the order of first appearance."""
        return {kind: summary for kind, (summary, _) in self._kinds.items()}

    @property
    def frames(self) -> list[FrameRecord]:
        """Every zstd frame, in file order."""
        return list(self._frames)

    def objects(self, kind: str) -> Iterator[Any]:
        """Values of all objects of `kind`, in order. Arrays are tuples, keys of maps are strings or integers.

        Reads only the frames that hold such objects, one at a time.
        """
        for number in self._frames_of(kind):
            for _, value in self._decode(number, kind):
                yield value

    def objects_and_blocks(self, kind: str) -> Iterator[Any]:
        """As `objects`, of "call" or "census"; blocks as they are."""
        for frame in self._frames_of(kind):
            for found, value in self._decode(frame, None):
                if found == kind:
                    yield value
                elif found == BLOCK_KIND:
                    try:
                        block = block_of(value)
                    except ReplayError as error:
                        raise self._located(error) from None
                    yield block

    def calls_from(self, number: int) -> Iterator[Any]:
        """As `objects("call")`; but of blocks that end before the call of this number, only the calls that are not
        like others: those that make objects are among them."""
        for frame in self._frames_of("call"):
            for found, value in self._decode(frame, None):
                if found == "call":
                    yield value
                elif found == BLOCK_KIND:
                    block = block_of(value)
                    yield from block.calls() if block.last_number >= number else block.others

    def _frames_of(self, kind: str) -> list[int]:
        numbers = self._kinds.get(kind, (None, []))[1]
        if kind in KINDS_IN_BLOCKS and BLOCK_KIND in self._kinds:
            numbers = sorted({*numbers, *self._kinds[BLOCK_KIND][1]})
        if self._chosen is None:
            return numbers
        common = bisect_left(numbers, self._windows[0])
        begin, end = (bisect_left(numbers, frame) for frame in self._chosen)
        return numbers[:common] + numbers[begin:end]

    def chosen_objects(self) -> Iterator[tuple[str, Any]]:
        """All (kind, value) of the chosen window and of what belongs to all windows, in the order of the stream; of the
        whole file where none is chosen. For a chunk the value is (digest, data)."""
        begin, end = self._chosen or (0, len(self._frames))
        for number in (*range(self._windows[0] if self._chosen else 0), *range(begin, end)):
            yield from self._decode(number, None)

    def first(self, kind: str) -> Any:
        """Value of the first object of `kind`, None if there is none."""
        return next(self.objects(kind), None)

    def frame_of_chunk(self, digest: bytes) -> int | None:
        """Number of the frame that holds the chunk (a place in `frames`), None when there is no such chunk."""
        place = self._find(digest)
        return None if place is None else place[0]

    def chunk(self, digest: bytes, length: int | None = None) -> bytes:
        """Contents of a chunk. For ZERO_DIGEST, which tells no length, `length` zeros are returned.

        Raises FormatError when there is no such chunk or it has another length, DamagedError when it is damaged (also
        when the reader is tolerant). Of a chunk that is elsewhere: as `Elsewhere.bring`.
        """
        if digest == frames.ZERO_DIGEST:
            if length is None or not 0 <= length <= frames.MAX_CHUNK_BYTES:
                raise LimitError(f"a zero chunk of {length} bytes", where=self.path)
            return bytes(length)
        place = self._find(digest)
        if place is None:
            raise FormatError(
                f"memory chunk {digest.hex()} is not in the file", where=self.path, next=RECOMMENDATION
            )
        number, offset, stored = place
        if stored & frames.PATCHED:
            return self._patched(digest, number, offset, stored ^ frames.PATCHED, length)
        if stored & REFERENCED:
            reference = self._reference(digest, number, offset, stored ^ REFERENCED)
            if length not in (None, reference.length):
                raise FormatError(
                    f"memory chunk {digest.hex()} has {reference.length} bytes, not {length}", where=self.path
                )
            try:
                return self.elsewhere.bring([(digest, reference)])[0]
            except ReplayError as error:
                raise self._located(error) from None
        if length is not None and stored != length:
            raise FormatError(
                f"memory chunk {digest.hex()} has {stored} bytes, not {length}", where=self.path
            )
        if number >= len(self._frames) or stored > frames.MAX_CHUNK_BYTES:
            raise DamagedError(f"the place of memory chunk {digest.hex()} is impossible", where=self.path)
        try:
            data = self._content(number)[offset : offset + stored]
        except ReplayError as error:
            record = self._frames[number]
            span = f"bytes {record.offset} to {record.offset + record.compressed_bytes - 1}"
            raise self._located(error, f"memory chunk {digest.hex()} in {span}") from None
        if len(data) != stored or frames.digest(data) != digest:
            raise DamagedError(
                f"memory chunk {digest.hex()} is damaged", where=self.path, next=RECOMMENDATION
            )
        return data

    @property
    def elsewhere(self) -> Elsewhere:
        """What gives the chunks that this file has references of."""
        if self._elsewhere is None:
            from replay.store.elsewhere import Elsewhere

            found = (chunk_parts(value) for value in self.objects("weights"))
            self._elsewhere = Elsewhere(self.path.parent, [unpack_weights(*item) for item in found])
        return self._elsewhere

    def references(self) -> Iterator[tuple[bytes, Reference]]:
        """Digest and reference of each chunk whose bytes are elsewhere."""
        for frame in self._kinds.get("reference", (None, []))[1]:
            for _, value in self._decode(frame, "reference"):
                digest, data = chunk_parts(value)
                yield digest, unpack_reference(data)

    def base_of(self, digest: bytes) -> bytes:
        """The chunk on whose bytes those of a chunk rest: of a patch what it is based on, else itself."""
        place = self._find(digest)
        if place is None or not place[2] & frames.PATCHED or place[0] >= len(self._frames):
            return digest
        length = place[2] ^ frames.PATCHED
        return frames.patch_base(self._content(place[0])[place[1] : place[1] + length])[0]

    def is_elsewhere(self, digest: bytes) -> bool:
        """Whether the file has only a reference of a chunk, or of what it is based on."""
        place = self._find(self.base_of(digest)) if "reference" in self._kinds else None
        return place is not None and bool(place[2] & REFERENCED)

    def _reference(self, digest: bytes, number: int, offset: int, stored: int) -> Reference:
        try:
            if number >= len(self._frames) or stored > frames.MAX_CHUNK_BYTES:
                raise DamagedError(f"the place of memory chunk {digest.hex()} is impossible")
            return unpack_reference(self._content(number)[offset : offset + stored])
        except ReplayError as error:
            raise self._located(error) from None

    def _patched(self, digest: bytes, number: int, offset: int, stored: int, length: int | None) -> bytes:
        """A chunk that is kept as what differs from another one, which is kept whole."""
        name = f"memory chunk {digest.hex()}"
        try:
            if number >= len(self._frames) or stored > frames.MAX_CHUNK_BYTES:
                raise DamagedError(f"the place of {name} is impossible")
            patch = self._content(number)[offset : offset + stored]
            base, whole = frames.patch_base(patch)
            place = self._find(base)
            based = place is not None and not place[2] & frames.PATCHED
            if len(patch) != stored or not based or whole != (length or whole):
                raise DamagedError(f"{name} is based on one that is not there")
            data = frames.apply_patch(patch, self.chunk(base, whole))
        except ReplayError as error:
            raise self._located(error) from None
        if frames.digest(data) != digest:
            raise DamagedError(f"{name} is damaged", where=self.path, next=RECOMMENDATION)
        return data

    def place_of_chunk(self, digest: bytes) -> tuple[int, int, int] | None:
        """(frame number, offset in the uncompressed frame, length) of a chunk, as the file claims; None when there is
        no such chunk, it is kept as a patch of another one, or its bytes are elsewhere."""
        place = self._find(digest)
        return None if place is None or place[2] & (frames.PATCHED | REFERENCED) else place

    def checked_frame(
        self,
        number: int,
        chunks: Iterable[tuple[bytes, int, int]],
        decompressor: FrameDecompressor,
        content: bytearray,
    ) -> None:
        """Decompress a frame into `content`, which has room for what the index says, and compare its chunks (digest,
        offset, length) with their digests. Every byte that they hold is checked by them, so the digest of the frame
        is not. Threads may call this, each with a decompressor of its own. Raises DamagedError or FileError."""
        if not 0 <= number < len(self._frames):
            raise DamagedError("the place of a memory chunk is impossible", where=self.path)
        record = self._frames[number]
        decompressor.decompress(self._file.descriptor, record, content)
        with memoryview(content)[: record.uncompressed_bytes] as view:
            for digest, offset, length in chunks:
                if (
                    not 0 < length <= frames.MAX_CHUNK_BYTES
                    or offset + length > len(view)
                    or frames.digest(view[offset : offset + length]) != digest
                ):
                    raise DamagedError(f"memory chunk {digest.hex()} is damaged", where=self.path)

    def frame_bytes(self, number: int) -> int:
        """The uncompressed size of a frame, as the file claims; 0 when there is no such frame. At most
        MAX_FRAME_BYTES."""
        return self._frames[number].uncompressed_bytes if 0 <= number < len(self._frames) else 0

    def verify(self, progress: Callable[[int], None] | None = None) -> VerifyReport:
        """Read everything once, check every checksum and every object. Never raises for damage.

        progress: called with the number of bytes of the file that were checked since the last call.
        """
        report = VerifyReport(self.condition, self.file_bytes, damages=list(self.damages))
        found: dict[bytes, tuple[int, int, int]] = {}
        for number, record in enumerate(self._frames):
            calls = 0
            try:
                content = self._content(number)
                for kind, value, position in unpack(content):
                    report.objects += 1
                    if kind == BLOCK_KIND:
                        calls = self._block_calls.add(number, calls, value)
                        block_of(value).check()
                    if kind not in CHUNK_KINDS:
                        continue
                    digest, data = chunk_parts(value)
                    if kind == "weights":
                        unpack_weights(digest, data)
                        continue
                    begin, length = position - len(data), len(data)
                    if kind == "reference":
                        report.references += 1
                        report.elsewhere_bytes += unpack_reference(data).length
                        found[digest] = (number, begin, length | REFERENCED)
                        continue
                    report.chunks += 1
                    if kind == "patch":
                        base = self._find(frames.patch_base(data)[0])
                        if base is None or not base[2] & REFERENCED:  # else only a replay can tell
                            self._patched(digest, number, begin, length, None)
                        length |= frames.PATCHED
                    elif frames.digest(data) != digest:
                        raise DamagedError(f"memory chunk {digest.hex()} does not match its digest")
                    found[digest] = (number, begin, length)
            except ReplayError as error:
                damage = Damage(record.offset, record.compressed_bytes, error.what)
                if damage not in report.damages:
                    report.damages.append(damage)
                report.damaged_frames += 1
            else:
                report.frames += 1
            if progress:
                progress(record.compressed_bytes)
        if self._table is not None:
            report.damages += self._table.verify(found)
        report.damages.sort(key=lambda damage: damage.offset)
        return report

    # -- frames -------------------------------------------------------------------------------------------------

    def _content(self, number: int) -> bytes:
        """Uncompressed frame, from the cache if it was used lately."""
        if number in self._cache:
            self._cache.move_to_end(number)
            return self._cache[number]
        content = self._file.decompress(self._frames[number])
        self._cache[number] = content
        if len(self._cache) > CACHED_FRAMES:
            self._cache.popitem(last=False)
        return content

    def _decode(self, number: int, kind: str | None) -> Iterator[tuple[str, Any]]:
        """kind: only these objects, also those in blocks; None: all, and blocks as they are."""
        calls = 0
        try:
            for found, value, _ in unpack(self._content(number)):
                if found == BLOCK_KIND:
                    calls = self._block_calls.add(number, calls, value)
                in_blocks = found == BLOCK_KIND and kind in KINDS_IN_BLOCKS
                if kind is None or found == kind or in_blocks:
                    if found not in CHUNK_KINDS and frames.nests_deeper_than(value, frames.MAX_NESTING):
                        raise LimitError(f"an object of kind {found!r} is nested too deeply")
                    if kind is not None and in_blocks:
                        yield from ((kind, item) for item in in_block(value, kind))
                    else:
                        yield found, value
        except ReplayError as error:
            record = self._frames[number]
            if not self.tolerant:
                place = f"bytes {record.offset} to {record.offset + record.compressed_bytes - 1}"
                raise self._located(error, place) from None
            damage = Damage(record.offset, record.compressed_bytes, error.what)
            if damage not in self.damages:
                self.damages.append(damage)

    # -- chunks -------------------------------------------------------------------------------------------------

    def _scan_chunks(self, damaged: ChunkTable) -> None:
        """Find the chunks without their table, which is damaged, by reading every frame that holds any."""
        self.damages.append(damaged.damage(TABLE_DAMAGED))
        numbers = {number for kind in CHUNK_KINDS for number in self._kinds.get(kind, (None, []))[1]}
        for number in sorted(numbers):
            try:
                chunks = tally(self._content(number)).chunks
                self._scanned_chunks.update({key: (number, *place) for key, place in chunks.items()})
            except ReplayError:
                continue  # reading one of its chunks says so

    def _find(self, digest: bytes) -> tuple[int, int, int] | None:
        """(frame number, offset in the frame, length), None when there is no such chunk."""
        if self._table is not None and self.tolerant:
            try:
                self._table.records()
            except DamagedError:
                self._scan_chunks(self._table)
                self._table = None
        return self._scanned_chunks.get(digest) if self._table is None else self._table.find(digest)

    def _located(self, error: ReplayError, place: str | None = None) -> ReplayError:
        """The same error, naming the file."""
        what = error.what if place is None else f"{place}: {error.what}"
        if isinstance(error, DamagedError | TruncatedError | LimitError):
            return type(error)(what, where=self.path, next=error.next or RECOMMENDATION)
        return type(error)(what, where=self.path, next=error.next)
