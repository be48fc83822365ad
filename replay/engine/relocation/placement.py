"""Where each captured range went, and what moved with it: the parts of a result about addresses."""

from __future__ import annotations

from typing import Literal

from blake3 import blake3

from replay.engine.checking.verified import Verified
from replay.engine.placing.pieces import Placed
from replay.engine.session import Session
from replay.planning.spans import home_address, is_array, is_global, is_host
from replay.results.run.placement import MovedWord, PlacedRange, Placement, Relocation, ShiftedReplay
from replay.snapshot.schema import Range

MAXIMUM_RANGES = 10_000  # listed in a result
MAXIMUM_WORDS = 64  # that differ in a shifted replay, listed


def placement(session: Session) -> Placement:
    """Where the ranges went."""
    ranges = sorted(session.program.ranges.values(), key=lambda range_: (range_.address, range_.id))
    by_start = sorted(
        (item for item in session.memory.placed if not item.span.stay), key=lambda item: item.span.address
    )
    same_address, relocated = [0, 0], [0, 0]
    loaded = patched = 0
    listed: list[PlacedRange] = []
    for range_ in ranges:
        one = _placed_range(session, range_, by_start)
        if len(listed) < MAXIMUM_RANGES:
            listed.append(one)
        if one.how == "loaded":
            loaded += one.live_address != 0
            patched += one.live_address not in (0, one.address)
            continue
        count = same_address if one.how in ("same_address", "handle") else relocated
        count[0] += 1
        count[1] += range_.size_bytes
    return Placement(
        same_address_ranges=same_address[0],
        same_address_bytes=same_address[1],
        relocated_ranges=relocated[0],
        relocated_bytes=relocated[1],
        globals=loaded,
        patched_globals=patched,
        moved=[
            f"{item.span.address:#x} ({item.span.size_bytes} bytes) is at {item.live_address:#x}: {item.reason}"
            for item in session.memory.placed
            if item.how == "relocated"
        ],
        ranges=listed,
        more_ranges=len(ranges) - len(listed),
    )


def _placed_range(session: Session, range_: Range, placed: list[Placed]) -> PlacedRange:
    how: Literal["same_address", "relocated", "shifted", "loaded", "handle"]
    memory: Literal["device", "managed", "host", "module", "array"] = "device"
    reason = ""
    home = home_address(range_)
    live = session.memory.turns.live(range_) or session.memory.addresses.home(range_) or 0
    if is_global(range_):
        how, memory = "loaded", "module"
    elif is_array(range_):
        how, memory = "handle", "array"
    else:
        span = session.memory.turns.placed(range_) or _span_of(home, placed)
        how = "same_address" if live == home else "relocated"
        if span is not None:
            how, reason = span.how, span.reason
        memory = "host" if is_host(range_) else "managed" if span is not None and span.managed else "device"
        if range_.kind == "managed" and span is not None and not span.managed:
            reason = "; ".join(
                filter(None, (reason, f"not managed here: {span.not_managed or 'shares a granule'}"))
            )
    return PlacedRange(
        range_.id, range_.kind, home, range_.size_bytes, live, how, memory, range_.device, range_.name, reason
    )


def _span_of(address: int, placed: list[Placed]) -> Placed | None:
    import bisect

    at = bisect.bisect_right(placed, address, key=lambda item: item.span.address) - 1
    return placed[at] if at >= 0 and address <= placed[at].span.end else None


class MovedWords:
    """Collects the words of the outputs that differ, and says how a replay with all memory moved went."""

    def __init__(self) -> None:
        self._hash = blake3()
        self._any = False
        self.words: list[MovedWord] = []
        self._seen: set[tuple[str, int]] = set()

    def add(
        self, label: str, number: int, offset: int, captured: bytes, expected: bytes, found: bytes
    ) -> None:
        """A piece of memory that differs, from `offset` of the range `number` on."""
        import numpy

        wanted_bytes, bytes_here = (numpy.frombuffer(data, "u1") for data in (expected, found))
        places = numpy.flatnonzero(wanted_bytes != bytes_here)
        self._any = True
        self._hash.update(f"{label} {offset} {len(places)} ".encode())
        self._hash.update(places.astype("<u4").tobytes())
        self._hash.update(bytes_here[places].tobytes())
        if len(self.words) >= MAXIMUM_WORDS:
            return
        count = len(found) // 8
        words, wanted, here = (numpy.frombuffer(data, "<u8", count) for data in (captured, expected, found))
        for place in numpy.flatnonzero(wanted != here)[:MAXIMUM_WORDS].tolist():
            key = (label, offset + 8 * place)
            if key not in self._seen and len(self.words) < MAXIMUM_WORDS:
                self._seen.add(key)
                values = (int(words[place]), int(wanted[place]), int(here[place]))
                self.words.append(MovedWord(label, number, key[1], *values))

    @property
    def digest(self) -> str:
        """Of everything that was added: equal in two replays whose outputs differ by the same bytes from what was
        expected. "" when nothing differs."""
        return self._hash.hexdigest(length=16) if self._any else ""

    def outcome(self, session: Session, verified: Verified, number: int) -> Relocation:
        """What the worker knows of the proof."""
        distances: list[int] = []
        unmoved = 0
        for range_ in session.program.ranges.values():
            home = home_address(range_)
            here = None if is_array(range_) else session.memory.addresses.home(range_)
            live = session.memory.turns.live(range_) or here
            if live is None:
                continue
            distances.append(live - home)
            unmoved += live == home
        compared = sum(item.compared_bytes for item in verified.comparisons)
        replay = ShiftedReplay(
            number=number,
            verdict=verified.verdict,  # type: ignore[arg-type]
            moved_ranges=len(distances) - unmoved,
            unmoved_ranges=unmoved,
            lowest_distance_bytes=min(map(abs, distances), default=0),
            highest_distance_bytes=max(map(abs, distances), default=0),
            compared_bytes=compared,
            following_words=verified.guessed_words,
            reason=verified.reason,
            words=self.words,
        )
        return Relocation("unsure", replays=[replay])
