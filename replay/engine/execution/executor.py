"""Executes captured driver calls on a live driver, generically from the table.

A call is prepared once and run once per iteration. Preparing translates what is known by then (device, handles,
addresses, buffers); what a call of the window itself creates is bound when the call runs. The exceptions that the
table marks `custom` are named in `replay/engine/execution/custom.py`.

Memory is placed before the first call, so calls that allocate, map or free it are not executed. Which context is
current is tracked for every captured thread, and all calls run on one thread in the order in which they were
entered.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from replay.api.executed import NOT_EXECUTED, PLACED_BEFOREHAND
from replay.api.extents import Extent, of_call
from replay.api.functions import by_symbol
from replay.api.vocabulary import (
    HANDLE_TYPES,
    STICKY_RESULTS,
    Effect,
    Function,
    Keep,
    Parameter,
    Role,
    Term,
)
from replay.engine.contents.tensor_maps import LiveMaps, MapPlace
from replay.engine.contents.words import HandleWord, Word
from replay.engine.driver import Driver, DriverFailure, argument_type, argument_value, passed_value
from replay.engine.execution import custom
from replay.engine.execution.custom.graphs import LiveGraphs
from replay.engine.execution.handles import HandleMap, ThreadContexts, captured_handles
from replay.engine.execution.inputs import MAXIMUM_BUFFER_BYTES, CallInputs, Late, Prepared
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.devices import Devices
from replay.errors import EngineError
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Image

_TOUCHING = (Effect.WRITE, Effect.READ, Effect.COPY, Effect.CUSTOM)

# Hints about managed memory have a meaning only where it is managed in the replay, too.
_HINTS = frozenset(
    (
        "cuMemAdvise", "cuMemAdvise_v2", "cuMemPrefetchAsync", "cuMemPrefetchAsync_v2", "cuStreamAttachMemAsync",
        "cuMemPrefetchBatchAsync", "cuMemDiscardBatchAsync", "cuMemDiscardAndPrefetchBatchAsync",
    )
)  # fmt: skip

# The state of a context or a stream decides, which depends on how fast the device is.
_RESULT_DEPENDS_ON_TIME = frozenset(("cuStreamQuery", "cuEventQuery"))

# A replay without them gives the same outputs: the driver may refuse them on another device.
_MAY_FAIL = frozenset(
    (
        "cuCtxSetLimit", "cuCtxSetCacheConfig", "cuCtxSetSharedMemConfig", "cuCtxSetFlags", "cuFuncSetCacheConfig",
        "cuKernelSetCacheConfig", "cuFuncSetSharedMemConfig", "cuDevicePrimaryCtxSetFlags_v2",
        "cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess", "cuFlushGPUDirectRDMAWrites", *_HINTS,
        *custom.POOL_FUNCTIONS,
    )
)  # fmt: skip

# What a call creates with these must be destroyed before the next iteration creates it again.
_CREATORS = (
    "cuStreamCreate", "cuEventCreate", "cuModuleLoad", "cuLibraryLoad", "cuCtxCreate", "cuGreenCtx",
    "cuIpcOpenEventHandle", "cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate", "cuTexObjectCreate",
    "cuSurfObjectCreate", "cuTexRefCreate", "cuGraphInstantiate", "cuMemPoolCreate",
)  # fmt: skip

# The context of a call that failed since none was current.
NO_CONTEXT = -1
_INVALID_CONTEXT = 201  # CUresult

# Handles below stand for the default streams.
_SPECIAL_STREAMS = 3

# A word of this size or more is no index and no count.
SMALLEST_CERTAIN_HANDLE = 1 << 32


def destroyed_handle(call: Call, function: Function) -> tuple[str, int] | None:
    """C type and captured handle of what a call destroys."""
    if function.effect not in (Effect.DESTROY, Effect.END_OF_CONTEXT):
        return None
    for parameter, word in zip(function.parameters, call.arguments, strict=True):
        if parameter.role == Role.HANDLE:
            return parameter.c_type, word
    return None


class Executor(CallInputs):
    """Prepares and runs calls.

    devices: the devices that stand for the captured ones; calls for which no captured context is known run in the
    context of its main one. words: captured addresses in the parameter buffers, by call number.
    """

    def __init__(
        self,
        driver: Driver,
        reader: SnapshotReader,
        images: dict[str, Image],
        addresses: AddressMap,
        words: dict[int, list[Word]],
        devices: Devices,
    ) -> None:
        super().__init__(reader, images, addresses)
        self.driver = driver
        self.words = words
        self.handles = HandleMap()
        self.graphs = LiveGraphs(self)
        self.threads = ThreadContexts()
        self.is_managed: Callable[[int], bool] = lambda live: False
        self.on_global: Callable[[int, int], None] = lambda captured, call_number: None
        self.on_array: Callable[[str, int, Call], None] = lambda c_type, captured, call: None
        self.handle_words: dict[
            int, list[HandleWord]
        ] = {}  # of objects, in the parameter buffers, by call number
        self.maps: LiveMaps | None = None  # tensor maps, and where they stand in the parameter buffers
        self.map_places: dict[int, list[MapPlace]] = {}
        self.certain_handles: dict[int, list[str]] = {}  # of texture and surface objects: their C types
        self.handles_here: dict[int, set[int]] = {}  # the live ones that stood for them
        self.window_objects: set[tuple[str, int]] = set()  # captured handles that the window itself gives out
        self.made: dict[
            tuple[str, int], int
        ] = {}  # created and not destroyed since, by C type and captured handle
        self.permanent: set[tuple[str, int]] = (
            set()
        )  # objects of the setup, which every iteration of the window needs
        self._devices = devices
        self.live_device = devices.device  # captured ordinal -> CUdevice
        self._current: int | None = None

    @property
    def own_context(self) -> int:
        """The live context that calls without a known one run in."""
        return self._devices.context

    # -- running ------------------------------------------------------------------------------------------------

    def run(self, prepared: Prepared) -> int:
        """Call the driver and return its CUresult. Raises EngineError when an object or address is not known."""
        if prepared.context != self._current or prepared.late_arguments or prepared.late_words:
            try:
                self._bind(prepared)
            except EngineError as error:
                failed = prepared.call.result
                if failed == 0 and by_symbol()[prepared.call.function].meaning in _MAY_FAIL:
                    self.note(f"{prepared.call.function} was not executed: it {error.what}")
                    return 0
                if failed in (0, None):
                    raise
                # In the application what it names had ended by then, too.
                self.note(f"{prepared.where} failed in the application and was not executed: {error.what}")
                return failed
        for action in prepared.first:
            action()
        code = prepared.function(*prepared.arguments)
        if code == 0:
            for buffer, c_type, captured_values in prepared.outputs:
                for live, captured in zip(buffer, captured_values, strict=False):
                    self.handles.bind(c_type, captured, live)
                    if captured in self.certain_handles:
                        self.handles_here.setdefault(captured, set()).add(live)
                    if prepared.creates:
                        self.made[c_type, captured] = live
            for action in prepared.then:
                action()
        return code

    def _bind(self, prepared: Prepared) -> None:
        """Make the call's context current, and fill in what was not known when it was prepared."""
        if prepared.context != self._current:
            self.switch(prepared.context)
        for late in prepared.late_arguments:
            prepared.arguments[late.place] = self._live(late, prepared)
        for late in prepared.late_words:
            _put_word(late.place, self._live(late, prepared))

    def switch(self, context: int) -> None:
        """Make the live context that stands for a captured one current; for NO_CONTEXT none."""
        live = self._devices.context if context == 0 else 0
        if context not in (0, NO_CONTEXT):
            live = self.handles.live("CUcontext", context)
        code = self.driver.function("cuCtxSetCurrent")(live)
        if code:
            raise DriverFailure("cuCtxSetCurrent", code, self.driver.error_name(code))
        self._current = context

    def is_permanent(self, c_type: str, captured: int) -> bool:
        """Whether an object lives as long as the replay; the default streams do."""
        default_stream = c_type == "CUstream" and captured < _SPECIAL_STREAMS
        return default_stream or (c_type, captured) in self.permanent

    def be_in(self, context: int) -> None:
        """Make the live context that stands for a captured one current, if it is not."""
        if context != self._current:
            self.switch(context)

    @contextmanager
    def inside(self, context: int) -> Iterator[None]:
        """Make the live context that stands for a captured one current for a while, if there is one."""
        before = self._current
        other = context not in (0, before) and self.handles.find("CUcontext", context) is not None
        if other:
            self.switch(context)
        yield
        if other and before is not None:
            self.switch(before)

    @property
    def is_somewhere(self) -> bool:
        """Whether it is known which context is current."""
        return self._current is not None

    def context_unknown(self) -> None:
        """Something made another context current."""
        self._current = None

    def run_setup(self, call: Call) -> Prepared | None:
        """Execute a call of the setup at once. One that failed in the application is left out."""
        prepared = self.prepare(call) if call.result == 0 else None
        if prepared is None:
            return None
        code = self.run(prepared)
        if code == 0:
            return prepared
        name = self.driver.error_name(code)
        if by_symbol()[call.function].meaning in _MAY_FAIL:
            self.note(f"{call.function} of the setup returned {name}")
            return None
        raise DriverFailure(
            call.function, code, name, where=prepared.where, next=custom.advice(call.function, name)
        )

    def result_matters(self, prepared: Prepared) -> bool:
        """Whether the CUresult of a window call must be the captured one."""
        symbol = by_symbol()[prepared.call.function].meaning
        return (
            prepared.call.result is not None
            and symbol not in _RESULT_DEPENDS_ON_TIME
            and symbol not in _MAY_FAIL
        )

    # -- preparing ----------------------------------------------------------------------------------------------

    def prepare(self, call: Call) -> Prepared | None:
        """A call ready to run; None for one that is not executed. To be called in recorded order."""
        function = by_symbol().get(call.function)
        if function is None:
            raise EngineError(
                f"calls {call.function}, which this replay does not know",
                where=f"call {call.number}",
                next="install a newer replay (`pip install -U gpu-replay`)",
            )
        if (function.unsupported and not call.in_capture) or function.keep in (Keep.NEVER, Keep.FOLLOWED):
            # A capture never records these; a file made by hand could name one that writes files.
            raise EngineError(
                f"calls {call.function}, which is never replayed",
                where=f"call {call.number}",
                next="the snapshot was not made by `replay capture`, or by another version",
            )
        if len(call.arguments) != len(function.parameters):
            raise EngineError(
                f"has {len(call.arguments)} arguments, {call.function} takes {len(function.parameters)}",
                where=f"call {call.number}",
            )
        context = NO_CONTEXT if call.result == _INVALID_CONTEXT else self.threads.current(call.thread)
        if call.result == 0 and self.threads.follow(call):
            return None
        if call.in_capture or function.effect in (Effect.BEGIN_CAPTURE, Effect.END_CAPTURE):
            return None  # nothing ran; the graph is rebuilt from its description
        if function.effect in PLACED_BEFOREHAND:
            return None
        if self._would_touch(call, function):
            # It touched nothing. Here it might: memory is placed in larger pieces than the application asked for.
            self.note(f"{call.function} was not executed where it failed in the application")
            return None
        failed = call.result if call.result not in (None, *STICKY_RESULTS) else 0
        if failed and call.function.startswith(_CREATORS):
            # Nothing was made. Here something might be: another driver or device refuses other things.
            name = self.driver.error_name(failed)
            self.note(f"{call.function} returned {name} in the application and was not executed")
            return None
        if function.meaning in NOT_EXECUTED:
            if reason := NOT_EXECUTED[function.meaning]:
                self.note(f"{call.function} was not executed: {reason}")
            return None
        if call.function == "cuDevicePrimaryCtxRetain" and self._devices.is_split(call.arguments[1]):
            return None  # another context stands for this one
        if call.function in _HINTS and not custom.concerns_managed(self, call):
            self.note(
                f"{call.function} was not executed: the memory that it is about is device memory in the replay"
            )
            return None
        destroyed = destroyed_handle(call, function)
        if destroyed in self.permanent:
            # Made by the setup, so the next iteration needs it. Its handle value may be given out again after this.
            self.permanent.discard(destroyed)
            return None
        # What is called instead has its parameters in the same order, or all of them are rebuilt.
        symbol = custom.INSTEAD.get(call.function, function.meaning)
        try:
            target = self.driver.function(symbol, call.per_thread)
        except EngineError:
            if symbol not in custom.MAY_BE_MISSING:
                raise
            target = custom.missing
        prepared = Prepared(
            call, context, target, [], creates=call.function.startswith(_CREATORS), symbol=symbol
        )
        rebuild = custom.EXCEPTIONS.get(call.function)
        given = rebuild(self, prepared, function) if rebuild else {}
        called = by_symbol()[symbol].parameters
        prepared.arguments = [
            given[parameter.name] if parameter.name in given else self._argument(prepared, function, position)
            for position, parameter in enumerate(
                called if len(called) != len(function.parameters) else function.parameters
            )
        ]
        if call.function.startswith(("cuCtxCreate", "cuCtxDestroy", "cuCtxDetach", "cuCtxAttach")):
            prepared.then.append(self.context_unknown)
        if destroyed is not None:
            prepared.then.append(lambda: self._forget(destroyed))
        return prepared

    def _would_touch(self, call: Call, function: Function) -> bool:
        """Whether a call of which the application was refused would write or read captured memory here."""
        if function.effect not in _TOUCHING or call.result in (0, None, *STICKY_RESULTS):
            return False
        words = zip(function.parameters, call.arguments, strict=True)
        return function.effect == Effect.CUSTOM or any(
            word and parameter.role == Role.ADDRESS and self.addresses.find(word) is not None
            for parameter, word in words
        )

    def prepare_encoder(self, call: Call, address: int) -> Prepared:
        """The call that encodes a tensor map, for a live global address. Its first argument is where the map goes."""
        function = by_symbol()[call.function]
        if len(call.arguments) != len(function.parameters):
            raise EngineError(
                f"has {len(call.arguments)} arguments", where=f"call {call.number} {call.function}"
            )
        prepared = Prepared(call, 0, self.driver.function(call.function), [])
        given = {**custom.EXCEPTIONS[call.function](self, prepared, function), "globalAddress": address}
        prepared.arguments = [
            given[parameter.name] if parameter.name in given else self._argument(prepared, function, position)
            for position, parameter in enumerate(function.parameters)
        ]
        return prepared

    def variable_bytes(self, captured_bytes: int, live_bytes: int) -> int:
        """How large a variable of a module is: the driver knows, whatever a snapshot says."""
        return live_bytes

    def _forget(self, handle: tuple[str, int]) -> None:
        self.handles.forget(*handle)
        self.made.pop(handle, None)

    def _argument(self, prepared: Prepared, function: Function, position: int) -> Any:
        parameter = function.parameters[position]
        word = prepared.call.arguments[position] & (2**64 - 1)
        role = parameter.role
        if parameter.kind == "struct" and role == Role.IN:
            return argument_type(parameter).from_buffer_copy(
                self.required(prepared, parameter.name).ljust(parameter.size_bytes, b"\0")
            )
        if role == Role.VALUE:
            if parameter.c_type == "CUdevice":
                return self._devices.device(word & 0xFFFFFFFF)
            return argument_value(parameter, word)
        if role == Role.ADDRESS:
            return self._address(prepared, function, position, word)
        if role == Role.HANDLE:
            return self.late(prepared, position, parameter.c_type, word)
        if role == Role.HOST_ADDRESS:
            return self.addresses.live(word, prepared.where)
        if word == 0:
            return None
        if role in (Role.IN, Role.INOUT, Role.OUT):
            return self._array(prepared, function, parameter)
        if role == Role.STRING:
            return self.buffer(prepared, self.required(prepared, parameter.name) + b"\0")
        if role == Role.IMAGE:
            return self.image(prepared, parameter.name)
        if role == Role.HOST_READ:
            size = self._count(prepared.call, function, parameter.count)
            return self.host_source(prepared, parameter.name, word, size)
        if role == Role.HOST_WRITE:
            size = self._count(prepared.call, function, parameter.count)
            return self.host_target(prepared, parameter.name, word, size)
        if role == Role.OPAQUE:
            self.note(
                f"{prepared.call.function} was given no {parameter.name}: it belongs to the application"
            )
            return None
        raise EngineError(f"parameter {parameter.name} cannot be rebuilt", where=prepared.where)

    def late(self, prepared: Prepared, position: int, c_type: str, captured: int) -> int:
        """A handle argument. It is looked up when the call runs: the window may make it anew each time."""
        if captured and not (c_type == "CUstream" and captured < _SPECIAL_STREAMS):
            prepared.late_arguments.append(Late(position, c_type, captured))
            return 0
        return captured

    def _address(self, prepared: Prepared, function: Function, position: int, captured: int) -> int:
        """An address argument and all that the call reaches from it: now if it is known, else when the call runs."""
        touch = next((item for item in function.touches if item.parameter == position), None)
        name = function.parameters[position].name
        if touch is None:
            raise EngineError(f"nothing says how far it reaches from {name}", where=prepared.where)
        extent = of_call(function, prepared.call.arguments, touch)
        live = self.addresses.reach(captured, extent.size_bytes, touch.write)
        if live is not None and not self.addresses.may_change(captured):
            return live
        prepared.late_arguments.append(Late(position, "CUdeviceptr", captured, extent, name, touch.write))
        return 0

    def late_word(
        self,
        prepared: Prepared,
        address: int,
        c_type: str,
        captured: int,
        extent: Extent = Extent(0, 0),  # noqa: B008 (a tuple)
        argument: str = "",
        write: bool = False,
    ) -> None:
        """A handle or address inside a buffer, at the live `address`; the rest as in `Late`."""
        prepared.late_words.append(Late(address, c_type, captured, extent, argument, write))

    def object_word(
        self, prepared: Prepared, address: int, offset: int, candidates: list[HandleWord], whole: bool
    ) -> None:
        """A word of a parameter buffer, at the live `address`, that may hold the handle of a texture or surface object.

        whole: it is one parameter. A number inside a struct is taken for a handle only if it is too large to be
        anything else.
        """
        captured = candidates[0].captured
        trusted = whole or captured >= SMALLEST_CERTAIN_HANDLE

        def write() -> None:
            found = {self.handles.find(word.c_type, captured) for word in candidates} - {None}
            live = found.pop() if len(found) == 1 else None
            if found or (live not in (None, captured) and not trusted):
                self.note(
                    f"{prepared.where}: the word {captured:#x} at offset {offset} of what it is given may be "
                    "the handle of an object that has another one here; it was left as it is"
                )
            elif live is not None:
                _put_word(address, live)

        if any((word.c_type, captured) in self.window_objects for word in candidates):
            prepared.first.append(write)
        else:
            write()

    def live_object(self, word: int) -> int | None:
        """The live handle of the texture or surface object whose handle a word can only be."""
        found = {self.handles.find(c_type, word) for c_type in self.certain_handles.get(word, ())} - {None}
        return found.pop() if len(found) == 1 else None

    def follow_objects(self, prepared: Prepared, address: int, data: bytes) -> None:
        """Words of `data`, which stands at the live `address`, that can only be handles of texture and surface objects
        get the live ones, at the latest when the call runs."""
        if not self.certain_handles or len(data) < 8:
            return
        import numpy

        words = numpy.frombuffer(data, "<u8", len(data) // 8)
        known = numpy.array(sorted(self.certain_handles), "<u8")
        for place in numpy.flatnonzero(numpy.isin(words, known)).tolist():
            captured = int(words[place])
            candidates = [
                HandleWord(8 * place, c_type, captured) for c_type in self.certain_handles[captured]
            ]
            self.object_word(prepared, address + 8 * place, 8 * place, candidates, False)

    def _live(self, late: Late, prepared: Prepared) -> int:
        if late.c_type == "CUdeviceptr":
            return self.addresses.access(
                late.captured, late.extent, prepared.where, late.argument, late.write
            )
        return self.handles.live(late.c_type, late.captured, prepared.where)

    def _array(self, prepared: Prepared, function: Function, parameter: Parameter) -> Any:
        call = prepared.call
        size = 0
        if parameter.role != Role.IN:
            count = self._count(call, function, parameter.count)
            size = max(count * parameter.element_bytes, 8)
        data = b"" if parameter.role == Role.OUT else self.required(prepared, parameter.name)
        wanted = self._count(call, function, parameter.count) * parameter.element_bytes
        if parameter.role == Role.IN and len(data) < wanted:
            raise EngineError(
                f"{parameter.name} has {len(data)} bytes, of which the call reads {wanted}",
                where=prepared.where,
            )
        captured_output = call.outputs.get(parameter.name, b"")
        output_bytes = len(captured_output) if isinstance(captured_output, bytes) else 0
        size = max(size, len(data), output_bytes)
        if size > MAXIMUM_BUFFER_BYTES:
            raise EngineError(f"{parameter.name} would take {size} bytes", where=prepared.where)
        element = parameter.element
        if element not in HANDLE_TYPES and element != "CUdeviceptr":
            return self.buffer(prepared, data.ljust(size, b"\0"))
        buffer = (ctypes.c_uint64 * (size // 8)).from_buffer_copy(data.ljust(size, b"\0")[: size // 8 * 8])
        prepared.keep.append(buffer)
        if parameter.role != Role.OUT:
            extents = self._extents_of_each(prepared, function, parameter)
            for index in range(len(data) // 8):
                if buffer[index]:
                    place, argument = ctypes.addressof(buffer) + 8 * index, f"{parameter.name}[{index}]"
                    extent = extents[index] if index < len(extents) else Extent(0, 0)
                    self.late_word(prepared, place, element, buffer[index], extent, argument, True)
        if parameter.role != Role.IN and element in HANDLE_TYPES:
            prepared.outputs.append((buffer, element, captured_handles(call, parameter.name)))
        return buffer

    def _extents_of_each(self, prepared: Prepared, function: Function, parameter: Parameter) -> list[Extent]:
        """Of an array of addresses."""
        if parameter.element != "CUdeviceptr":
            return []
        touch = next(
            (item for item in function.touches if function.parameters[item.parameter] is parameter), None
        )
        if touch is None or touch.each is None:
            raise EngineError(f"nothing says how far it reaches from {parameter.name}", where=prepared.where)
        if not prepared.call.arguments[touch.each]:
            raise EngineError(f"is given no sizes for {parameter.name}", where=prepared.where)
        sizes = self.required(prepared, function.parameters[touch.each].name)
        return [Extent(0, size) for (size,) in struct.iter_unpack("<Q", sizes[: len(sizes) // 8 * 8])]

    def _count(self, call: Call, function: Function, term: Term) -> int:
        product = term.scale
        for position in term.parameters:
            parameter = function.parameters[position]
            value = call.arguments[position]
            if parameter.role in (Role.OUT, Role.INOUT):
                data = call.outputs.get(parameter.name, b"")
                value = int.from_bytes(data, "little") if isinstance(data, bytes) else 0
            product *= value
        if not 0 <= product <= MAXIMUM_BUFFER_BYTES:
            raise EngineError(f"asks for {product} elements", where=f"call {call.number} {call.function}")
        return product

    def settle(self, window: list[Prepared]) -> None:
        """Bind what no call of the window makes, once and for all, so that running costs little per call.

        To be called when all calls are prepared and all objects of the setup exist.
        """
        made = {
            captured
            for item in window
            for _, _, captured_values in item.outputs
            for captured in captured_values
        }
        for item in window:
            item.late_arguments = self._settle_late(item.late_arguments, made, item.arguments.__setitem__)
            item.late_words = self._settle_late(item.late_words, made, _put_word)
            item.arguments = [
                passed_value(parameter, value)
                for parameter, value in zip(
                    by_symbol()[item.symbol or item.call.function].parameters, item.arguments, strict=False
                )
            ]

    def _settle_late(self, late: list[Late], made: set[int], put: Callable[[int, int], None]) -> list[Late]:
        """Those that stay late; `put` gets the place and the live value of all others."""
        still_late = []
        for item in late:
            live = None if item.captured in made else self._known(item)
            if live is None:
                still_late.append(item)
            else:
                put(item.place, live)
        return still_late

    def _known(self, late: Late) -> int | None:
        c_type, captured = late.c_type, late.captured
        if c_type == "CUdeviceptr":
            offset, size_bytes = late.extent
            if self.addresses.may_change(captured + offset):
                return None
            live = self.addresses.reach(captured + offset, size_bytes, late.write)
            return None if live is None else (live - offset) % 2**64
        if c_type == "CUgraphExec":
            return None  # one that the window changes is made again for the next iteration
        return self.handles.find(c_type, captured)


def _put_word(address: int, value: int) -> None:
    ctypes.c_uint64.from_address(address).value = value
