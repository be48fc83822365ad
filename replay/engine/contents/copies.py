"""Copies of what the window writes, from which every iteration starts again.

Only what the window writes is restored: the chunks whose captured contents before and after the window differ, or the
whole range where that is not known. The first comparison covers every byte that was captured afterwards, so a write
that this rule missed is seen. What held zeros needs no copy. Copies of memory of the device are there, too, as far as
it has room, else on the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable

from blake3 import blake3

from replay.engine.contents.live import WIDEST_VIEW_BYTES, LiveMemory
from replay.engine.driver import Driver, DriverFailure
from replay.errors import EngineError
from replay.inspection.pieces import apart_from_zeros, describe, written_stretches
from replay.planning.spans import is_array, is_host
from replay.records import dataclass
from replay.snapshot.schema import CHUNK_BYTES, DIGEST_BYTES, Range

# What is left free on a device for what the driver and the timing need: local memory of kernels, the flush
RESERVE_BYTES = 256 << 20
RESERVE_SHARE = 16  # of all the memory of a small device, one part in so many

_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


@dataclass(frozen=True)
class Segment:
    """A stretch of a range that the window writes, and the live address of its copy, on the device or on the host; 0
    where the stretch holds zeros."""

    range_id: int
    offset: int
    size_bytes: int
    copy: int = 0
    on_host: bool = False


class Copies:
    """Copies aside of stretches of ranges, made once. progress: called now and then with what is done."""

    def __init__(
        self, driver: Driver, live: LiveMemory, progress: Callable[[str], None] = lambda text: None
    ) -> None:
        self._driver = driver
        self._live = live
        self._progress = progress
        self._ranges: dict[int, Range] = {}
        self._segments: dict[int, list[Segment]] = {}
        self._host_copies: list[ctypes.Array[ctypes.c_char]] = []
        self.loaded_digests: dict[tuple[int, int], bytes] = {}  # by (range id, offset)

    def keep(self, ranges: Iterable[Range], whole: Collection[int]) -> None:
        """Copy what the window writes in these ranges aside, so that `restore` can bring it back.

        whole: ids of ranges that are restored completely, since the window puts other memory into their place.
        Raises EngineError when there is no room for the copies, on the device or on the host.
        """
        wanted: dict[int, list[Segment]] = {}
        for range_ in ranges:
            if range_.id not in self._segments:
                self._ranges[range_.id] = range_
                self._segments[range_.id] = []
                stretches = _all_of(range_) if range_.id in whole else written_stretches(range_)
                wanted[range_.id] = list(_segments(range_, stretches))
        of_device = {number: items for number, items in wanted.items() if not is_host(self._ranges[number])}
        of_host = {number: items for number, items in wanted.items() if number not in of_device}
        there = self._on_device(of_device)
        if there is not None:
            self._place(of_device, there)
        else:
            # The largest that fit stay on the device: restoring from the host takes longest for them.
            for number in sorted(of_device, key=lambda one: -_size_of(of_device[one])):
                alone = {number: of_device[number]}
                there = self._on_device(alone)
                self._place(alone, self._on_host(alone) if there is None else there, there is None)
        self._place(of_host, self._on_host(of_host), True)
        if of_device:
            self._live.arrive()

    def _on_device(self, wanted: dict[int, list[Segment]]) -> int | None:
        """The address of so much memory of the device; None where it has no room for it, 0 where none is wanted."""
        size = sum(map(_size_of, wanted.values()))
        if not size:
            return 0
        free, total = self._driver.cuMemGetInfo_v2()
        if size + min(RESERVE_BYTES, total // RESERVE_SHARE) > free:
            return None
        try:
            return int(self._driver.cuMemAlloc_v2(size))
        except DriverFailure as failure:
            if failure.code != _OUT_OF_MEMORY:
                raise
            return None

    def _on_host(self, wanted: dict[int, list[Segment]]) -> int:
        size = sum(map(_size_of, wanted.values()))
        if not size:
            return 0
        try:
            self._host_copies.append(ctypes.create_string_buffer(size))
        except MemoryError:
            raise EngineError(
                f"{size:,} bytes for restoring what the window writes cannot be allocated on the device or host",
                next="replay on a machine with more memory, or with --no-timing",
            ) from None
        return ctypes.addressof(self._host_copies[-1])

    def _place(self, wanted: dict[int, list[Segment]], place: int, on_host: bool = False) -> None:
        """Make the copies, one after another from `place` on."""
        for number, segments in wanted.items():
            range_ = self._ranges[number]
            live = self._live.address(range_)
            for segment in segments:
                if segment.copy:
                    segment = Segment(number, segment.offset, segment.size_bytes, place, on_host)
                    self._copy(range_, live, segment)
                    place += _aligned(segment.size_bytes)
                self._segments[number].append(segment)

    def _copy(self, range_: Range, live: int, segment: Segment) -> None:
        if is_host(range_):
            ctypes.memmove(segment.copy, live + segment.offset, segment.size_bytes)
        elif is_array(range_) and segment.on_host:
            self._live.arrays.read(range_, segment.offset, segment.size_bytes, segment.copy)
        elif is_array(range_):
            self._live.arrays.copy_aside(range_, segment.offset, segment.size_bytes, segment.copy)
        else:
            driver = self._driver
            copy = driver.cuMemcpyDtoH_v2 if segment.on_host else driver.cuMemcpyDtoD_v2
            copy(segment.copy, live + segment.offset, segment.size_bytes)

    def keep_whole(self, range_: Range) -> None:
        """Restore all of a range from now on, as it is now."""
        del self._segments[range_.id]
        self.keep([range_], {range_.id})
        if self.loaded_digests:
            self.loaded_digests = {
                place: digest for place, digest in self.loaded_digests.items() if place[0] != range_.id
            } | self._digests(range_)

    def remember_loaded(self) -> None:
        """Take digests of what `restore` brings back, which has just been loaded, into `loaded_digests`."""
        self.loaded_digests = self.written_digests()

    def restore(self, range_: Range) -> None:
        """Bring a range back to its `before` contents. Enqueued on the default stream; the caller synchronises."""
        live = self._live.address(range_)
        for segment in self._segments.get(range_.id, ()):
            place, size = live + segment.offset, segment.size_bytes
            if is_host(range_):
                ctypes.memmove(place, segment.copy, size) if segment.copy else ctypes.memset(place, 0, size)
            elif is_array(range_) and segment.on_host:
                self._live.arrays.write(range_, segment.offset, size, segment.copy)
            elif is_array(range_):
                self._live.arrays.bring_back(range_, segment.offset, size, segment.copy)
            elif not segment.copy:
                self._driver.cuMemsetD8Async(place, 0, size, 0)
            elif segment.on_host:
                self._driver.cuMemcpyHtoDAsync_v2(place, segment.copy, size, 0)
            else:
                self._driver.cuMemcpyDtoDAsync_v2(place, segment.copy, size, 0)

    def range(self, range_id: int) -> Range:
        """One of those that were given to `keep`."""
        return self._ranges[range_id]

    def is_copied(self, range_id: int, offset: int) -> bool:
        """Whether `restore` brings the byte at `offset` back."""
        return any(
            segment.offset <= offset < segment.offset + segment.size_bytes
            for segment in self._segments.get(range_id, ())
        )

    def is_restored(self, range_: Range) -> bool:
        """Whether `restore` brings any part of the range back."""
        return bool(self._segments.get(range_.id))

    def written_digests(self, without: Collection[int] = ()) -> dict[tuple[int, int], bytes]:
        """What the memory that `restore` brings back holds now: digests by (range id, offset). The device is idle.

        without: ids of ranges to leave out, such as those whose addresses are another range's now.
        """
        digests: dict[tuple[int, int], bytes] = {}
        for range_id in self._segments.keys() - set(without):
            digests |= self._digests(self._ranges[range_id])
        return digests

    def _digests(self, range_: Range) -> dict[tuple[int, int], bytes]:
        digests = {}
        step = CHUNK_BYTES if is_array(range_) else WIDEST_VIEW_BYTES
        for segment in self._segments[range_.id]:
            self._progress(f"reading {describe(range_)}")
            for offset in range(segment.offset, segment.offset + segment.size_bytes, step):
                size = min(step, segment.offset + segment.size_bytes - offset)
                data = self._live.view(range_, self._live.address(range_) + offset, size)
                digests[range_.id, offset] = blake3(data, max_threads=blake3.AUTO).digest(length=DIGEST_BYTES)
        return digests

    @property
    def copied_bytes(self) -> int:
        """What one `restore` of everything brings back."""
        return sum(segment.size_bytes for segments in self._segments.values() for segment in segments)

    @property
    def on_host_bytes(self) -> int:
        """How much of that is memory of the device whose copy is on the host, since the device has no room for it."""
        return sum(
            segment.size_bytes
            for range_id, segments in self._segments.items()
            if not is_host(self._ranges[range_id])
            for segment in segments
            if segment.on_host
        )


def _all_of(range_: Range) -> list[tuple[int, int]]:
    size = range_.before.size_bytes if range_.before is not None else range_.size_bytes
    return [(0, size)] if size else []


def _segments(range_: Range, stretches: Iterable[tuple[int, int]]) -> Iterable[Segment]:
    """With 1 for the place of each copy that is still to be made."""
    for offset, size, is_zero in apart_from_zeros(range_, stretches):
        yield Segment(range_.id, offset, size, 0 if is_zero else 1)


def _size_of(segments: Iterable[Segment]) -> int:
    """Of their copies."""
    return sum(_aligned(segment.size_bytes) for segment in segments if segment.copy)


def _aligned(size: int) -> int:
    return -(-size // 256) * 256
