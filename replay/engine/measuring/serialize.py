"""A window of several streams with its work one after another: in the recorded order, which keeps to every event edge,
each piece of work after the one before it in whatever stream that was.

The device puts them in order, through an event where the stream changes; the host does not wait, so that the time
between the window's events is work and no gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from replay.api.functions import by_symbol
from replay.engine.arguments.prepared import Prepared
from replay.engine.checking.comparing import Comparing
from replay.engine.checking.restoring import WAITS_FOR_VALUES, differing_buffers, far_from_captured
from replay.engine.driver import passed_value
from replay.engine.execution.lanes import is_work, lane_of
from replay.engine.measuring.bracket import NO_NUMBER, Bracket
from replay.engine.session import Session, Submittable
from replay.engine.translation.translation import Late
from replay.records import dataclass
from replay.snapshot.schema import Call

_EVENT_DISABLE_TIMING = 2


@dataclass(frozen=True)
class SerialWindow:
    """calls: what to run in place of the window. streams: with work in them. edges: changes of the stream."""

    calls: Sequence[Submittable]
    streams: int
    edges: int


def why_not_serial(session: Session) -> str:
    """Why the work of a window cannot be put one after another; "" when it can."""
    found = next(
        (i for i, *_ in session.window.kinds() if by_symbol()[i.call.function].work in WAITS_FOR_VALUES), None
    )
    if found is not None:
        return f"{found.call.function} may wait for work of a later call"
    lanes = {lane_of(item) for item, *_ in session.window.kinds() if is_work(item)}
    if len(lanes) < 2:
        return "the window has work in one stream only"
    find = session.translation.handles.find
    if any(lane.context and find("CUcontext", lane.context) is None for lane in lanes):
        return "the window makes a context itself, in which no event can wait before it"
    return ""


def serial(session: Session, bracket: Bracket) -> SerialWindow:
    """The window with an edge wherever work goes to another stream than the work before it. The edge begins right
    after the work before, since the window may end its stream."""
    work = [(at, item) for at, item in enumerate(session.window) if is_work(item)]
    events: dict[int, int] = {}  # context -> event
    edges: dict[int, list[Prepared]] = {}  # before the call at this place
    ends: dict[int, list[Prepared]] = {}  # and after it
    for (first, before), (second, item) in pairwise(work):
        if lane_of(before) != lane_of(item):
            if before.context not in events:
                session.translation.contexts.be_in(before.context)
                events[before.context] = session.driver.cuEventCreate(_EVENT_DISABLE_TIMING)
            event = events[before.context]
            ends[first] = [_step(session, "cuEventRecord", before, event)]
            edges[second] = [_step(session, "cuStreamWaitEvent", item, event)]
    session.use_main_context()
    calls = bracket.around(
        lambda at, item: [*edges.get(at, ()), item, *ends.get(at, ())], edges.keys() | ends.keys()
    )
    return SerialWindow(calls, len({lane_of(item) for _, item in work}), len(edges))


def compare_orders(
    session: Session, comparing: Comparing, bracket: Bracket, window: SerialWindow
) -> list[str]:
    """Run the window as recorded and one after another, both from restored memory: the buffers that differ."""
    left = []
    compared: dict[str, int] = {}
    for calls in (None, window.calls):
        session.restore()
        session.synchronize()
        bracket.prepare(1)
        session.run_window(calls)
        session.synchronize()
        left.append(session.contents.copies.written_digests())
        if calls is None:
            compared = far_from_captured(comparing, session.restorable)
    return differing_buffers(comparing, left[0], left[1], compared)


def _step(session: Session, symbol: str, of: Prepared, event: int) -> Prepared:
    """Record an event in the stream of a call, or let it wait; a stream that the window makes is looked up late."""
    stream = lane_of(of).stream
    row = Call(NO_NUMBER, symbol, "window", of.call.thread, [], 0)
    parameters = by_symbol()[symbol].parameters
    values = [event if parameter.c_type == "CUevent" else 0 for parameter in parameters]
    place = next(at for at, parameter in enumerate(parameters) if parameter.c_type == "CUstream")
    made = Prepared(row, of.context, session.driver.function(symbol), values)
    if session.translation.handles.is_permanent("CUstream", stream):
        values[place] = session.translation.handles.live("CUstream", stream)
    else:
        made.late_arguments.append(Late(place, "CUstream", stream))
    return replace(made, arguments=[passed_value(p, v) for p, v in zip(parameters, values, strict=True)])
