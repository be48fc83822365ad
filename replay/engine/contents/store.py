"""What captured memory holds: loaded once, changed as the application's host changed it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from operator import attrgetter

from replay.api.structs import TENSOR_MAP_BYTES
from replay.engine.census import NOTHING, Site, Word
from replay.engine.contents.copies import Copies
from replay.engine.contents.live import LiveMemory
from replay.engine.contents.loading import Loader, Piece, Stretch
from replay.engine.driver import Driver
from replay.engine.placing.addresses import AddressMap
from replay.engine.program import Program
from replay.engine.translation.translation import Translation, by_place
from replay.inspection.pieces import loads, pieces, read_chunk
from replay.planning.spans import is_array, is_host
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Change, Range

WIDEST_FILL_BYTES = 256 << 20  # of zeros in one call, so that a long one shows progress

_offset = attrgetter("offset")


def at_start(program: Program, addresses: AddressMap) -> list[Range]:
    """Ranges that hold their contents when a run of the window begins."""
    return [
        range_
        for range_ in program.ranges.values()
        if range_.before is not None
        and range_.id not in program.late
        and addresses.find(range_.address) is not None
    ]


class ContentStore:
    """Moves contents between the snapshot, the live memory and the copies that restoring starts from. progress: called
    now and then with what is done.

    guessed_words: that were taken for pointers to moved memory. gone: ids of variables whose module this run of the
    window has unloaded. mirrors: what the application last saw in the ranges that are watched, by their id.
    """

    def __init__(
        self, driver: Driver, program: Program, translation: Translation, progress: Callable[[str], None]
    ) -> None:
        self.reader, self._ranges, self._progress = program.reader, program.ranges, progress
        self._translation, self._addresses = translation, translation.addresses
        self._sites = program.census.ranges
        self._live = LiveMemory(
            driver, translation.addresses, translation.handles.find, translation.contexts.inside
        )
        self.copies = Copies(driver, self._live, progress)
        self.guessed_words = 0
        self.gone: set[int] = set()
        self.mirrors: dict[int, bytearray] = {}
        self._watched: set[int] = set()
        self._words_by_offset: dict[int, list[Word]] = {}  # by range id
        self._pointed: dict[tuple[int, int], int] = {}  # what `point_to` wrote, by range id and offset
        self._loaded_bytes = self._to_load_bytes = 0

    def live(self, range_: Range) -> int:
        """Where a range lives now; of an array its captured address, from which offsets are counted."""
        return self._live.address(range_)

    def is_here(self, range_: Range) -> bool:
        """Whether a range has memory now."""
        return self._live.find(range_) is not None

    def read(self, range_: Range, offset: int, size_bytes: int) -> bytes:
        """What a range holds now."""
        return self._live.read(range_, self.live(range_) + offset, size_bytes)

    def load(self, *ranges: Range, start: int = 0) -> None:
        """Write the `before` contents of ranges, from the snapshot, from chunk border `start` on."""
        self._to_load_bytes += sum(
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
                self._loaded_bytes += size
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
        self._loaded_bytes += sum(stretch.size_bytes for stretch in stretches)
        for range_ in ranges:
            if range_.before is not None:
                self._patch_loaded(range_, start)
                self._mirror(range_)
        if any(range_.before is not None and not is_host(range_) for range_ in ranges):
            self._live.arrive()

    def _tell_loaded(self, more_bytes: int = 0) -> None:
        done = self._loaded_bytes + more_bytes
        self._progress(f"loading memory ({done >> 20} of {self._to_load_bytes >> 20} MiB)")

    def _write_chunk(self, stretch: Stretch, data: bytes | bytearray | Piece) -> None:
        range_, offset = stretch.range_, stretch.offset
        if words := self._words_in(range_.id, offset, stretch.size_bytes):
            data = bytearray(bytes(data))
            self._translation.patch(data, Site(words), offset)
        self._live.write(range_, self.live(range_) + offset, data)

    def _patch_loaded(self, range_: Range, start: int) -> None:
        """What is no matter of one chunk, and what only the thread that knows the context can find."""
        site = self._sites.get(range_.id, NOTHING)
        # A pointer may lie across the border of two chunks.
        across = (
            word
            for word in site.words
            if word.high_offset is None
            and word.offset >= start
            and word.offset % CHUNK_BYTES > CHUNK_BYTES - 8
        )
        self._patch_in_place(range_, ((word.offset, 8, Site([word])) for word in across))
        self._patch_in_place(range_, ((one.offset, TENSOR_MAP_BYTES, Site(maps=[one])) for one in site.maps))
        handles = by_place(site.handles).items()
        self._patch_in_place(range_, ((offset, 8, Site(handles=words)) for offset, words in handles))

    def _patch_in_place(self, range_: Range, items: Iterable[tuple[int, int, Site]]) -> None:
        for offset, size_bytes, site in items:
            held = self.read(range_, offset, size_bytes)
            patched = bytearray(held)
            self._translation.patch(patched, site, offset)
            if patched != held:
                self._live.write(range_, self.live(range_) + offset, patched)

    def point_to(self, variable: Range) -> None:
        """A variable has just appeared: let the words that point to it point there.

        A word is changed only where it still holds the captured address, or what an earlier iteration put there.
        Variables of modules that have not appeared themselves get theirs when they are loaded.
        """
        for range_id, site in self._sites.items():
            for word in site.words if range_id not in self.gone else ():
                if not variable.address <= word.target < variable.address + variable.size_bytes:
                    continue
                range_, live = self._ranges[range_id], self._addresses.find(word.target)
                if not self.is_here(range_):
                    continue
                place = self.live(range_) + word.offset
                held = int.from_bytes(self._live.read(range_, place, 8), "little")
                if live is not None and held in (word.target, self._pointed.get((range_id, word.offset))):
                    self._live.write(range_, place, live.to_bytes(8, "little"))
                    self._pointed[range_id, word.offset] = live
                    self._live.arrive()

    def watch(self, range_ids: Iterable[int]) -> None:
        """Remember what these ranges hold, for `compare_seen`; nothing is remembered any more of others."""
        self.mirrors.clear()
        self._watched = set(range_ids)
        for range_id in self._watched:
            self._mirror(self._ranges[range_id])

    def _mirror(self, range_: Range) -> None:
        if range_.id in self._watched and range_.before is not None:
            live = self._live.find(range_)
            if live is not None:
                held = (self._live.read(range_, live + at, size) for at, _, size in pieces(range_.before))
                self.mirrors[range_.id] = bytearray(b"".join(held))

    def change(self, change: Change, data: bytes) -> None:
        """Write what the host wrote, as the application would see it now."""
        range_ = self._ranges[change.range]
        if not self.is_here(range_):
            return  # a variable that nothing has loaded yet
        patched, guessed = self._translation.guess(data)
        self.guessed_words += guessed
        self._live.write(range_, self.live(range_) + change.offset, patched)
        self._live.arrive()
        if range_.id in self.mirrors:
            self.mirrors[range_.id][change.offset : change.offset + len(data)] = patched

    def keep_whole(self, range_: Range) -> None:
        """The window writes more of a range than its captured outputs tell: load it again, and restore all of it from
        now on."""
        self.load(range_)
        self.copies.keep_whole(range_)

    def write(self, range_: Range, offset: int, data: bytes) -> None:
        """Put bytes into a range. They are there after `arrive`."""
        self._live.write(range_, self.live(range_) + offset, data)

    def arrive(self) -> None:
        """Wait until all that was written is there."""
        self._live.arrive()

    def as_here(
        self, range_: Range, offset: int, digest: bytes, size_bytes: int, reader: SnapshotReader | None = None
    ) -> bytes:
        """A captured chunk of a range, with what is known of its words as it is in this process. reader: of the
        snapshot that has the chunk, where it is another one."""
        data = bytearray(read_chunk(reader or self.reader, digest, size_bytes))
        site = self._sites.get(range_.id)
        if site is not None:
            words = self._words_in(range_.id, offset, size_bytes)
            self._translation.patch(data, Site(words, site.handles, site.maps), offset)
        return bytes(data)

    def unlike_loaded(self, range_: Range, start: int) -> tuple[int, int, int] | None:
        """(offset, what was loaded, what is there) of the first byte from `start` on that is not as `load` left it."""
        if range_.before is None:
            return None
        for offset, digest, size in pieces(range_.before):
            if offset + size <= start:
                continue
            actual = self.read(range_, offset, size)
            loaded = self.as_here(range_, offset, digest, size)
            for place in range(max(start - offset, 0), size) if actual != loaded else ():
                if actual[place] != loaded[place]:
                    return offset + place, loaded[place], actual[place]
        return None

    def _words_in(self, range_id: int, offset: int, size_bytes: int) -> list[Word]:
        """Those that begin in a stretch of a range."""
        if range_id not in self._sites:
            return []
        if range_id not in self._words_by_offset:
            self._words_by_offset[range_id] = sorted(self._sites[range_id].words, key=_offset)
        words = self._words_by_offset[range_id]
        return words[
            bisect_left(words, offset, key=_offset) : bisect_left(words, offset + size_bytes, key=_offset)
        ]
