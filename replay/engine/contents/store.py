"""What captured memory holds: loaded once, changed as the application's host changed it, compared with the captured
outputs.

The first comparison covers every byte that was captured afterwards, whatever is restored between iterations
(`copies.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from blake3 import blake3

from replay.compare.outputs import BufferComparison, Reading
from replay.engine.contents.arrays import texel_at
from replay.engine.contents.copies import Copies
from replay.engine.contents.live import ZEROS, LiveMemory
from replay.engine.contents.loading import Loader, Piece, Stretch
from replay.engine.contents.reading import describe, loads, pieces, read_chunk
from replay.engine.contents.tensor_maps import LiveMaps, MapPlace
from replay.engine.contents.words import (
    HandleWord,
    Word,
    patch,
    spans_mask,
    where_it_agrees,
    where_it_stands,
    with_live_handles,
)
from replay.engine.driver import Driver
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.memory import is_array, is_host
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import CHUNK_BYTES, DIGEST_BYTES, ZERO_DIGEST, Change, Range

WIDEST_FILL_BYTES = 256 << 20  # of zeros in one call, so that a long one shows progress

_offset = attrgetter("offset")


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
    to_load_bytes: int = 0  # of all that was asked for so far
    # Called with label, range id (0: host memory), offset, and what was captured, expected and found there
    on_difference: Callable[[str, int, int, bytes, bytes, bytes], None] = lambda *where_and_what: None
    followed: set[int] = field(default_factory=set)  # captured addresses that outputs may hold at any byte
    guessed_words: int = 0  # of outputs, taken for pointers to moved memory since then they agree
    gone: set[int] = field(default_factory=set)  # ids of variables whose module this iteration has unloaded
    _words_by_offset: dict[int, list[Word]] = field(default_factory=dict)  # by range id
    _pointed: dict[tuple[int, int], int] = field(
        default_factory=dict
    )  # what `point_to` wrote, by range id and offset
    _watched: set[int] = field(default_factory=set)
    _mirrors: dict[int, bytearray] = field(default_factory=dict)  # by range id: what the application last saw
    # Bytes by buffer, of the checked pass: taken for the host's by `compare_seen`; and those that only the device can
    # have written, or another thread of the host while one waited, and that the replay leaves as they were.
    taken_for_host: dict[str, int] = field(default_factory=dict)
    left_alone: dict[str, int] = field(default_factory=dict)
    written_elsewhere: dict[int, list[int]] = field(
        default_factory=dict
    )  # range id -> offsets of chunks that the first replay wrote although they are captured as unchanged

    def __post_init__(self) -> None:
        self._live = LiveMemory(self.driver, self.addresses, self.find_handle, self.inside)
        self.copies = Copies(self.driver, self._live, self.progress)

    def live(self, range_: Range) -> int:
        """Where a range lives now; of an array its captured address, from which offsets are counted."""
        return self._live.address(range_)

    def load(self, *ranges: Range, start: int = 0) -> None:
        """Write the `before` contents of ranges, from the snapshot, from chunk border `start` on."""
        self.to_load_bytes += sum(
            max(range_.size_bytes - start, 0) for range_ in ranges if range_.before is not None
        )
        stretches: list[Stretch] = []
        for range_ in ranges:
            if range_.before is None:
                continue
            widest = 0 if is_array(range_) else WIDEST_FILL_BYTES
            for offset, digest, size in loads(range_.before, start, widest):
                if digest != ZERO_DIGEST:
                    stretches.append(Stretch(digest, size, range_, offset))
                    continue
                self._live.fill_zero(range_, self.live(range_) + offset, size)
                self.loaded_bytes += size
                self._tell_loaded()
        loader = Loader(
            self.reader,
            stretches,
            self._write_chunk,
            # An array is copied in its own context, and which is current is known of the calling thread alone.
            alone=lambda stretch: is_array(stretch.range_),
            helping=self._live.joined,
            progress=self._tell_loaded,
        )
        with self._live.shared() if loader.threads > 1 else nullcontext():
            loader.run()
        self.loaded_bytes += sum(stretch.size_bytes for stretch in stretches)
        for range_ in ranges:
            if range_.before is not None:
                self._patch_loaded(range_, start)
                self._mirror(range_)
        if any(range_.before is not None and not is_host(range_) for range_ in ranges):
            self._live.arrive()

    def _tell_loaded(self, more_bytes: int = 0) -> None:
        done = self.loaded_bytes + more_bytes
        self.progress(f"loading memory ({done >> 20} of {self.to_load_bytes >> 20} MiB)")

    def _write_chunk(self, stretch: Stretch, data: bytes | bytearray | Piece) -> None:
        range_, offset = stretch.range_, stretch.offset
        if words := self._words_in(range_.id, offset, stretch.size_bytes):
            data = self._patched(bytes(data), offset, words)
        self._live.write(range_, self.live(range_) + offset, data)

    def _patch_loaded(self, range_: Range, start: int) -> None:
        """Write what is no matter of one chunk."""
        live = self.live(range_)
        # A pointer may stand across the border of two chunks.
        for word in self.words.get(range_.id, ()):
            if (
                word.high_offset is None
                and word.offset >= start
                and word.offset % CHUNK_BYTES > CHUNK_BYTES - 8
                and (moved := self.addresses.find(word.target))
            ):
                self._live.write(range_, live + word.offset, moved.to_bytes(8, "little"))
        for place in self.map_places.get(range_.id, []):
            assert self.maps is not None
            self._live.write(range_, live + place.offset, self.maps.live(place.id))
        for handle in self.handle_words.get(range_.id, []):
            moved = self.find_handle(handle.c_type, handle.captured)
            if moved not in (None, handle.captured):
                self._live.write(range_, live + handle.offset, moved.to_bytes(8, "little"))

    def point_to(self, captured: int, size_bytes: int) -> None:
        """Memory captured at this address has just appeared: let the words that point to it point there.

        A word is changed only where it still holds the captured address, or what an earlier iteration put there.
        Variables of modules that have not appeared themselves get theirs when they are loaded.
        """
        for range_id, words in self.words.items():
            for word in words if range_id not in self.gone else ():
                if not captured <= word.target < captured + size_bytes:
                    continue
                range_, live = self.ranges[range_id], self.addresses.find(word.target)
                if self._live.find(range_) is None:
                    continue
                place = self.live(range_) + word.offset
                held = int.from_bytes(self._live.read(range_, place, 8), "little")
                if live is not None and held in (word.target, self._pointed.get((range_id, word.offset))):
                    self._live.write(range_, place, live.to_bytes(8, "little"))
                    self._pointed[range_id, word.offset] = live
                    self._live.arrive()

    def watch(self, range_ids: Iterable[int]) -> None:
        """Remember what these ranges hold, for `compare_seen`; nothing is remembered any more of others."""
        self._mirrors.clear()
        self._watched = set(range_ids)
        for range_id in self._watched:
            self._mirror(self.ranges[range_id])

    def _mirror(self, range_: Range) -> None:
        if range_.id in self._watched and range_.before is not None:
            live = self._live.find(range_)
            if live is not None:
                held = (self._live.read(range_, live + at, size) for at, _, size in pieces(range_.before))
                self._mirrors[range_.id] = bytearray(b"".join(held))

    def change(self, change: Change, data: bytes) -> None:
        """Write what the host wrote, as the application would see it now."""
        range_ = self.ranges[change.range]
        if self._live.find(range_) is None:
            return  # a variable that nothing has loaded yet
        patched, guessed = self.addresses.patch_lookalikes(data)
        self.guessed_words += guessed
        self._live.write(range_, self.live(range_) + change.offset, patched)
        self._live.arrive()
        if range_.id in self._mirrors:
            self._mirrors[range_.id][change.offset : change.offset + len(data)] = patched

    def compare_seen(self, change: Change, data: bytes, number: int) -> tuple[BufferComparison, bytes]:
        """Compare what the application saw with what is there. Bytes that the host may have written, and that the
        replay has left as they were, do not count (`taken_for_host`). Also gives a digest of what is there."""
        range_ = self.ranges[change.range]
        when = "behind" if change.moment == "after" else "before"
        label = f"{describe(range_)} as seen {when} call {number}"
        reading = partial(self.reading_of_part, range_, change.offset, len(data))
        result = BufferComparison(label, range_.address + change.offset, len(data), reading=reading)
        if self._live.find(range_) is None:
            return result, b""
        actual = self._live.read(range_, self.live(range_) + change.offset, len(data))
        captured, data = data, self.following(data, actual)
        if actual == data:
            result.add_equal(len(data))
            return result, b""
        if range_.id in self._mirrors:
            import numpy

            then = bytes(self._mirrors[range_.id][change.offset : change.offset + len(data)])
            was, now, want = (numpy.frombuffer(item, "u1") for item in (then, actual, data))
            left = (now == was) & (now != want)
            of_host = left
            if change.undecided is not None:
                undecided = spans_mask(change.undecided, len(data))
                # Where a mailbox was looked at, the host may have put back what the device had written.
                of_host = undecided & (now != want) & ((now == was) | (want == was))
                if silent := int(numpy.count_nonzero(left & ~undecided)):
                    name = describe(range_)
                    self.left_alone[name] = self.left_alone.get(name, 0) + silent
            if count := int(numpy.count_nonzero(of_host)):
                name = describe(range_)
                self.taken_for_host[name] = self.taken_for_host.get(name, 0) + count
            data = numpy.where(of_host, now, want).tobytes()
        result.add(0, data, actual)
        if data != actual:
            self.on_difference(label, range_.id, change.offset, captured, data, actual)
        return result, blake3(actual).digest(length=DIGEST_BYTES)

    def keep_whole(self, range_: Range) -> None:
        """The window writes more of a range than its captured outputs tell: load it again, and restore all of it from
        now on."""
        self.load(range_)
        self.copies.keep_whole(range_)

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
        moves = self._any_word_moves(range_.id)
        for offset, digest, size in pieces(range_.after):
            actual = self._live.read(range_, live + offset, size)
            actual_digest = (
                ZERO_DIGEST if actual == ZEROS[:size] else blake3(actual).digest(length=DIGEST_BYTES)
            )
            if actual_digest == digest:
                yield offset, None, actual, actual_digest
                continue
            expected = self._here(range_, offset, digest, size, moves)
            if expected != actual and not self.copies.is_copied(range_.id, offset):
                self.written_elsewhere.setdefault(range_.id, []).append(offset)
            if expected != actual:
                # Pointers that the window itself wrote stand in no census of what was there before.
                expected = self.following(expected, actual)
                expected, count = with_live_handles(expected, actual, self.handles_here)
                self.handle_words_of_outputs += count
            yield offset, expected, actual, actual_digest

    def _here(self, range_: Range, offset: int, digest: bytes, size: int, moves: bool) -> bytes:
        """A captured chunk of a range, with what is known of its words as it is in this process."""
        held = bytearray(read_chunk(self.reader, digest, size))
        if self.maps is not None and (places := self.map_places.get(range_.id)):
            self.maps.patch(held, offset, places)  # before their addresses, which stand inside, are patched
        words = self._words_in(range_.id, offset, size) if moves else ()
        return bytes(self._patched(held, offset, words, self.handle_words.get(range_.id, ())))

    def unlike_loaded(self, range_: Range, start: int) -> tuple[int, int, int] | None:
        """(offset, what was loaded, what is there) of the first byte from `start` on that is not as `load` left it."""
        if range_.before is None:
            return None
        live, moves = self.live(range_), self._any_word_moves(range_.id)
        for offset, digest, size in pieces(range_.before):
            if offset + size <= start:
                continue
            actual = self._live.read(range_, live + offset, size)
            loaded = self._here(range_, offset, digest, size, moves)
            for place in range(max(start - offset, 0), size) if actual != loaded else ():
                if actual[place] != loaded[place]:
                    return offset + place, loaded[place], actual[place]
        return None

    def following(self, expected: bytes, actual: bytes) -> bytes:
        """`expected` with the words that look like pointers to moved memory made to follow it where the actual ones
        did: the window itself wrote them, so no census has them."""
        guess, _ = self.addresses.patch_lookalikes(expected)
        followed, count = where_it_agrees(expected, guess, actual)
        self.guessed_words += count
        for captured in self.followed:
            live = self.addresses.find(captured)
            if live is not None:
                followed = where_it_stands(
                    followed, actual, captured.to_bytes(8, "little"), live.to_bytes(8, "little")
                )
        return followed

    def _words_in(self, range_id: int, offset: int, size_bytes: int) -> Sequence[Word]:
        """Those that begin in a stretch of a range."""
        if range_id not in self.words:
            return ()
        if range_id not in self._words_by_offset:
            self._words_by_offset[range_id] = sorted(self.words[range_id], key=_offset)
        words = self._words_by_offset[range_id]
        return words[
            bisect_left(words, offset, key=_offset) : bisect_left(words, offset + size_bytes, key=_offset)
        ]

    def _any_word_moves(self, range_id: int) -> bool:
        return any(
            self.addresses.find(word.target) not in (None, word.target)
            for word in self.words.get(range_id, ())
        )

    def _patched(
        self, data: bytes | bytearray, offset: int, words: Sequence[Word], handles: Iterable[HandleWord] = ()
    ) -> bytearray:
        changed = bytearray(data)
        patch(changed, offset, words, self.addresses)
        for handle in handles:
            at, live = handle.offset - offset, self.find_handle(handle.c_type, handle.captured)
            held = changed[at : at + 8] if at >= 0 else b""
            if live is not None and held == handle.captured.to_bytes(8, "little"):
                changed[at : at + 8] = live.to_bytes(8, "little")
        return changed
