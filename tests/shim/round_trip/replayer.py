"""Replays a capture with the real engine on a recorder, and compares what the two drivers were asked."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from replay.api.functions import by_symbol
from replay.api.graphs import WAITING
from replay.api.vocabulary import Effect, Function, Role
from replay.engine.arguments.prepared import Prepared
from replay.engine.driver import Driver, argument_type
from replay.engine.execution.executor import Executor
from replay.engine.program import Program
from replay.engine.session import Session
from replay.pack import pack
from replay.planning.spans import plan_spans
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Range

from . import recipes
from .recorder import Asked, Recorder

_NOT_MOVED = (
    1 << 63
)  # marks a captured address that reached the second driver as it was, though its memory moved

AppCall = tuple[str, list[int], int]  # symbol, words, result


class RecordedDriver(Driver):
    """The engine's view of the recording driver: functions with the exact ABI, as `LoadedDriver` makes them."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._functions: dict[str, Callable[..., int]] = {}

    def answer_with(self, recorder: Recorder) -> None:
        self._library.recording_driver_calls(recorder.hook)

    def silence(self) -> None:
        """No hook any more: the recorder may end."""
        self._library.recording_driver_calls(None)

    def function(self, symbol: str, per_thread: bool = False) -> Callable[..., int]:
        row = by_symbol()[symbol]
        name = row.twin if per_thread and row.twin else symbol
        if name not in self._functions:
            prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[argument_type(p) for p in row.parameters])
            address = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
            assert address is not None
            self._functions[name] = prototype(address)
        return self._functions[name]

    def own(self, symbol: str) -> None:
        """It has nothing that a real driver lacks."""

    def error_name(self, code: int) -> str:
        return f"error {code}"


@dataclass
class Replayed:
    """What a replay did. asked: by the label of the application's call. calls: those of the snapshot, likewise."""

    asked: dict[int, list[Asked]]
    calls: dict[int, Call]
    ranges: list[Range]
    notes: list[str]


def labels_of(calls: Sequence[Call], application: Sequence[AppCall]) -> dict[int, int]:
    """Number of a captured call -> its place among the application's own. Calls that the shim made have none."""
    place = {}
    at = 0
    for call in sorted(calls, key=lambda call: call.number):
        row = by_symbol()[call.function]
        symbol = row.twin if call.per_thread else row.symbol
        waited = call.section == "setup" and call.function in WAITING
        for candidate in reversed(range(len(application))) if waited else range(at, len(application)):
            wanted, words, _ = application[candidate]
            same = all(
                parameter.size_bytes > 8 or (ours ^ word) & ((1 << 8 * parameter.size_bytes) - 1) == 0
                for parameter, ours, word in zip(row.parameters, words, call.arguments, strict=False)
            )
            if symbol == wanted and same:
                place[call.number] = candidate
                at = at if waited else candidate + 1
                break
    return place


@contextmanager
def _watched(before: Callable[[Executor, Prepared], None], after: Callable[[], None]) -> Iterator[None]:
    """Every call that an executor runs, announced."""
    run = Executor.run

    def announced(self: Executor, prepared: Prepared) -> int:
        before(self, prepared)
        try:
            return run(self, prepared)
        finally:
            after()

    Executor.run = announced  # type: ignore[method-assign]
    try:
        yield
    finally:
        Executor.run = run  # type: ignore[method-assign]


class _Replay:
    """Which call the engine is running, and where it has put captured memory."""

    def __init__(self) -> None:
        self.labels: dict[int, int] = {}
        self._executor: Executor | None = None
        self._running: Prepared | None = None

    def before(self, executor: Executor, prepared: Prepared) -> None:
        self._executor, self._running = executor, prepared

    def after(self) -> None:
        self._running = None

    def expects(self, symbol: str, words: list[int]) -> int | None:
        """The label of the call that is run, if this is the function that it runs and not one beside it."""
        if self._running is None:
            return None
        wanted = recipes.INSTEAD.get(self._running.call.function, self._running.symbol)
        if by_symbol()[symbol].symbol != wanted:
            return None
        return self.labels.get(self._running.call.number)

    def turn_back(self, address: int) -> int:
        if self._executor is None:
            return address
        addresses = self._executor.builder.addresses
        for captured, (size, live) in addresses._loose.items():
            if live is not None and live <= address < live + size:
                return captured + address - live
        for item in addresses._placed:
            if item.live_address <= address < item.live_address + item.span.size_bytes:
                return item.span.address + address - item.live_address
        if any(item.span.address <= address < item.span.end for item in addresses._placed):
            return address | _NOT_MOVED
        return address


