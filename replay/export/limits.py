"""What of a window is not exported, and what an exported program does otherwise."""

from __future__ import annotations

from collections.abc import Callable

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect
from replay.engine.program import Program
from replay.errors import EngineError
from replay.inspection.pieces import describe
from replay.planning.spans import is_array, is_global, is_host, plan_spans


def refuse(program: Program, note: Callable[[str], None]) -> None:
    """Raises EngineError for what is not exported. note: gets what is done differently from the application."""
    families: dict[int, set[int]] = {}
    for range_ in program.ranges.values():
        if not is_host(range_) and not is_array(range_) and not is_global(range_):
            families.setdefault(range_.address, set()).add(program.families.of.get(range_.id, 0))
        if 0 < program.families.covered.get(range_.id, 0) < range_.size_bytes:
            raise EngineError(f"{describe(range_)} holds a part of other memory, which is not exported")
    if any(len(found) > 1 for found in families.values()):
        raise EngineError("an address gets other physical memory inside the window, which is not exported")
    if any(stay.apart for stay in program.stays.by_number.values()):
        raise EngineError(
            "pinned memory has the same 2 MiB as memory of the device at the same time, which is not exported"
        )
    for range_ in program.ranges.values():
        if is_host(range_) and range_.host_address not in (0, range_.address):
            raise EngineError(f"{describe(range_)} has another address on the device, which is not exported")
        if range_.array is not None and any(part.plane for part in range_.array.parts):
            raise EngineError(f"{describe(range_)}: arrays of several planes are not exported")
    if any(site.handles for site in program.census.ranges.values()):
        note("handles of texture and surface objects that stand in memory keep their captured value")
    if any(range_.kind == "managed" and not is_global(range_) for range_ in program.ranges.values()):
        note("advice about managed memory and prefetching are left out")
    spans = plan_spans(program.ranges.values())
    for range_ in program.ranges.values():
        inside = (span for span in spans if span.address <= range_.address < span.end and not span.host)
        if range_.kind == "managed" and not is_global(range_) and not all(s.managed_bytes for s in inside):
            note(
                f"{describe(range_)} is device memory in this program: it shares a granule with other memory"
            )
    if any(call.per_thread for call in program.window):
        note("per-thread default streams of all threads are that of one thread")
    if program.seen:
        note("what the host saw in memory of its own between the calls is not compared")
    known = (by_symbol().get(call.function) for call in program.window)
    if any(function is not None and function.effect == Effect.GRAPH_LAUNCH for function in known):
        note("graphs are launched node by node, in an order that keeps to their edges")
