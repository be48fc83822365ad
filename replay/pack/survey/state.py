"""Which objects are alive, and the shortest list of calls that makes them again: a fold over the recorded calls.

Every call that makes an object is kept with what it was made from (its context, its module, its library). When the
object ends, so does the record of it and of everything made from it. Calls that only change an object (attributes,
limits, caches) are kept with that object, the last one of each sort. What the window uses is marked; the setup of a
snapshot is what was marked, what that was made from, and what changed it, in the original order.

Memory is no object here: the engine places it from the ranges of the snapshot.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from replay.api import graphs, structs
from replay.api.vocabulary import HANDLE_TYPES, Effect, Keep, Role
from replay.pack.survey.graphs import Descriptions
from replay.raw.attachments import RawAttachment
from replay.raw.events import RawCall

Key = tuple[str, int]  # C type of the handle, its value

_VALUE = "CUdevResource"  # no handle: a value that one call gives and another takes
_OBJECTS = HANDLE_TYPES | {_VALUE}
STREAM_CONSTANTS = (0, 1, 2)  # default, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD name no object

_MEMORY_EFFECTS = frozenset(
    {
        Effect.ALLOC, Effect.FREE, Effect.HOST_ALLOC, Effect.HOST_FREE, Effect.HOST_REGISTER, Effect.HOST_UNREGISTER,
        Effect.MANAGED_ALLOC, Effect.MAP, Effect.UNMAP, Effect.IMPORT,
    }
)  # fmt: skip
_MEMORY_FUNCTIONS = frozenset(
    (
        "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemRelease", "cuMemSetAccess",
        "cuMemRetainAllocationHandle", "cuMemImportFromShareableHandle", "cuMemAdvise", "cuMemAdvise_v2",
        "cuMemHostGetDevicePointer_v2",
        "cuStreamAttachMemAsync", "cuMemPoolTrimTo",
    )
)  # fmt: skip
# What a later launch by cuLaunch or its like records with itself.
_OF_A_LAUNCH = frozenset(
    (
        "cuFuncSetBlockShape",
        "cuFuncSetSharedSize",
        "cuParamSetSize",
        "cuParamSeti",
        "cuParamSetf",
        "cuParamSetv",
    )
)
_LOCATION_DEVICE = 1  # CUmemLocationType
_CURRENCY = frozenset(("cuCtxSetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"))
_WITHOUT_CONTEXT = (
    "cuInit",
    "cuDev",
    "cuCtxCreate",
    "cuGreenCtx",
    "cuCtxFromGreenCtx",
)  # what these make depends on no current context
_OF_THE_PROCESS = frozenset(
    ("CUlibrary", "CUkernel")
)  # a context that ends takes only its copy of them along

# Parameters that say which of several settings a call changes; the last call for each setting counts.
_SETTING_PARAMETERS = frozenset(("attrib", "attr", "limit", "dev", "peerContext", "hTexRef", "dim", "hNode"))

# What kernels reach by handle; found in parameters and in memory (survey.py).
_REACHED_BY_HANDLE = frozenset(("CUtexObject", "CUsurfObject", "CUtexref", "CUsurfref"))
# Each of these takes the place of the others.
_BINDINGS = frozenset(
    (
        "cuTexRefSetArray", "cuTexRefSetMipmappedArray", "cuTexRefSetAddress_v2", "cuTexRefSetAddress2D_v2",
        "cuTexRefSetAddress2D_v3", "cuSurfRefSetArray",
    )
)  # fmt: skip

_ATTRIBUTES_WITH_EVENT = (
    structs.LaunchAttributeId.PROGRAMMATIC_EVENT,
    structs.LaunchAttributeId.LAUNCH_COMPLETION_EVENT,
)


@dataclass(frozen=True)
class Current:
    """An entry of a thread's context stack, and the number of the call that put it there. Both 0: no context."""

    context: int
    call: int


NO_CONTEXT = Current(0, 0)


@dataclass(eq=False)
class Change:
    """A call that changes an object."""

    call: RawCall
    order: int
    current: Current
    uses: tuple[Made, ...]


@dataclass(eq=False)
class Made:
    """An object that is alive: the call that made it, and what it was made from.

    current: the context that was current, if that matters.
    """

    key: Key
    call: RawCall
    order: int
    current: Current
    uses: tuple[Made, ...]
    children: dict[int, Made] = field(default_factory=dict)  # by id()
    changes: dict[tuple[object, ...], Change] = field(default_factory=dict)
    needed: bool = False