def replay(
    folder: Path, application: Sequence[AppCall], driver: RecordedDriver, symbols: Sequence[str]
) -> Replayed:
    """Pack the capture of `folder`, read it, and replay it once, with all memory at other addresses."""
    report = pack(folder / "raw.rcap", folder / "x.rsnap", full_images=True)
    assert len(report.snapshots) == 1, report
    recorder, state = Recorder(symbols, 0x5000_0000_0000), _Replay()
    recorder.expects, recorder.turn_back = state.expects, state.turn_back
    driver.answer_with(recorder)
    with SnapshotReader(folder / "x.rsnap") as reader, _watched(state.before, state.after):
        program = Program(reader, best_effort=False)
        calls = [*program.setup, *program.window]
        # Calls that sum up which contexts are current are in the setup with no time of their own.
        state.labels = labels_of([call for call in calls if call.enter_ns], application)
        spans = plan_spans(program.ranges.values())
        try:
            session = Session(
                driver,
                program,
                device=0,
                spans=spans,
                taken=dict.fromkeys(spans, "taken"),
                relocate=True,
                stage=lambda text: None,
            )
            session.run_window(session.window)  # one by one: batches are submitted by no Executor.run
        finally:
            assert not recorder.errors, recorder.errors
    return Replayed(
        recorder.asked,
        {state.labels[call.number]: call for call in calls if call.number in state.labels},
        list(program.ranges.values()),
        [*program.left_out, *session.notes],
    )


# ---- comparing ---------------------------------------------------------------------------------------------


@dataclass
class Comparison:
    """problems: what differs, by function and parameter. executed, placed, kept: functions whose calls reached the
    second driver; whose memory was placed beforehand; whose calls the engine leaves out and the snapshot holds. setup:
    those of all three that were called before the window. described: those that built the graphs of both sides."""

    problems: list[str] = field(default_factory=list)
    executed: set[str] = field(default_factory=set)
    placed: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    setup: set[str] = field(default_factory=set)
    described: set[str] = field(default_factory=set)

    @property
    def compared(self) -> set[str]:
        return self.executed | self.placed | self.kept | self.described


def compare(application: Sequence[AppCall], first: dict[int, list[Asked]], second: Replayed) -> Comparison:
    """Whether the second driver was asked for what the first was asked for, call by call."""
    result = Comparison()
    for label, (symbol, words, code) in enumerate(application):
        function = by_symbol()[symbol]
        [asked] = first[label]
        call = second.calls.get(label)
        if function.described and code == 0:
            result.described.add(symbol)  # seen in the graphs that are compared
        if call is None or code != 0:
            continue
        where = f"call {label} {symbol}"
        if call.section == "setup":
            result.setup.add(symbol)
        again = second.asked.get(label)
        if function.symbol in recipes.SEEN_AT_LAUNCH:
            result.executed.add(symbol)
        elif again:
            result.executed.add(symbol)
            result.problems += _compare_calls(where, function, asked, again)
        elif function.effect in PLACED:
            result.placed.add(symbol)
            result.problems += _compare_memory(where, function, words, call, second.ranges)
        else:
            result.kept.add(symbol)
            # What the setup made has to be there in the next iteration too.
            outlives = function.effect == Effect.DESTROY and any(
                other.section == "setup" for other in second.calls.values()
            )
            said = any(note.startswith(f"{function.symbol} was not executed: ") for note in second.notes)
            # What went into the capture of a stream is seen in the graphs that are compared.
            captured = call.in_capture or function.effect in (Effect.BEGIN_CAPTURE, Effect.END_CAPTURE)
            known = said or outlives or captured or not function.is_replayed or function.effect in CURRENCY
            if not known:
                result.problems.append(f"{where}: was not replayed")
            result.problems += _compare_record(where, function, asked, call)
    return result


