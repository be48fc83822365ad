"""Captured addresses and the live ones that stand for them.

`AddressMap.access` is the one place that answers whether all that a call touches is memory of the replay. A snapshot
comes from a stranger: every address with an extent goes through it before the driver, or this process, follows it.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from replay.api.extents import Extent
from replay.engine.placing.pieces import Placed
from replay.errors import EngineError
from replay.planning.spans import HIGHEST_ADDRESS, PAGE_BYTES, REGISTER_READ_ONLY, home_address, is_host
from replay.snapshot.schema import Range

_WORTH_AN_INDEX = 32  # searches without a change


class _ByAddress:
    """Finds memory of a size by an address in it. Some may overlap: the first one in the map wins."""

    def __init__(self, memory: Mapping[int, tuple[int, int | None]]) -> None:
        self._ordered = sorted(
            (start, start + size, order) for order, (start, (size, _)) in enumerate(memory.items())
        )
        self._starts = [start for start, _, _ in self._ordered]
        self._reach = list(accumulate((end for _, end, _ in self._ordered), max))  # of all up to each

    def holder(self, address: int, inside: int) -> int | None:
        """The start of what holds an address. inside: 1 when its end is not part of it, 0 when it is."""
        found: tuple[int, int] | None = None
        at = bisect.bisect_right(self._starts, address) - 1
        while at >= 0 and address + inside <= self._reach[at]:
            start, end, order = self._ordered[at]
            if address + inside <= end and (found is None or order < found[0]):
                found = (order, start)
            at -= 1
        return None if found is None else found[1]


class State(NamedTuple):
    """What an AddressMap had bound and expected. loose: captured address -> size, live address; arrays: those there;
    pinned: which of the loose ones are pinned memory."""

    loose: dict[int, tuple[int, int | None]]
    arrays: frozenset[int]
    pinned: dict[int, _Pinned]


class _Pinned(NamedTuple):
    range_id: int
    read_only: bool


class AddressMap:
    """Captured device or host address -> live address."""

    def __init__(self, placed: Iterable[Placed] = ()) -> None:
        in_order = sorted(placed, key=lambda item: item.span.address)
        self._placed = [item for item in in_order if not item.span.stay]
        self._turning = _merged(item for item in in_order if item.span.stay and not item.span.apart)
        self._starts = [item.span.address for item in self._placed]
        self._of_host = [item for item in self._placed if item.span.host]
        self._managed = [item for item in in_order if item.managed]
        self._loose: dict[int, tuple[int, int | None]] = {}  # captured address -> size, live address
        self._by_address: _ByAddress | None = None  # of `_loose`; None where that has just changed
        self._searches = 0  # since it changed
        self._reused: list[tuple[int, int]] = []  # start, end
        self._arrays: set[int] = set()  # captured addresses of arrays that are there
        self._pinned: dict[int, _Pinned] = {}  # by captured address, which is in `_loose`
        self._temporary: dict[int, int] = {}  # range id -> captured address

    def expect(self, captured: int, size_bytes: int) -> None:
        """Memory that is in no span and whose place is not known yet: a variable of a module.

        It may have been captured at an address inside a span, which does not make it part of that.
        """
        self._loose[captured] = (size_bytes, None)
        self._changed()

    def bind(self, captured: int, size_bytes: int, live: int) -> None:
        """Memory that is in no span: a variable of a loaded module, or pinned memory as the device sees it."""
        self._loose[captured] = (size_bytes, live)
        self._changed()

    def bind_array(self, captured: int) -> None:
        """A CUDA array was made. Its address is the capture's own invention, from which offsets in its contents are
        counted: `find` gives it back, and nothing can be accessed there. Raises EngineError when memory is there."""
        if self.find(captured) is not None and captured not in self._arrays:
            raise EngineError(f"an array has the address {captured:#x}, which belongs to other memory")
        self._arrays.add(captured)

    def forget(self, captured: int, size_bytes: int) -> None:
        """Undo `expect` and `bind` of what overlaps these addresses: other memory is there from now on."""
        end = captured + size_bytes
        for start in [s for s, (size, _) in self._loose.items() if s < end and captured < s + size]:
            del self._loose[start]
            self._pinned.pop(start, None)
        self._changed()

    def expect_pinned(self, range_id: int, captured: int) -> None:
        """Pinned memory that is there only between `enter` and `leave`: at other times, other memory may be."""
        self._temporary[range_id] = captured

    def enter(self, range_id: int, size_bytes: int, live: int, read_only: bool) -> None:
        """It is there from now on, instead of all that was there."""
        captured = self._temporary[range_id]
        self.forget(captured, size_bytes)
        self.bind(captured, size_bytes, live)
        self._pinned[captured] = _Pinned(range_id, read_only)

    def is_here(self, range_id: int) -> bool:
        """False for pinned memory that is not there now."""
        captured = self._temporary.get(range_id)
        return captured is None or (captured in self._pinned and self._pinned[captured].range_id == range_id)

    def mark_reused(self, captured: int, size_bytes: int) -> None:
        """In the course of the window these addresses are now a variable of a module, now other memory."""
        self._reused.append((captured, captured + size_bytes))

    def may_change(self, captured: int) -> bool:
        """Whether what an address means has to be looked up when it is used."""
        return any(start <= captured <= end for start, end in self._reused)

    def is_late(self, captured: int) -> bool:
        """Whether it is memory that has an address only when it is used: a variable of a module that the window itself
        loads, or what takes turns with one."""
        return self.may_change(captured) or any(
            live is None and start <= captured < start + size for start, (size, live) in self._loose.items()
        )

    def is_bound(self, captured: int) -> bool:
        """Whether `bind` was called for this captured address."""
        return self._loose.get(captured, (0, None))[1] is not None

    def state(self) -> State:
        """What is expected and bound now, for `return_to`."""
        return State(dict(self._loose), frozenset(self._arrays), dict(self._pinned))

    def return_to(self, state: State) -> None:
        """Undo every `expect` and `bind` since `state` was taken."""
        self._loose, self._arrays = dict(state.loose), set(state.arrays)
        self._pinned = dict(state.pinned)
        self._changed()

    def moved(self) -> list[tuple[int, int, int]]:
        """(captured start, captured end, live start) of all memory that is elsewhere; variables of modules first, since
        one may have been captured at an address inside a span."""
        loose = ((s, s + size, live) for s, (size, live) in self._loose.items() if live is not None)
        placed = ((item.span.address, item.span.end, item.live_address) for item in self._placed)
        return [item for item in (*loose, *placed, *self._turning) if item[2] != item[0]]

    def unplaced(self) -> list[tuple[int, int]]:
        """(captured start, bytes) of memory whose place is not known yet."""
        return [(start, size) for start, (size, live) in self._loose.items() if live is None]

    def find(self, captured: int) -> int | None:
        """The live address; None for an address that belongs to no captured range."""
        if captured == 0:
            return 0
        if (start := self._holder(captured, 1)) is not None:
            return self._in_loose(captured, start)
        # The end of a span belongs to it: programs form pointers just past their last element.
        if (placed := self.find_placed(captured)) is not None:
            return placed
        if (start := self._holder(captured, 0)) is not None:
            return self._in_loose(captured, start)
        # Of what is pinned for a time, pointers are the same before and after.
        at = bisect.bisect_right(self._turning, (captured, HIGHEST_ADDRESS, 0)) - 1
        if at >= 0 and captured <= self._turning[at][1]:
            return self._turning[at][2] + captured - self._turning[at][0]
        return captured if captured in self._arrays else None

    def find_all(self, captured: Any) -> tuple[Any, Any]:
        """As `find`, of numpy words: the live addresses, and which of them are known and mean the same at all times."""
        import numpy

        words, places = numpy.unique(captured, return_inverse=True)
        live, known = words.copy(), numpy.zeros(len(words), bool)
        starts = numpy.array(self._starts, "<u8")
        at = numpy.searchsorted(starts, words, "right") - 1
        if len(starts):
            ends = numpy.array([item.span.end for item in self._placed], "<u8")
            moved = [(item.live_address - item.span.address) % 2**64 for item in self._placed]
            known = (at >= 0) & (words <= ends[at]) & ~self._beside_spans(words) & (words != 0)
            live += numpy.where(known, numpy.array(moved, "<u8")[at], numpy.uint64(0))
        for place in numpy.flatnonzero(~known).tolist():  # one by one what may be elsewhere than in a span
            word = int(words[place])
            found = None if self.may_change(word) else self.find(word)
            if found is not None:
                live[place], known[place] = found, True
        return live[places], known[places]

    def _beside_spans(self, words: Any) -> Any:
        """Which words may be in memory that is in no span, or that takes turns with other memory."""
        import numpy

        loose = [(start, start + size) for start, (size, _) in self._loose.items()]
        ordered = sorted([*loose, *self._reused])
        if not ordered:
            return numpy.zeros(len(words), bool)
        at = numpy.searchsorted(numpy.array([start for start, _ in ordered], "<u8"), words, "right") - 1
        reach = numpy.array(list(accumulate((end for _, end in ordered), max)), "<u8")
        return (at >= 0) & (words <= reach[at])

    def _in_loose(self, captured: int, start: int) -> int | None:
        live = self._loose[start][1]
        return None if live is None else live + captured - start

    def find_placed(self, captured: int) -> int | None:
        """The live address in memory that is there all the time, or whenever no other memory is."""
        at = bisect.bisect_right(self._starts, captured) - 1
        if at >= 0 and captured <= self._placed[at].span.end:
            return self._placed[at].live_address + captured - self._placed[at].span.address
        return None

    def reach(self, captured: int, size_bytes: int, write: bool = False) -> int | None:
        """The live address of `captured`, if all bytes from there on are in one placed stretch; None if not.

        The end of a stretch is no part of it here, unlike for `find`. An access of 0 bytes touches nothing. write:
        memory that was registered for reading alone is refused.
        """
        if captured < 0 or size_bytes < 0:
            return None
        if size_bytes == 0:
            return self.find(captured)
        end = captured + size_bytes
        if (start := self._holder(captured, 1)) is not None:
            refused = write and start in self._pinned and self._pinned[start].read_only
            if end <= start + self._loose[start][0] and not refused:
                return self._in_loose(captured, start)
            if start in self._pinned:
                return None
        at = bisect.bisect_right(self._starts, captured) - 1
        if at < 0 or captured >= self._placed[at].end:
            return None
        first = here = self._placed[at]
        while not (write and here.span.register_flags & REGISTER_READ_ONLY):
            if end <= here.end:
                return first.live_address + captured - first.span.address
            at += 1
            if at == len(self._placed) or not _continues(here, self._placed[at]):
                return None
            here = self._placed[at]
        return None

    def access(self, captured: int, extent: Extent, where: object, argument: str, write: bool = False) -> int:
        """The live address for a pointer from which a call reads, or writes, the bytes of `extent`.

        argument: of the call, for the message. Raises EngineError when these bytes are not all in one placed stretch.
        """
        offset, size_bytes = extent
        if size_bytes == 0:
            return self.live(captured, where, argument)
        first = captured + offset
        live = self.reach(first, size_bytes, write)
        if live is not None:
            return (live - offset) % 2**64
        if self.reach(first, 1) is None:
            raise _unknown(first, where, argument, beside=offset != 0 and self.reach(captured, 1) is not None)
        read_only = write and self.reach(first, size_bytes) is not None
        raise EngineError(
            f"{'writes' if write else 'reads'} {size_bytes} bytes at {first:#x} ({argument}), "
            f"{'which is memory for reading alone' if read_only else 'more than the captured memory there has'}",
            where=where,
            next=_NOT_CAPTURED_SO,
        )

    def home(self, range_: Range) -> int | None:
        """Where a range lives now, of an array its captured address; None when it is not there.

        This process itself reads and writes ranges of the host: all of one is in memory that was placed for such, even
        where a snapshot says that a variable or device memory is at these addresses, too.
        """
        captured = home_address(range_)
        if (pinned := self._temporary.get(range_.id)) is not None:
            size, live = self._loose[pinned] if self.is_here(range_.id) else (0, None)
            inside = pinned <= captured and captured + range_.size_bytes <= pinned + size
            return live + captured - pinned if live is not None and inside else None
        if not is_host(range_):
            held_by_host = self._holder(captured, 1) in self._pinned
            return self.find_placed(captured) if held_by_host else self.find(captured)
        at = bisect.bisect_right(self._of_host, captured, key=lambda item: item.span.address) - 1
        if at < 0 or captured + range_.size_bytes > self._of_host[at].span.end:
            return None
        return self._of_host[at].live_address + captured - self._of_host[at].span.address

    def is_for_host(self, captured: int) -> bool:
        """Whether the host may touch what is at a captured address: pinned, registered and managed memory."""
        at = bisect.bisect_right(self._starts, captured) - 1
        if (holder := self._holder(captured, 1)) is not None:
            return holder in self._pinned
        if at < 0 or captured >= self._placed[at].end:
            return False
        return self._placed[at].span.host or self._placed[at].managed

    def is_managed(self, captured: int) -> bool:
        """Whether what is at a captured address is managed memory here."""
        live = self.find(captured)
        return live is not None and any(
            item.live_address <= live < item.live_address + item.span.size_bytes for item in self._managed
        )

    def may_be_pageable(self, captured: int, size_bytes: int) -> bool:
        """Whether what no stretch holds whole may be memory of the application's own, which the driver did not know.

        Registered memory ends inside a page, and other memory goes on there: such memory begins on the last page of a
        stretch, or in none, and does not reach another stretch.
        """
        if size_bytes == 0:
            return True
        holder = self._holder(captured, 1)
        if self.reach(captured, PAGE_BYTES) is not None or (
            holder is not None and holder not in self._pinned
        ):
            return False
        begins_inside = self.reach(captured, 1) is not None
        return not (begins_inside and self.reach(captured + size_bytes - 1, 1) is not None)

    def _changed(self) -> None:
        self._by_address, self._searches = None, 0

    def _holder(self, captured: int, inside: int) -> int | None:
        """Where memory in no span begins that holds an address (`_ByAddress.holder`)."""
        index = self._by_address
        if index is None:
            self._searches += 1
            if self._searches < _WORTH_AN_INDEX:
                last = captured + inside
                holding = (s for s, (size, _) in self._loose.items() if s <= captured and last <= s + size)
                return next(holding, None)
            # Threads that load may make it twice, to no harm
            index = self._by_address = _ByAddress(self._loose)
        return index.holder(captured, inside)

    def live(self, captured: int, where: object = None, argument: str = "") -> int:
        """The live address, for a pointer that nothing follows here. Raises EngineError for an address that belongs to
        no captured range."""
        found = self.find(captured)
        if found is None:
            raise _unknown(captured, where, argument)
        return found


_NOT_CAPTURED_SO = "the snapshot is damaged, or was not made by `replay capture`"


def _merged(placed: Iterable[Placed]) -> list[tuple[int, int, int]]:
    """Captured start and end, live start of stretches that overlap; what overlaps has moved together."""
    found: list[tuple[int, int, int]] = []
    for item in placed:
        if found and item.span.address < found[-1][1]:
            start, end, live = found[-1]
            found[-1] = (start, max(end, item.span.end), live)
        else:
            found.append((item.span.address, item.span.end, item.live_address))
    return found


def _unknown(captured: int, where: object, argument: str, beside: bool = False) -> EngineError:
    """beside: the pointer itself is to captured memory, so no capture of more memory would help."""
    return EngineError(
        f"uses the address {captured:#x}{f' ({argument})' if argument else ''}, which belongs to no captured memory",
        where=where,
        next=_NOT_CAPTURED_SO
        if beside
        else "a capture of your own may have missed this memory: capture again with `--memory live`; a file of "
        "somebody else may be damaged, or made to reach what is not its own",
    )


def _continues(one: Placed, other: Placed) -> bool:
    """Whether a stretch goes on in another without a gap, in the application and here."""
    return (
        one.end == other.span.address
        and one.live_address + one.span.size_bytes == other.live_address
        and one.span.host == other.span.host
    )
