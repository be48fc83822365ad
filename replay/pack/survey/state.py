"""Which objects are alive, and the shortest list of calls that makes them again: a fold over the recorded calls.

Every call that makes an object is kept with what it was made from (its context, its module, its library). When the
object ends, so does the record of it and of everything made from it. Calls that only change an object (attributes,
limits, caches) are kept with that object, the last one of each sort. What the window uses is marked; the setup of a
snapshot is what was marked, what that was made from, and what changed it, in the original order.

Memory is no object here: the engine places it from the ranges of the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from replay.api import graphs, structs
from replay.api.parts import find_struct
from replay.api.vocabulary import Effect, Keep, Replayed, Role
from replay.pack.survey.graphs import Descriptions
from replay.pack.survey.handles import Key, handles_in, handles_out
from replay.raw.events import RawCall

STREAM_CONSTANTS = (0, 1, 2)  # default, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD name no object

_CURRENCY = frozenset((Effect.SET_CURRENT, Effect.PUSH_CURRENT, Effect.POP_CURRENT))
# A context that ends takes only its copy of them along.
_OF_THE_PROCESS = frozenset(("CUlibrary", "CUkernel"))

# Parameters that say which of several settings a call changes; the last call for each setting counts.
_SETTING_PARAMETERS = frozenset(("attrib", "attr", "limit", "dev", "peerContext", "hTexRef", "dim", "hNode"))

# What kernels reach by handle; found in parameters and in memory (first_pass.py).
_REACHED_BY_HANDLE = frozenset(("CUtexObject", "CUsurfObject", "CUtexref", "CUsurfref"))


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

    Windows may follow one another: after `end_window` the next one may open, whose setup includes what this one did.
    """

    def __init__(self, descriptions: Descriptions | None = None) -> None:
        self._descriptions = descriptions or Descriptions()
        self.window_open = False
        self.version = 0  # raised when a handle or the context of a thread may stand for something else
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
        """The object of a handle that is alive now. A CUkernel may be given where a CUfunction is asked for."""
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
        function = call.function
        of_stream = function.takes("CUstream") and not function.takes("CUmemoryPool")
        if function.effect == Effect.ALLOC and of_stream:
            device = self.device_of(self.current_context(call.thread))
            self.use(self.find("CUmemoryPool", self._current_pools.get(device, 0)))

    def apply(self, call: RawCall) -> int:
        """Take over what a call did; calls that failed did nothing. Gives the context whose memory has ended, or 0."""
        function = call.function
        if call.result != 0 or function.keep != Keep.ALWAYS or call.in_capture:
            return 0
        self._order += 1
        if function.effect in _CURRENCY and not function.creates:
            self._change_current(call)
        elif function.effect == Effect.END_OF_CONTEXT:
            return self._end_context(call)
        elif function.effect == Effect.DESTROY:
            self._end((function.destroys, call.arguments[function.effect_terms[0].parameters[0]]))
        elif function.replayed == Replayed.PLACED or function.hint:
            return 0
        elif function.symbol == "cuInit":
            self._when_closed(
                function.symbol, partial(self._initialise, Change(call, self._order, NO_CONTEXT, ()))
            )
        elif made := list(handles_out(call)):
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
        self.version += 1
        function = call.function
        current = self._current(call.thread) if function.needs_context else NO_CONTEXT
        uses = [*self._references(call)]
        if (context := self.find("CUcontext", current.context)) is not None:
            uses.append(context)
        for key in keys:
            if function.effect == Effect.RETAIN_PRIMARY:
                primary = self._primary.setdefault(call.argument("dev"), [key[1], 0])
                primary[0], primary[1] = key[1], primary[1] + 1
            if key[0] == "CUcontext" and function.takes("CUdevice"):
                self._devices[key[1]] = call.argument("dev")
            if key in self._alive:
                if not function.creates:
                    continue
                self._end(key)
            green = self.find("CUgreenCtx", call.argument("hCtx")) if key[0] == "CUcontext" else None
            if green is not None:
                self._devices[key[1]] = green.call.argument("dev")
            made = Made(key, call, self._order, current, tuple(uses))
            self._alive[key] = made
            if key[0] == "CUcontext":
                self._contexts[key[1]] = made
            # An executable graph outlives what it was made from: the graph, events, even the context of its maker.
            for parent in uses if key[0] != "CUgraphExec" else ():
                parent.children[id(made)] = made
        if function.creates == "CUcontext":
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
        names += [call.inputs[name].data for name in ("map", "location") if name in call.inputs]  # of pools
        self._follow_current_pool(call)
        key: tuple[object, ...] = (function.replaces or function.meaning, *settings, *names)
        change = Change(call, self._order, current, (*references, *([context] if context else [])))
        if function.parameters[:1] == (function.takes("CUdevice"),) and not references:
            setting = (call.argument("dev"), change)
            self._when_closed((0, key), partial(self._device_changes.__setitem__, key, setting))
            return
        owner = context if function.of_current else references[0] if references else None
        if owner is not None:
            self._when_closed((id(owner), key), partial(_keep_change, owner, key, change))

    def _follow_current_pool(self, call: RawCall) -> None:
        """Which pool a device allocates from when none is named."""
        if call.function.takes("CUmemoryPool") is None:
            return
        if call.function.takes("CUdevice"):
            self._current_pools[call.argument("dev")] = call.argument("pool")
            return
        location = find_struct(call.inputs, "location", structs.CUmemLocation)
        if location is not None and location.type == structs.LocationType.DEVICE:
            self._current_pools[location.id] = call.argument("pool")

    def _change_current(self, call: RawCall) -> None:
        self.version += 1
        stack = self._stacks.setdefault(call.thread, [])
        if call.function.effect != Effect.PUSH_CURRENT:
            del stack[-1:]
        if call.function.effect != Effect.POP_CURRENT and call.arguments[0]:
            stack.append(Current(call.arguments[0], call.number))

    def _end_context(self, call: RawCall) -> int:
        if call.function.takes("CUdevice"):
            primary = self._primary.get(call.argument("dev"))
            if primary is None:
                return 0
            context = primary[0]
            if call.function.replayed == Replayed.REFUSED:
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
        self.version += 1
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
        found = [made for key in handles_in(call) if (made := self.find(*key)) is not None]
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
        kept = {id(item.call): (item.order, item.call, item.current) for item in self._closure()}
        ordered = sorted(kept.values(), key=lambda item: item[0])
        replayed: dict[int, list[Current]] = {}
        made = (key for _, call, _ in ordered for key in handles_out(call))
        contexts = {handle for c_type, handle in made if c_type == "CUcontext"}
        for _, call, current in ordered:
            stack = replayed.setdefault(call.thread, [])
            if current.context in contexts and (not stack or stack[-1].context != current.context):
                stack[-1:] = [current]
                yield SetupCall(call.thread, current=stack[-1])
            yield SetupCall(call.thread, call)
            if call.function.creates == "CUcontext":
                stack.append(Current(next(handles_out(call))[1], call.number))
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


def _keep_change(owner: Made, key: tuple[object, ...], change: Change) -> None:
    if change.call.function.symbol in graphs.UPDATES:
        # It replaces what was changed before, except which nodes are on.
        owner.changes = {old: made for old, made in owner.changes.items() if old[0] == graphs.ENABLE}
    owner.changes.pop(key, None)
    if not change.call.function.undoes:
        owner.changes[key] = change