@dataclass(frozen=True)
class SetupCall:
    """One call of the setup. `current` is set instead of `call` for a cuCtxSetCurrent (or Push) that sums up others."""

    thread: int
    call: RawCall | None = None
    current: Current | None = None
    push: bool = False


class Objects:
    """The fold. `window_open` is to be set when the window opens; calls are applied when the driver has answered.

    Windows may follow one another: behind `end_window` the next one may open, whose setup includes what this one did.
    """

    def __init__(self, descriptions: Descriptions | None = None) -> None:
        self._descriptions = descriptions or Descriptions()
        self.window_open = False
        self._order = 0
        self._order_at_opening = 0
        self._changes_in_window: dict[object, Callable[[], None]] = {}  # the last one of each sort
        self._alive: dict[Key, Made] = {}
        self._stacks: dict[int, list[Current]] = {}
        self._stacks_at_opening: dict[int, list[Current]] = {}
        self._contexts: dict[int, Made] = {}
        self._contexts_at_opening: dict[int, Made] = {}
        self.reached_by_handle: list[Made] = []  # of the objects at the opening
        self._window_threads: set[int] = set()
        self._device_changes: dict[tuple[object, ...], tuple[int, Change]] = {}
        self._current_pools: dict[int, int] = {}  # device -> CUmemoryPool, where one was set
        self._devices: dict[int, int] = {}  # context -> device
        self._primary: dict[int, list[int]] = {}  # device -> [context, times retained]
        self._needed: list[Made] = []
        self._initialised: Change | None = None

    # -- questions -----------------------------------------------------------------------------------------------

    def current_context(self, thread: int) -> int:
        """The context that is current in a thread, 0 for none that is known."""
        return self._current(thread).context

    def _current(self, thread: int) -> Current:
        stack = self._stacks.get(thread)
        return stack[-1] if stack else NO_CONTEXT

    def device_of(self, context: int) -> int:
        """The ordinal of a context's device; 0 when it is not known."""
        return self._devices.get(context, 0)

    def find(self, c_type: str, handle: int) -> Made | None:
        """The object behind a handle that is alive now. A CUkernel may be given where a CUfunction is asked for."""
        found = self._alive.get((c_type, handle))
        if found is None and c_type == "CUfunction":
            found = self._alive.get(("CUkernel", handle))
        return found

    def use(self, made: Made | None) -> None:
        """The window needs this object, so what made it before the window belongs to the setup."""
        if made is not None and not made.needed:
            made.needed = True
            self._needed.append(made)

    # -- the fold ------------------------------------------------------------------------------------------------

    def open_window(self) -> None:
        """The window begins: what is alive and current now is what the setup has to bring about."""
        if not self.window_open:
            self.window_open = True
            self._order_at_opening = self._order
            self._stacks_at_opening = {thread: list(stack) for thread, stack in self._stacks.items()}
            self._contexts_at_opening = dict(self._contexts)
            self.reached_by_handle = [
                made for made in self._alive.values() if made.key[0] in _REACHED_BY_HANDLE
            ]

    def end_window(self) -> None:
        """Forget what the window used, and take over the settings that it changed."""
        self.window_open = False
        self._window_threads.clear()
        for made in self._needed:
            made.needed = False
        self._needed.clear()
        for take_over in self._changes_in_window.values():
            take_over()
        self._changes_in_window.clear()

    def is_of_setup(self, made: Made) -> bool:
        """Whether an object was made before the window opened."""
        return made.order <= self._order_at_opening

    def enter_in_window(self, call: RawCall) -> None:
        """A call of the window begins: mark what it refers to."""
        self._window_threads.add(call.thread)
        self.use(self.find("CUcontext", self.current_context(call.thread)))
        for made in self._references(call):
            self.use(made)
        if call.function.symbol == "cuMemAllocAsync":
            device = self.device_of(self.current_context(call.thread))
            self.use(self.find("CUmemoryPool", self._current_pools.get(device, 0)))

    def apply(self, call: RawCall) -> int:
        """Take over what a call did; calls that failed did nothing. Gives the context whose memory has ended, or 0."""
        function = call.function
        if call.result != 0 or function.keep != Keep.ALWAYS or call.in_capture:
            return 0
        self._order += 1
        symbol = function.meaning
        if symbol in _CURRENCY:
            self._change_current(call)
        elif function.effect == Effect.END_OF_CONTEXT:
            return self._end_context(call)
        elif function.effect == Effect.DESTROY:
            position = function.effect_terms[0].parameters[0]
            self._end((function.parameters[position].c_type, call.arguments[position]))
        elif function.effect in _MEMORY_EFFECTS or symbol in _MEMORY_FUNCTIONS:
            return 0
        elif symbol == "cuInit":
            self._when_closed("cuInit", partial(self._initialise, Change(call, self._order, NO_CONTEXT, ())))
        elif symbol in _OF_A_LAUNCH:
            return 0
        elif made := list(_handles_out(call)):
            self._make(call, made)
        else:
            self._change(call)
        return 0

    def _when_closed(self, key: object, take_over: Callable[[], None]) -> None:
        """What changes inside a window is no part of its setup, but of that of the next one."""
        if self.window_open:
            self._changes_in_window.pop(key, None)
            self._changes_in_window[key] = take_over
        else:
            take_over()

    def _initialise(self, change: Change) -> None:
        self._initialised = self._initialised or change

    def _make(self, call: RawCall, keys: list[Key]) -> None:
        symbol = call.function.meaning
        current = NO_CONTEXT if symbol.startswith(_WITHOUT_CONTEXT) else self._current(call.thread)
        uses = [*self._references(call)]
        if (context := self.find("CUcontext", current.context)) is not None:
            uses.append(context)
        gives_existing = any(word in symbol for word in ("Get", "Retain", "Attach", "Enumerate", "From"))
        for key in keys:
            if symbol == "cuDevicePrimaryCtxRetain":
                primary = self._primary.setdefault(call.argument("dev"), [key[1], 0])
                primary[0], primary[1] = key[1], primary[1] + 1
            if key[0] == "CUcontext" and "dev" in {parameter.name for parameter in call.function.parameters}:
                self._devices[key[1]] = call.argument("dev")
            if key in self._alive:
                if gives_existing or key[0] == _VALUE:
                    continue
                self._end(key)
            if symbol == "cuCtxFromGreenCtx" and (green := self.find("CUgreenCtx", call.argument("hCtx"))):
                self._devices[key[1]] = green.call.argument("dev")
            made = Made(key, call, self._order, current, tuple(uses))
            self._alive[key] = made
            if key[0] == "CUcontext":
                self._contexts[key[1]] = made
            # An executable graph outlives what it was made from: the graph, events, even the context of its maker.
            for parent in uses if key[0] != "CUgraphExec" else ():
                parent.children[id(made)] = made
        if symbol.startswith("cuCtxCreate"):
            self._stacks.setdefault(call.thread, []).append(Current(keys[0][1], call.number))

    def _change(self, call: RawCall) -> None:
        """A call that makes nothing: it belongs to the first object it names, or to the current context."""
        function = call.function
        references = self._references(call)
        current = self._current(call.thread)
        context = self.find("CUcontext", current.context)
        settings = [
            (parameter.name, word)
            for parameter, word in zip(function.parameters, call.arguments, strict=True)
            if parameter.name in _SETTING_PARAMETERS
        ]
        names = [
            call.inputs[p.name].data
            for p in function.parameters
            if p.role == Role.STRING and p.name in call.inputs
        ]
        if function.symbol in ("cuMemPoolSetAccess", "cuMemSetMemPool"):
            names += [call.inputs[name].data for name in ("map", "location") if name in call.inputs]
        self._follow_current_pool(call)
        symbol = "binding" if function.meaning in _BINDINGS else function.meaning
        key: tuple[object, ...] = (symbol.replace("Disable", "Enable"), *settings, *names)
        change = Change(call, self._order, current, (*references, *([context] if context else [])))
        if function.symbol.startswith("cuDevice") and not references:
            setting = (call.argument("dev"), change)
            self._when_closed((0, key), partial(self._device_changes.__setitem__, key, setting))
            return
        owner = context if function.symbol.startswith("cuCtx") else references[0] if references else None
        if owner is not None:
            self._when_closed((id(owner), key), partial(_keep_change, owner, key, change))

    def _follow_current_pool(self, call: RawCall) -> None:
        """Which pool a device allocates from when none is named."""
        symbol = call.function.symbol
        if symbol == "cuDeviceSetMemPool":
            self._current_pools[call.argument("dev")] = call.argument("pool")
        elif symbol == "cuMemSetMemPool" and (location := call.inputs.get("location")) is not None:
            kind, device = struct.unpack_from("<II", (location.data or b"").ljust(8, b"\0"))
            if kind == _LOCATION_DEVICE:
                self._current_pools[device] = call.argument("pool")

    def _change_current(self, call: RawCall) -> None:
        stack = self._stacks.setdefault(call.thread, [])
        if call.function.meaning != "cuCtxPushCurrent_v2":
            del stack[-1:]
        if call.function.meaning != "cuCtxPopCurrent_v2" and call.arguments[0]:
            stack.append(Current(call.arguments[0], call.number))

    def _end_context(self, call: RawCall) -> int:
        symbol = call.function.symbol
        if symbol.startswith("cuDevicePrimaryCtx"):
            primary = self._primary.get(call.argument("dev"))
            if primary is None:
                return 0
            context = primary[0]
            if "Reset" in symbol:
                # The handle stays valid for those who retained it; everything in it is gone.
                made = self._alive.get(("CUcontext", context))
                for child in list(made.children.values()) if made else ():
                    if child.key[0] not in _OF_THE_PROCESS:
                        self._end(child.key)
                return context
            primary[1] -= 1
            if primary[1] > 0:
                return 0
            del self._primary[call.argument("dev")]
        else:
            context = call.argument("ctx")
            stack = self._stacks.get(call.thread, [])
            if stack and stack[-1].context == context:
                stack.pop()
        self._end(("CUcontext", context))
        return context

    def _end(self, key: Key) -> None:
        ending = [self._alive.get(key)]
        while ending:
            made = ending.pop()
            if made is None or self._alive.get(made.key) is not made:
                continue
            del self._alive[made.key]
            if made.key[0] == "CUcontext":
                del self._contexts[made.key[1]]
            for parent in made.uses:
                parent.children.pop(id(made), None)
            ending += made.children.values()
            made.children = {}

    def _references(self, call: RawCall) -> list[Made]:
        """The living objects that a call is given, in the order of its parameters."""
        found = []
        for c_type, handle in _handles_in(call):
            made = self.find(c_type, handle)
            if made is not None:
                found.append(made)
        description = self._descriptions.of(call)
        if description is not None:
            wanted = {key for node in description.graph.all_nodes() for key in node.handles()}
            wanted.add(("CUcontext", description.context))
            found += [made for key in sorted(wanted) if (made := self.find(*key)) is not None]
        return found

    # -- the result ----------------------------------------------------------------------------------------------

    def setup_calls(self, contexts_of_memory: Iterable[int] = ()) -> Iterator[SetupCall]:
        """The setup, to be replayed in this order, each call in its thread.

        contexts_of_memory: contexts that memory of the window belongs to, which must exist to hold it.
        """
        for context in contexts_of_memory:
            self.use(self._contexts_at_opening.get(context))
        stacks_at_opening = self._stacks_at_opening
        for thread in sorted(self._window_threads):
            for entry in stacks_at_opening.get(thread, ()):
                self.use(self._contexts_at_opening.get(entry.context))
        kept: dict[int, tuple[int, RawCall, Current]] = {}
        for item in self._closure():
            kept[id(item.call)] = (item.order, item.call, item.current)
        ordered = sorted(kept.values(), key=lambda item: item[0])
        replayed: dict[int, list[Current]] = {}
        contexts = {handle for c_type, handle in self._made_contexts(ordered) if c_type == "CUcontext"}
        for _, call, current in ordered:
            stack = replayed.setdefault(call.thread, [])
            if current.context in contexts and (not stack or stack[-1].context != current.context):
                stack[-1:] = [current]
                yield SetupCall(call.thread, current=stack[-1])
            yield SetupCall(call.thread, call)
            if call.function.symbol.startswith("cuCtxCreate"):
                stack.append(Current(next(_handles_out(call))[1], call.number))
        for thread in sorted(self._window_threads):
            wanted = [entry for entry in stacks_at_opening.get(thread, []) if entry.context in contexts]
            have = [entry.context for entry in replayed.get(thread, [])]
            if have == [entry.context for entry in wanted]:
                continue
            if have and not wanted:
                yield SetupCall(thread, current=NO_CONTEXT)
            for place, entry in enumerate(wanted):
                yield SetupCall(thread, current=entry, push=place > 0)

    def _closure(self) -> Iterator[Made | Change]:
        """Everything that was made or changed before the window and that the marked objects rest on."""
        if self._initialised is not None:
            yield self._initialised
        seen: set[int] = set()
        pending: list[Made] = list(self._needed)
        devices: set[int] = set()
        while pending:
            made = pending.pop()
            if id(made) in seen:
                continue
            seen.add(id(made))
            pending += made.uses
            if made.key[0] == "CUcontext":
                devices.add(self.device_of(made.key[1]))
            if not self.is_of_setup(made):
                continue
            yield made
            for change in made.changes.values():
                yield change
                pending += change.uses
        for device, change in self._device_changes.values():
            if device in devices:
                yield change

    @staticmethod
    def _made_contexts(ordered: list[tuple[int, RawCall, Current]]) -> Iterator[Key]:
        for _, call, _ in ordered:
            yield from _handles_out(call)


