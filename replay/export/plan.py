"""From a snapshot to the steps of a program: the engine prepares every call, and a driver that takes notes gets them.

All memory keeps its captured address, so pointers need no patching but those to variables of modules, which live where
the driver loads them. Raises EngineError with the reason when a snapshot cannot be exported.
"""

from __future__ import annotations

from collections.abc import Iterable

from replay.api.functions import by_symbol, destroyer
from replay.engine.arguments.prepared import HostOutput, Prepared
from replay.engine.contents.store import at_start
from replay.engine.execution.executor import Executor
from replay.engine.execution.lanes import is_launch, launch_streams
from replay.engine.measuring.measure import MAXIMUM_HELD_CALLS, may_wait
from replay.engine.notes import Notes
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.devices import Devices
from replay.engine.placing.pieces import Placed
from replay.engine.program import Program
from replay.engine.translation.translation import Translation
from replay.errors import EngineError
from replay.export.buffers import ExportedBuffers
from replay.export.contexts import makes_context, own_contexts
from replay.export.ends import exported_ends
from replay.export.labels import LabellingRunner, Labels, layout_of_call
from replay.export.limits import refuse
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
from replay.planning.ordinals import captured_devices
from replay.planning.spans import (
    Span,
    is_global,
    is_host,
    plan_spans,
    units,
    whole,
)
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call as CapturedCall
from replay.snapshot.schema import Change, Environment, Fault, Kernel, all_of, first_of

MAXIMUM_DEVICES = 64
ANY_ERROR = -1  # older captures do not say which it was
_READ_ONLY = 8  # CU_MEMHOSTREGISTER_READ_ONLY


def plan_export(reader: SnapshotReader) -> ExportPlan:
    """reader: at the window to export. Raises EngineError."""
    return _Planning(reader).plan()