CURRENCY = (Effect.SET_CURRENT, Effect.PUSH_CURRENT, Effect.POP_CURRENT)
# What these do depends on no current context.
_WITHOUT_CONTEXT = ("cuInit", "cuDev", "cuCtxCreate", "cuGreenCtx", "cuCtxFromGreenCtx")
PLACED = frozenset(
    (
        Effect.ALLOC, Effect.FREE, Effect.HOST_ALLOC, Effect.HOST_FREE, Effect.HOST_REGISTER, Effect.HOST_UNREGISTER,
        Effect.MANAGED_ALLOC, Effect.MAP, Effect.UNMAP, Effect.IMPORT,
    )
)  # fmt: skip
_GONE = frozenset((Effect.FREE, Effect.HOST_FREE, Effect.HOST_UNREGISTER, Effect.UNMAP))


def _compare_calls(where: str, function: Function, asked: Asked, again: list[Asked]) -> list[str]:
    if len(again) != 1:
        return [f"{where}: reached the second driver {len(again)} times"]
    other = again[0]
    problems = []
    wanted = recipes.INSTEAD.get(function.symbol, function.meaning)
    if other.symbol != wanted:
        problems.append(f"{where}: became {other.symbol}")
    if other.per_thread != (asked.per_thread and bool(by_symbol()[wanted].twin)):
        problems.append(f"{where}: per-thread {asked.per_thread} became {other.per_thread}")
    depends = asked.context is not None and not function.symbol.startswith(_WITHOUT_CONTEXT)
    if depends and other.context != asked.context:
        problems.append(f"{where}: ran in {asked.context}, now in {other.context}")
    translate = recipes.TRANSLATED.get(function.symbol)
    others = list(other.given.values())
    for position, (name, given) in enumerate(asked.given.items()):
        if translate is not None:
            translated = translate(other.given)
            if name in translated and translated[name] != given:
                problems.append(f"{where}: {name} was {_short(given)}, is {_short(translated[name])}")
            continue
        if (function.symbol, name) in recipes.OTHERWISE:
            given = recipes.OTHERWISE[function.symbol, name]
            if given is None:
                continue
        if others[position] != given:
            problems.append(f"{where}: {name} was {_short(given)}, is {_short(others[position])}")
    return problems


def _compare_memory(
    where: str, function: Function, words: list[int], call: Call, ranges: list[Range]
) -> list[str]:
    """Memory that the window touches is a range of the snapshot, from the call that made it to the one that ends it."""
    position = function.effect_terms[0].parameters[0]
    parameter = function.parameters[position]
    if parameter.role == Role.OUT:
        data = call.outputs.get(parameter.name, b"")
        assert isinstance(data, bytes)
        address = int.from_bytes(data, "little")
    else:
        address = words[position]
    found = [range_ for range_ in ranges if address in (range_.address, range_.host_address)]
    if not found:
        return [f"{where}: no range of the snapshot is at {address:#x} ({parameter.name})"]
    if call.section == "window":
        ends = "died_call" if function.effect in _GONE else "born_call"
        if all(getattr(range_, ends) != call.number for range_ in found):
            return [f"{where}: no range has {ends} {call.number} ({parameter.name})"]
    return []


def _compare_record(where: str, function: Function, asked: Asked, call: Call) -> list[str]:
    """What the engine leaves out is in the snapshot as the first driver was asked."""
    problems = []
    for position, parameter in enumerate(function.parameters):
        size = min(parameter.size_bytes, 8)
        given = asked.words[position], call.arguments[position] & ((1 << 8 * size) - 1)
        if parameter.size_bytes <= 8 and given[0] != given[1]:
            problems.append(f"{where}: {parameter.name} was {given[0]:#x}, is {given[1]:#x}")
        if parameter.name in asked.raw and call.inputs.get(parameter.name) != asked.raw[parameter.name]:
            problems.append(f"{where}: {parameter.name} was {_short(asked.raw[parameter.name])}, is "
                            f"{_short(call.inputs.get(parameter.name))}")  # fmt: skip
    return problems


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 160 else f"{text[:150]}..."
