"""A driver that writes down what it was asked: the application and the replay both call it.

It is called by the hook of `programs/recording_driver.c`. What a call was given is described in terms that both
sides share, so that the two descriptions can be compared:

- a handle is named by the call that made it, whatever its value: "CUstream of call 12";
- an address is the captured one; the replay's are turned back by where its memory was placed;
- a pointer is what it points to, as far as the table and `recipes.py` say.
"""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.api.functions import by_symbol
from replay.api.vocabulary import HANDLE_TYPES, Effect, Function, Parameter, Role

from . import launches, recipes
from .graphs import Graphs

HOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))
STREAM_CONSTANTS = (0, 1, 2)
RESOURCE = "CUdevResource"
PRIMARY_CONTEXT = 0xC0DE0

_PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS = 3, 0x22
_LOW = _MAP_PRIVATE_ANONYMOUS | 0x100000  # MAP_FIXED_NOREPLACE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_uint64
_libc.mmap.argtypes = [
    ctypes.c_uint64,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t]


class Memory:
    """Zeros that are never given back. As of a real driver, device and host memory share no granule of 2 MiB."""

    GRANULE = 2 << 20

    def __init__(self) -> None:
        self._low = 0x3000_0000
        self._next = self._end = 0

    def host(self, size_bytes: int) -> int:
        return self._map(0, size_bytes, _MAP_PRIVATE_ANONYMOUS)

    def device(self, size_bytes: int, low: bool = False) -> int:
        """low: at an address of 32 bits."""
        while low:
            self._low += self.GRANULE
            assert self._low < 2**32, "no memory below 4 GiB"
            address = int(_libc.mmap(self._low, self.GRANULE, _PROT_READ_WRITE, _LOW, -1, 0))
            if address == self._low:
                return address
        if self._next + size_bytes > self._end:
            arena = max(16 * self.GRANULE, 2 * size_bytes)
            start = self._map(0, arena + 2 * self.GRANULE, _MAP_PRIVATE_ANONYMOUS)
            self._next = -(-start // self.GRANULE) * self.GRANULE
            self._end = self._next + arena
        address, self._next = self._next, self._next + -(-size_bytes // 512) * 512
        return address

    def reserve(self, size_bytes: int) -> int:
        """Whole granules."""
        self._next = -(-self._next // self.GRANULE) * self.GRANULE
        address = self.device(-(-size_bytes // self.GRANULE) * self.GRANULE)
        assert address % self.GRANULE == 0
        return address

    @staticmethod
    def _map(hint: int, size_bytes: int, flags: int) -> int:
        address = int(_libc.mmap(hint, size_bytes, _PROT_READ_WRITE, flags, -1, 0))
        assert address != 2**64 - 1, "no memory"
        return address


@dataclass
class Asked:
    """A call as the driver saw it. given: by parameter, described. context: the one that was current. raw: the bytes
    of plain inputs."""

    symbol: str
    per_thread: bool
    context: Any
    given: dict[str, Any]
    words: list[int] = field(default_factory=list)
    raw: dict[str, bytes] = field(default_factory=dict)


def number_at(address: int, size_bytes: int) -> int:
    return int.from_bytes(ctypes.string_at(address, size_bytes), "little")


class Recorder:
    """symbols: those of the recording driver, by number. first_handle: handles count up from it.

    `expects` says which call belongs to the application, or the replay, and not to the shim or the session: it gives
    the label of the call, or None. turn_back: a live address as the captured one.
    """

    def __init__(self, symbols: Sequence[str], first_handle: int) -> None:
        self.symbols = symbols
        self.expects: Callable[[str, list[int]], int | None] = lambda symbol, words: None
        self.turn_back: Callable[[int], int] = lambda address: address
        self.asked: dict[int, list[Asked]] = {}
        self.names: dict[tuple[str, int], Any] = {("CUcontext", PRIMARY_CONTEXT): "the primary context"}
        self.blocks: dict[int, int] = {}  # base -> bytes
        self.errors: list[str] = []
        self._next_handle = first_handle
        self._contexts: list[int] = []
        self._noise = random.Random(first_handle)
        self._variables: dict[str, int] = {}
        self.memory = Memory()
        self.graphs: Graphs = Graphs(self)
        self.hook = HOOK(self._called)
        self._by_symbol = by_symbol()

    # -- being called -----------------------------------------------------------------------------------------------

    def _called(self, number: int, words_pointer: Any) -> int:
        try:
            symbol = self.symbols[number]
            function = self._by_symbol[symbol]
            words = [
                int(words_pointer[position]) & ((1 << 8 * min(parameter.size_bytes, 8)) - 1)
                for position, parameter in enumerate(function.parameters)
            ]
            label = self.expects(symbol, words)
            asked = None
            if label is not None:
                asked = Asked(function.symbol, symbol != function.symbol, self.context(), {}, words)
                asked.given = {
                    parameter.name: self._described(function, position, words)
                    for position, parameter in enumerate(function.parameters)
                }
                asked.raw = {
                    parameter.name: ctypes.string_at(
                        word, self.count(function, parameter, words) * parameter.element_bytes
                    )
                    for parameter, word in zip(function.parameters, words, strict=True)
                    if parameter.role in (Role.IN, Role.INOUT) and parameter.kind == "pointer" and word
                }
                self.asked.setdefault(label, []).append(asked)
            return self._answer(function, words, label)
        except Exception as error:  # nothing may escape into C
            self.errors.append(f"{self.symbols[number]}: {type(error).__name__}: {error}")
            return 999

    def context(self) -> Any:
        return self.handle("CUcontext", self._contexts[-1]) if self._contexts else None

    # -- describing ---------------------------------------------------------------------------------------------------

    def handle(self, c_type: str, value: int) -> Any:
        """A handle by the call that made it."""
        if value == 0 or (c_type == "CUstream" and value in STREAM_CONSTANTS):
            return value
        for kind in (c_type, *recipes.ALSO_ACCEPTED.get(c_type, ())):
            if (kind, value) in self.names:
                return self.names[kind, value]
        return f"an unknown {c_type} {value:#x}"

    def address(self, value: int) -> str:
        return f"{self.turn_back(value):#x}"

    def count(self, function: Function, parameter: Parameter, words: list[int]) -> int:
        """How many elements a parameter points to, before the call."""
        product = parameter.count.scale
        for position in parameter.count.parameters:
            counter = function.parameters[position]
            word = words[position]
            if counter.role in (Role.OUT, Role.INOUT):
                word = number_at(word, counter.element_bytes) if word else 0
            product *= word
        return product

    def _plain(self, function: Function, parameter: Parameter, words: list[int], word: int) -> bytes:
        return ctypes.string_at(word, self.count(function, parameter, words) * parameter.element_bytes)

    def elements(self, parameter: Parameter, address: int, count: int) -> list[Any]:
        """What an array holds."""
        size = parameter.element_bytes
        found: list[Any] = []
        for place in range(count):
            at = address + place * size
            if parameter.element == RESOURCE:
                found.append(self.names.get((RESOURCE, number_at(at, size)), "an unknown resource"))
            elif parameter.element in HANDLE_TYPES:
                found.append(self.handle(parameter.element, number_at(at, 8)))
            elif parameter.element == "CUdeviceptr":
                found.append(self.address(number_at(at, 8)))
            elif describe := recipes.STRUCTS.get(parameter.element):
                found.append(describe(self, at))
            else:
                found.append(ctypes.string_at(at, size).hex())
        return found

    def _described(self, function: Function, position: int, words: list[int]) -> Any:
        parameter, word = function.parameters[position], words[position]
        if function.symbol in recipes.SEEN_AT_LAUNCH:
            return "seen when its graph is launched"
        describe = recipes.PARAMETERS.get((function.symbol, parameter.name))
        if describe is not None:
            return describe(self, function, words)
        role = parameter.role
        if role == Role.VALUE:
            return "the device" if parameter.c_type == "CUdevice" else word
        if role == Role.HANDLE:
            return self.handle(parameter.c_type, word)
        if role in (Role.ADDRESS, Role.HOST_ADDRESS):
            return self.address(word)
        if role == Role.OPAQUE:
            return "of the application"
        if word == 0:
            return None
        if role == Role.STRING:
            return (ctypes.string_at(word) or b"").decode()
        if role == Role.IMAGE:
            return launches.image_at(word)
        if role in (Role.IN, Role.INOUT):
            if parameter.kind == "struct":
                return ctypes.string_at(word, parameter.size_bytes).hex()
            return self.elements(parameter, word, self.count(function, parameter, words))
        if role == Role.OUT:
            return "room"
        if role == Role.HOST_READ:
            return ctypes.string_at(word, self.count(function, parameter, words)).hex()
        if role == Role.HOST_WRITE:
            return "room"
        describe_type = recipes.CUSTOM_TYPES.get(parameter.c_type)
        if describe_type is None:
            raise LookupError(f"recipes.py does not say what {parameter.name} ({parameter.c_type}) points to")
        return describe_type(self, function, words, word)

    # -- answering ----------------------------------------------------------------------------------------------------

    def new_handle(self) -> int:
        self._next_handle += 0x10
        return self._next_handle

    def allocate(self, size_bytes: int, low: bool = False, host: bool = False) -> int:
        size_bytes = max(size_bytes, 1)
        base = self.memory.host(size_bytes) if host else self.memory.device(size_bytes, low)
        self.blocks[base] = size_bytes
        return base

    def _put(self, address: int, value: int, size_bytes: int) -> None:
        ctypes.memmove(address, value.to_bytes(size_bytes, "little"), size_bytes)

    def _answer(self, function: Function, words: list[int], label: int | None) -> int:
        arguments = dict(zip((p.name for p in function.parameters), words, strict=True))
        special = getattr(self, f"_{function.meaning}", getattr(self.graphs, f"_{function.meaning}", None))
        if special is not None:
            return int(special(arguments, label) or 0)
        if function.effect in (Effect.ALLOC, Effect.HOST_ALLOC, Effect.MANAGED_ALLOC, Effect.IMPORT):
            self._answer_allocation(function, words)
            return 0
        if function.effect == Effect.GLOBAL:
            self._answer_variable(function, words, arguments)
            return 0
        place = 0
        for parameter, word in zip(function.parameters, words, strict=True):
            if parameter.role not in (Role.OUT, Role.INOUT) or word == 0:
                continue
            count = self.count(function, parameter, words)
            for index in range(count):
                at = word + index * parameter.element_bytes
                if parameter.element == RESOURCE:
                    data = self._noise.randbytes(parameter.element_bytes)
                    ctypes.memmove(at, data, len(data))
                    self._name(RESOURCE, int.from_bytes(data, "little"), label, place)
                elif parameter.element in HANDLE_TYPES:
                    handle = self.new_handle()
                    self._put(at, handle, 8)
                    self._name(parameter.element, handle, label, place)
                elif parameter.role == Role.OUT:
                    ctypes.memset(at, 0, parameter.element_bytes)
                place += 1
        return 0

    def name(self, c_type: str, value: int, label: int | None, place: int) -> None:
        """Call an object by the call that made it."""
        self._name(c_type, value, label, place)

    def _name(self, c_type: str, value: int, label: int | None, place: int) -> None:
        if label is not None:
            self.names[c_type, value] = f"{c_type} {place} of call {label}"

    def _answer_allocation(self, function: Function, words: list[int]) -> None:
        terms = function.effect_terms
        out = function.parameters[terms[0].parameters[0]]
        size = 4096
        if len(terms) > 1:
            size = terms[1].scale
            for position in terms[1].parameters:
                parameter = function.parameters[position]
                if parameter.role == Role.OUT:  # a pitch
                    self._put(words[position], 512, parameter.element_bytes)
                    size *= 512
                else:
                    size *= words[position]
        host = function.effect == Effect.HOST_ALLOC
        base = self.allocate(size, low=out.element_bytes == 4, host=host)
        self._put(words[terms[0].parameters[0]], base, out.element_bytes)

    def _answer_variable(self, function: Function, words: list[int], arguments: dict[str, int]) -> None:
        name = function.parameters[3].name
        key = f"{words[2]:x} {ctypes.string_at(arguments[name]).decode()}"
        if key not in self._variables:
            self._variables[key] = self.allocate(512, low=True)
        for position, value in ((0, self._variables[key]), (1, 512)):
            if words[position]:
                self._put(words[position], value, function.parameters[position].element_bytes)

    # What the shim and the session look at, or what the current context depends on. Each takes the argument words by
    # name and the label of the call.

    def _cuDriverGetVersion(self, arguments: dict[str, int], label: int | None) -> None:
        self._put(arguments["driverVersion"], 13050, 4)

    def _cuDeviceGetCount(self, arguments: dict[str, int], label: int | None) -> None:
        self._put(arguments["count"], 1, 4)

    def _cuCtxGetCurrent(self, arguments: dict[str, int], label: int | None) -> None:
        self._put(arguments["pctx"], self._contexts[-1] if self._contexts else 0, 8)

    def _cuCtxAttach(self, arguments: dict[str, int], label: int | None) -> None:
        self._cuCtxGetCurrent(arguments, label)

    def _cuCtxSetCurrent(self, arguments: dict[str, int], label: int | None) -> None:
        del self._contexts[-1:]
        if arguments["ctx"]:
            self._contexts.append(arguments["ctx"])

    def _cuCtxPushCurrent_v2(self, arguments: dict[str, int], label: int | None) -> None:
        self._contexts.append(arguments["ctx"])

    def _cuCtxPopCurrent_v2(self, arguments: dict[str, int], label: int | None) -> int:
        if not self._contexts:
            return 201
        context = self._contexts.pop()
        if arguments["pctx"]:
            self._put(arguments["pctx"], context, 8)
        return 0

    def _made_current(self, arguments: dict[str, int], label: int | None) -> None:
        handle = self.new_handle()
        self._put(arguments["pctx"], handle, 8)
        self._name("CUcontext", handle, label, 0)
        self._contexts.append(handle)

    _cuCtxCreate_v2 = _cuCtxCreate_v3 = _cuCtxCreate_v4 = _made_current

    def _cuCtxDestroy_v2(self, arguments: dict[str, int], label: int | None) -> None:
        if self._contexts and self._contexts[-1] == arguments["ctx"]:
            self._contexts.pop()

    def _cuDevicePrimaryCtxRetain(self, arguments: dict[str, int], label: int | None) -> None:
        self._put(arguments["pctx"], PRIMARY_CONTEXT, 8)

    def _cuMemGetAddressRange_v2(self, arguments: dict[str, int], label: int | None) -> int:
        for base, size in self.blocks.items():
            if base <= arguments["dptr"] < base + size:
                if arguments["pbase"]:
                    self._put(arguments["pbase"], base, 8)
                if arguments["psize"]:
                    self._put(arguments["psize"], size, 8)
                return 0
        return 1

    def _cuMemcpyDtoH_v2(self, arguments: dict[str, int], label: int | None) -> None:
        ctypes.memmove(arguments["dstHost"], arguments["srcDevice"], arguments["ByteCount"])

    def _cuMemcpyHtoD_v2(self, arguments: dict[str, int], label: int | None) -> None:
        ctypes.memmove(arguments["dstDevice"], arguments["srcHost"], arguments["ByteCount"])

    def _cuMemAddressReserve(self, arguments: dict[str, int], label: int | None) -> None:
        base = self.memory.reserve(arguments["size"])
        self._put(arguments["ptr"], base, 8)

    def _cuMemMap(self, arguments: dict[str, int], label: int | None) -> None:
        self.blocks[arguments["ptr"]] = arguments["size"]

    def _cuMemHostRegister_v2(self, arguments: dict[str, int], label: int | None) -> None:
        self.blocks[arguments["p"]] = arguments["bytesize"]

    def _cuMemHostGetDevicePointer_v2(self, arguments: dict[str, int], label: int | None) -> None:
        self._put(arguments["pdptr"], arguments["p"], 8)

    def _layout(self, arguments: dict[str, int], label: int | None) -> int:
        """Every kernel has the parameters of `launches.LAYOUT`."""
        if arguments["paramIndex"] >= len(launches.LAYOUT):
            return 1
        offset, size = launches.LAYOUT[arguments["paramIndex"]]
        self._put(arguments["paramOffset"], offset, 8)
        if arguments["paramSize"]:
            self._put(arguments["paramSize"], size, 8)
        return 0

    _cuFuncGetParamInfo = _cuKernelGetParamInfo = _layout

    def _named(self, arguments: dict[str, int], label: int | None) -> None:
        self._name_buffer = ctypes.create_string_buffer(b"kernel")
        self._put(arguments["name"], ctypes.addressof(self._name_buffer), 8)

    _cuFuncGetName = _cuKernelGetName = _named

    def _no_name(self, arguments: dict[str, int], label: int | None) -> None:
        text = ctypes.create_string_buffer(b"CUDA_ERROR_OF_THE_TEST")
        self._text = text
        self._put(arguments["pStr"], ctypes.addressof(text), 8)

    _cuGetErrorName = _cuGetErrorString = _no_name

    def _cuEventElapsedTime(self, arguments: dict[str, int], label: int | None) -> None:
        ctypes.memmove(arguments["pMilliseconds"], struct.pack("<f", 0.5), 4)

    def _resolve(self, arguments: dict[str, int], label: int | None) -> int:
        return 500  # the tests look symbols up by dlsym

    _cuGetProcAddress = _cuGetProcAddress_v2 = _resolve