def _keep_change(owner: Made, key: tuple[object, ...], change: Change) -> None:
    if (
        change.call.function.symbol in graphs.UPDATES
    ):  # replaces what was changed before, except which nodes are on
        owner.changes = {old: made for old, made in owner.changes.items() if old[0] == graphs.ENABLE}
    owner.changes.pop(key, None)
    if change.call.function.symbol != "cuCtxDisablePeerAccess":
        owner.changes[key] = change


def _words(attachment: RawAttachment | None, bytes_each: int = 8) -> Iterator[int]:
    """The handles of an array. What has no handle and is passed on as it is, is its own bytes as a number."""
    if attachment is not None and attachment.data is not None:
        for at in range(0, len(attachment.data) - bytes_each + 1, bytes_each):
            yield int.from_bytes(attachment.data[at : at + bytes_each], "little")


def _handles_out(call: RawCall) -> Iterator[Key]:
    """The handles that a call gave out."""
    for parameter in call.function.parameters:
        if parameter.role in (Role.OUT, Role.INOUT) and parameter.element in _OBJECTS:
            for word in _words(call.outputs.get(parameter.name), parameter.element_bytes):
                if word:
                    yield parameter.element, word


def _handles_in(call: RawCall) -> Iterator[Key]:
    """The handles that a call was given: by value, in arrays, and inside the structs that hold some."""
    for parameter, word in zip(call.function.parameters, call.arguments, strict=True):
        if parameter.role == Role.HANDLE:
            yield parameter.c_type, word
        elif parameter.role in (Role.IN, Role.INOUT) and parameter.element in _OBJECTS:
            for handle in _words(call.inputs.get(parameter.name), parameter.element_bytes):
                yield parameter.element, handle
    yield from _handles_of_arrays(call)
    config = call.inputs.get("config.0")
    if config is not None and config.data is not None and len(config.data) >= 56:
        yield "CUstream", structs.read_struct(structs.CUlaunchConfig, config.data).hStream
        attributes = call.inputs.get("config.1")
        if attributes is not None and attributes.data is not None and len(attributes.data) % 72 == 0:
            for attribute in structs.read_launch_attributes(attributes.data):
                if attribute.id in _ATTRIBUTES_WITH_EVENT:
                    yield "CUevent", attribute.value.event.event


def _handles_of_arrays(call: RawCall) -> Iterator[Key]:
    """The arrays that the description of a copy or of a resource names."""
    resource, copy = call.inputs.get("pResDesc"), call.inputs.get("pCopy.0")
    if resource is not None and resource.data is not None and len(resource.data) == 144:
        described = structs.read_struct(structs.CUDA_RESOURCE_DESC, resource.data)
        if described.resType == structs.ResourceType.ARRAY:
            yield "CUarray", described.place
        elif described.resType == structs.ResourceType.MIPMAPPED_ARRAY:
            yield "CUmipmappedArray", described.place
    if copy is not None and copy.data is not None:
        yield from (("CUarray", handle) for handle in structs.copied_arrays(copy.data))
