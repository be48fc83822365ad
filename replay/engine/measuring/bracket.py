"""One pair of events around all that a window gives to devices, whatever streams and contexts that is in.

The start event is recorded before the first work, in its stream, and work in every other stream waits for it; the end
event is recorded after the last work, and waits for all of those streams. `cuStreamWaitEvent` takes events of other
contexts and devices, `cuEventRecord` those of the stream's own context: so each stream is waited for through an event
of its own context. A stream that the window makes waits in front of its first work. One that the window ends is waited
for before that, by a stream of ours, which then has the end event. Objects of a context that the window makes are
made with it, in each run; where the window also ends that context, the time is read before.

Streams and contexts that the window makes, and windows of several contexts, are not yet seen on a GPU
(GT-WINDOW-STREAMS).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain

from replay.api.functions import by_symbol
from replay.engine.arguments.prepared import Prepared
from replay.engine.execution.lanes import Lane, is_work, lane_of
from replay.engine.execution.preparing import destroyed_handle
from replay.engine.execution.repeated import PreparedRepeats
from replay.engine.execution.window import Kind, Part
from replay.engine.session import Session, Submittable
from replay.snapshot.schema import Call

_EVENT_DEFAULT, _EVENT_DISABLE_TIMING = 0, 2
_STREAM_NON_BLOCKING = 1
NO_NUMBER = -1  # of a call that the application did not make
OF_NO_CALL = f"call {NO_NUMBER} of the window"  # where such a call fails, if it is not called from Python

Expand = Callable[[int, Prepared], list[Prepared]]
Mark = Callable[[int, PreparedRepeats], PreparedRepeats]


def step(near: Prepared, action: Callable[[], None]) -> Prepared:
    """Something of ours between the calls of a window, in the context of `near`."""

    def run() -> int:
        action()
        return 0

    return Prepared(
        Call(NO_NUMBER, "cuEventRecord", "window", near.call.thread, [], 0), near.context, run, []
    )


def ended_context(item: Prepared) -> int:
    """The captured context that a call destroys; 0: none."""
    ended = destroyed_handle(item.call, by_symbol()[item.call.function])
    return ended[1] if ended is not None and ended[0] == "CUcontext" else 0


class Bracket:
    """The events around a session's window, and the window with the steps that record them.

    reason: why there is no such pair, "" where there is; then only that may be asked. main: where the first work goes.
    plain: nothing that it needs is made or ended by the window.
    before_start, after_end: what to queue in a live stream before the start event and after the end event;
    `after_end` is called when all work is queued. To be made where the window has not run since the last restore.
    """

    def __init__(
        self, session: Session, before_start: Callable[[int], None], after_end: Callable[[int], None]
    ) -> None:
        self._session, self._driver = session, session.driver
        self._before_start, self._after_end = before_start, after_end
        self._made = self._made_by_the_window()
        self.reason = ""
        self.plain = True
        self.main, self.lanes = Lane(0, 0), []
        self._first, self._last = len(session.window), -1
        work = [kind for kind in session.window.kinds() if is_work(kind.item)]
        if not work:
            self.reason = "the window starts no work on the device"
            return
        self._first, self._last = work[0].first, max(kind.last for kind in work)
        self.main = lane_of(work[0].item)
        self.lanes = list(dict.fromkeys(lane_of(kind.item) for kind in work))
        self._joins: dict[Lane, int] = {}
        self._collector = 0  # live; 0: the main stream
        self._own: int | None = None
        self._steps = self._plan()
        self._start = self._end = 0
        self._runs_left, self._is_open = 1, False
        self._read: float | None = None
        if not self.reason and not self.makes(self.main.context):
            self._make_events()

    @property
    def contexts(self) -> list[int]:
        """Captured contexts that have work, that of the first work first."""
        return list(dict.fromkeys(lane.context for lane in self.lanes))

    def makes(self, context: int) -> bool:
        """Whether the window makes a captured context, so that it is not there before."""
        return ("CUcontext", context) in self._made

    def between(self) -> Iterator[Kind]:
        """The calls from the first work to the last."""
        return self._session.window.kinds(self._first, self._last + 1)

    def outside(self) -> Iterator[Kind]:
        """All others."""
        kinds = self._session.window.kinds
        return chain(kinds(0, self._first), kinds(max(self._first, self._last + 1)))

    def prepare(self, times: int) -> None:
        """The next `times` runs of the window are between one pair of events."""
        self._runs_left, self._is_open, self._read = times, False, None

    def around(
        self,
        expand: Expand = lambda place, item: [item],
        places: Collection[int] = (),
        mark: Mark = lambda place, part: part,
    ) -> list[Submittable]:
        """The window with the steps. expand: what to run in place of the calls at `places`, in front of the end event
        too; mark: in place of calls that repeat, of which the first is at that place."""
        calls: list[Part] = []
        steps = {} if self.reason else self._steps
        begins = {*places, *(place + 1 for place in places), *steps, self._last + 1}
        for place, part in self._session.window.cut(begins):
            near = part if isinstance(part, Prepared) else next(iter(part.templates.values()))
            calls += [step(near, action) for action in steps.get(place, ())]
            if isinstance(part, Prepared):
                calls += expand(place, part) if place in places else [part]
                size = 1
            else:
                calls.append(mark(place, part))
                size = len(part)
            if place + size - 1 == self._last and not self.reason:
                calls.append(step(near, self._close))
        return self._session.submittable(calls)

    def elapsed_ns(self) -> float:
        """Between the events of the runs since `prepare`, which have ended. Raises DriverFailure."""
        if self._read is None:
            self._be_in(self.main.context)
            self._read = self._driver.cuEventElapsedTime(self._start, self._end) * 1e6
        return self._read

    def record_end(self) -> int:
        """Record the end event after everything that is queued, and return it. Only of a plain window."""
        self._join_all()
        return self._end

    # -- planning -----------------------------------------------------------------------------------------------

    def _made_by_the_window(self) -> set[tuple[str, int]]:
        given = {
            (c_type, captured)
            for item, *_ in self._session.window.kinds()
            for _, c_type, captured_values in item.outputs
            for captured in captured_values
            if c_type in ("CUstream", "CUcontext")
        }
        find = self._session.translation.handles.find
        # The primary context that stands for a captured one is there before any call that retains it.
        return {item for item in given if item[0] == "CUstream" or find(*item) is None}

    def _is_late(self, lane: Lane) -> bool:
        return ("CUstream", lane.stream) in self._made or self.makes(lane.context)

    def _plan(self) -> dict[int, list[Callable[[], None]]]:
        """What to do in front of which call of the window."""
        steps: dict[int, list[Callable[[], None]]] = {self._first: [self._open]}
        seen = [self.main]
        ended_early = False
        for item, number, *_ in self._session.window.kinds(self._first + 1, self._last + 1):
            context = ended_context(item)
            if context and context == self.main.context:
                self.reason = (
                    "the window ends the context of its first work before its last, and the events with it"
                )
            changed = _changed(item)
            ended = [one for one in seen if (context and one.context == context) or one.stream in changed]
            for lane in ended:
                steps.setdefault(number, []).append(lambda lane=lane: self._join(lane))  # type: ignore[misc]
                seen.remove(lane)
                ended_early = True
            lane = lane_of(item)
            if is_work(item) and lane not in seen:
                seen.append(lane)
                if self._is_late(lane):
                    steps.setdefault(number, []).append(lambda lane=lane: self._follow(lane))  # type: ignore[misc]
        self._at_end = seen
        # These wait as soon as the start event is recorded.
        self._early = [lane for lane in self.lanes if lane != self.main and not self._is_late(lane)]
        self._collects = ended_early
        self.plain = not (self._made or ended_early or len(self.contexts) > 1)
        for item, number, *_ in self._session.window.kinds(self._last + 1):
            if ended_context(item) == self.main.context and self.main.context:
                steps.setdefault(number, []).append(self._read_early)
                break
        return steps

    # -- while the window runs ----------------------------------------------------------------------------------

    def _be_in(self, context: int) -> None:
        self._session.translation.contexts.be_in(context)

    def _live(self, lane: Lane) -> int:
        return self._session.translation.handles.live("CUstream", lane.stream)

    def _make_events(self) -> None:
        """In the context of the first work."""
        self._be_in(self.main.context)
        self._start, self._end = (self._driver.cuEventCreate(_EVENT_DEFAULT) for _ in range(2))
        if self._collects:
            self._own = self._driver.cuStreamCreate(_STREAM_NON_BLOCKING)

    def _open(self) -> None:
        if self._is_open:
            return  # by an earlier of several runs
        self._is_open = True
        if self.makes(self.main.context):
            self._make_events()
        self._be_in(self.main.context)
        main = self._live(self.main)
        self._before_start(main)
        self._driver.cuEventRecord(self._start, main)
        for lane in self._early:
            self._follow(lane)

    def _follow(self, lane: Lane) -> None:
        """Work in a stream waits for the start event."""
        self._be_in(lane.context)
        self._driver.cuStreamWaitEvent(self._live(lane), self._start, 0)

    def _join(self, lane: Lane) -> None:
        """The end event waits for what is in a stream."""
        self._be_in(lane.context)
        event = self._joins.get(lane)
        if event is None:
            event = self._driver.cuEventCreate(_EVENT_DISABLE_TIMING)
            if not self.makes(lane.context):
                self._joins[lane] = event
        self._driver.cuEventRecord(event, self._live(lane))
        self._be_in(self.main.context)
        self._driver.cuStreamWaitEvent(self._last_stream(), event, 0)

    def _last_stream(self) -> int:
        return self._live(self.main) if self._own is None else self._own

    def _join_all(self) -> None:
        for lane in self._at_end:
            if self._own is not None or lane != self.main:
                self._join(lane)
        self._be_in(self.main.context)
        self._driver.cuEventRecord(self._end, self._last_stream())

    def _close(self) -> None:
        self._runs_left -= 1
        if self._runs_left == 0:
            self._join_all()
            self._after_end(self._last_stream())

    def _read_early(self) -> None:
        """The window is about to end the context of the events."""
        self._driver.cuEventSynchronize(self._end)
        self.elapsed_ns()


def _changed(item: Prepared) -> set[int]:
    """Captured streams that a call ends, or gives out anew."""
    ended = destroyed_handle(item.call, by_symbol()[item.call.function])
    changed = {ended[1]} if ended is not None and ended[0] == "CUstream" else set()
    return changed | {
        captured
        for _, c_type, captured_values in item.outputs
        if c_type == "CUstream"
        for captured in captured_values
    }
