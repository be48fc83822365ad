"""Copies of what the window writes, from which every iteration starts again.

Only what the window writes is restored, from copies on the device: the chunks whose captured contents before and after
the window differ, or the whole range where that is not known. The first comparison covers every byte that was captured
afterwards, so a write that this rule missed is seen.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from blake3 import blake3

from replay.engine.contents.live import WIDEST_VIEW_BYTES, LiveMemory
from replay.engine.contents.reading import describe, written_stretches
from replay.engine.driver import Driver, DriverFailure, call, query
from replay.engine.placing.memory import is_array, is_host
from replay.errors import EngineError
from replay.snapshot.schema import CHUNK_BYTES, DIGEST_BYTES, Range


@dataclass(frozen=True)
class Segment:
    """A stretch of a range that the window writes, and the live address of its copy: on the device for memory of the
    device, on the host for that of the host."""

    range_id: int
    offset: int
    size_bytes: int
    copy: int


class Copies:
    """Copies aside of stretches of ranges, made once. progress: called now and then with what is done."""

    def __init__(
        self,
        driver: Driver,
        live: LiveMemory,
        ranges: Mapping[int, Range],
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._driver = driver
        self._live = live
        self._ranges = ranges
        self._progress = progress
        self._segments: dict[int, list[Segment]] = {}
        self._host_copies: list[ctypes.Array[ctypes.c_char]] = []
        self.loaded_digests: dict[tuple[int, int], bytes] = {}  # by (range id, offset)

    def keep(self, ranges: Iterable[Range], whole: set[int]) -> None:
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
                device_copy = query(self._driver, "cuMemAlloc_v2", device_bytes)
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
            live = self._live.address(range_) + offset
            if is_array(range_):
                self._live.arrays.copy_aside(range_, offset, size, copy)
            elif is_host(range_):
                ctypes.memmove(copy, live, size)
            else:
                call(self._driver, "cuMemcpyDtoD_v2", copy, live, size)
        if device_bytes:
            self._live.arrive()

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
            if is_array(range_):
                self._live.arrays.bring_back(range_, segment.offset, segment.size_bytes, segment.copy)
            elif is_host(range_):
                ctypes.memmove(live + segment.offset, segment.copy, segment.size_bytes)
            else:
                code = self._driver.function("cuMemcpyDtoDAsync_v2")(
                    live + segment.offset, segment.copy, segment.size_bytes, 0
                )
                if code:
                    raise DriverFailure("cuMemcpyDtoDAsync_v2", code, self._driver.error_name(code))

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
        """What one `restore` of everything moves."""
        return sum(segment.size_bytes for segments in self._segments.values() for segment in segments)


def _aligned(size: int) -> int:
    return -(-size // 256) * 256
