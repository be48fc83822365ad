"""Stores captured memory contents as chunks: checked, scanned for pointers, and cut where the format cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from replay.errors import DamagedError
from replay.pack.contents.allocations import Allocation
from replay.pack.contents.census import Targets, Words
from replay.pack.contents.copies import CopyStore
from replay.raw.attachments import MAXIMUM_HOLE_BYTES, BlobsFile, RawAttachment
from replay.raw.checksum import crc32c
from replay.raw.copies import RawCopy
from replay.raw.events import RawContents
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES, DIGEST_BYTES, ZERO_DIGEST, Contents

RUN_BYTES = 64 << 20  # stored at once
# Checked and scanned at once, in memory that is used again: fresh memory costs page faults
BLOCK_BYTES = 1 << 20

Found = Callable[[Words], None]


class ContentsWriter:
    """Context manager. A thread of its own checks and scans pieces while the snapshot writer hashes and compresses
    them: both read the same bytes from the page cache.

    progress: called with the bytes that were stored.
    """

    def __init__(
        self,
        writer: SnapshotWriter,
        blobs: BlobsFile,
        progress: Callable[[int], None],
        several_windows: bool = False,
    ) -> None:
        self._writer = writer
        self._blobs = blobs
        self._progress = progress
        self._copies = CopyStore(writer, blobs, progress, several_windows)
        self._checker = ThreadPoolExecutor(1, "replay-check")
        self._block = bytearray(BLOCK_BYTES)  # of the checker's thread

    def __enter__(self) -> ContentsWriter:
        return self

    def __exit__(self, *ending: object) -> None:
        self._checker.shutdown(cancel_futures=True)

    def attachment(self, attachment: RawAttachment) -> Contents:
        """Store an attachment that is too large to be in its call. Raises DamagedError."""
        self._blobs.believe(attachment.blob_offset, attachment.length)
        check = self._checker.submit(self._check, attachment)
        with self._writer.of_contents(attachment.length):
            digests = self._store(attachment.blob_offset, attachment.length)
        check.result()
        return Contents(attachment.length, digests)

    def _check(self, attachment: RawAttachment) -> None:
        for _ in self._checked_blocks(attachment.blob_offset, attachment.length, attachment.check):
            pass

    def _checked_blocks(self, offset: int, length: int, check: int) -> Iterator[tuple[int, memoryview]]:
        """(position, bytes) of each block; raises DamagedError after the last one when the checksum is wrong."""
        register = 0
        for at in range(0, length, BLOCK_BYTES):
            block = memoryview(self._block)[: min(BLOCK_BYTES, length - at)]
            self._blobs.read_into(offset + at, block)
            register = crc32c(block, register)
            yield at, block
        if register != check:
            raise DamagedError(f"wrong checksum at byte {offset}", where=self._blobs.path)

    def allocation(
        self,
        allocation: Allocation,
        read: list[RawContents | RawCopy],
        targets: Targets | None,
        found: Found,
    ) -> Contents | str:
        """Store what was read of an allocation, or say why that cannot be used.

        targets: scan for pointers into these, and hand those that there are to `found`, in the order of their offsets.
        """
        with self._writer.of_contents(allocation.size_bytes):
            return self._allocation(allocation, read, targets, found)

    def _allocation(
        self,
        allocation: Allocation,
        read: list[RawContents | RawCopy],
        targets: Targets | None,
        found: Found,
    ) -> Contents | str:
        copies = [item for item in read if isinstance(item, RawCopy)]
        if copies:
            last = next((item for item in reversed(copies) if item.whole), copies[-1])
            if (last.base, last.allocation_bytes) != (allocation.address, allocation.size_bytes):
                return f"{last.allocation_bytes} of {allocation.size_bytes} bytes were read"
            return self._copies.contents(last, targets, found)
        pieces = [item for item in read if isinstance(item, RawContents)]
        whole = _in_order(allocation, pieces)
        if isinstance(whole, str):
            return whole
        for piece in whole:
            if piece.blob_offset is not None and not self._blobs.holds(piece.blob_offset, piece.length):
                return f"{self._blobs.path.name} ends before them"
        aligned = all((piece.address - allocation.address) % CHUNK_BYTES == 0 for piece in whole)
        if not aligned and allocation.size_bytes - self._blobs.size > MAXIMUM_HOLE_BYTES:
            return "they were read in pieces that begin anywhere, and most of them are zeros"
        try:
            for piece in whole:
                if piece.blob_offset is not None:
                    self._blobs.believe(piece.blob_offset, piece.length)
            digests = self._pieces(whole, allocation.address, targets, found)
        except DamagedError as error:
            return str(error)
        return Contents(allocation.size_bytes, digests)

    def _pieces(self, pieces: list[RawContents], base: int, targets: Targets | None, found: Found) -> bytes:
        jobs: list[Future[Words | None]] = []
        digests: list[bytes] = []
        aligned = all((piece.address - base) % CHUNK_BYTES == 0 for piece in pieces)
        for run in _runs(pieces) if aligned else [pieces]:
            jobs += [
                self._checker.submit(self._check_piece, piece, base, targets)
                for piece in run
                if piece.blob_offset is not None
            ]
            digests.append(self._run(run) if aligned else self._chunk_by_chunk(run))
            # One run at a time, so that findings of few pieces are held at once.
            for job in jobs:
                words = job.result()
                if words is not None:
                    found(words)
            jobs.clear()
        return b"".join(digests)

    def _check_piece(self, piece: RawContents, base: int, targets: Targets | None) -> Words | None:
        assert piece.blob_offset is not None
        found = []
        for at, block in self._checked_blocks(piece.blob_offset, piece.length, piece.check):
            if targets is not None and piece.address % 8 == 0:
                found.append(targets.find(block, piece.address - base + at, piece.call))
        if targets is not None and piece.address % 8:
            # Registered memory can begin anywhere; words are aligned by their address and would cross the blocks.
            skip = -piece.address % 8
            data = memoryview(self._blobs.read(piece.blob_offset, piece.length))
            found.append(targets.find(data[skip:], piece.address - base + skip, piece.call))
        return np.concatenate(found) if found else None

    def _run(self, run: list[RawContents]) -> bytes:
        length = sum(piece.length for piece in run)
        first = run[0].blob_offset
        if first is None:
            self._progress(length)
            return ZERO_DIGEST * -(-length // CHUNK_BYTES)
        return self._store(first, length)

    def _store(self, offset: int, length: int) -> bytes:
        digests = self._writer.write_chunks_from(self._blobs, offset, length, CHUNK_BYTES)
        self._progress(length)
        return b"".join(digest or ZERO_DIGEST for digest in digests)

    def _chunk_by_chunk(self, pieces: list[RawContents]) -> bytes:
        """For pieces that do not begin where chunks begin."""
        digests: list[bytes] = []
        chunk = bytearray()
        for piece in pieces:
            at = 0
            while at < piece.length:
                size = min(CHUNK_BYTES - len(chunk), piece.length - at)
                blob = piece.blob_offset
                chunk += bytes(size) if blob is None else self._blobs.read(blob + at, size)
                at += size
                if len(chunk) == CHUNK_BYTES:
                    digests.append(self._writer.write_chunk(chunk) or ZERO_DIGEST)
                    chunk.clear()
            self._progress(piece.length)
        if chunk:
            digests.append(self._writer.write_chunk(chunk) or ZERO_DIGEST)
        return b"".join(digests)


def _in_order(allocation: Allocation, pieces: Iterable[RawContents]) -> list[RawContents] | str:
    """The pieces without gaps from first to last byte; of two readings of the same place the later one."""
    ordered = sorted({piece.address: piece for piece in pieces}.values(), key=lambda piece: piece.address)
    position = allocation.address
    for piece in ordered:
        if piece.address != position:
            break
        position += piece.length
    if position != allocation.end:
        covered = sum(piece.length for piece in ordered)
        return f"only {covered} of {allocation.size_bytes} bytes were read"
    return ordered


def _runs(pieces: list[RawContents]) -> list[list[RawContents]]:
    """Neighbouring pieces that also follow each other in the blobs file, about RUN_BYTES together; zeros likewise."""
    runs: list[list[RawContents]] = []
    for piece in pieces:
        last = runs[-1][-1] if runs else None
        if last is not None and sum(item.length for item in runs[-1]) < RUN_BYTES:
            both_zero = last.blob_offset is None and piece.blob_offset is None
            follows = last.blob_offset is not None and piece.blob_offset == last.blob_offset + last.length
            if (both_zero or follows) and last.length % CHUNK_BYTES == 0:
                runs[-1].append(piece)
                continue
        runs.append([piece])
    return runs


def changed_bytes(before: Contents | None, after: Contents | None) -> int:
    """Bytes of the chunks that differ between the contents before and after; all of `after` when there is no before."""
    if after is None:
        return 0
    if before is None or before.size_bytes != after.size_bytes:
        return after.size_bytes
    changed = 0
    for at in range(0, len(after.digests), DIGEST_BYTES):
        if after.digests[at : at + DIGEST_BYTES] != before.digests[at : at + DIGEST_BYTES]:
            begin = at // DIGEST_BYTES * CHUNK_BYTES
            changed += min(CHUNK_BYTES, after.size_bytes - begin)
    return changed
