"""One replay inside the worker: the order in which everything happens.

Memory is held before the driver is loaded, then placed, the setup executed, contents loaded, the window replayed
and its outputs compared, and only then timed. Every step says its name first, so that a worker that dies is known
by its last step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from replay.engine.contents.own_variables import find_own_variables
from replay.engine.contents.store import ContentStore
from replay.engine.contents.tensor_maps import LiveMaps
from replay.engine.driver import Driver, DriverFailure, call, query, query_int
from replay.engine.execution import custom
from replay.engine.execution.custom.memory import give_hint
from replay.engine.execution.executor import SMALLEST_CERTAIN_HANDLE, Executor
from replay.engine.execution.handles import captured_handles
from replay.engine.execution.inputs import Prepared
from replay.engine.execution.lanes import is_launch, launch_streams
from replay.engine.execution.settings import WindowSettings
from replay.engine.execution.submission import Batch, in_batches
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.devices import Devices
from replay.engine.placing.ends import Ends
from replay.engine.placing.mappings import Backing, Home
from replay.engine.placing.memory import place
from replay.engine.placing.pieces import Placed
from replay.engine.placing.turns import Turns
from replay.engine.program import Program
from replay.engine.variants import image_of, loads_image
from replay.errors import EngineError
from replay.inspection.pieces import describe
from replay.planning.lifetimes import Lifetimes
from replay.planning.ordinals import captured_devices
from replay.planning.spans import Span, is_global, is_host
from replay.snapshot.schema import Call, Change, Range

MAXIMUM_RESULT_NOTES = 20

# CUdevice_attribute
ATTRIBUTE_MULTIPROCESSORS, ATTRIBUTE_L2_BYTES, ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR = 16, 38, 75, 76

_REFERENCE_SETTERS = ("cuTexRefSet", "cuSurfRefSet", "cuParamSetTexRef")
_GLOBAL_GETTERS = {"CUmodule": "cuModuleGetGlobal_v2", "CUlibrary": "cuLibraryGetGlobal"}
_DESTROYERS = {
    "CUevent": "cuEventDestroy_v2", "CUstream": "cuStreamDestroy_v2", "CUmodule": "cuModuleUnload",
    "CUlibrary": "cuLibraryUnload", "CUcontext": "cuCtxDestroy_v2", "CUgreenCtx": "cuGreenCtxDestroy",
    "CUarray": "cuArrayDestroy",
    "CUmipmappedArray": "cuMipmappedArrayDestroy", "CUtexObject": "cuTexObjectDestroy",
    "CUsurfObject": "cuSurfObjectDestroy", "CUtexref": "cuTexRefDestroy", "CUgraphExec": "cuGraphExecDestroy",
    "CUmemoryPool": "cuMemPoolDestroy",
}  # fmt: skip


class Session:
    """A snapshot on a driver.

    stage: called with the name of each step. progress: called often during a long one. confine: called once the driver
    has its contexts and before anything of the snapshot is asked of it.
    Raises EngineError when the snapshot cannot be replayed, AddressTaken when another process should try.
    """

    def __init__(
        self,
        driver: Driver,
        program: Program,
        *,
        device: int,
        spans: list[Span],
        taken: dict[Span, str],
        relocate: bool,
        targets: dict[Span, int] | None = None,
        stage: Callable[[str], None],
        progress: Callable[[str], None] = lambda text: None,
        confine: Callable[[], None] = lambda: None,
    ) -> None:
        self.driver = driver
        self.program = program
        self.stage = stage
        self._other_contexts: set[int] = (
            set()
        )  # that the window works in, besides the main one; captured handles
        stage("opening the device")
        captured = captured_devices([*program.setup, *program.window], program.ranges.values())
        self.devices = Devices(driver, captured, device)
        self.device, self.context = self.devices.main, self.devices.context
        confine()
        stage("placing memory")
        homes = {
            ordinal: Home(live, tuple(self.devices.accessors(live)))
            for ordinal, live in self.devices.live.items()
        }
        self.backing = Backing(driver, program.families)
        self.placed = place(driver, spans, taken, self.device, relocate, homes, self.backing, targets)
        self.addresses = AddressMap(self.placed)
        self.turns = Turns(
            driver,
            program.stays,
            self.placed,
            self.addresses,
            lambda span: homes.get(span.device, Home(self.device, (self.device,))),
            self.backing,
        )
        self.ends = Ends(driver, self.placed, program.ranges.values(), program.window, program.stays)
        self.managed = [item for item in self.placed if item.managed]
        for range_ in program.ranges.values():
            if is_global(range_) and range_.id in program.shared:
                self.addresses.mark_reused(range_.address, range_.size_bytes)
            if is_global(range_) and range_.id not in program.late:
                self.addresses.expect(range_.address, range_.size_bytes)
            if is_host(range_) and range_.host_address and not self.turns.concerns(range_):
                host = self.addresses.home(range_)
                if host is None:
                    raise EngineError(f"{describe(range_)} has no memory of the host")
                pointer = query(driver, "cuMemHostGetDevicePointer_v2", host, 0)
                self.addresses.bind(range_.address, range_.size_bytes, pointer)
        self.turns.expect(program.ranges.values())
        self.executor = Executor(
            driver,
            program.reader,
            program.images,
            self.addresses,
            program.call_words,
            self.devices,
        )
        self.executor.variant_images = program.variant_images
        if self.devices.note:
            self.executor.note(self.devices.note)
        self.executor.maps = LiveMaps(self.executor, program.tensor_maps, self.executor.note)
        self.executor.map_places = program.call_maps
        self.executor.handle_words = program.call_handles
        self.executor.host_words = program.host_words
        self.executor.node_words = program.node_words
        self.executor.window_objects = {
            (c_type, captured)
            for call_ in program.window
            for c_type, name in (("CUtexObject", "pTexObject"), ("CUsurfObject", "pSurfObject"))
            for captured in captured_handles(call_, name)
        }
        for call_ in [*program.setup, *program.window]:
            for c_type, name in (("CUtexObject", "pTexObject"), ("CUsurfObject", "pSurfObject")):
                for handle in captured_handles(call_, name):
                    if handle >= SMALLEST_CERTAIN_HANDLE:
                        self.executor.certain_handles.setdefault(handle, []).append(c_type)
        self.executor.on_array = self._array_appeared
        self.executor.lifetimes = Lifetimes(program.ranges.values())
        self.executor.is_managed = self._is_managed
        for placed in self.placed:
            if placed.not_managed:
                self.executor.note(
                    f"managed memory at {placed.span.address:#x} is replayed as device memory: {placed.not_managed}"
                )
        self.contents = ContentStore(
            driver,
            program.reader,
            self.addresses,
            program.ranges,
            program.range_words,
            progress,
            handle_words=program.range_handles,
            find_handle=self.executor.handles.find,
            maps=self.executor.maps,
            map_places=program.range_maps,
            inside=self.executor.inside,
            handles_here=self.executor.handles_here,
        )
        self.contents.followed = {
            word.target for words in program.host_words.values() for word in words if word.target is not None
        }
        self.executor.graphs.best_effort = program.best_effort
        self.executor.graphs.expand = program.expand_graphs
        self._set_up()
        stage("loading memory")
        self._load()
        self._give_hints()
        stage("preparing the window")
        self._prepare_window()
        self._keep_own_variables()
        executor = self.executor
        self._settings = WindowSettings(
            driver,
            program.setup,
            self.window,
            lambda context: self._live_context(context) is not None,
            executor.be_in,
            executor.note,
        )
        self.use_main_context()

    def _is_managed(self, live: int) -> bool:
        return any(
            item.live_address <= live < item.live_address + item.span.size_bytes for item in self.managed
        )

    def _give_hints(self) -> None:
        """Advice about managed memory that was in force when the window opened."""
        for range_ in self.program.ranges.values():
            live = self.addresses.find(range_.address) if range_.hints else None
            if live is None or not self._is_managed(live) or range_.born_call is not None:
                continue
            for hint in range_.hints:
                if not 0 <= hint.offset <= hint.offset + hint.size_bytes <= range_.size_bytes:
                    raise EngineError(f"{describe(range_)} has advice about memory that is not its own")
                give_hint(self.driver, hint, live + hint.offset, self.devices.device, self.executor.note)

    # -- setting up ---------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        self.stage(f"executing the setup ({len(self.program.setup)} calls)")
        self._references: list[Prepared] = []  # what brings references back that the window binds anew
        for call_ in self.program.setup + self.program.window:
            if call_.function == "cuDevicePrimaryCtxRetain":
                # A device has one primary context, and it lives already, also when the window is the whole program.
                context = self.devices.primary(call_.arguments[1])
                for captured in captured_handles(call_, "pctx"):
                    self.executor.handles.bind("CUcontext", captured, context)
        for number, call_ in enumerate(self.program.setup):
            if number % 256 == 255:
                self.stage(f"executing the setup ({number + 1} of {len(self.program.setup)} calls)")
            try:
                prepared = self.executor.run_setup(call_)
            except EngineError as error:
                if not self.program.best_effort:
                    raise
                self.program.left_out.append(f"left out of the setup: {error}")
                self.executor.handles.leave_out(call_)
                continue
            if prepared is not None and call_.function.startswith(_REFERENCE_SETTERS):
                self._references.append(prepared)
        if not any(call_.function.startswith(_REFERENCE_SETTERS) for call_ in self.program.window):
            self._references.clear()
        self.executor.permanent = set(self.executor.made)
        self.executor.made.clear()
        self.executor.graphs.setup_is_done()
        self._handles_of_setup = self.executor.handles.state()
        for range_ in self.program.ranges.values():
            late = range_.id in self.program.late
            if is_global(range_) and not late and not self.addresses.is_bound(range_.address):
                self._find_global(range_)
        self._addresses_of_setup = self.addresses.state()

    def _find_global(self, range_: Range) -> None:
        """Ask the module or library, if the setup loaded it; a variable of the window's own module comes later."""
        for c_type, getter in _GLOBAL_GETTERS.items():
            owner = self.executor.handles.find(c_type, range_.owner)
            if not owner or not range_.name:
                continue
            if range_.kind == "managed" and c_type == "CUlibrary":
                getter = "cuLibraryGetManaged"
            # A library's variables are there once for each context.
            known = self.executor.handles.find("CUcontext", range_.context)
            self.executor.switch(range_.context if known else 0)
            address, size = ctypes.c_uint64(0), ctypes.c_uint64(0)
            arguments = (ctypes.addressof(address), ctypes.addressof(size), owner, range_.name.encode())
            code = self.driver.function(getter)(*arguments)
            if code:
                raise DriverFailure(
                    getter, code, self.driver.error_name(code), where=f"variable {range_.name}"
                )
            if size.value < range_.size_bytes:
                raise EngineError(
                    f"variable {range_.name} has {size.value} bytes here, {range_.size_bytes} when captured"
                )
            self.addresses.bind(range_.address, range_.size_bytes, address.value)

    def _at_start(self) -> list[Range]:
        """Ranges that hold their contents when an iteration begins."""
        return [
            range_
            for range_ in self.program.ranges.values()
            if range_.before is not None
            and range_.id not in self.program.late
            and self.addresses.find(range_.address) is not None
        ]

    def _load(self) -> None:
        ranges = self._at_start()
        self.contents.load(*ranges)
        self.stage("copying what the window writes")
        self.contents.copies.keep(ranges, whole=self.program.shared | self.program.changed)
        self.found_written: list[str] = []  # buffers that a replay wrote where the capture saw no change
        self.restorable = ranges
        self._restored_ids = {range_.id for range_ in ranges}
        self._appeared_ids: set[int] = set()  # in this iteration
        self.executor.on_global = self._global_appeared

    def _array_appeared(self, c_type: str, captured: int, call_: Call) -> None:
        """An array was made: from now on its contents can be moved. One that the window makes gets them here."""
        for range_ in self.program.ranges.values():
            shape = range_.array
            if shape is None or (shape.handle_type, range_.owner) != (c_type, captured):
                continue
            if (range_.born_call is None) if call_.section == "setup" else (range_.born_call == call_.number):
                self.addresses.bind_array(range_.address)
                if call_.section == "window":
                    self.contents.load(range_)

    def _global_appeared(self, captured: int, call_number: int) -> None:
        """The window itself loaded a module: its variable gets its contents when it is first asked for."""
        for range_ in self.program.ranges.values():
            lives = (range_.born_call or 0) <= call_number and (
                range_.died_call is None or call_number < range_.died_call
            )
            known = range_.id in self._restored_ids or range_.id in self._appeared_ids
            if is_global(range_) and range_.address == captured and lives and not known:
                self._appeared_ids.add(range_.id)
                self.contents.load(range_)
                self.contents.point_to(captured, range_.size_bytes)

    def _prepare_window(self) -> None:
        self.window: list[Prepared] = []
        self.skipped = 0
        for call_ in self.program.window:
            if self.turns.any:
                for range_ in filter(self.turns.concerns, self.program.births.get(call_.number, ())):
                    self.turns.follow(range_)
            try:
                prepared = self.executor.prepare(call_)
            except EngineError as error:
                failed = call_.result not in (0, None)  # what it lacks, it lacked in the application
                if not self.program.best_effort and not failed:
                    raise
                self.program.left_out.append(f"left out{', as it failed anyway' if failed else ''}: {error}")
                self.executor.handles.leave_out(call_)
                prepared = None
            if self.turns.any:
                for range_ in self.program.deaths.get(call_.number, ()):
                    self.turns.leave(range_)
            if prepared is not None:
                self.window.append(prepared)
                continue
            self.skipped += 1
            if self._memory_changes_at(call_.number):
                # Not executed itself, but memory appears or disappears here.
                here = Call(call_.number, "cuCtxSynchronize", "window", call_.thread, [], 0)
                self.window.append(Prepared(here, self.executor.threads.current(call_.thread), _nothing, []))
        self.addresses.return_to(self._addresses_of_setup)
        for prepared in self.window:
            for range_ in filter(self.turns.concerns, self.program.deaths.get(prepared.call.number, ())):
                prepared.then.append(partial(self.turns.leave, range_))
            prepared.then += self.ends.changes.get(prepared.call.number, ())
            for range_ in filter(is_global, self.program.deaths.get(prepared.call.number, ())):
                prepared.then.append(partial(self.contents.gone.add, range_.id))
                if range_.id in self.program.shared:  # else pointers to it may be left, and mean nothing else
                    prepared.then.append(partial(self.addresses.forget, range_.address, range_.size_bytes))
        numbers = {item.call.number for item in self.window}
        self.last_changes = [
            change
            for number in sorted(self.program.changes.keys() - numbers)
            for change in self.program.changes[number]
        ]
        self.executor.settle([item for item in self.window if item.function is not _nothing])
        self._submittable: list[Prepared | Batch] | None = None
        first = next((item for item in self.window if is_launch(item)), None)
        self.main_context = first.context if first else 0
        main = self._live_context(self.main_context)
        others = {item.context for item in self.window}
        self._other_contexts = {one for one in others if main is None or self._live_context(one) != main}
        self.main_stream = self._captured_stream(first) if first else 0
        self.ends.begin()

    def _keep_own_variables(self) -> None:
        """Copy what modules hold beside captured memory, so that no replay finds what another has left there. Modules
        that the window itself loads begin anew with each replay."""
        program = self.program
        launched = program.variant_images.keys() | program.launched_images
        loads = [item for item in program.setup if loads_image(item) and image_of(item) in launched]
        contexts = {self._live_context(one): one for one in (self.main_context, *self._other_contexts)}
        contexts.pop(None, None)  # made by the window
        capability = [
            query_int(self.driver, "cuDeviceGetAttribute", number, self.device)
            for number in (ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR)
        ]
        own = find_own_variables(
            self.driver,
            loads,
            self.executor.attachment,
            self.executor.handles.find,
            10 * capability[0] + capability[1],
            [partial(self.executor.switch, one) for one in contexts.values()],
            [(self.contents.live(item), item.before.size_bytes)
             for item in self.restorable if is_global(item) and item.before is not None],
        )  # fmt: skip
        self.use_main_context()
        for range_, live in own.live:
            self.addresses.bind(range_.address, range_.size_bytes, live)
            self._addresses_of_setup.loose[range_.address] = (range_.size_bytes, live)
        self.own_variables = [range_ for range_, _ in own.live]
        self.variables_not_found = own.not_found
        self.contents.copies.keep(self.own_variables, {range_.id for range_ in self.own_variables})
        self.restorable = [*self.restorable, *self.own_variables]

    def _memory_changes_at(self, number: int) -> bool:
        program = self.program
        places = (program.births, program.deaths, program.changes, program.seen, self.ends.changes)
        return any(number in place for place in places)

    def _live_context(self, captured: int) -> int | None:
        return self.executor.handles.find("CUcontext", captured) if captured else self.devices.context

    def _captured_stream(self, prepared: Prepared) -> int:
        streams = launch_streams(prepared)
        return streams[0] if streams else 0

    # -- replaying ----------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Bring all memory back to what the window starts from. The caller synchronises."""
        self.clean_up()
        self.use_main_context()
        for prepared in self._references:
            self.executor.run(prepared)
        self._settings.set_back()
        self.use_main_context()
        self.turns.begin(self.synchronize)
        self.backing.return_to_start()
        self.ends.begin()
        for range_ in self.restorable:
            self.contents.copies.restore(range_)

    def restore_found_writes(self) -> None:
        """Restore, from now on, what the replay that was just compared wrote outside of what the capture tells. The
        next thing to do is a restore."""
        for range_ in self.restorable:
            if offsets := self.contents.written_elsewhere.get(range_.id):
                self.contents.keep_whole(range_)
                self.found_written.append(
                    f"{describe(range_)} was written at offset {offsets[0]:#x}, where the capture saw no change; all "
                    "of it is restored"
                )
        self.contents.written_elsewhere.clear()

    def use_main_context(self) -> None:
        """Make the context of the first launch current; the own one where the window creates it."""
        context = self.main_context
        known = context and self.executor.handles.find("CUcontext", context) is not None
        self.executor.switch(context if known else 0)

    def synchronize(self) -> None:
        """Wait until the devices are idle. Raises DriverFailure with what the work left behind."""
        if not self.executor.is_somewhere:  # the window may have ended the context that is current
            self.use_main_context()
        call(self.driver, "cuCtxSynchronize")
        if self._other_contexts:
            self._synchronize_others()

    def _synchronize_others(self) -> None:
        for context in self._other_contexts:
            if context == 0 or self.executor.handles.find("CUcontext", context) is not None:
                self.executor.switch(context)
                call(self.driver, "cuCtxSynchronize")
        self.use_main_context()

    def submittable(self, window: Sequence[Prepared]) -> list[Prepared | Batch]:
        """Calls in the form in which `run_window` takes them. To be made once, and only of settled calls."""
        program = self.program
        must_succeed = [item.call.result == 0 and self.executor.result_matters(item) for item in window]
        return in_batches(window, must_succeed, {*program.births, *program.changes, *program.seen})

    def run_window(self, window: Iterable[Prepared | Batch] | None = None) -> None:
        """Replay the window once, fast: every call, and an error where a result is not the captured one.

        window: other calls than the window's own (`submittable`).
        """
        if window is None:
            if self._submittable is None:
                self._submittable = self.submittable(self.window)
            window = self._submittable
        run = self.executor.run
        for prepared in window:
            if isinstance(prepared, Batch):
                self.executor.be_in(prepared.context)
                failed = prepared.submit()
                if failed is not None:
                    raise self.failure(*failed)
                continue
            captured = prepared.call.result
            if self.program.births and prepared.call.number in self.program.births:
                self.births(prepared.call.number)
            if self.program.changes and prepared.call.number in self.program.changes:
                self.host_writes(self.program.changes[prepared.call.number])
            code = run(prepared)
            if code != captured and captured == 0 and self.executor.result_matters(prepared):
                raise self.failure(prepared, code)
            if self.program.seen and prepared.call.number in self.program.seen:
                self.host_writes(self.program.seen[prepared.call.number])
        self.host_writes(self.last_changes)

    def host_writes(self, changes: Iterable[Change]) -> None:
        """What the application's host code wrote at this place, which no call of the driver tells."""
        for position, change in enumerate(changes):
            if position == 0:
                self.synchronize()
            self.contents.change(change, self.executor.attachment(change.contents))

    def births(self, number: int) -> None:
        """Load the memory that appears before the call of this number."""
        for range_ in self.program.births.get(number, ()):
            self.synchronize()
            if is_global(range_):  # where it is, the module says that is loaded now; its contents come then
                self.addresses.forget(range_.address, range_.size_bytes)
                self.addresses.expect(range_.address, range_.size_bytes)
                continue
            if not range_.host_address:  # which `bind` has told of this very range
                self.addresses.forget(range_.address, range_.size_bytes)
            self.turns.appear(range_)
            if range_.physical:
                self.backing.switch(self.contents.live(range_), range_)
            self.contents.load(range_, start=self.program.families.covered.get(range_.id, 0))

    def failure(self, prepared: Prepared, code: int) -> EngineError:
        """The error of a call of the window that succeeded in the application."""
        name = self.driver.error_name(code)
        if self.program.varied:
            next_ = "in the application, without the variant, it succeeded; replay without it to see that the rest does"
        else:
            known = custom.advice(prepared.call.function, name)
            next_ = (
                f"in the application it succeeded; {known or '`replay info` shows what the capture lacks'}"
            )
        return DriverFailure(
            prepared.call.function, code, name, where=f"call {prepared.call.number} of the window", next=next_
        )

    def clean_up(self) -> None:
        """Destroy what the window created and left behind, so that iterations do not pile up."""
        made = self.executor.made
        for c_type, captured in reversed(list(made)):
            if c_type in _DESTROYERS:
                self.driver.function(_DESTROYERS[c_type])(made[c_type, captured])
                self.executor.context_unknown()
        made.clear()
        self._appeared_ids.clear()
        self.contents.gone.clear()
        self.executor.handles.return_to(self._handles_of_setup)
        self.addresses.return_to(self._addresses_of_setup)
        self.use_main_context()
        self.executor.graphs.clean_up()
        self._handles_of_setup = self.executor.handles.state()


def _nothing() -> int:
    """Stands for a driver function where there is nothing to call."""
    return 0


__all__ = ["Placed", "Session"]
