"""The window, prepared: its calls, and what happens at them besides."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple, overload

from replay.engine.arguments.prepared import Prepared
from replay.engine.contents.store import ContentStore
from replay.engine.execution.executor import Executor
from replay.engine.execution.lanes import is_launch
from replay.engine.execution.repeated import PreparedRepeats, divided, prepared_repeats
from replay.engine.placing.captured import CapturedMemory
from replay.engine.program import Program
from replay.engine.translation.translation import Translation
from replay.errors import EngineError
from replay.planning.spans import is_global
from replay.records import dataclass
from replay.snapshot.calls import Repeats
from replay.snapshot.schema import Call, Change

Part = Prepared | PreparedRepeats


class Kind(NamedTuple):
    """A call by itself, or what calls that repeat have in common, as the first of them. first, last: their places in
    the window; number: how many they are."""

    item: Prepared
    first: int
    last: int
    number: int


class Window(Sequence[Prepared]):
    """The calls in their order. parts: those that are by themselves, and those that repeat, which become objects
    when somebody asks for one."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = list(parts)
        sizes = (len(part) if isinstance(part, PreparedRepeats) else 1 for part in self.parts)
        self._ends = list(accumulate(sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> Prepared: ...
    @overload
    def __getitem__(self, place: slice) -> list[Prepared]: ...
    def __getitem__(self, place: int | slice) -> Prepared | list[Prepared]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        at = range(len(self))[place]
        number = bisect_right(self._ends, at)
        part = self.parts[number]
        return part if isinstance(part, Prepared) else part.item(at - (self._ends[number] - len(part)))

    def kinds(self, begin: int = 0, end: int | None = None) -> Iterator[Kind]:
        """All there is to know of the calls from one place to before another but for numbers, times and parameters,
        in the order of the first places."""
        end = len(self) if end is None else end
        for first, part in self.cut((begin, end)):
            if not begin <= first < end:
                continue
            if isinstance(part, Prepared):
                yield Kind(part, first, first, 1)
                continue
            repeats = part.repeats
            for call, (template, at, last, number) in zip(repeats.firsts(), repeats.places(), strict=True):
                item = replace(part.templates[template], call=call)
                yield Kind(item, first + at, first + last, number)

    def cut(self, places: Iterable[int]) -> Iterator[tuple[int, Part]]:
        """The parts with the place of each, so divided that a part begins at each of these places."""
        wanted = sorted(set(places))
        for part, end in zip(self.parts, self._ends, strict=True):
            if isinstance(part, Prepared):
                yield end - 1, part
                continue
            start = end - len(part)
            inside = wanted[bisect_right(wanted, start) : bisect_right(wanted, end - 1)]
            for begin, following in pairwise([start, *inside, end]):
                if following - begin == 1:
                    yield begin, part.item(begin - start)
                else:
                    whole = following - begin == len(part)
                    yield begin, part if whole else part.part(begin - start, following - start)


@dataclass
class PreparedWindow:
    """last_changes: what the host wrote after the last call. main_context: the captured context of the first launch;
    other_contexts: those that are others here, too."""

    calls: Window
    skipped: int
    last_changes: list[Change]
    main_context: int
    other_contexts: set[int]


def prepare_window(
    program: Program,
    memory: CapturedMemory,
    translation: Translation,
    contents: ContentStore,
    executor: Executor,
) -> PreparedWindow:
    """Prepare the calls in their order, each with memory as it is at that place; then memory is as before."""
    calls: list[Part] = []
    skipped, before = 0, memory.addresses.state()
    prepare = partial(_prepare, program, translation, executor)
    for call in _in_parts(program, translation):
        if isinstance(call, Repeats):
            repeated = prepared_repeats(call, prepare, translation)
            if repeated is not None:
                calls.append(repeated)
                continue
            singles = list(map(prepare, call.calls()))
            calls += filter(None, singles)
            skipped += singles.count(None)
            continue
        for range_ in filter(memory.turns.concerns, program.births.get(call.number, ())):
            memory.turns.follow(range_)
        prepared = prepare(call)
        for range_ in program.deaths.get(call.number, ()) if memory.turns.any else ():
            memory.turns.leave(range_)
        skipped += prepared is None
        if prepared is None and _memory_changes_at(program, memory, call.number):
            # Not executed itself, but memory appears or disappears here.
            here = Call(call.number, "cuCtxSynchronize", "window", call.thread, [], 0)
            prepared = Prepared(here, executor.preparation.threads.current(call.thread), nothing, [])
        if prepared is not None:
            calls.append(prepared)
    memory.addresses.return_to(before)
    alone = [item for item in calls if isinstance(item, Prepared)]
    for item in alone:
        item.then += _after(program, memory, contents, item.call.number)
    templates = [
        one for part in calls if isinstance(part, PreparedRepeats) for one in part.templates.values()
    ]
    executor.settle([*(item for item in alone if item.function is not nothing), *templates])
    window = Window(calls)
    late = sorted(program.changes.keys() - {item.call.number for item in alone})
    first = next((kind.item for kind in window.kinds() if is_launch(kind.item)), None)
    live = translation.contexts.live
    main = first.context if first else 0
    others = {item.context for item in calls}
    if live(main) is not None:
        others = {one for one in others if live(one) != live(main)}
    return PreparedWindow(
        window, skipped, [change for number in late for change in program.changes[number]], main, others
    )


def _in_parts(program: Program, translation: Translation) -> Iterator[Call | Repeats]:
    """The calls of the window, and together those that are prepared together."""
    for part in program.window.parts:
        if isinstance(part, Call):
            yield part
        else:
            yield from divided(part, translation)


def _prepare(program: Program, translation: Translation, executor: Executor, call: Call) -> Prepared | None:
    try:
        return executor.preparation.prepare(call)
    except EngineError as error:
        failed = call.result not in (0, None)  # what it lacks, it lacked in the application
        if not program.best_effort and not failed:
            raise
        program.left_out.append(f"left out{', as it failed anyway' if failed else ''}: {error}")
        translation.handles.leave_out(call)
        return None


def _after(
    program: Program, memory: CapturedMemory, contents: ContentStore, number: int
) -> list[Callable[[], None]]:
    """What to do once the call of this number has run."""
    died = program.deaths.get(number, ())
    steps: list[Callable[[], None]] = [
        partial(memory.turns.leave, one) for one in filter(memory.turns.concerns, died)
    ]
    steps += memory.ends.changes.get(number, ())
    for range_ in filter(is_global, died):
        steps.append(partial(contents.gone.add, range_.id))
        if range_.id in program.shared:  # else pointers to it may be left, and mean nothing else
            steps.append(partial(memory.addresses.forget, range_.address, range_.size_bytes))
    return steps


def _memory_changes_at(program: Program, memory: CapturedMemory, number: int) -> bool:
    places = (program.births, program.deaths, program.changes, program.seen, memory.ends.changes)
    return any(number in place for place in places)


def nothing() -> int:
    """Stands for a driver function where there is nothing to call."""
    return 0
