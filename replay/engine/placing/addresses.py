"""Captured addresses and the live ones that stand for them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple

from replay.engine.placing.memory import Placed
from replay.errors import EngineError


class ChosenWord(NamedTuple):
    """A word of bytes that have no census: it is patched to follow `target`, a captured address, or for None left
    alone, whatever it looks like. high_offset: of its upper half, where that stands elsewhere."""

    offset: int
    target: int | None
    high_offset: int | None = None


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


class AddressMap:
    """Captured device or host address -> live address."""

    def __init__(self, placed: Iterable[Placed] = ()) -> None:
        self._placed = sorted(placed, key=lambda item: item.span.address)
        self._starts = [item.span.address for item in self._placed]
        self._loose: dict[int, tuple[int, int | None]] = {}  # captured address -> size, live address
        self._by_address: _ByAddress | None = None  # of `_loose`; None where that has just changed
        self._searches = 0  # since it changed
        self._reused: list[tuple[int, int]] = []  # start, end

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

    def forget(self, captured: int, size_bytes: int) -> None:
        """Undo `expect` and `bind` of what overlaps these addresses: other memory is there from now on."""
        for start in [
            s for s, (size, _) in self._loose.items() if s < captured + size_bytes and captured < s + size
        ]:
            del self._loose[start]
        self._changed()

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

    def state(self) -> dict[int, tuple[int, int | None]]:
        """What is expected and bound now, for `return_to`."""
        return dict(self._loose)

    def return_to(self, state: dict[int, tuple[int, int | None]]) -> None:
        """Undo every `expect` and `bind` since `state` was taken."""
        self._loose = dict(state)
        self._changed()

    def patch_lookalikes(self, data: bytes) -> tuple[bytes, int]:
        """`data` with every aligned word that looks like a pointer into moved memory made to follow it, and how many.

        For bytes of which no census exists. A number may look like a pointer, so this is a guess that must be told.
        """
        moved = self._moved()
        if not moved or len(data) < 8:
            return data, 0
        import numpy

        captured = numpy.frombuffer(data, "<u8", len(data) // 8)
        words = captured.copy()
        changed = numpy.zeros(len(words), dtype=bool)
        for start, end, live in moved:
            inside = (captured >= start) & (captured < end) & ~changed
            if inside.any():
                words[inside] += numpy.uint64((live - start) % 2**64)
                changed |= inside
        count = int(changed.sum())
        return (words.tobytes() + data[len(words) * 8 :], count) if count else (data, 0)

    def patch_chosen(self, data: bytearray, captured: bytes, words: Iterable[ChosenWord]) -> None:
        """Put the chosen words of `captured` into `data`, which may have been patched by its looks. Words that do not
        lie in it do nothing."""
        for word in words:
            halves = word.high_offset is not None
            last = max(word.offset + (4 if halves else 8), (word.high_offset or 0) + 4)
            if min(word.offset, word.high_offset or 0) < 0 or last > min(len(data), len(captured)):
                continue
            live = None if word.target is None else self.find(word.target)
            for place, half in (
                ((word.offset, 0), (word.high_offset, 4)) if halves else ((word.offset, None),)
            ):
                assert place is not None
                width = 8 if half is None else 4
                new = captured[place : place + width]
                if live is not None:
                    new = live.to_bytes(8, "little")[half or 0 : (half or 0) + width]
                data[place : place + width] = new

    def points_to_unplaced(self, data: bytes) -> int:
        """How many aligned words of `data` look like pointers to memory whose place is not known yet."""
        unknown = [(start, size) for start, (size, live) in self._loose.items() if live is None]
        if not unknown or len(data) < 8:
            return 0
        import numpy

        words = numpy.frombuffer(data, "<u8", len(data) // 8)
        return sum(int(((words >= start) & (words < start + size)).sum()) for start, size in unknown)

    def _moved(self) -> list[tuple[int, int, int]]:
        """(captured start, captured end, live start) of all memory that is elsewhere; variables of modules first, since
        one may have been captured at an address inside a span."""
        loose = [
            (start, start + size, live)
            for start, (size, live) in self._loose.items()
            if live is not None and live != start
        ]
        return loose + [
            (item.span.address, item.span.end, item.live_address)
            for item in self._placed
            if item.live_address != item.span.address
        ]

    def find(self, captured: int) -> int | None:
        """The live address; None for an address that belongs to no captured range."""
        if captured == 0:
            return 0
        if (start := self._holder(captured, 1)) is not None:
            live = self._loose[start][1]
            return None if live is None else live + captured - start
        at = bisect.bisect_right(self._starts, captured) - 1
        # The end of a span belongs to it: programs form pointers just past their last element.
        if at >= 0 and captured <= self._placed[at].span.end:
            return self._placed[at].live_address + captured - self._placed[at].span.address
        if (start := self._holder(captured, 0)) is not None:
            live = self._loose[start][1]
            return None if live is None else live + captured - start
        return None

    def _changed(self) -> None:
        self._by_address, self._searches = None, 0

    def _holder(self, captured: int, inside: int) -> int | None:
        """Where memory in no span begins that holds an address (`_ByAddress.holder`)."""
        index = self._by_address
        if index is None:
            self._searches += 1
            if self._searches < _WORTH_AN_INDEX:
                return next(
                    (
                        start
                        for start, (size, _) in self._loose.items()
                        if start <= captured and captured + inside <= start + size
                    ),
                    None,
                )
            index = self._by_address = _ByAddress(
                self._loose
            )  # threads that load may make it twice, to no harm
        return index.holder(captured, inside)

    def live(self, captured: int, where: object = None) -> int:
        """The live address. Raises EngineError for an address that belongs to no captured range."""
        found = self.find(captured)
        if found is None:
            raise EngineError(
                f"uses the address {captured:#x}, which belongs to no captured memory",
                where=where,
                next="capture again with `--memory live`",
            )
        return found
