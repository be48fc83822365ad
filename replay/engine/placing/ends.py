"""Where allocations end, for kernels: memory is placed in whole granules, of which an allocation is a part.

The built-in CPU driver can be told; then an access past the end of an allocation, before it is made or after it is
freed, faults as it did in the application, and what an allocation of the window holds is known to be unwritten. No
other driver can.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect, Replayed
from replay.engine.driver import Driver, DriverFailure
from replay.engine.placing.memory import outside
from replay.engine.placing.pieces import Placed
from replay.planning.spans import home_address, is_array, is_global
from replay.planning.stays import Stays
from replay.snapshot.schema import WHOLE_ADDRESS, WHOLE_BYTES, Call, Range

Piece = tuple[int, int]  # captured addresses of begin and end

CONFINE, BEGIN = "replayConfineMemory", "replayBeginMemory"
# What is freed in the order of a stream is still there for work in front of that: its end comes with the window's.
_ENDING = {Effect.FREE, Effect.HOST_FREE, Effect.HOST_UNREGISTER, Effect.UNMAP, Effect.END_OF_CONTEXT}


class Ends:
    """The allocations of a snapshot in the memory that was placed for them.

    active: the driver knows of them. changes: what to do at the call of a number, once it has run.
    """

    def __init__(
        self,
        driver: Driver,
        placed: Iterable[Placed],
        ranges: Iterable[Range],
        window: Iterable[Call],
        stays: Stays | None = None,
    ) -> None:
        self._driver = driver
        self._confine, self._begin = driver.own(CONFINE), driver.own(BEGIN)
        self.active = self._confine is not None
        self.changes: dict[int, list[Callable[[], None]]] = {}
        placed = list(placed)
        self._stays = stays or Stays()
        self._of_stays = {item.span.stay: item for item in placed if item.span.stay}
        self._placed = sorted(
            (item for item in placed if not item.span.stay), key=lambda item: item.span.address
        )
        self._at_start: dict[Placed, list[Piece]] = {item: [] for item in placed}
        # By address, apart from each other; those that are as at the start
        self._now: dict[Placed, list[Piece]] = {}
        if self.active:
            self._plan(ranges, {call.number: call for call in window})

    def _plan(self, ranges: Iterable[Range], calls: Mapping[int, Call]) -> None:
        kept: list[tuple[Placed, Piece]] = []
        changing: list[tuple[Placed, Piece, Call | None, Call | None]] = []
        for holder, piece, range_ in self._pieces(ranges):
            born, died = calls.get(range_.born_call or -1), calls.get(range_.died_call or -1)
            of_a_graph = born is not None and by_symbol()[born.function].replayed != Replayed.PLACED
            if of_a_graph or (born is None and died is None):
                kept.append((holder, piece))
            else:
                changing.append((holder, piece, born, died))
        found: dict[Placed, list[Piece]] = {}
        for holder, piece in kept:
            found.setdefault(holder, []).append(piece)
        for holder, piece, born, died in changing:
            # Memory that a graph allocates is there all the time: no call of its own says when it comes and goes.
            staying = [
                one for other, one in kept if other is holder and one[0] < piece[1] and piece[0] < one[1]
            ]
            whole = (
                min([piece[0], *(begin for begin, _ in staying)]),
                max([piece[1], *(end for _, end in staying)]),
            )
            if born is None:
                found.setdefault(holder, []).append(piece)
            else:
                steps = self.changes.setdefault(born.number, [])
                steps.append(partial(self._appear, holder, whole))
                allocates = by_symbol()[born.function].effect == Effect.ALLOC
                if self._begin is not None and allocates and not staying:
                    steps.append(partial(self._unwritten, holder, piece))
            if died is not None and not staying and _ends_at_once(died):
                self.changes.setdefault(died.number, []).append(partial(self._end, holder, piece))
        for holder, pieces in found.items():
            self._at_start[holder] = _apart(pieces)

    def _pieces(self, ranges: Iterable[Range]) -> Iterator[tuple[Placed, Piece, Range]]:
        """Each allocation, and what holds it."""
        starts = [item.span.address for item in self._placed]
        for range_ in ranges:
            begin = home_address(range_)
            at = bisect_right(starts, begin) - 1
            holder = self._of_stays.get(self._stays.of.get(range_.id, 0))
            if is_global(range_) or is_array(range_) or not range_.size_bytes or (at < 0 and holder is None):
                continue
            holder = holder or self._placed[at]
            # Of a block of an allocation the whole of it may be touched, as far as it is there.
            first = range_.properties.get(WHOLE_ADDRESS, begin)
            end = first + range_.properties.get(WHOLE_BYTES, range_.size_bytes)
            piece = (max(first, holder.span.address), min(end, holder.span.end))
            if piece[0] < piece[1]:
                yield holder, piece, range_

    def begin(self) -> None:
        """The window starts from here, again."""
        if not self.active:
            return
        for holder in self._of_stays.values():
            for piece in self._now.get(holder, ()):
                self._tell(holder, piece, [])
            self._now[holder] = []
        for holder in self._placed:
            # What has parts was told of by stays, too.
            if self._now.get(holder) != self._at_start[holder] or holder.parts:
                self._now[holder] = list(self._at_start[holder])
                self._tell(holder, (holder.span.address, holder.span.end), self._now[holder])
        around = sorted((holder.span.address, holder.span.end) for holder in self._placed)
        for holder in self._of_stays.values():
            for stretch in outside(holder.span, around):  # no other memory tells of it
                self._tell(holder, stretch, [])
            for piece in self._at_start[holder]:
                self._appear(holder, piece)

    def _appear(self, holder: Placed, piece: Piece) -> None:
        now = self._now[holder]
        first = bisect_right(now, (piece[0], piece[0]))
        first -= first > 0 and now[first - 1][1] > piece[0]
        last = first
        while last < len(now) and now[last][0] < piece[1]:  # it has ended, in the order of some stream
            self._tell(holder, now[last], [])
            last += 1
        now[first:last] = [piece]
        self._tell(holder, piece, [piece])

    def _end(self, holder: Placed, piece: Piece) -> None:
        now = self._now[holder]
        at = bisect_left(now, piece)
        if at < len(now) and now[at] == piece:
            del now[at]
            self._tell(holder, piece, [])

    def _unwritten(self, holder: Placed, piece: Piece) -> None:
        assert self._begin is not None
        begin = ctypes.c_uint64(piece[0] + holder.live_address - holder.span.address)
        if code := self._begin(begin, ctypes.c_uint64(piece[1] - piece[0])):
            raise DriverFailure(BEGIN, code, self._driver.error_name(code))

    def _tell(self, holder: Placed, stretch: Piece, pieces: Sequence[Piece]) -> None:
        shift = holder.live_address - holder.span.address
        words = [word for begin, end in pieces for word in (begin + shift, end - begin)]
        assert self._confine is not None
        base, size = ctypes.c_uint64(stretch[0] + shift), ctypes.c_uint64(stretch[1] - stretch[0])
        code = self._confine(base, size, (ctypes.c_uint64 * len(words))(*words), ctypes.c_uint64(len(pieces)))
        if code:
            raise DriverFailure(CONFINE, code, self._driver.error_name(code))


def _apart(pieces: list[Piece]) -> list[Piece]:
    """By address, and those that overlap as one."""
    found: list[Piece] = []
    for begin, end in sorted(pieces):
        if found and begin < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _ends_at_once(call: Call) -> bool:
    return by_symbol()[call.function].effect in _ENDING and "Async" not in call.function
