"""What captured memory holds: loaded once, restored before every iteration, compared with the captured outputs.

Only what the window writes is restored, from copies on the device: the chunks whose captured contents before and after
the window differ, or the whole range where that is not known. The first comparison covers every byte that was captured
afterwards, so a write that this rule missed is seen.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from blake3 import blake3

from replay.compare.outputs import BufferComparison, Reading
from replay.engine.contents.arrays import LiveArrays, texel_at
from replay.engine.contents.loading import SMALLEST_BYTES, ChunksAhead, Piece
from replay.engine.contents.tensor_maps import LiveMaps, MapPlace
from replay.engine.driver import Driver, DriverFailure, call, query
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.memory import home_address, is_array, is_global, is_host
from replay.errors import EngineError
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import CHUNK_BYTES, DIGEST_BYTES, ZERO_DIGEST, Change, Contents, Range

_ZEROS = bytes(CHUNK_BYTES)
_DIGEST_BYTES_AT_ONCE = 4 << 20  # enough for threads to share the work
_OBJECT_TYPES = {1: "CUtexObject", 2: "CUsurfObject"}  # schema.Census


@dataclass(frozen=True)
class Word:
    """A captured address: where it stands, and what it points to. high_offset: where its high half stands, if `offset`
    is the place of the low half alone."""

    offset: int
    target: int  # captured address
    high_offset: int | None = None


@dataclass(frozen=True)
class HandleWord:
    """The captured handle of a texture or surface object, and where it stands."""

    offset: int
    c_type: str
    captured: int


@dataclass(frozen=True)
class Segment:
    """A stretch of a range that the window writes, and the live address of its copy: on the device for memory of the
    device, on the host for that of the host."""

    range_id: int
    offset: int
    size_bytes: int
    copy: int


def unpack_words(words: bytes, ranges: dict[int, Range], site: str) -> list[Word]:
    """The words of one Census. Raises EngineError for targets that do not exist."""
    if len(words) % 24:
        raise EngineError(f"the pointer census of {site} has a broken length")
    found = []
    for offset, inner, target, _ in struct.iter_unpack("<QQII", words):
        range_ = ranges.get(target)
        if range_ is None or inner > range_.size_bytes:
            raise EngineError(f"the pointer census of {site} points outside the captured memory")
        found.append(Word(offset, range_.address + inner))
    return found


def unpack_handles(words: bytes, site: str) -> list[HandleWord]:
    """The handles of one Census. Raises EngineError for words of no known sort."""
    if len(words) % 24:
        raise EngineError(f"the census of {site} has a broken length")
    found = []
    for offset, handle, _, what in struct.iter_unpack("<QQII", words):
        if what not in _OBJECT_TYPES:
            raise EngineError(f"the census of {site} has handles of an unknown sort")
        found.append(HandleWord(offset, _OBJECT_TYPES[what], handle))
    return found


def with_live_handles(
    expected: bytes, actual: bytes, handles: Mapping[int, Collection[int]]
) -> tuple[bytes, int]:
    """`expected` with every aligned word that is the captured handle of an object replaced where `actual` has a live
    handle of the same object, and how many."""
    if not handles or len(expected) != len(actual) or len(expected) < 8:
        return expected, 0
    import numpy

    words = numpy.frombuffer(expected, "<u8", len(expected) // 8).copy()
    here = numpy.frombuffer(actual, "<u8", len(actual) // 8)
    known = numpy.array(sorted(handles), "<u8")
    count = 0
    for place in numpy.flatnonzero((words != here) & numpy.isin(words, known)).tolist():
        if int(here[place]) in handles[int(words[place])]:
            words[place] = here[place]
            count += 1
    return (words.tobytes() + expected[8 * len(words) :], count) if count else (expected, 0)


def patch(data: bytearray, start: int, words: Iterable[Word], addresses: AddressMap) -> None:
    """Replace captured addresses in `data`, which begins at offset `start` of its site, by live ones.

    A word is replaced only where it still holds the captured address, and only if it lies wholly in `data`.
    """
    for word in words:
        at = word.offset - start
        if word.high_offset is not None:
            _patch_halves(data, at, word.high_offset - start, word.target, addresses)
            continue
        if at < 0 or at + 8 > len(data):
            continue
        if int.from_bytes(data[at : at + 8], "little") == word.target:
            live = addresses.find(word.target)
            if live is not None:
                data[at : at + 8] = live.to_bytes(8, "little")


def _patch_halves(data: bytearray, low: int, high: int, target: int, addresses: AddressMap) -> None:
    live = addresses.find(target)
    if live is None or min(low, high) < 0 or max(low, high) + 4 > len(data):
        return
    if int.from_bytes(data[low : low + 4] + data[high : high + 4], "little") == target:
        data[low : low + 4], data[high : high + 4] = (
            live.to_bytes(8, "little")[:4],
            live.to_bytes(8, "little")[4:],
        )


def read_contents(reader: SnapshotReader, contents: Contents) -> bytes:
    """All bytes of an attachment or image."""
    digests = contents.chunk_digests()
    return b"".join(
        read_chunk(reader, digest, min(CHUNK_BYTES, contents.size_bytes - number * CHUNK_BYTES))
        for number, digest in enumerate(digests)
    )


def read_chunk(reader: SnapshotReader, digest: bytes, size_bytes: int) -> bytes:
    """One chunk, checked; zeros for ZERO_DIGEST."""
    return bytes(size_bytes) if digest == ZERO_DIGEST else reader.chunk(digest, size_bytes)


def written_stretches(range_: Range) -> list[tuple[int, int]]:
    """(offset, bytes) of what the window writes in a range, neighbours joined."""
    before, after = range_.before, range_.after
    if before is None:
        return []
    if after is None or after.size_bytes != before.size_bytes:
        return [(0, before.size_bytes)]
    stretches: list[tuple[int, int]] = []
    for number, (old, new) in enumerate(zip(before.chunk_digests(), after.chunk_digests(), strict=True)):
        if old != new:
            offset = number * CHUNK_BYTES
            size = min(CHUNK_BYTES, before.size_bytes - offset)
            if stretches and sum(stretches[-1]) == offset:
                stretches[-1] = (stretches[-1][0], stretches[-1][1] + size)
            else:
                stretches.append((offset, size))
    return stretches


@dataclass
class ContentStore:
    """Moves contents between the snapshot, the live memory and the copies that restoring starts from.

    words: captured addresses inside the `before` contents, by range id. progress: called now and then with what is
    done.
    """

    driver: Driver
    reader: SnapshotReader
    addresses: AddressMap
    ranges: dict[int, Range]
    words: dict[int, list[Word]]
    progress: Callable[[str], None] = lambda text: None
    handle_words: dict[int, list[HandleWord]] = field(
        default_factory=dict
    )  # in `before` contents, by range id
    find_handle: Callable[[str, int], int | None] = lambda c_type, captured: None
    handles_here: Mapping[int, Collection[int]] = field(default_factory=dict)  # captured -> live, of objects
    handle_words_of_outputs: int = 0  # that hold another handle here than in the application
    inside: Callable[[int], AbstractContextManager[None]] = lambda context: nullcontext()
    maps: LiveMaps | None = None
    reading: Callable[[Range], Reading] = lambda range_: Reading()  # the types of its elements
    reading_of_part: Callable[[Range, int, int], Reading] = lambda range_, offset, size: Reading()
    map_places: dict[int, list[MapPlace]] = field(default_factory=dict)  # in `before` contents, by range id
    loaded_bytes: int = 0
    # Called with label, range id (0: host memory), offset, and what was captured, expected and found there
    on_difference: Callable[[str, int, int, bytes, bytes, bytes], None] = lambda *where_and_what: None
    followed: set[int] = field(default_factory=set)  # captured addresses that outputs may hold at any byte
    guessed_words: int = 0  # of outputs, taken for pointers to moved memory since then they agree
    restored_bytes: int = 0
    _segments: dict[int, list[Segment]] = field(default_factory=dict)
    _landing: ctypes.Array[ctypes.c_char] = field(
        default_factory=lambda: ctypes.create_string_buffer(CHUNK_BYTES)
    )
    _wide_landing: bytearray | None = None
    _pointed: dict[tuple[int, int], int] = field(
        default_factory=dict
    )  # what `point_to` wrote, by range id and offset
    _watched: set[int] = field(default_factory=set)
    _mirrors: dict[int, bytearray] = field(default_factory=dict)  # by range id: what the application last saw
    _host_copies: list[ctypes.Array[ctypes.c_char]] = field(default_factory=list)
    loaded_digests: dict[tuple[int, int], bytes] = field(default_factory=dict)  # by (range id, offset)
    written_elsewhere: dict[int, list[int]] = field(
        default_factory=dict
    )  # range id -> offsets of chunks that the first replay wrote although they are captured as unchanged

    def __post_init__(self) -> None:
        self._chunk: Callable[[bytes, int], bytes | Piece] = self.reader.chunk
        self._arrays = LiveArrays(self.driver, self.find_handle, self.inside)

    def live(self, range_: Range) -> int:
        """Where a range lives now; of an array its captured address, from which offsets are counted."""
        found = self.addresses.find(home_address(range_))
        if found is None:
            raise EngineError(f"{describe(range_)} is not loaded", next="capture again with `--all`")
        return found

    def load(self, range_: Range, start: int = 0) -> None:
        """Write the `before` contents of a range, from the snapshot, from chunk border `start` on."""
        if range_.before is None:
            return
        live = self.live(range_)
        words = self.words.get(range_.id, [])
        for offset, digest, size in _pieces(range_.before):
            if offset < start:
                continue
            data: bytes | bytearray | Piece
            if digest == ZERO_DIGEST:
                self._fill_zero(range_, live + offset, size)
            else:
                data = self._chunk(digest, size)
                if words:
                    data = self._patched(bytes(data), offset, words)
                self._write(range_, live + offset, data)
            self.loaded_bytes += size
            self.progress(f"loading memory ({self.loaded_bytes >> 20} MiB done)")
        # A pointer may stand across the border of two chunks.
        for word in words:
            if (
                word.high_offset is None
                and word.offset >= start
                and word.offset % CHUNK_BYTES > CHUNK_BYTES - 8
                and (moved := self.addresses.find(word.target))
            ):
                self._write(range_, live + word.offset, moved.to_bytes(8, "little"))

        for place in self.map_places.get(range_.id, []):
            assert self.maps is not None
            self._write(range_, live + place.offset, self.maps.live(place.id))
        for handle in self.handle_words.get(range_.id, []):
            moved = self.find_handle(handle.c_type, handle.captured)
            if moved not in (None, handle.captured):
                self._write(range_, live + handle.offset, moved.to_bytes(8, "little"))
        self._mirror(range_)

    @contextmanager
    def reading_ahead(self, ranges: Iterable[Range]) -> Iterator[None]:
        """While this lasts, `load` of these ranges, in this order, finds their contents decompressed by threads."""
        plan = [
            (digest, size)
            for range_ in ranges
            if range_.before is not None
            for _, digest, size in _pieces(range_.before)
            if digest != ZERO_DIGEST
        ]
        if sum(size for _, size in plan) < SMALLEST_BYTES:
            yield
            return
        with ChunksAhead(self.reader, plan) as ahead:
            self._chunk = ahead.chunk
            try:
                yield
            finally:
                self._chunk = self.reader.chunk

    def point_to(self, captured: int, size_bytes: int) -> None:
        """Memory captured at this address has just appeared: let the words that point to it point there.

        A word is changed only where it still holds the captured address, or what an earlier iteration put there.
        Variables of modules that have not appeared themselves get theirs when they are loaded.
        """
        for range_id, words in self.words.items():
            for word in words:
                if not captured <= word.target < captured + size_bytes:
                    continue
                range_, live = self.ranges[range_id], self.addresses.find(word.target)
                if self.addresses.find(home_address(range_)) is None:
                    continue
                place = self.live(range_) + word.offset
                held = int.from_bytes(self._read(range_, place, 8), "little")
                if live is not None and held in (word.target, self._pointed.get((range_id, word.offset))):
                    self._write(range_, place, live.to_bytes(8, "little"))
                    self._pointed[range_id, word.offset] = live

    def watch(self, range_ids: Iterable[int]) -> None:
        """Remember what these ranges hold, for `compare_seen`; nothing is remembered any more of others."""
        self._mirrors.clear()
        self._watched = set(range_ids)
        for range_id in self._watched:
            self._mirror(self.ranges[range_id])

    def _mirror(self, range_: Range) -> None:
        if range_.id in self._watched and range_.before is not None:
            live = self.addresses.find(home_address(range_))
            if live is not None:
                pieces = (self._read(range_, live + at, size) for at, _, size in _pieces(range_.before))
                self._mirrors[range_.id] = bytearray(b"".join(pieces))

    def change(self, change: Change, data: bytes) -> None:
        """Write what the host wrote, as the application would see it now."""
        range_ = self.ranges[change.range]
        if self.addresses.find(home_address(range_)) is None:
            return  # a variable that nothing has loaded yet
        patched, guessed = self.addresses.patch_lookalikes(data)
        self.guessed_words += guessed
        self._write(range_, self.live(range_) + change.offset, patched)
        if range_.id in self._mirrors:
            self._mirrors[range_.id][change.offset : change.offset + len(data)] = patched

    def compare_seen(self, change: Change, data: bytes, number: int) -> tuple[BufferComparison, bytes]:
        """Compare what the application saw with what is there. Bytes that the replay has left as they were were the
        host's to write, not the device's, so only others count. Also gives a digest of what is there."""
        range_ = self.ranges[change.range]
        label = f"{describe(range_)} as seen behind call {number}"
        reading = partial(self.reading_of_part, range_, change.offset, len(data))
        result = BufferComparison(label, range_.address + change.offset, len(data), reading=reading)
        if self.addresses.find(home_address(range_)) is None:
            return result, b""
        actual = self._read(range_, self.live(range_) + change.offset, len(data))
        captured, data = data, self.following(data, actual)
        if actual == data:
            result.add_equal(len(data))
            return result, b""
        if range_.id in self._mirrors:
            import numpy

            then = bytes(self._mirrors[range_.id][change.offset : change.offset + len(data)])
            was, now, want = (numpy.frombuffer(item, "u1") for item in (then, actual, data))
            data = numpy.where(now == was, now, want).tobytes()
        result.add(0, data, actual)
        if data != actual:
            self.on_difference(label, range_.id, change.offset, captured, data, actual)
        return result, blake3(actual).digest(length=DIGEST_BYTES)

    def keep_copies(self, ranges: Iterable[Range], whole: set[int]) -> None:
        """Copy what the window writes in these ranges aside, so that `restore` can bring it back.

        whole: ids of ranges that are restored completely, since the window puts other memory into their place.
        """
        device_bytes = host_bytes = 0
        wanted: list[tuple[Range, int, int, int]] = []  # offset, bytes, place among the copies
        for range_ in ranges:
            if range_.id in self._segments:
                continue
            self._segments[range_.id] = []
            complete = [(0, range_.before.size_bytes)] if range_.before else []
            for offset, size in complete if range_.id in whole else written_stretches(range_):
                wanted.append((range_, offset, size, host_bytes if is_host(range_) else device_bytes))
                if is_host(range_):
                    host_bytes += _aligned(size)
                else:
                    device_bytes += _aligned(size)
        device_copy = host_copy = 0
        if device_bytes:
            try:
                device_copy = query(self.driver, "cuMemAlloc_v2", device_bytes)
            except DriverFailure as failure:
                raise EngineError(
                    f"{device_bytes} bytes of device memory for restoring cannot be had ({failure.name})",
                    next="replay on a device with more memory, or close other programs that use it",
                ) from None
        if host_bytes:
            self._host_copies.append(ctypes.create_string_buffer(host_bytes))
            host_copy = ctypes.addressof(self._host_copies[-1])
        for range_, offset, size, place in wanted:
            copy = place + (host_copy if is_host(range_) else device_copy)
            self._segments[range_.id].append(Segment(range_.id, offset, size, copy))
            live = self.live(range_) + offset
            if is_array(range_):
                self._arrays.copy_aside(range_, offset, size, copy)
            elif is_host(range_):
                ctypes.memmove(copy, live, size)
            else:
                call(self.driver, "cuMemcpyDtoD_v2", copy, live, size)

    def keep_whole(self, range_: Range) -> None:
        """The window writes more of a range than its captured outputs tell: load it again, and restore all of it from
        now on."""
        self.load(range_)
        del self._segments[range_.id]
        self.keep_copies([range_], {range_.id})
        if self.loaded_digests:
            self.loaded_digests = {
                place: digest for place, digest in self.loaded_digests.items() if place[0] != range_.id
            } | self._digests(range_)

    def remember_loaded(self) -> None:
        """Take digests of what `restore` brings back, which has just been loaded, into `loaded_digests`."""
        self.loaded_digests = self.written_digests()

    def restore(self, range_: Range) -> None:
        """Bring a range back to its `before` contents. Enqueued on the default stream; the caller synchronises."""
        live = self.live(range_)
        for segment in self._segments.get(range_.id, ()):
            if is_array(range_):
                self._arrays.bring_back(range_, segment.offset, segment.size_bytes, segment.copy)
            elif is_host(range_):
                ctypes.memmove(live + segment.offset, segment.copy, segment.size_bytes)
            else:
                code = self.driver.function("cuMemcpyDtoDAsync_v2")(
                    live + segment.offset, segment.copy, segment.size_bytes, 0
                )
                if code:
                    raise DriverFailure("cuMemcpyDtoDAsync_v2", code, self.driver.error_name(code))

    def _is_copied(self, range_id: int, offset: int) -> bool:
        return any(
            segment.offset <= offset < segment.offset + segment.size_bytes
            for segment in self._segments.get(range_id, ())
        )

    def is_restored(self, range_: Range) -> bool:
        """Whether `restore` brings any part of the range back."""
        return bool(self._segments.get(range_.id))

    def written_digests(self) -> dict[tuple[int, int], bytes]:
        """What the memory that `restore` brings back holds now: digests by (range id, offset). The device is idle."""
        digests: dict[tuple[int, int], bytes] = {}
        for range_id in self._segments:
            digests |= self._digests(self.ranges[range_id])
        return digests

    def _digests(self, range_: Range) -> dict[tuple[int, int], bytes]:
        digests = {}
        step = CHUNK_BYTES if is_array(range_) else _DIGEST_BYTES_AT_ONCE
        for segment in self._segments[range_.id]:
            self.progress(f"reading {describe(range_)}")
            for offset in range(segment.offset, segment.offset + segment.size_bytes, step):
                size = min(step, segment.offset + segment.size_bytes - offset)
                data = self._view(range_, self.live(range_) + offset, size)
                digests[range_.id, offset] = blake3(data, max_threads=blake3.AUTO).digest(length=DIGEST_BYTES)
        return digests

    def _view(self, range_: Range, address: int, size: int) -> bytes | memoryview:
        """What memory holds; valid until the next call. At most _DIGEST_BYTES_AT_ONCE, of arrays a chunk."""
        if is_array(range_) or is_host(range_):
            return self._read(range_, address, size)
        if self._wide_landing is None:
            self._wide_landing = bytearray(_DIGEST_BYTES_AT_ONCE)
        landing = (ctypes.c_char * size).from_buffer(self._wide_landing)
        call(self.driver, "cuMemcpyDtoH_v2", landing, address, size)
        return memoryview(self._wide_landing)[:size]

    @property
    def copied_bytes(self) -> int:
        """What one `restore` of everything moves."""
        return sum(segment.size_bytes for segments in self._segments.values() for segment in segments)

    def compare(self, range_: Range, actual_digests: dict[tuple[int, int], bytes]) -> BufferComparison:
        """Compare a range with its `after` contents. Digests of differing pieces are put into `actual_digests` by
        (range id, offset), so that two replays can be compared with each other."""
        shape = range_.array
        result = BufferComparison(
            describe(range_), range_.address, range_.size_bytes, reading=partial(self.reading, range_)
        )
        if shape is not None:
            result.address, result.place = 0, partial(texel_at, shape)
        for offset, expected, actual, digest in self.compared(range_):
            self.progress(f"comparing {result.label}")
            if expected is None:
                result.add_equal(len(actual))
                continue
            result.add(offset, expected, actual)
            if expected != actual:
                actual_digests[range_.id, offset] = digest
                assert range_.after is not None
                captured = range_.after.chunk_digests()[offset // CHUNK_BYTES]
                held = read_chunk(self.reader, captured, len(actual))
                self.on_difference(describe(range_), range_.id, offset, held, expected, actual)
        return result

    def compared(self, range_: Range) -> Iterator[tuple[int, bytes | None, bytes, bytes]]:
        """(offset, expected, actual, digest of the actual) of each piece of a range; expected is None where it equals
        the actual one for certain."""
        assert range_.after is not None
        live = self.live(range_)
        words = self.words.get(range_.id, []) if self._any_word_moves(range_.id) else []
        handles = self.handle_words.get(range_.id, [])
        places = self.map_places.get(range_.id, [])
        for offset, digest, size in _pieces(range_.after):
            actual = self._read(range_, live + offset, size)
            actual_digest = (
                ZERO_DIGEST if actual == _ZEROS[:size] else blake3(actual).digest(length=DIGEST_BYTES)
            )
            if actual_digest == digest:
                yield offset, None, actual, actual_digest
                continue
            held = bytearray(read_chunk(self.reader, digest, size))
            if self.maps is not None and places:
                self.maps.patch(
                    held, offset, places
                )  # before their addresses, which stand inside, are patched
            expected = bytes(self._patched(held, offset, words, handles))
            if expected != actual and not self._is_copied(range_.id, offset):
                self.written_elsewhere.setdefault(range_.id, []).append(offset)
            if expected != actual:
                # Pointers that the window itself wrote stand in no census of what was there before.
                expected = self.following(expected, actual)
                expected, count = with_live_handles(expected, actual, self.handles_here)
                self.handle_words_of_outputs += count
            yield offset, expected, actual, actual_digest

    def following(self, expected: bytes, actual: bytes) -> bytes:
        """`expected` with the words that look like pointers to moved memory made to follow it where the actual ones
        did: the window itself wrote them, so no census has them."""
        guess, _ = self.addresses.patch_lookalikes(expected)
        followed, count = _where_it_agrees(expected, guess, actual)
        self.guessed_words += count
        for captured in self.followed:
            live = self.addresses.find(captured)
            if live is not None:
                followed = _where_it_stands(
                    followed, actual, captured.to_bytes(8, "little"), live.to_bytes(8, "little")
                )
        return followed

    def _any_word_moves(self, range_id: int) -> bool:
        return any(
            self.addresses.find(word.target) not in (None, word.target)
            for word in self.words.get(range_id, ())
        )

    def _patched(
        self, data: bytes | bytearray, offset: int, words: list[Word], handles: Iterable[HandleWord] = ()
    ) -> bytearray:
        changed = bytearray(data)
        patch(changed, offset, words, self.addresses)
        for handle in handles:
            at, live = handle.offset - offset, self.find_handle(handle.c_type, handle.captured)
            held = changed[at : at + 8] if at >= 0 else b""
            if live is not None and held == handle.captured.to_bytes(8, "little"):
                changed[at : at + 8] = live.to_bytes(8, "little")
        return changed

    def _write(self, range_: Range, address: int, data: bytes | bytearray | Piece) -> None:
        # ctypes passes the inside of a bytes object without a copy.
        source: Any
        if isinstance(data, Piece):
            source = data.address
        else:
            source = data if isinstance(data, bytes) else (ctypes.c_char * len(data)).from_buffer(data)
        if is_array(range_):
            held = ctypes.create_string_buffer(bytes(data), len(data))
            self._arrays.write(range_, address - range_.address, len(data), ctypes.addressof(held))
        elif is_host(range_):
            ctypes.memmove(address, source, len(data))
        else:
            call(self.driver, "cuMemcpyHtoD_v2", address, source, len(data))

    def _fill_zero(self, range_: Range, address: int, size: int) -> None:
        if is_array(range_):
            self._write(range_, address, _ZEROS[:size])
        elif is_host(range_):
            ctypes.memset(address, 0, size)
        else:
            call(self.driver, "cuMemsetD8_v2", address, 0, size)

    def _read(self, range_: Range, address: int, size: int) -> bytes:
        if is_host(range_):
            return ctypes.string_at(address, size)
        if is_array(range_):
            self._arrays.read(range_, address - range_.address, size, ctypes.addressof(self._landing))
            return ctypes.string_at(self._landing, size)
        call(self.driver, "cuMemcpyDtoH_v2", self._landing, address, size)
        return ctypes.string_at(self._landing, size)


def _where_it_stands(expected: bytes, actual: bytes, captured: bytes, live: bytes) -> bytes:
    """`expected` with `live` for `captured` wherever the actual bytes have it, aligned or not."""
    at = expected.find(captured)
    while at >= 0:
        if actual[at : at + 8] == live:
            expected = expected[:at] + live + expected[at + 8 :]
        at = expected.find(captured, at + 1)
    return expected


def _where_it_agrees(expected: bytes, guess: bytes, actual: bytes) -> tuple[bytes, int]:
    """`expected` with the aligned words of `guess` that are the actual ones, and how many these are."""
    if guess == expected:
        return expected, 0
    import numpy

    count = len(expected) // 8
    words, guessed, found = (numpy.frombuffer(data, "<u8", count) for data in (expected, guess, actual))
    agree = (guessed == found) & (words != found)
    return numpy.where(agree, found, words).tobytes() + expected[8 * count :], int(agree.sum())


def describe(range_: Range) -> str:
    """A range for people."""
    if is_global(range_):
        return f"global {range_.name or hex(range_.address)} ({range_.size_bytes} bytes)"
    if range_.array is not None:
        return f"array {range_.owner:#x} ({range_.array}, {range_.size_bytes} bytes)"
    return f"{range_.kind} buffer {range_.address:#x} ({range_.size_bytes} bytes)"


def _pieces(contents: Contents) -> Iterable[tuple[int, bytes, int]]:
    """(offset, digest, bytes) of each chunk."""
    for number, digest in enumerate(contents.chunk_digests()):
        offset = number * CHUNK_BYTES
        yield offset, digest, min(CHUNK_BYTES, contents.size_bytes - offset)


def _aligned(size: int) -> int:
    return -(-size // 256) * 256
