"""From a snapshot to the steps of a program: the engine prepares every call, and a driver that takes notes gets them.

All memory keeps its captured address, so pointers need no patching but those to variables of modules, which live where
the driver loads them. Raises EngineError with the reason when a snapshot cannot be exported.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from replay.api.functions import by_symbol
from replay.api.graphs import NodeType, layout_of
from replay.engine.execution.custom.graph_steps import Step as NodeStep
from replay.engine.execution.executor import Executor
from replay.engine.execution.handles import captured_handles
from replay.engine.execution.inputs import MAXIMUM_BUFFER_BYTES, HostOutput, Prepared
from replay.engine.execution.lanes import is_launch, launch_streams
from replay.engine.measuring.measure import MAXIMUM_HELD_CALLS, may_wait
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.devices import Devices
from replay.engine.placing.pieces import Placed
from replay.engine.program import Program
from replay.errors import EngineError
from replay.export.ends import exported_ends
from replay.export.exported import DESTROYERS
from replay.export.memory import ExportedMemory
from replay.export.recording import RecordingDriver
from replay.export.steps import (
    Call,
    Compare,
    CompareBlock,
    Confine,
    ExportPlan,
    HostWrite,
    Place,
    Step,
    Turn,
)
from replay.export.turns import ExportedTurns
from replay.inspection.launches import launches
from replay.inspection.pieces import describe
from replay.planning.lifetimes import Lifetimes
from replay.planning.ordinals import captured_devices
from replay.planning.spans import (
    Span,
    is_array,
    is_global,
    is_host,
    plan_spans,
    units,
    whole,
)
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call as CapturedCall
from replay.snapshot.schema import Change, Environment, Fault, Kernel, from_wire

MAXIMUM_DEVICES = 64
MAXIMUM_CONTEXTS = 64
ANY_ERROR = -1  # older captures do not say which it was
MAXIMUM_PLACES = 64  # tried for a buffer that must lie at no captured address
_READ_ONLY = 8  # CU_MEMHOSTREGISTER_READ_ONLY


def plan_export(reader: SnapshotReader) -> ExportPlan:
    """reader: at the window to export. Raises EngineError."""
    return _Planning(reader).plan()


def _makes_context(call: CapturedCall) -> bool:
    return call.function.startswith("cuCtxCreate") and call.result == 0


class _Executor(Executor):
    """Writes into pinned memory are steps, and no writes: nothing is at these addresses here."""

    recorder: RecordingDriver
    host_writes: list[tuple[int, bytes]]

    def buffer(self, prepared: Prepared, data: bytes) -> Any:
        return self._kept(lambda: super(_Executor, self).buffer(prepared, data))

    def lasting_room(self, size_bytes: int) -> Any:
        return self._kept(lambda: super(_Executor, self).lasting_room(size_bytes))

    def _kept(self, make: Callable[[], Any]) -> Any:
        """A buffer that cannot be taken for captured memory."""
        elsewhere: list[Any] = []
        held_bytes = 0
        while len(elsewhere) < MAXIMUM_PLACES and held_bytes <= MAXIMUM_BUFFER_BYTES:
            made = make()
            if self.recorder.keep(made):
                return made
            elsewhere.append(made)  # stays alive, so that the next one is elsewhere
            held_bytes += len(made)
        raise EngineError(
            "this process itself lies at addresses of the snapshot's host memory",
            next="try again, or look for its size in `replay ls SNAPSHOT memory`",
        )

    def _one_image(self, prepared: Prepared, name: str, part: int) -> Any:
        made = super()._one_image(prepared, name, part)
        if not self.recorder.keep(made):
            raise EngineError("an image has come to lie at a captured address", next="try again")
        return made

    def variable_bytes(self, captured_bytes: int, live_bytes: int) -> int:
        return captured_bytes  # nothing is loaded here: the program's driver will know, and refuse what is too much

    def put_host_bytes(self, live: int, source: Any, size_bytes: int) -> None:
        self.host_writes.append((live, bytes(source)[:size_bytes]))


class _NodeRunner:
    """Notes down the work of the nodes of a graph."""

    def __init__(self, recorder: RecordingDriver) -> None:
        self._recorder = recorder

    def run(self, steps: list[NodeStep], call_number: int, stream: int, per_thread: bool) -> int:
        before = self._recorder.what
        for number, step in enumerate(steps, 1):
            kernel = step.node.type == NodeType.KERNEL
            self._recorder.layout = layout_of(step.node) if kernel else None
            name = f" {step.node.name}" if step.node.name else ""
            self._recorder.what = f"{before}, node {number}: {step.node.type_name}{name}"
            if code := step.run():
                return code
        self._recorder.what = before
        return 0


class _Planning:
    def __init__(self, reader: SnapshotReader) -> None:
        self._reader = reader
        self._program = program = Program(reader, best_effort=False, expand_graphs=True)
        self._plan = ExportPlan(name=reader.path.name)
        self._refuse()
        spans = plan_spans(program.ranges.values())
        self._captured = AddressMap(
            Placed(stretch, stretch.address, "same_address") for stretch in map(whole, units(spans))
        )
        captured = captured_devices([*program.setup, *program.window], program.ranges.values())
        if captured and captured[-1] >= MAXIMUM_DEVICES:
            raise EngineError(
                f"the window uses device {captured[-1]}, more than an exported program can have"
            )
        count = captured[-1] + 1 if len(captured) > 1 else 1
        if len(captured) > 1:
            self._note(
                f"the {len(captured)} devices of the application are one, each with a context of its own, where there "
                "are fewer here or EXPORT_DEVICE is set"
            )
        self._addresses = AddressMap(Placed(span, span.address, "same_address") for span in spans)
        for range_ in program.ranges.values():
            if is_global(range_):
                self._addresses.expect(range_.address, range_.size_bytes)
        self._recorder = recorder = RecordingDriver(self._is_captured, count)
        self._plan.places += [
            self._place(span, span.address, span.size_bytes) for span in spans if not span.cluster
        ]
        self._turns = ExportedTurns(program, self._plan, recorder, self._addresses, spans, self._place)
        always = [Placed(span, span.address, "same_address") for span in spans if not span.cluster]
        self._ends = exported_ends(program, recorder, [*always, *self._turns.all_placed])
        self._devices = Devices(recorder, captured, 0)
        self._plan.devices = captured or [0]
        self._contexts = [self._devices.primary(device) for device in self._plan.devices]
        own = self._own_contexts()
        recorder.several = self._several = len(self._contexts) > 1
        self._plan.contexts = [known for value in self._contexts if (known := recorder.reference(value))]
        self._executor = executor = _Executor(
            recorder,
            reader,
            program.images,
            self._addresses,
            program.call_words,
            self._devices,
        )
        executor.recorder, executor.host_writes = recorder, []
        for handle, value in own.items():
            executor.handles.bind("CUcontext", handle, value)
        executor.handle_words = program.call_handles
        executor.graphs.expand = True
        executor.graphs.runner = _NodeRunner(recorder)  # type: ignore[assignment]
        executor.lifetimes = Lifetimes(program.ranges.values())
        executor.window_objects = {
            (c_type, handle)
            for call in program.window
            for c_type, name in (("CUtexObject", "pTexObject"), ("CUsurfObject", "pSurfObject"))
            for handle in captured_handles(call, name)
        }
        self._memory = ExportedMemory(program, self._plan, recorder, executor, self._addresses, self._note)
        executor.on_array = self._memory.array_appeared
        self._launched = {
            launch.call: launch
            for launch in launches([*program.setup, *program.window], self._objects(Kernel, "kernel"))
        }

    def _own_contexts(self) -> dict[int, int]:
        """Captured handle -> what stands for it, of contexts that the application made. They are there from the start
        to the end of the program. The first one of a device whose primary context nobody asked for takes its place;
        the others are contexts of their own."""
        calls = [*self._program.setup, *self._program.window]
        retained = {
            c.arguments[1] for c in calls if c.function == "cuDevicePrimaryCtxRetain" and c.result == 0
        }
        free = [device for device in self._plan.devices if device not in retained]
        own: dict[int, int] = {}
        for call in calls:
            if not _makes_context(call):
                continue
            place = next(
                i for i, p in enumerate(by_symbol()[call.function].parameters) if p.c_type == "CUdevice"
            )
            device = call.arguments[place] & 0xFFFFFFFF
            for handle in captured_handles(call, "pctx"):
                if handle in own:
                    continue
                if device in free:
                    free.remove(device)
                    own[handle] = self._devices.primary(device)
                    continue
                if len(self._contexts) >= MAXIMUM_CONTEXTS:
                    raise EngineError(f"the window uses more than {MAXIMUM_CONTEXTS} contexts")
                own[handle] = self._recorder.new_context()
                self._contexts.append(own[handle])
                self._plan.devices.append(device)
        if own:
            self._note(
                "contexts that the application made are made once, before everything else, without their flags"
            )
        return own

    def _objects(self, kind: type[Any], name: str) -> list[Any]:
        return [from_wire(kind, value) for value in self._reader.objects(name)]

    def _refuse(self) -> None:
        program = self._program
        families: dict[int, set[int]] = {}
        for range_ in program.ranges.values():
            if not is_host(range_) and not is_array(range_) and not is_global(range_):
                families.setdefault(range_.address, set()).add(program.families.of.get(range_.id, 0))
            if 0 < program.families.covered.get(range_.id, 0) < range_.size_bytes:
                raise EngineError(f"{describe(range_)} holds a part of other memory, which is not exported")
        if any(len(found) > 1 for found in families.values()):
            raise EngineError(
                "an address gets other physical memory inside the window, which is not exported"
            )
        if any(stay.apart for stay in program.stays.by_number.values()):
            raise EngineError(
                "pinned memory has the same 2 MiB as memory of the device at the same time, which is not exported"
            )
        for range_ in program.ranges.values():
            if is_host(range_) and range_.host_address not in (0, range_.address):
                raise EngineError(
                    f"{describe(range_)} has another address on the device, which is not exported"
                )
            if range_.array is not None and any(part.plane for part in range_.array.parts):
                raise EngineError(f"{describe(range_)}: arrays of several planes are not exported")
        if program.range_handles:
            self._note(
                "handles of texture and surface objects that stand in memory keep their captured value"
            )
        if any(range_.kind == "managed" and not is_global(range_) for range_ in program.ranges.values()):
            self._note("advice about managed memory and prefetching are left out")
        spans = plan_spans(program.ranges.values())
        for range_ in program.ranges.values():
            inside = (span for span in spans if span.address <= range_.address < span.end and not span.host)
            if (
                range_.kind == "managed"
                and not is_global(range_)
                and not all(s.managed_bytes for s in inside)
            ):
                self._note(
                    f"{describe(range_)} is device memory in this program: it shares a granule with other memory"
                )
        if any(call.per_thread for call in program.window):
            self._note("per-thread default streams of all threads are that of one thread")
        if program.seen:
            self._note("what the host saw in memory of its own between the calls is not compared")
        if any(node for call in program.window if (node := call.function) == "cuGraphLaunch"):
            self._note("graphs are launched node by node, in an order that keeps to their edges")

    def _note(self, text: str) -> None:
        if text not in self._plan.notes:
            self._plan.notes.append(text)

    def _is_captured(self, address: int, size_bytes: int = 1) -> bool:
        return self._captured.reach(address, max(size_bytes, 1)) is not None

    def _place(self, span: Span, address: int, size_bytes: int) -> Place:
        """Of a part of a span."""
        self._plan.device_bytes += 0 if span.host else size_bytes
        return Place(
            address,
            size_bytes,
            span.host,
            bool(span.register_flags & _READ_ONLY),
            span.family,
            self._program.families.size_bytes.get(span.family, 0),
            0 if span.host or span.family else span.managed_bytes,
            span.device,
        )

    # -- the order of a replay ----------------------------------------------------------------------------------

    def plan(self) -> ExportPlan:
        """Setup, contents, window, comparison; and what an iteration has to undo."""
        program, executor, plan, recorder = self._program, self._executor, self._plan, self._recorder
        environment = self._reader.first("environment")
        if environment is not None:
            devices = from_wire(Environment, environment).devices
            plan.architecture = devices[0].compute_capability if devices else ""
        kernels = self._objects(Kernel, "kernel")
        plan.kernels = [kernel.demangled or kernel.name for kernel in kernels]
        for call in [*program.setup, *program.window]:
            if call.function == "cuDevicePrimaryCtxRetain":
                for handle in captured_handles(call, "pctx"):
                    executor.handles.bind("CUcontext", handle, self._devices.primary(call.arguments[1]))
        self._begin(plan.setup)
        for call in program.setup:
            recorder.what = f"call {call.number}"
            if (prepared := self._prepare(call)) is not None:
                self._run(prepared)
        executor.permanent = set(executor.made)
        executor.made.clear()
        executor.graphs.setup_is_done()
        for range_ in program.ranges.values():
            if is_global(range_) and not self._addresses.is_bound(range_.address):
                self._memory.find_variable(range_)
        self._begin(plan.loads)
        at_start = [
            item for item in program.ranges.values()
            if item.before is not None and item.id not in program.late
            and self._addresses.find(item.address) is not None
        ]  # fmt: skip
        for range_ in at_start:
            self._memory.load(range_)
        self._ends.begin()
        self._begin(plan.restores)
        for range_ in at_start:
            if self._memory.is_written(range_):
                self._memory.load(range_)
        executor.on_global = self._memory.variable_appeared
        self._begin(plan.window)
        self._window()
        self._begin(plan.compares)
        dead = {item.id for ranges in program.deaths.values() for item in ranges}
        for range_ in program.ranges.values() if not plan.error else ():
            if range_.id not in dead:
                self._memory.compare(range_)
        if not plan.error:
            self._clean_up()
            before = plan.restores[:]
            self._begin(plan.restores)
            plan.restores.clear()
            self._turns.begin(self._synchronize)
            plan.restores += before
            self._ends.begin()
        for text in [*executor.notes, *program.left_out]:
            self._note(text)
        checked = any(isinstance(step, (Compare, CompareBlock)) for step in [*plan.window, *plan.compares])
        if not checked and not plan.error:
            self._note("the snapshot holds no outputs to compare with")
        plan.references = recorder.references
        return plan

    def _begin(self, steps: list[Step]) -> None:
        """From now on steps go there. Parts of the program run in any order, so each begins in the same context."""
        self._recorder.steps = steps
        if self._several:
            self._recorder.what = ""
            self._executor.switch(0)

    def _prepare(self, call: CapturedCall) -> Prepared | None:
        if call.result != 0:
            if call.result is not None:
                self._note(f"{call.function} failed in the application and was left out")
            return None
        if _makes_context(call) or call.function.startswith("cuCtxDestroy"):
            self._executor.threads.follow(call)  # it is there from the start, and stays
            return None
        return self._executor.prepare(call)

    def _run(self, prepared: Prepared) -> None:
        layout = prepared.call.inputs.get("kernelParams.1")
        numbers = (
            memoryview(layout[: len(layout) // 8 * 8]).cast("I").tolist()
            if isinstance(layout, bytes)
            else None
        )
        self._recorder.layout = (
            None if numbers is None else list(zip(numbers[::2], numbers[1::2], strict=True))
        )
        self._executor.run(prepared)

    def _window(self) -> None:
        program, recorder = self._program, self._recorder
        streams: dict[int, None] = {}
        makes_streams = False
        contexts: set[int] = set()
        for call in program.window:
            if program.fault is not None and program.fault.call == call.number:
                self._end_in(program.fault)
                break
            recorder.what = self._what(call)
            self._host_changes(program.changes.get(call.number, ()))
            for range_ in program.deaths.get(call.number, ()):
                self._synchronize()
                self._memory.compare(range_)
            for range_ in program.births.get(call.number, ()):
                if not is_global(range_):  # its contents come with its module
                    self._synchronize()
                    if self._turns.concerns(range_):
                        self._turns.appear(range_)
                    self._memory.load(range_)
            prepared = self._prepare(call)
            if prepared is not None:
                makes_streams |= call.function.startswith("cuStreamCreate")
                if is_launch(prepared):
                    contexts.add(prepared.context)
                    streams.update(dict.fromkeys(launch_streams(prepared)))
                self._run_in_window(prepared)
            self._host_changes(program.seen.get(call.number, ()))
            for range_ in program.deaths.get(call.number, ()):
                self._turns.leave(range_)
            for change in self._ends.changes.get(call.number, ()):
                change()
        if program.fault is not None and not self._plan.error:
            self._end_in(program.fault)
        numbers = {call.number for call in program.window}
        for number in () if self._plan.error else sorted(program.changes.keys() - numbers):
            self._host_changes(program.changes[number])
        elsewhere = {self._executor.handles.find("CUcontext", item) for item in contexts if item}
        if self._several and elsewhere - {self._devices.context}:
            self._plan.hold_reason = (
                "the window launches in several contexts, which one pair of events cannot bracket"
            )
        elif not makes_streams and all(
            self._executor.handles.find("CUstream", item) is not None for item in streams
        ):
            live = [recorder.word(self._executor.handles.live("CUstream", item)) for item in streams]
            self._plan.main_stream = live[0] if live else 0
            self._plan.other_streams = live[1:]
            self._plan.hold_reason = self._why_no_hold()
        else:
            self._plan.hold_reason = "the window makes its own streams"

    def _end_in(self, fault: Fault) -> None:
        """The window ended in an error that no context survives: the work before it must end in the same one. Where
        that comes to light depends on the driver, and at the latest when the device is waited for."""
        at = f"call {fault.call} {fault.function}" if fault.call else "the end of the window"
        self._plan.error, self._plan.error_call = fault.result or ANY_ERROR, at
        self._recorder.what = f"{at}, where the error came to light in the application"
        self._synchronize()
        self._note(
            "the program ends where the window ended in an error in the application; nothing is compared or timed"
        )

    def _why_no_hold(self) -> str:
        """As a replay decides it; see `timing/METHOD.md`."""
        steps = [step for step in self._plan.window if not isinstance(step, (Compare, CompareBlock, Confine))]
        if len(steps) + 2 * len(self._plan.other_streams) + 2 > MAXIMUM_HELD_CALLS:
            return f"the window queues more than {MAXIMUM_HELD_CALLS} calls"
        for step in steps:
            if isinstance(step, Turn):
                return "memory takes turns at its addresses inside the window"
            if not isinstance(step, Call):
                return "the host writes into memory inside the window"
            if may_wait(step.function.symbol):
                return f"{step.function.symbol} inside the window waits for the device"
        return ""

    def _run_in_window(self, prepared: Prepared) -> None:
        before = len(self._recorder.steps)
        self._run(prepared)
        for address, data in self._executor.host_writes:
            write = HostWrite(address, self._recorder.block(data, scan=False), host=True, wait=False)
            self._recorder.steps.insert(before, write)
        self._executor.host_writes.clear()
        for output in prepared.host_outputs:
            self._compare_host(output)

    def _what(self, call: CapturedCall) -> str:
        launch = self._launched.get(call.number)
        if launch is None or not launch.kernel:
            return f"call {call.number}"
        grid, block = ("x".join(map(str, item)) for item in (launch.grid, launch.block))
        text = f"call {call.number}: {launch.kernel}, grid {grid}, block {block}"
        text += f", {launch.shared_bytes} bytes of dynamic shared memory" if launch.shared_bytes else ""
        return text + self._parameters(call)

    def _parameters(self, call: CapturedCall) -> str:
        """Captured parameters of a launch, for a comment: numbers of 8 bytes as addresses, of 4 and less as numbers."""
        data, layout = call.inputs.get("kernelParams.0"), call.inputs.get("kernelParams.1")
        if not isinstance(data, bytes) or not isinstance(layout, bytes):
            return ""
        values = []
        for offset, size in struct.iter_unpack("<II", layout[: len(layout) // 8 * 8]):
            number = int.from_bytes(data[offset : offset + size], "little")
            if size > 8:
                values.append(f"({size} bytes)")
            else:
                values.append(hex(number) if size == 8 else str(number))
        return f"\nparameters: {', '.join(values)}" if values else ""

    def _host_changes(self, changes: Iterable[Change]) -> None:
        for position, change in enumerate(changes):
            range_ = self._program.ranges[change.range]
            live = self._addresses.home(range_)
            if live is None:
                continue
            block = self._recorder.block(self._executor.attachment(change.contents), scan=False)
            target = self._recorder.word(live + change.offset)
            self._recorder.steps.append(HostWrite(target, block, is_host(range_), wait=position == 0))

    def _compare_host(self, output: HostOutput) -> None:
        expected = self._recorder.block(self._executor.attachment(output.expected), scan=False)
        room = self._recorder.room_at(output.address, output.size_bytes)
        if room is None and not self._is_captured(output.address, output.size_bytes):
            self._note(f"{output.label}: is not compared")
            return
        self._recorder.steps.append(CompareBlock(room, output.address, expected, output.label))

    def _synchronize(self) -> None:
        for context in self._contexts if self._several else ():
            self._recorder.function("cuCtxSetCurrent")(context)
            self._recorder.function("cuCtxSynchronize")()
        if self._several:
            self._executor.switch(0)
        else:
            self._recorder.function("cuCtxSynchronize")()

    def _clean_up(self) -> None:
        """What the window made and left behind is destroyed, latest first."""
        self._begin(self._plan.clean_up)
        self._recorder.what = ""
        for c_type, captured in reversed(list(self._executor.made)):
            if c_type in DESTROYERS:
                self._recorder.function(DESTROYERS[c_type])(self._executor.made[c_type, captured])
