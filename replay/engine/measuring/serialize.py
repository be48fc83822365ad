"""A window of several streams with its work one after another: in the recorded order, which keeps to every event edge,
each piece of work behind the one before it in whatever stream that was.

The device puts them in order, through an event where the stream changes; the host does not wait, so that the time
between the window's events is work and no gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect
from replay.engine.checking.restoring import WAITS_FOR_VALUES, differing_buffers, far_from_captured
from replay.engine.driver import passed_value, query
from replay.engine.execution.inputs import Prepared
from replay.engine.execution.submission import Batch
from replay.engine.session import Session, launch_streams
from replay.snapshot.schema import Call

_EVENT_DISABLE_TIMING = 2
_NO_NUMBER = -1  # of a call that the application did not make
_COPIES = ("cuMemcpy", "cuMemset")
_EDGES = ("cuStreamWaitEvent", "cuEventRecord", "cuEventRecordWithFlags")


@dataclass(frozen=True)
class SerialWindow:
    """calls: what to run in place of the window. streams: with work in them. edges: changes of the stream."""

    calls: Sequence[Prepared | Batch]
    streams: int
    edges: int


def why_not_serial(session: Session) -> str:
    """Why the work of a window cannot be put one after another; "" when it can."""
    found = next((i for i in session.window if i.call.function.startswith(WAITS_FOR_VALUES)), None)
    if found is not None:
        return f"{found.call.function} may wait for work of a later call"
    if len({_stream(item) for item in session.window if _is_work(item)}) < 2:
        return "the window has work in one stream only"
    return ""


def serial(session: Session) -> SerialWindow:
    """The window with an edge wherever work goes to another stream than the work before it."""
    calls: list[Prepared] = []
    events: dict[int, int] = {}  # context -> event
    before: Prepared | None = None
    edges = 0
    for item in session.window:
        if _is_work(item):
            if before is not None and _stream(before) != _stream(item):
                if before.context not in events:
                    session.executor.be_in(before.context)
                    events[before.context] = query(session.driver, "cuEventCreate", _EVENT_DISABLE_TIMING)
                calls += _edge(session, before, item, events[before.context])
                edges += 1
            before = item
        calls.append(item)
    session.use_main_context()
    streams = {_stream(item) for item in session.window if _is_work(item)}
    return SerialWindow(session.submittable(calls), len(streams), edges)


def compare_orders(session: Session, window: SerialWindow) -> list[str]:
    """Run the window as recorded and one after another, both from restored memory: the buffers that differ."""
    left = []
    compared: dict[str, int] = {}
    for calls in (None, window.calls):
        session.restore()
        session.synchronize()
        session.run_window(calls)
        session.synchronize()
        left.append(session.contents.copies.written_digests())
        if calls is None:
            compared = far_from_captured(session)
    return differing_buffers(session, left[0], left[1], compared)


def _is_work(item: Prepared) -> bool:
    symbol = item.call.function
    if symbol in _EDGES:
        return False
    launch = by_symbol()[symbol].effect in (Effect.LAUNCH, Effect.GRAPH_LAUNCH)
    return launch or symbol.startswith((*_COPIES, "cuStreamWriteValue", "cuMemPrefetch"))


def _stream(item: Prepared) -> tuple[int, bool]:
    """Captured stream, and whether the thread's own default stream is meant."""
    streams = launch_streams(item)
    stream = streams[0] if streams else 0
    return stream, stream == 0 and item.call.per_thread


def _edge(session: Session, before: Prepared, item: Prepared, event: int) -> list[Prepared]:
    """The stream of `item` waits for what is in that of `before`; streams that the window makes are looked up late."""

    def step(symbol: str, of: Prepared) -> Prepared:
        stream, per_thread = _stream(of)
        row = Call(_NO_NUMBER, symbol, "window", of.call.thread, [], 0, per_thread=per_thread)
        parameters = by_symbol()[symbol].parameters
        values = [event if parameter.c_type == "CUevent" else 0 for parameter in parameters]
        place = next(at for at, parameter in enumerate(parameters) if parameter.c_type == "CUstream")
        made = Prepared(row, of.context, session.driver.function(symbol, per_thread), values)
        if session.executor.is_permanent("CUstream", stream):
            values[place] = session.executor.handles.live("CUstream", stream)
        else:
            made.late_arguments.append((place, "CUstream", stream))
        return replace(made, arguments=[passed_value(p, v) for p, v in zip(parameters, values, strict=True)])

    return [step("cuEventRecord", before), step("cuStreamWaitEvent", item)]
