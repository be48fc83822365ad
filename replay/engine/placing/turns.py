"""Memory that takes turns at captured addresses: pages of the host that are pinned for a time, and the device's.

A stay (`stays.py`) whose captured addresses can be had is pinned there when it appears, and what the device has there
is taken away until memory of the device appears again. Nothing is done when memory ends: its addresses stay as they
are until the next one needs them. A stay that is elsewhere is there all the time. Which address means which memory,
`AddressMap` is told in both cases. Not yet seen on a GPU (GT-ADDRESS-AGAIN): whether a driver gives addresses back
that have just been free.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable

from replay.engine.driver import Driver
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.mappings import Backing, Home
from replay.engine.placing.pieces import (
    Part,
    Placed,
    back_with_memory,
    hold_addresses,
    pin,
    release_addresses,
    reserve,
    unpin,
)
from replay.errors import EngineError
from replay.planning.families import BEFORE_THE_WINDOW, GRANULE_BYTES
from replay.planning.spans import REGISTER_READ_ONLY, Span, home_address
from replay.planning.stays import Stays
from replay.snapshot.schema import Range

AGAIN = "replay again; what takes it is a part of the replaying process"


class Turns:
    """Who is there now. home_of: where memory of a span goes."""

    def __init__(
        self,
        driver: Driver,
        stays: Stays,
        placed: Iterable[Placed],
        addresses: AddressMap,
        home_of: Callable[[Span], Home],
        backing: Backing,
    ) -> None:
        self._driver, self._addresses, self._backing = driver, addresses, backing
        self._home_of, self._stays = home_of, stays
        placed = list(placed)
        self._placed = {item.span.stay: item for item in placed if item.span.stay}
        for number, stay in stays.by_number.items():
            if number not in self._placed or self._placed[number].span.address != stay.address:
                raise EngineError("the ranges of the snapshot have changed since they were planned")
        # Of the device, at their captured addresses
        self._parts: dict[Part, Span] = {
            part: item.span for item in placed for part in item.parts if part.turns
        }
        self._absent: set[Part] = set()
        self._here: set[int] = set()  # numbers of stays that are pinned at their captured addresses

        self._starts = sorted(part.address for part in self._parts)
        self._by_start = {part.address: part for part in self._parts}

    def expect(self, ranges: Iterable[Range]) -> None:
        """Tell the address map of all stays, and let those appear that are there when the window opens."""
        ranges = [item for item in ranges if item.id in self._stays.of]
        for range_ in ranges:
            self._addresses.expect_pinned(range_.id, home_address(range_))
            if self._placed[self._stays.of[range_.id]].span.apart:
                self._addresses.mark_reused(home_address(range_), range_.size_bytes)
        self.begin()
        for range_ in ranges:
            if range_.born_call is None:
                self.appear(range_)

    @property
    def now(self) -> tuple[set[int], set[Part]]:
        """The numbers of the stays that have their addresses, and the parts of the device that are not there."""
        return set(self._here), set(self._absent)

    @property
    def any(self) -> bool:
        """Whether there are stays."""
        return bool(self._stays.by_number)

    def concerns(self, range_: Range) -> bool:
        """Whether memory takes turns with other memory."""
        return range_.id in self._stays.of or range_.id in self._stays.beside

    def placed(self, range_: Range) -> Placed | None:
        """What holds the memory of a stay when it is there; None for other memory."""
        return self._placed.get(self._stays.of.get(range_.id, 0))

    def live(self, range_: Range) -> int | None:
        """Where memory that takes turns is when it is there; None for all other."""
        home = home_address(range_)
        if (placed := self.placed(range_)) is not None:
            return placed.live_address + home - placed.span.address
        return self._addresses.find_placed(home) if range_.id in self._stays.beside else None

    def appear(self, range_: Range) -> None:
        """Memory appears. Nothing may be under way on the device."""
        number = self._stays.of.get(range_.id)
        if number is None:
            if range_.id in self._stays.beside and (live := self.live(range_)) is not None:
                start = live // GRANULE_BYTES * GRANULE_BYTES
                self._give_to_device(start, live + max(range_.size_bytes, 1))
            return
        if not self._placed[number].span.apart:
            self._give_to_host(number)
        self.follow(range_)
        if range_.host_address:
            live = self.live(range_)
            pointer = self._driver.cuMemHostGetDevicePointer_v2(live, 0)
            self._addresses.bind(range_.address, range_.size_bytes, pointer)

    def follow(self, range_: Range) -> None:
        """Tell the address map that memory appears, and no more."""
        placed, live = self.placed(range_), self.live(range_)
        if placed is None or live is None:
            self._addresses.forget(range_.address, range_.size_bytes)
            return
        read_only = bool(placed.span.register_flags & REGISTER_READ_ONLY)
        self._addresses.enter(range_.id, max(range_.size_bytes, 1), live, read_only)
        if range_.host_address:
            self._addresses.forget(range_.address, range_.size_bytes)
            self._addresses.expect(range_.address, range_.size_bytes)

    def leave(self, range_: Range) -> None:
        """The memory of a stay ends."""
        if range_.id in self._stays.of and self._addresses.is_here(range_.id):
            self._addresses.forget(home_address(range_), range_.size_bytes)
            if range_.host_address:
                self._addresses.forget(range_.address, range_.size_bytes)

    def begin(self, synchronize: Callable[[], None] = lambda: None) -> None:
        """The window starts from here, again. What the address map knows is not changed. synchronize: waits until
        nothing is under way on the device."""
        wanted = {
            number
            for number, stay in self._stays.by_number.items()
            if stay.born == BEFORE_THE_WINDOW and not stay.apart
        }
        ended = self._here - wanted
        coming = wanted - self._here
        absent = set().union(*(self._parts_in(*self._pages(number)) for number in wanted))
        if ended or coming or self._absent != absent:
            synchronize()
        for number in ended:
            self._end(number)
        for part in self._absent - absent:
            self._bring_back(part)
        for number in coming:
            self._give_to_host(number)

    def _pages(self, number: int) -> tuple[int, int]:
        placed = self._placed[number]
        return placed.live_address, placed.live_address + placed.span.size_bytes

    def _parts_in(self, start: int, end: int) -> list[Part]:
        first = max(bisect_right(self._starts, start) - 1, 0)
        found = (self._by_start[at] for at in self._starts[first : bisect_left(self._starts, end)])
        return [part for part in found if part.address + part.size_bytes > start]

    def _give_to_host(self, number: int) -> None:
        if number in self._here:
            return
        start, end = self._pages(number)
        for part in self._parts_in(start, end):
            if part not in self._absent:
                self.unmap(part)
                self._absent.add(part)
        self._end_in(start, end)
        self.pin(number)
        self._here.add(number)

    def _give_to_device(self, start: int, end: int) -> None:
        for part in self._parts_in(start, end):
            if part in self._absent:
                self._end_in(part.address, part.address + part.size_bytes)
                self._bring_back(part)

    def _end_in(self, start: int, end: int) -> None:
        """Of stays: all that may be there is memory that has ended."""
        for number in list(self._here):
            address, past = self._pages(number)
            if address < end and start < past:
                self._end(number)

    def _end(self, number: int) -> None:
        self.unpin(number)
        self._here.discard(number)

    def _bring_back(self, part: Part) -> None:
        self._absent.discard(part)
        self.map(part)

    # -- what is done; an exported program notes it down instead --------------------------------------------------

    def pin(self, number: int) -> None:
        """Put a stay at its addresses, which are held."""
        placed = self._placed[number]
        if reason := pin(self._driver, placed.span, placed.live_address):
            size, address = placed.span.size_bytes, placed.live_address
            raise EngineError(f"{size} bytes of pinned memory cannot be placed at {address:#x}: {reason}")

    def unpin(self, number: int) -> None:
        """Undo it."""
        unpin(self._driver, self._placed[number].span, self._placed[number].live_address)

    def unmap(self, part: Part) -> None:
        """Take memory of the device away, and hold its addresses."""
        if self._backing.is_place(part.address):
            self._backing.leave(part.address)
        else:
            self._driver.cuMemUnmap(part.address, part.size_bytes)
        self._driver.cuMemAddressFree(part.address, part.size_bytes)
        if reason := hold_addresses(part.address, part.size_bytes):
            raise EngineError(
                f"{part.address:#x} was lost when other memory's turn came: {reason}", next=AGAIN
            )

    def map(self, part: Part) -> None:
        """Undo it."""
        release_addresses(part.address, part.size_bytes)
        if reason := reserve(self._driver, part.address, part.size_bytes):
            raise EngineError(
                f"{part.address:#x} was lost when other memory's turn came: {reason}", next=AGAIN
            )
        if self._backing.is_place(part.address):
            self._backing.come_back(part.address)
            return
        span = self._parts[part]
        home = self._home_of(span)
        back_with_memory(self._driver, span, part.address, part.size_bytes, home, self._backing)
