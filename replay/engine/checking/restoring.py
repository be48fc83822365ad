"""Whether a session brings back what its window starts from: checked once, before anything is timed.

What is restored is found from the captured outputs. That is checked in three ways: memory that the first replay wrote
although it was captured as unchanged is restored as well; restored memory is compared with what was loaded; and a
replay from restored memory must leave what the first one left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from replay.api.functions import by_symbol
from replay.api.vocabulary import Keep, Work
from replay.engine.checking.comparing import Comparing
from replay.engine.checking.verified import Verified
from replay.engine.session import Session
from replay.inspection.pieces import describe
from replay.planning.spans import is_array, is_global
from replay.results.run.timing import Restore
from replay.snapshot.schema import Range

SHOWN_BUFFERS = 8
WAITS_FOR_VALUES = (Work.WAIT_VALUE, Work.VALUES)

Digests = Mapping[tuple[int, int], bytes]  # by (range id, offset)


class StillRunning(Exception):
    """The device is at work on something that does not end."""


def check_restore(session: Session, comparing: Comparing, verified: Verified) -> Restore:
    """Restore, compare with what was loaded (`Copies.remember_loaded`), replay once more and compare with what
    the last replay left. Sets the verdict to nondeterministic where two replays from equal memory differ. Raises
    EngineError when a call fails.
    """
    contents = session.contents
    # Behind the window, the addresses of what it frees or unloads may be those of a variable of another module.
    ended = {item.id for ranges in session.program.deaths.values() for item in ranges if not is_array(item)}
    first = contents.copies.written_digests(ended)
    session.restore_found_writes(comparing.written_elsewhere)
    session.restore()
    session.synchronize()
    restored = contents.copies.written_digests()
    wrong = unlike_loaded(session, contents.copies.loaded_digests, restored)
    facts = Restore(
        verdict="wrong" if wrong else "right",
        ranges=len({range_id for range_id, _ in restored}),
        size_bytes=contents.copies.copied_bytes,
        on_host_bytes=contents.copies.on_host_bytes,
        own_variables=[describe(range_) for range_ in session.own_variables[:SHOWN_BUFFERS]],
        written_elsewhere=list(session.found_written),
        problems=wrong,
    )
    if wrong:
        return facts
    session.disturb(again=True)
    session.run_window()
    session.synchronize()
    differing = differing_buffers(
        comparing,
        first,
        contents.copies.written_digests(ended),
        {item.label: item.differing_bytes for item in verified.comparisons},
    )
    if differing and verified.verdict in ("match", "wrong") and not verified.within_tolerance:
        verified.verdict = "nondeterministic"
        verified.reason = (
            f"two replays from equal memory leave different contents in {differing[0]}: the order of atomics, or state "
            "that is not in the snapshot"
        )
    return facts


def unlike_loaded(session: Session, loaded: Digests, restored: Digests) -> list[str]:
    """The buffers that a restore did not bring back, with the first byte."""
    places: dict[int, int] = {}
    for (range_id, offset), digest in sorted(loaded.items()):
        if restored.get((range_id, offset)) != digest:
            places.setdefault(range_id, offset)
    texts = []
    for range_id, start in list(places.items())[:SHOWN_BUFFERS]:
        range_ = session.contents.copies.range(range_id)
        found = session.contents.unlike_loaded(range_, start)
        what = f"{describe(range_)} does not hold what was loaded after a restore"
        if found is not None:
            offset, was, is_ = found
            what += f": byte {offset:,} is {is_:#04x}, loaded was {was:#04x}"
        texts.append(what)
    return texts


def differing_buffers(
    comparing: Comparing, expected: Digests, actual: Digests, compared: Mapping[str, int] | None = None
) -> list[str]:
    """The buffers that differ, with the first place.

    compared: differing bytes by label, of an earlier comparison with the captured outputs, which knows handles and
    pointers. Objects and modules that the window makes get other ones in each run, which may stand in its outputs: a
    buffer that matches the captured one both times counts as equal, and with such objects one that is as far from it.
    """
    places: dict[int, list[int]] = {}
    for (range_id, offset), digest in sorted(expected.items()):
        if actual.get((range_id, offset)) != digest:
            places.setdefault(range_id, []).append(offset)
    copies = comparing.contents.copies
    for range_id in list(places) if compared is not None else ():
        range_ = copies.range(range_id)
        if range_.after is None:
            continue
        found = comparing.compare(range_, {})
        as_before = found.differing_bytes == (compared or {}).get(found.label)
        if as_before and (found.equal or comparing.translation.window_objects):
            del places[range_id]
    return [
        f"{describe(copies.range(range_id))}, somewhere from offset {offsets[0]:#x} on"
        for range_id, offsets in list(places.items())[:SHOWN_BUFFERS]
    ]


def far_from_captured(comparing: Comparing, restorable: Iterable[Range]) -> dict[str, int]:
    """Differing bytes, by label, of what is restored and was captured after the window."""
    copies = comparing.contents.copies
    written = [item for item in restorable if item.after is not None and copies.is_restored(item)]
    found = [comparing.compare(range_, {}) for range_ in written]
    return {item.label: item.differing_bytes for item in found}


def same_outputs_again(session: Session, finishes: Callable[[], bool]) -> str:
    """Run the window from restored memory, then again from what that left. "" when both leave the same; else the reason
    why memory must be restored before each run.

    finishes: whether what was queued ends in reasonable time. A kernel may wait for ever for a counter that a restore
    would have set back: raises StillRunning then, and the device can do nothing more. Raises EngineError when a call
    fails.
    """
    if reason := _why_not_twice(session):
        return reason
    copies = session.contents.copies
    others = {item.id for item in session.restorable if not is_global(item)}
    session.restore()
    session.synchronize()
    variables = copies.written_digests(others)
    session.run_window()
    session.synchronize()
    first = copies.written_digests()
    if any(first[place] != digest for place, digest in variables.items()):
        # It leaves what it left before, and may do less for it.
        return "the window writes variables of its modules, which may tell it what it has done before"
    session.run_window()
    if not finishes():
        raise StillRunning
    session.synchronize()
    return "" if copies.written_digests() == first else "the window changes what it reads"


def _why_not_twice(session: Session) -> str:
    """What only `Session.restore` undoes."""
    program = session.program
    if program.births or program.deaths:
        return "memory is allocated or freed inside the window"
    if program.changes or program.seen:
        return "the application's host code wrote memory inside the window"
    for item, *_ in session.window.kinds():
        symbol = item.call.function
        function = by_symbol()[symbol]
        if function.work in WAITS_FOR_VALUES:
            return f"{symbol} inside the window waits for a value in memory"
        if item.creates or function.keep == Keep.ALWAYS:
            return f"{symbol} inside the window makes, changes or ends an object"
    return ""
