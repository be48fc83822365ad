"""What a replay on the CPU driver says beforehand: which bytes are read, and which calls feed which."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.api import extents
from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect, Work
from replay.errors import EngineError
from replay.planning.spans import is_global
from replay.run.parent import RunOptions, run_snapshot
from replay.run.touched import SETTING, copied, events, meet, runs_of
from replay.snapshot.schema import Call, Census, Range

if TYPE_CHECKING:
    from replay.run.touched import Runs


@dataclass
class Touched:
    """read: bytes of memory that kernels and waits read. copied: those that copies read, of the replay itself, too.
    launches: of each launch of the window in order, what it read and wrote; those of a second replay follow."""

    read: Runs
    copied: Runs
    launches: list[tuple[Runs, Runs]]


def touched(path: Path, options: RunOptions, window: int | None, folder: Path) -> Touched | None:
    """What a replay on the CPU driver touches; None where that cannot be known. An error of a kernel ends it early."""
    file = folder / "touched"
    file.unlink(missing_ok=True)
    options = dataclasses.replace(
        options, timing=None, window=window, counters=False,
        environment={**options.environment, SETTING: str(file)},
    )  # fmt: skip
    try:
        result = run_snapshot(path, options)
        if result.placement.moved:
            return None
    except EngineError:
        pass
    try:
        return _of(events(file))
    except EngineError:
        return None


def _of(items: Iterable[dict[str, Any]]) -> Touched:
    read: list[Any] = []
    copies: list[Any] = []
    launches = []
    for item in items:
        if "awaited" in item:
            begin, size = item["awaited"]
            read.append([begin, begin + size])
        elif "copied" in item:
            copies.append(copied(item)[1])
        else:
            sides: tuple[list[Any], list[Any]] = ([], [])
            for _, _, writes, space, runs in item["sites"]:
                if space == "global":
                    sides[writes].append(runs)
            launches.append((runs_of(sides[0]), runs_of(sides[1])))
            read += sides[0]
    return Touched(runs_of(read), runs_of(copies), launches)


def read_by(calls: Iterable[Call], found: Touched) -> Runs:
    """What a window reads: its kernels, and its copies by what they are given; where that does not say how far they
    reach, all that was copied."""
    pieces = [found.read]
    for call in calls:
        if not is_launch(call) and by_symbol()[call.function].work == Work.COPY:
            sides = _plain(call)
            pieces.append(found.copied if sides is None else sides[0])
    return runs_of(pieces)


def variables_of(ranges: Iterable[Range]) -> Runs:
    """Variables of modules where the application had them. A replay has them elsewhere, so that what its kernels touch
    does not tell whether they read what a copy of the application writes there."""
    return runs_of(
        [[item.address, min(item.address + item.size_bytes, (1 << 64) - 1)]]
        for item in ranges
        if is_global(item)
    )


def is_launch(call: Call) -> bool:
    """Whether a kernel runs."""
    return by_symbol()[call.function].effect in (Effect.LAUNCH, Effect.GRAPH_LAUNCH) and not call.in_capture


def feeding(
    calls: list[Call],
    launches: list[tuple[Runs, Runs]],
    place: tuple[int, int] | None,
    last: int | None,
    variables: Runs,
) -> set[int]:
    """Numbers of the launches, copies and fills of the window that are not needed for the bytes at `place`, or for the
    launch of number `last`: what they write is not read on the way there, nor is it in `variables`. launches: what each
    one touches."""
    of_call = dict(zip((call.number for call in calls if is_launch(call)), launches, strict=False))
    wanted = runs_of([variables, [] if place is None else [[place[0], sum(place)]]])
    unneeded = set()
    begun = last is None
    for call in reversed(calls):
        sides = of_call.get(call.number) if is_launch(call) else _plain(call)
        if call.number == last:
            begun = True
            wanted = wanted if sides is None else runs_of([wanted, sides[0]])
        elif not begun and is_launch(call):
            unneeded.add(call.number)
        elif sides is not None and begun and meet(sides[1], wanted):
            wanted = runs_of([wanted, sides[0]])
        elif sides is not None and (len(sides[1]) or not begun or is_launch(call)):
            unneeded.add(call.number)
    return unneeded


def _plain(call: Call) -> tuple[Runs, Runs] | None:
    """What a copy or a fill reads and writes; None for other calls."""
    row = by_symbol()[call.function]
    if not row.touches or any(touch.each is not None for touch in row.touches):
        return None
    sides: tuple[list[Any], list[Any]] = ([], [])
    for touch in row.touches:
        found = extents.of_call(row, call.arguments, touch)
        begin = call.arguments[touch.parameter] + found.offset
        if found.size_bytes and begin + found.size_bytes < 1 << 64:
            sides[touch.write].append([begin, begin + found.size_bytes])
    return runs_of(sides[0]), runs_of(sides[1])


def given(call: Call) -> set[int]:
    """Handles and addresses that a call gave out."""
    outputs = (value for value in call.outputs.values() if isinstance(value, bytes) and len(value) == 8)
    return {int.from_bytes(value, "little") for value in outputs} - {0}


def with_dependents(calls: list[Call], numbers: Iterable[int]) -> set[int]:
    """These calls, and all that take a handle that one of them gave out."""
    gone, handles = set(numbers), set[int]()
    for call in calls:
        if call.number in gone or not handles.isdisjoint(call.arguments):
            gone.add(call.number)
            row = by_symbol()[call.function]
            value = call.outputs.get(row.gives.name) if row.gives is not None else None
            handles |= {int.from_bytes(value, "little")} - {0} if isinstance(value, bytes) else set()
        elif handles:
            handles -= given(call)
    return gone


def without_use(calls: list[Call], section: str, needed: set[int]) -> set[int]:
    """Numbers of the calls of a section that make what no other call takes, and of those that change only that.
    needed: calls whose memory is reached."""
    objects = {call.number: given(call) for call in calls}
    launched = {call.number for call in calls if is_launch(call)}
    made = set().union(*objects.values())
    kept, gone = Counter(handle for found in objects.values() for handle in found), set[int]()
    while True:
        taken = {
            word for call in calls
            if call.number not in gone
            and (objects[call.number] or call.section != section or call.number in launched)
            for word in call.arguments
        }  # fmt: skip
        found, still = set(), gone | needed
        for call in calls:
            if call.section != section or call.number in still or call.number in launched:
                continue
            mine = objects[call.number]
            row = by_symbol()[call.function]
            if row.gives is not None and row.gives.element == "CUcontext":
                continue  # which all calls are made in
            used = made.intersection(call.arguments)
            if (mine and not mine & taken) or (not mine and used and not any(kept[word] for word in used)):
                found.add(call.number)
        if not found:
            return gone
        gone |= found
        for number in found:
            kept.subtract(objects[number])


def reached(calls: Iterable[Call], ranges: list[Range], census: Iterable[Census]) -> set[int]:
    """Ids of the ranges that a launch or copy names, or to which a pointer leads that is in memory that one reaches."""
    numbers, words = set(), set()
    for call in calls:
        numbers.add(call.number)
        if is_launch(call) or by_symbol()[call.function].touches:
            words |= set(call.arguments)
    to: dict[int, set[int]] = {}
    found: set[int] = set()
    for item in census:
        targets = {
            int.from_bytes(item.words[at + 16 : at + 20], "little") for at in range(0, len(item.words), 24)
        }
        if item.kind == "call" and item.site in numbers:
            found |= targets
        elif item.kind == "range":
            to.setdefault(item.site, set()).update(targets)
    ordered = sorted(words)
    for one in ranges:
        at = bisect_left(ordered, one.address)
        named = at < len(ordered) and ordered[at] < one.address + one.size_bytes
        if named or one.kind in ("global", "array"):
            found.add(one.id)
    waiting = list(found)
    while waiting:
        more = to.get(waiting.pop(), set()) - found
        found |= more
        waiting += more
    return found


def gaps(begin: int, size: int, runs: Runs) -> Iterator[tuple[int, int]]:
    """Offsets of the stretches of so many bytes at an address that no run meets."""
    import numpy

    at, end = begin, begin + size
    first = int(numpy.searchsorted(runs[:, 1], numpy.uint64(begin), side="right"))
    last = int(numpy.searchsorted(runs[:, 0], numpy.uint64(min(end, (1 << 64) - 1))))
    for start, stop in runs[first:last].tolist():
        if start > at:
            yield at - begin, start - begin
        at = max(at, stop)
    if at < end:
        yield at - begin, size
