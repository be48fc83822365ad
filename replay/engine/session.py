"""One replay inside the worker: the order in which everything happens.

Memory is held before the driver is loaded, then placed, the setup executed, contents loaded, the window replayed
and its outputs compared, and only then timed. Every step says its name first, so that a worker that dies is known
by its last step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from replay.api.functions import by_symbol, destroyer
from replay.engine.arguments import families
from replay.engine.arguments.families.managed import give_hint
from replay.engine.arguments.prepared import Prepared
from replay.engine.contents.appearing import Appearing
from replay.engine.contents.own_variables import OwnVariables, find_own_variables
from replay.engine.contents.store import ContentStore, at_start
from replay.engine.driver import Driver, DriverFailure
from replay.engine.execution.executor import Executor
from replay.engine.execution.repeated import PreparedRepeats
from replay.engine.execution.settings import WindowSettings
from replay.engine.execution.submission import Batch, in_batches
from replay.engine.execution.window import Part, prepare_window
from replay.engine.notes import Notes
from replay.engine.placing.captured import CapturedMemory
from replay.engine.placing.devices import Devices
from replay.engine.program import Program
from replay.engine.translation.translation import Translation
from replay.engine.variants import image_of, loads_image
from replay.errors import EngineError
from replay.inspection.pieces import describe
from replay.planning.ordinals import captured_devices
from replay.planning.spans import Span, is_global
from replay.snapshot.schema import Call, Change, Range

MAXIMUM_RESULT_NOTES = 20
Submittable = Part | Batch

# CUdevice_attribute
ATTRIBUTE_MULTIPROCESSORS, ATTRIBUTE_L2_BYTES, ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR = 16, 38, 75, 76


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
        self.driver, self.program, self.stage, self.progress = driver, program, stage, progress
        self.notes = Notes()
        stage("opening the device")
        captured = captured_devices(program.kinds(), program.ranges.values())
        self.devices = Devices(driver, captured, device)
        self.device = self.devices.main
        confine()
        stage("placing memory")
        self.memory = memory = CapturedMemory(driver, program, self.devices, spans, taken, relocate, targets)
        self._note_places()
        self.translation = Translation(driver, program, memory.addresses, self.devices, self.notes.add)
        self.contents = ContentStore(driver, program, self.translation, progress)
        self._appearing = Appearing(
            memory.addresses, program.ranges.values(), self.contents.load, self.contents.point_to
        )
        self.executor = Executor(driver, program, self.translation, self._appearing, self.notes.add)
        self._references = self._set_up()
        stage("loading memory")
        self.restorable = self._load()
        self.disturb: Callable[..., None] = lambda *, again=False: (
            None
        )  # what is done between a restore and a run
        self.found_written: list[str] = []  # buffers that a replay wrote where the capture saw no change
        self._give_hints()
        stage("preparing the window")
        window = prepare_window(program, memory, self.translation, self.contents, self.executor)
        self.window, self.skipped, self.last_changes = window.calls, window.skipped, window.last_changes
        self.main_context, self._other_contexts = window.main_context, window.other_contexts
        self._submittable: list[Submittable] | None = None
        memory.ends.begin()
        own = self._keep_own_variables()
        self.own_variables, self.variables_not_found = [range_ for range_, _ in own.live], own.not_found
        self.restorable += self.own_variables
        self._addresses_of_setup = memory.addresses.state()
        contexts = self.translation.contexts
        self._settings = WindowSettings(
            driver,
            program.setup,
            [kind.item for kind in self.window.kinds()],
            lambda context: contexts.live(context) is not None,
            contexts.be_in,
            self.notes.add,
        )
        self.use_main_context()

    # -- setting up ---------------------------------------------------------------------------------------------

    def _note_places(self) -> None:
        if self.devices.note:
            self.notes.add(self.devices.note)
        for placed in self.memory.placed:
            if placed.not_managed:
                self.notes.add(
                    f"managed memory at {placed.span.address:#x} is replayed as device memory: {placed.not_managed}"
                )

    def _set_up(self) -> list[Prepared]:
        """Execute the setup. Gives the calls that bring references back which the window binds anew."""
        program, handles, references = self.program, self.translation.handles, []
        self.stage(f"executing the setup ({len(program.setup)} calls)")
        for number, call_ in enumerate(program.setup):
            if number % 256 == 255:
                self.stage(f"executing the setup ({number + 1} of {len(program.setup)} calls)")
            try:
                prepared = self.executor.run_setup(call_)
            except EngineError as error:
                if not program.best_effort:
                    raise
                program.left_out.append(f"left out of the setup: {error}")
                handles.leave_out(call_)
                continue
            if prepared is not None and _sets_reference(call_):
                references.append(prepared)
        handles.setup_is_done()
        self.executor.graphs.setup_is_done()
        for range_ in program.ranges.values():
            late = range_.id in program.late
            if is_global(range_) and not late and not self.memory.addresses.is_bound(range_.address):
                self._appearing.find(self.driver, handles, self.translation.contexts, range_)
        binds_anew = any(_sets_reference(call_) for call_ in program.window.kinds())
        return references if binds_anew else []

    def _load(self) -> list[Range]:
        """Load the ranges that hold their contents when a run of the window begins."""
        ranges = at_start(self.program, self.memory.addresses)
        self.contents.load(*ranges)
        self._appearing.begin(ranges)
        self.stage("copying what the window writes")
        self.contents.copies.keep(ranges, whole=self.program.shared | self.program.changed)
        return ranges

    def _give_hints(self) -> None:
        """Advice about managed memory that was in force when the window opened."""
        for range_ in self.program.ranges.values():
            addresses = self.memory.addresses
            live = addresses.find(range_.address) if range_.hints else None
            if live is None or not addresses.is_managed(range_.address) or range_.born_call is not None:
                continue
            for hint in range_.hints:
                if not 0 <= hint.offset <= hint.offset + hint.size_bytes <= range_.size_bytes:
                    raise EngineError(f"{describe(range_)} has advice about memory that is not its own")
                give_hint(self.driver, hint, live + hint.offset, self.devices.device, self.notes.add)

    def _keep_own_variables(self) -> OwnVariables:
        """Copy what modules hold beside captured memory, so that no replay finds what another has left there. Modules
        that the window itself loads begin anew with each replay."""
        program, translation = self.program, self.translation
        launched = program.variant_images.keys() | program.launched_images
        loads = [item for item in program.setup if loads_image(item) and image_of(item) in launched]
        contexts = {translation.contexts.live(one): one for one in (self.main_context, *self._other_contexts)}
        contexts.pop(None, None)  # made by the window
        capability = [
            self.driver.cuDeviceGetAttribute(number, self.device)
            for number in (ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR)
        ]
        own = find_own_variables(
            self.driver,
            loads,
            program.attachments.read,
            translation.handles.find,
            10 * capability[0] + capability[1],
            [partial(translation.contexts.switch, one) for one in contexts.values()],
            [(self.contents.live(item), item.before.size_bytes)
             for item in self.restorable if is_global(item) and item.before is not None],
            everything=program.untrusted,
        )  # fmt: skip
        self.use_main_context()
        for range_, live in own.live:
            self.memory.addresses.bind(range_.address, range_.size_bytes, live)
        own_ids = {range_.id for range_, _ in own.live}
        self.contents.copies.keep([range_ for range_, _ in own.live], own_ids)
        return own

    # -- replaying ----------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Bring all memory back to what the window starts from. The caller synchronises."""
        self.clean_up()
        self.use_main_context()
        for prepared in self._references:
            self.executor.run(prepared)
        self._settings.set_back()
        self.use_main_context()
        self.memory.turns.begin(self.synchronize)
        self.memory.backing.return_to_start()
        self.memory.ends.begin()
        for range_ in self.restorable:
            self.contents.copies.restore(range_)

    def restore_found_writes(self, written_elsewhere: dict[int, list[int]]) -> None:
        """Restore, from now on, what the replay that was just compared wrote outside of what the capture tells, at
        these offsets by range id, which are forgotten. The next thing to do is a restore."""
        for range_ in self.restorable:
            if offsets := written_elsewhere.get(range_.id):
                self.contents.keep_whole(range_)
                self.found_written.append(
                    f"{describe(range_)} was written at offset {offsets[0]:#x}, where the capture saw no change; all "
                    "of it is restored"
                )
        written_elsewhere.clear()

    def use_main_context(self) -> None:
        """Make the context of the first launch current; the own one where the window creates it."""
        known = self.translation.contexts.live(self.main_context) is not None
        self.translation.contexts.switch(self.main_context if known else 0)

    def synchronize(self) -> None:
        """Wait until the devices are idle. Raises DriverFailure with the error of the work."""
        # The window may have ended the context that is current.
        if self.translation.contexts.captured is None:
            self.use_main_context()
        self.driver.cuCtxSynchronize()
        if self._other_contexts:
            self._synchronize_others()

    def _synchronize_others(self) -> None:
        for context in self._other_contexts:
            if self.translation.contexts.live(context) is not None:
                self.translation.contexts.switch(context)
                self.driver.cuCtxSynchronize()
        self.use_main_context()

    def submittable(self, window: Sequence[Part]) -> list[Submittable]:
        """Calls in the form in which `run_window` takes them. To be made once, and only of settled calls."""
        program = self.program
        must_succeed = [
            isinstance(item, PreparedRepeats)
            or (item.call.result == 0 and self.executor.result_matters(item))
            for item in window
        ]
        return in_batches(window, must_succeed, {*program.births, *program.changes, *program.seen})

    def run_window(self, window: Iterable[Submittable] | None = None) -> None:
        """Replay the window once, fast: every call, and an error where a result is not the captured one.

        window: other calls than the window's own (`submittable`).
        """
        if window is None:
            if self._submittable is None:
                self._submittable = self.submittable(self.window.parts)
            window = self._submittable
        run = self.executor.run
        for prepared in window:
            if not isinstance(prepared, Prepared):
                self.translation.contexts.be_in(prepared.context)
                failed = prepared.submit(self.translation.live)
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
            self.contents.change(change, self.program.attachments.read(change.contents))

    def births(self, number: int) -> None:
        """Load the memory that appears before the call of this number."""
        memory = self.memory
        for range_ in self.program.births.get(number, ()):
            self.synchronize()
            if is_global(range_):  # where it is, the module says that is loaded now; its contents come then
                memory.addresses.forget(range_.address, range_.size_bytes)
                memory.addresses.expect(range_.address, range_.size_bytes)
                continue
            if not range_.host_address:  # which `bind` has told of this very range
                memory.addresses.forget(range_.address, range_.size_bytes)
            memory.turns.appear(range_)
            if range_.physical:
                memory.backing.switch(self.contents.live(range_), range_)
            self.contents.load(range_, start=self.program.families.covered.get(range_.id, 0))

    def failure(self, prepared: Prepared, code: int) -> EngineError:
        """The error of a call of the window that succeeded in the application."""
        name = self.driver.error_name(code)
        if self.program.varied:
            next_ = "in the application, without the variant, it succeeded; replay without it to see that the rest does"
        else:
            known = families.advice(prepared.call.function, name)
            next_ = (
                f"in the application it succeeded; {known or '`replay info` shows what the capture lacks'}"
            )
        return DriverFailure(
            prepared.call.function, code, name, where=f"call {prepared.call.number} of the window", next=next_
        )

    def clean_up(self) -> None:
        """Destroy what the window created and did not destroy, so that iterations do not pile up."""
        handles = self.translation.handles
        for c_type, captured in reversed(list(handles.made)):
            if symbol := destroyer(c_type):
                self.driver.function(symbol)(handles.made[c_type, captured])
                self.translation.contexts.is_unknown()
        self._appearing.begin()
        self.contents.gone.clear()
        handles.begin_again()
        self.memory.addresses.return_to(self._addresses_of_setup)
        self.use_main_context()
        self.executor.graphs.clean_up()
        handles.remember()


def _sets_reference(call: Call) -> bool:
    """Whether a call changes what a texture or surface reference is bound to, or how it reads."""
    function = by_symbol().get(call.function)
    return (
        function is not None and not function.destroys and any(map(function.takes, ("CUtexref", "CUsurfref")))
    )