class _Planning:
    def __init__(self, reader: SnapshotReader) -> None:
        self._reader = reader
        self._program = program = Program(reader, best_effort=False, expand_graphs=True)
        self._plan = ExportPlan(name=reader.path.name)
        self._notes = Notes()  # of the engine, which come last
        refuse(program, self._note)
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
        calls = [*program.setup, *program.window]
        own = own_contexts(calls, recorder, self._devices, self._plan.devices, self._contexts)
        if own:
            self._note(
                "contexts that the application made are made once, before everything else, without their flags"
            )
        recorder.several = self._several = len(self._contexts) > 1
        self._plan.contexts = [known for value in self._contexts if (known := recorder.reference(value))]
        self._translation = Translation(
            recorder, program, self._addresses, self._devices, self._note, notation=True
        )
        for handle, value in own.items():
            self._translation.handles.bind("CUcontext", handle, value)
        self._buffers = ExportedBuffers(recorder)
        self._memory = ExportedMemory(
            program, self._plan, recorder, self._translation, self._buffers, self._note
        )
        self._executor = Executor(
            recorder,
            program,
            self._translation,
            self._memory.appearing,
            self._notes.add,
            buffers=self._buffers,
            runner=LabellingRunner(recorder),
        )
        self._labels = Labels([*program.setup, *program.window], list(all_of(self._reader, Kernel)))

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
        program, plan, recorder = self._program, self._plan, self._recorder
        environment = first_of(self._reader, Environment)
        if environment is not None and environment.devices:
            plan.architecture = environment.devices[0].compute_capability
        plan.kernels = [kernel.demangled or kernel.name for kernel in all_of(self._reader, Kernel)]
        self._begin(plan.setup)
        for call in program.setup:
            recorder.what = f"call {call.number}"
            if (prepared := self._prepare(call)) is not None:
                self._run(prepared)
        handles, appearing = self._translation.handles, self._memory.appearing
        handles.setup_is_done()
        self._executor.graphs.setup_is_done()
        for range_ in program.ranges.values():
            if is_global(range_) and not self._addresses.is_bound(range_.address):
                recorder.what = f"variable {range_.name}"
                appearing.find(recorder, handles, self._translation.contexts, range_)
        self._begin(plan.loads)
        loaded = at_start(program, self._addresses)
        for range_ in loaded:
            self._memory.load(range_)
        self._ends.begin()
        self._begin(plan.restores)
        for range_ in loaded:
            if self._memory.is_written(range_):
                self._memory.load(range_)
        appearing.begin(loaded)
        self._begin(plan.window)
        self._window()
        self._begin(plan.compares)
        for range_ in program.ranges.values() if not plan.error else ():
            if range_.id not in program.dead:
                self._memory.compare(range_)
        if not plan.error:
            self._clean_up()
            before = plan.restores[:]
            self._begin(plan.restores)
            plan.restores.clear()
            self._turns.begin(self._synchronize)
            plan.restores += before
            self._ends.begin()
        for text in [*self._notes, *program.left_out]:
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
            self._translation.contexts.switch(0)

    def _prepare(self, call: CapturedCall) -> Prepared | None:
        if call.result != 0:
            if call.result is not None:
                self._note(f"{call.function} failed in the application and was left out")
            return None
        known = by_symbol().get(call.function)
        if makes_context(call) or (known is not None and known.meaning == destroyer("CUcontext")):
            self._executor.preparation.threads.follow(call)  # it is there from the start, and stays
            return None
        return self._executor.preparation.prepare(call)

    def _run(self, prepared: Prepared) -> None:
        self._recorder.layout = layout_of_call(prepared.call)
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
            recorder.what = self._labels.what(call)
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
                makes_streams |= by_symbol()[call.function].creates == "CUstream"
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
        elsewhere = {self._translation.handles.find("CUcontext", item) for item in contexts if item}
        if self._several and elsewhere - {self._devices.context}:
            self._plan.hold_reason = (
                "the window launches in several contexts, which one pair of events cannot bracket"
            )
        elif not makes_streams and all(
            self._translation.handles.find("CUstream", item) is not None for item in streams
        ):
            live = [recorder.word(self._translation.handles.live("CUstream", item)) for item in streams]
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
        for address, data in self._buffers.host_writes:
            write = HostWrite(address, self._recorder.block(data, scan=False), host=True, wait=False)
            self._recorder.steps.insert(before, write)
        self._buffers.host_writes.clear()
        for output in prepared.host_outputs:
            self._compare_host(output)

    def _host_changes(self, changes: Iterable[Change]) -> None:
        for position, change in enumerate(changes):
            range_ = self._program.ranges[change.range]
            live = self._addresses.home(range_)
            if live is None:
                continue
            block = self._recorder.block(self._program.attachments.read(change.contents), scan=False)
            target = self._recorder.word(live + change.offset)
            self._recorder.steps.append(HostWrite(target, block, is_host(range_), wait=position == 0))

    def _compare_host(self, output: HostOutput) -> None:
        expected = self._recorder.block(self._program.attachments.read(output.expected), scan=False)
        room = self._recorder.room_at(output.address, output.size_bytes)
        if room is None and not self._is_captured(output.address, output.size_bytes):
            self._note(f"{output.label}: is not compared")
            return
        self._recorder.steps.append(CompareBlock(room, output.address, expected, output.label))

    def _synchronize(self) -> None:
        for context in self._contexts if self._several else ():
            self._recorder.cuCtxSetCurrent.code(context)
            self._recorder.cuCtxSynchronize.code()
        if self._several:
            self._translation.contexts.switch(0)
        else:
            self._recorder.cuCtxSynchronize.code()

    def _clean_up(self) -> None:
        """What the window made and did not destroy is destroyed, latest first."""
        self._begin(self._plan.clean_up)
        self._recorder.what = ""
        made = self._translation.handles.made
        for c_type, captured in reversed(list(made)):
            if symbol := destroyer(c_type):
                self._recorder.function(symbol)(made[c_type, captured])
