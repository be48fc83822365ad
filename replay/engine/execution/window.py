"""The window, prepared: its calls, and what happens at them besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from replay.engine.arguments.prepared import Prepared
from replay.engine.contents.store import ContentStore
from replay.engine.execution.executor import Executor
from replay.engine.execution.lanes import is_launch
from replay.engine.placing.captured import CapturedMemory
from replay.engine.program import Program
from replay.engine.translation.translation import Translation
from replay.errors import EngineError
from replay.planning.spans import is_global
from replay.snapshot.schema import Call, Change


@dataclass
class PreparedWindow:
    """last_changes: what the host wrote after the last call. main_context: the captured context of the first launch;
    other_contexts: those that are others here, too."""

    calls: list[Prepared]
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
    calls: list[Prepared] = []
    skipped, before = 0, memory.addresses.state()
    for call in program.window:
        for range_ in filter(memory.turns.concerns, program.births.get(call.number, ())):
            memory.turns.follow(range_)
        prepared = _prepare(program, translation, executor, call)
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
    for prepared in calls:
        prepared.then += _after(program, memory, contents, prepared.call.number)
    executor.settle([item for item in calls if item.function is not nothing])
    numbers = {item.call.number for item in calls}
    late = sorted(program.changes.keys() - numbers)
    first = next((item for item in calls if is_launch(item)), None)
    live = translation.contexts.live
    main = first.context if first else 0
    others = {item.context for item in calls}
    if live(main) is not None:
        others = {one for one in others if live(one) != live(main)}
    return PreparedWindow(
        calls, skipped, [change for number in late for change in program.changes[number]], main, others
    )


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
