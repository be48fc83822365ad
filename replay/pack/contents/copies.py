"""Stores copies of which only what had changed was written: every place in the blobs file is read, checked, scanned and
stored once, however many windows refer to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from replay.errors import DamagedError
from replay.pack.contents.census import Targets, Words
from replay.raw.attachments import BlobsFile
from replay.raw.checksum import crc32c
from replay.raw.copies import NO_BLOB, PIECE_BYTES, Places, RawCopy
from replay.records import dataclass
from replay.snapshot.container.chunking import chunk_digest
from replay.snapshot.container.frames import make_patch
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES, DIGEST_BYTES, ZERO_DIGEST, Contents

GROUP_PIECES = 16  # read at once: 4 MiB, as much as a frame of the snapshot holds
# Of all ranges together. Pieces that do not fit in are read again for each window.
MAXIMUM_CACHED_WORDS = 4 << 20
LARGEST_GAP_BYTES = 8  # equal bytes between two spans of a patch that are kept as one: a span costs as much
LARGEST_PATCH_SHARE = 8  # a patch has at most this part of its chunk
HULL_BITS = 36  # the stretch that is searched for pointers grows by 64 GiB, so that it seldom has to
_MASK = (1 << HULL_BITS) - 1

Found = Callable[[Words], None]
Candidates = tuple[NDArray[np.uint32], NDArray[np.uint64]]  # offsets inside the piece, words


@dataclass
class _Known:
    """The last copy of a range that was stored.

    digests: one row a piece. scanned: whether `words` has what a piece holds of words inside the hull. whole: place in
    the blobs file and digest of the last state of a piece that is kept whole; later ones may be kept as patches of it.
    """

    copy: RawCopy
    places: Places
    digests: NDArray[np.uint8]
    scanned: NDArray[np.bool_]
    hull: tuple[int, int]
    words: dict[int, Candidates] = field(default_factory=dict)
    whole: dict[int, tuple[int, bytes]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Piece:
    number: int
    offset: int  # in the blobs file
    length: int
    check: int
    store: bool
    scan: bool
    base: tuple[int, bytes] | None = None  # `_Known.whole` of it


@dataclass
class _Read:
    piece: _Piece
    data: memoryview
    digest: bytes
    words: Candidates | None
    patch: bytes | None = None


@dataclass
class CopyStore:
    """Turns copies into contents of a snapshot. Copies of a range come in the order in which they were made.

    several_windows: what one copy holds is asked for again. progress: called with the bytes that were stored.
    """

    writer: SnapshotWriter
    blobs: BlobsFile
    progress: Callable[[int], None]
    several_windows: bool
    _known: dict[int, _Known] = field(default_factory=dict)  # by address
    _hull: tuple[int, int] = (0, 0)
    _cached_words: int = 0
    _knows_maps: bool = False

    def contents(self, copy: RawCopy, targets: Targets | None, found: Found) -> Contents | str:
        """Store what is new in a copy, or say why it cannot be used.

        targets: look for pointers into these, and hand those that there are to `found`, in the order of their offsets.
        """
        if copy.places is None:
            return "reading them was not finished"
        aligned = copy.base % 8 == 0
        if targets is not None:
            self._widen_hull(*targets.span)
            self._knows_maps = targets.knows_maps
        known, changed = self._compare(copy, copy.places)
        changed_places = copy.places[changed]
        wanted = known.scanned if targets is not None and aligned else np.ones(copy.piece_count, np.bool_)
        pieces = list(self._pieces(copy, known, changed, wanted, targets is not None))
        if any(not self.blobs.holds(piece.offset, piece.length) for piece in pieces):
            return f"{self.blobs.path.name} ends before them"
        known.digests[changed[changed_places["blob"] == NO_BLOB]] = 0
        try:
            self._store(copy, pieces, known, targets if aligned else None, found)
            if targets is not None and not aligned:
                self._scan_unaligned(copy, copy.places, targets, found)
        except DamagedError as error:
            self._known.pop(copy.base, None)
            return str(error)
        self._known[copy.base] = known
        return Contents(copy.allocation_bytes, known.digests.tobytes())

    def _widen_hull(self, low: int, high: int) -> None:
        if high:
            low, high = low & ~_MASK, min(high | _MASK, (1 << 64) - 1)
            if self._hull[1]:
                low, high = min(low, self._hull[0]), max(high, self._hull[1])
            self._hull = (low, high)

    def _compare(self, copy: RawCopy, places: Places) -> tuple[_Known, NDArray[np.intp]]:
        """What is known of a range, ready to be brought up to this copy, and the pieces that are new in it."""
        before = self._known.get(copy.base)
        count = copy.piece_count
        if before is None or before.copy.serial != copy.serial or len(before.places) != count:
            if before is not None:
                self._forget_words(before)
            empty = np.zeros((count, DIGEST_BYTES), np.uint8)
            known = _Known(copy, places, empty, np.zeros(count, np.bool_), self._hull)
            return known, np.arange(count)
        if before.hull != self._hull:
            self._forget_words(before)
            before.scanned[:] = False
        same = before.places is places
        changed = np.empty(0, np.intp) if same else np.flatnonzero(before.places["blob"] != places["blob"])
        for number in changed.tolist() if before.words else ():
            self._forget(before.words.pop(number, None))
        before.scanned[changed] = False
        known = _Known(copy, places, before.digests, before.scanned, self._hull, before.words, before.whole)
        return known, changed

    def _forget_words(self, known: _Known) -> None:
        for words in known.words.values():
            self._forget(words)
        known.words.clear()

    def _forget(self, words: Candidates | None) -> None:
        if words is not None:
            self._cached_words -= len(words[0])

    def _pieces(
        self,
        copy: RawCopy,
        known: _Known,
        changed: NDArray[np.intp],
        scanned: NDArray[np.bool_],
        looking: bool,
    ) -> Iterator[_Piece]:
        places = known.places
        store = np.zeros(copy.piece_count, np.bool_)
        store[changed] = True
        present = places["blob"] != NO_BLOB
        for number in np.flatnonzero((store | ~scanned) & present).tolist():
            length = min(PIECE_BYTES, copy.allocation_bytes - number * PIECE_BYTES)
            check, blob = places[number].tolist()
            new = bool(store[number])
            # What the next window starts from is looked through now, while it is at hand.
            ahead = new and self.several_windows and copy.base % 8 == 0 and not self._knows_maps
            scan = looking or ahead
            base = known.whole.get(number) if new else None
            yield _Piece(number, blob, length, check, new, scan and bool(self._hull[1]), base)

    def _store(
        self, copy: RawCopy, pieces: list[_Piece], known: _Known, targets: Targets | None, found: Found
    ) -> None:
        cached = iter(sorted(known.words)) if targets is not None else iter(())
        following = next(cached, None)
        groups = [pieces[at : at + GROUP_PIECES] for at in range(0, len(pieces), GROUP_PIECES)]
        for group in self.writer.in_order(self._read, groups):
            for item in group:
                number = item.piece.number
                if item.piece.store:
                    self._keep(known, item)
                    known.digests[number] = np.frombuffer(item.digest, np.uint8)
                    self.progress(item.piece.length)
                if item.words is None:
                    continue
                while following is not None and following < number:
                    self._resolve(copy, following, known.words[following], targets, found)
                    following = next(cached, None)
                self._resolve(copy, number, item.words, targets, found)
                maps = targets.maps(item.data, number * PIECE_BYTES) if targets and self._knows_maps else None
                # They are asked for in every window: what they are is not kept here.
                if maps is not None and len(maps):
                    found(maps)
                else:
                    self._remember(known, number, item.words)
        while following is not None:
            self._resolve(copy, following, known.words[following], targets, found)
            following = next(cached, None)

    def _keep(self, known: _Known, item: _Read) -> None:
        """Store a piece: of one that changed little only that, if what it is based on is kept whole."""
        base = item.piece.base
        if item.patch is not None and base is not None and self.writer.holds_whole(base[1]):
            self.writer.store_patch(item.digest, item.patch)
            return
        self.writer.store([(item.digest, item.data)])
        if item.digest != ZERO_DIGEST:
            known.whole[item.piece.number] = (item.piece.offset, item.digest)

    def _patch(self, piece: _Piece, data: memoryview) -> bytes | None:
        """What differs from the last state that is kept whole; None where that is not little."""
        if piece.base is None or not self.blobs.holds(piece.base[0], piece.length):
            return None
        now = np.frombuffer(data, np.uint8)
        then = np.frombuffer(self.blobs.read(piece.base[0], piece.length), np.uint8)
        places = np.flatnonzero(now != then)
        gaps = np.flatnonzero(np.diff(places) > LARGEST_GAP_BYTES)
        begins = places[np.concatenate(([0], gaps + 1))] if len(places) else places
        ends = places[np.concatenate((gaps, [len(places) - 1]))] + 1 if len(places) else places
        if int((ends - begins).sum()) + 8 * len(begins) > piece.length // LARGEST_PATCH_SHARE:
            return None
        spans = ((at, bytes(data[at:end])) for at, end in zip(begins.tolist(), ends.tolist(), strict=True))
        return make_patch(piece.base[1], piece.length, spans)

    def _resolve(
        self, copy: RawCopy, number: int, words: Candidates, targets: Targets | None, found: Found
    ) -> None:
        if targets is not None and len(words[0]):
            offsets = words[0].astype("<u8") + np.uint64(number * PIECE_BYTES)
            found(targets.resolve(offsets, words[1], copy.call))

    def _remember(self, known: _Known, number: int, words: Candidates) -> None:
        if not self.several_windows or self._cached_words + len(words[0]) > MAXIMUM_CACHED_WORDS:
            return
        known.scanned[number] = True
        if len(words[0]):
            known.words[number] = words
            self._cached_words += len(words[0])

    def _read(self, group: list[_Piece]) -> list[_Read]:
        """In a worker thread: read, check, hash and look for words inside the hull."""
        read = []
        for run in _runs(group):
            buffer = memoryview(self.blobs.read(run[0].offset, sum(piece.length for piece in run)))
            for piece in run:
                at = piece.offset - run[0].offset
                data = buffer[at : at + piece.length]
                if crc32c(data) != piece.check:
                    raise DamagedError(f"wrong checksum at byte {piece.offset}", where=self.blobs.path)
                digest = chunk_digest(data) if piece.store else b""
                words = self._candidates(data) if piece.scan else None
                patch = self._patch(piece, data) if piece.store and digest != ZERO_DIGEST else None
                read.append(_Read(piece, data, digest, words, patch))
        return read

    def _candidates(self, data: memoryview) -> Candidates:
        low, high = self._hull
        words = np.frombuffer(data, "<u8", count=len(data) // 8)
        places = np.flatnonzero(words - np.uint64(low) < np.uint64(high - low))  # wraps around below `low`
        return places.astype(np.uint32) * np.uint32(8), words[places]

    def _scan_unaligned(self, copy: RawCopy, places: Places, targets: Targets, found: Found) -> None:
        """Registered memory can begin anywhere; words are aligned by their address and cross the pieces."""
        skip = -copy.base % 8
        rest = b""
        for number in range(copy.piece_count):
            length = min(PIECE_BYTES, copy.allocation_bytes - number * PIECE_BYTES)
            blob = int(places["blob"][number])
            data = rest + (bytes(length) if blob == NO_BLOB else self.blobs.read(blob, length))
            begin = number * PIECE_BYTES - len(rest)
            if number == 0:
                data, begin = data[skip:], skip
            found(targets.find(data, begin, copy.call))
            rest = data[len(data) // 8 * 8 :]


def _runs(group: list[_Piece]) -> Iterator[list[_Piece]]:
    """Pieces that follow one another in the blobs file, which one read takes."""
    run: list[_Piece] = []
    for piece in group:
        if run and piece.offset != run[-1].offset + run[-1].length:
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


assert PIECE_BYTES == CHUNK_BYTES  # a piece becomes a chunk as it is
