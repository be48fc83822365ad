"""A driver that executes nothing and takes notes: every call becomes a step, every object a number.

What it gives out, handles and addresses of variables, are marked values that no application uses, since they are no
addresses and begin with a random number of this export; where such a value is in memory that a call points to, the
step says so. Pointers are followed only where a function is known to take one (`_inside`).
"""

from __future__ import annotations

import ctypes
import math
import secrets
import struct
from collections.abc import Callable, Iterable
from typing import Any

from replay.api import extents
from replay.api.functions import by_symbol
from replay.api.structs import (
    CUDA_MEMCPY2D,
    CUDA_MEMCPY3D,
    CUlaunchAttribute,
    CUlaunchConfig,
    MemoryType,
    copy_layout,
)
from replay.api.vocabulary import HANDLE_TYPES, Effect, Function, Parameter, Role, Term
from replay.engine.driver import Driver
from replay.errors import EngineError
from replay.export.exported import ANSWERED, FUNCTIONS, why_not
from replay.export.steps import Block, Call, Inside, Reference, Step, Word
from replay.images.fatbin import WRAPPER_BYTES, WRAPPER_MAGIC

MAXIMUM_STEPS = 50_000
MAXIMUM_OBJECTS = 1 << 15
MAXIMUM_TEXT_BYTES = 1 << 16
_WRAPPER = WRAPPER_MAGIC.to_bytes(4, "little")
_JIT_LOGS = (3, 4, 5, 6)  # CUjit_option: buffers for what the compiler says
_PER_THREAD_STREAM = 2
MAXIMUM_BLOCK_BYTES = 4 << 30  # of all that calls point to


class RecordingDriver(Driver):
    """Stands where the engine expects a driver (`engine.driver.Driver`). steps: what it was asked to do, in order.

    layout: offset and size of each parameter of the launch that comes next; the caller sets it.
    what: of the call that comes next, for people.
    """

    def __init__(self, is_captured: Callable[..., bool], device_count: int = 1) -> None:
        """is_captured: whether so many bytes, 1 unless given, from an address on are one piece of captured memory.
        device_count: of the devices that it has."""
        self.steps: list[Step] = []
        self.layout: list[tuple[int, int]] | None = None
        self.what = ""
        self.references: dict[int, str] = {}
        self._is_captured = is_captured
        self._mark = 0x9000 | secrets.randbits(12)  # of 16 bits; addresses have none of the upper ones set
        self._buffers: dict[int, Any] = {}  # by address
        self._blocks: dict[tuple[int, int], int] = {}  # real room that a call writes -> its block
        self._count = 0
        self._block_bytes = 0
        self._constants: dict[tuple[bytes, tuple[tuple[int, Word], ...]], Block] = {}
        self.contexts: dict[int, int] = {}  # of a device: the value that is its primary context
        self._other_contexts: set[int] = set()  # values that stand for others
        self.several = device_count > 1  # contexts, so that each step has to be in its own
        self._current = 0  # the context
        self._device_count = device_count

    # -- what the engine calls ----------------------------------------------------------------------------------

    def function(self, symbol: str, per_thread: bool = False) -> Callable[..., int]:
        row = by_symbol()[symbol]

        def run(*arguments: Any) -> int:
            if symbol.startswith(ANSWERED) and row.effect != Effect.GRAPH_LAUNCH:
                self._answer(row, arguments)
            elif symbol in FUNCTIONS:
                self._record(row, arguments, per_thread)
            elif symbol.startswith(("cuCtxGet", "cuMemHostGetDevicePointer")):
                raise EngineError(why_not(symbol))
            else:
                raise EngineError(
                    why_not(symbol), next="`replay run` executes it; only `replay export` does not"
                )
            return 0

        return run

    def error_name(self, code: int) -> str:
        """Nothing ever fails here."""
        return f"error {code}"

    def own(self, symbol: str) -> None:
        """None: the program is for any driver."""

    def keep(self, buffer: Any) -> bool:
        """A buffer of this process that arguments may point to. False when a captured address could be taken for it."""
        address = ctypes.addressof(buffer)
        if self._is_captured(address):
            return False
        self._buffers[address] = buffer
        return True

    # -- values -------------------------------------------------------------------------------------------------

    def new_reference(self, c_type: str) -> int:
        """The marked value of an object or variable."""
        number = len(self.references) + 1
        if number > MAXIMUM_OBJECTS:
            raise EngineError(f"the window has more than {MAXIMUM_OBJECTS} objects and variables")
        self.references[number] = c_type
        return self._mark << 48 | number << 32

    def new_context(self) -> int:
        """The marked value of a context which is no primary one."""
        value = self.new_reference("CUcontext")
        self._other_contexts.add(value)
        return value

    def reference(self, word: int) -> Reference | None:
        """The object or variable of a marked word."""
        number = word >> 32 & 0xFFFF
        if word >> 48 != self._mark or number not in self.references:
            return None
        return Reference(self.references[number], number, word & 0xFFFFFFFF)

    def word(self, value: int) -> Word:
        """A number, or the object or variable of it."""
        return self.reference(value) or value

    def block(self, data: bytes, words: Iterable[tuple[int, Word]] = (), *, scan: bool = True) -> Block:
        """Memory of the program with these contents, which nothing writes: equal ones are one.

        scan: marked values in it are found at multiples of 8.
        """
        found = dict(words)
        if scan:
            for at in range(0, len(data) - 7, 8):
                if at not in found and (known := self.reference(int.from_bytes(data[at : at + 8], "little"))):
                    found[at] = known
        key = (data, tuple(sorted(found.items())))
        if key not in self._constants:
            self._count += 1
            self._block_bytes += len(data)
            if self._block_bytes > MAXIMUM_BLOCK_BYTES:
                text = "the calls of the window are given more than 4 GiB of data"
                raise EngineError(text, next="capture a shorter window")
            self._constants[key] = Block(self._count, len(data), data, key[1])
        return self._constants[key]

    def _room(self, address: int, size_bytes: int) -> Block:
        self._count += 1
        self._blocks[address, size_bytes] = self._count
        return Block(self._count, size_bytes, None)

    def room_at(self, address: int, size_bytes: int) -> int | None:
        """The block that a call wrote which was given this buffer."""
        return self._blocks.get((address, size_bytes))

    # -- answering ----------------------------------------------------------------------------------------------

    def _answer(self, row: Function, arguments: tuple[Any, ...]) -> None:
        symbol = row.symbol
        if row.effect == Effect.SET_CURRENT:
            if _number(arguments[0]) not in (*self.contexts.values(), *self._other_contexts):
                raise EngineError(why_not("cuCtxCreate"))
            self._current = _number(arguments[0])
            if self.several:
                self._record(row, arguments, False)
            return
        for parameter, argument in zip(row.parameters, arguments, strict=True):
            if parameter.role != Role.OUT or argument is None:
                continue
            value = 0
            if parameter.element in HANDLE_TYPES:
                value = 1
                if parameter.element == "CUcontext" and symbol == "cuCtxGetCurrent":
                    value = self._current
                elif parameter.element == "CUcontext":
                    device = _number(arguments[1])
                    if device not in self.contexts:
                        self.contexts[device] = self.new_reference("CUcontext")
                    value = self.contexts[device]
            elif symbol == "cuDeviceGetCount":
                value = self._device_count
            elif symbol == "cuDeviceGet":
                value = _number(arguments[1])
            size = min(parameter.element_bytes or 8, 8)
            ctypes.memmove(_number(argument), value.to_bytes(8, "little"), size)

    # -- recording ----------------------------------------------------------------------------------------------

    def _record(self, row: Function, arguments: tuple[Any, ...], per_thread: bool) -> None:
        if len(self.steps) >= MAXIMUM_STEPS:
            raise EngineError(
                f"the window has more than {MAXIMUM_STEPS} steps",
                next="capture a shorter one, or choose one with --window",
            )
        blocks: list[Block] = []
        receives: dict[int, Reference] = {}
        given: list[Word | float | None] = []
        words = [_number(argument) for argument in arguments]
        if any(parameter.name in ("options", "jitOptions") for parameter in row.parameters):
            arguments, words = self._without_logs(row, arguments, words)
        for position, (parameter, argument) in enumerate(zip(row.parameters, arguments, strict=True)):
            word = words[position]
            if parameter.kind == "float":
                given.append(float(argument.value if hasattr(argument, "value") else argument))
            elif parameter.role in (Role.HANDLE, Role.ADDRESS, Role.VALUE) or parameter.kind != "pointer":
                if parameter.c_type == "CUstream" and per_thread and word == 0:
                    word = _PER_THREAD_STREAM
                given.append(self._value(parameter, word, blocks))
            elif word == 0:
                given.append(None)
            else:
                given.append(self._pointer(row, position, parameter, argument, words, blocks, receives))
        self.steps.append(Call(row, tuple(given), receives, tuple(blocks), self.what))

    def _value(self, parameter: Parameter, word: int, blocks: list[Block]) -> Word:
        # cuMemcpy takes addresses of the host where others take those of the device.
        if parameter.c_type == "CUdeviceptr" and word in self._buffers:
            if parameter.name.startswith("dst"):
                return self._at(self._room(word, ctypes.sizeof(self._buffers[word])), blocks)
            return self._at(self.block(_bytes(self._buffers[word]), scan=False), blocks)
        return self.word(word)

    def _pointer(
        self,
        row: Function,
        position: int,
        parameter: Parameter,
        argument: Any,
        words: list[int],
        blocks: list[Block],
        receives: dict[int, Reference],
    ) -> Word | None:
        word, role = words[position], parameter.role
        if role == Role.OUT and (parameter.element in HANDLE_TYPES or parameter.element == "CUdeviceptr"):
            value = self.new_reference(parameter.element)
            ctypes.c_uint64.from_address(word).value = value
            receives[position] = Reference(parameter.element, value >> 32 & 0xFFFF)
            return None
        if role in (Role.HOST_READ, Role.HOST_WRITE) and self._is_captured(word):
            if not self._is_captured(word, _term(words, parameter.count)):
                raise EngineError(f"{row.symbol} reaches beyond captured memory ({parameter.name})")
            return word  # pinned memory at its address
        if role in (Role.OUT, Role.HOST_WRITE):
            count = _term(words, parameter.count)
            size = max(count * max(parameter.element_bytes, 1), 8)
            return self._at(self._room(word, size if role == Role.OUT or size > 8 else count), blocks)
        if parameter.name == "kernelParams":
            return self._parameters(argument, blocks)
        if parameter.name == "extra":
            return self._extra(argument, blocks)
        if role == Role.STRING:
            text = ctypes.string_at(word)
            if len(text) > MAXIMUM_TEXT_BYTES:
                raise EngineError(f"{row.symbol} is given a name of {len(text)} bytes")
            return self._at(self.block(text + b"\0", scan=False), blocks)
        data = self._read(row, parameter, argument, word, words)
        inside = self._inside(parameter, data, blocks)
        return self._at(self.block(data, inside, scan=role not in (Role.HOST_READ, Role.IMAGE)), blocks)

    @staticmethod
    def _at(block: Block, blocks: list[Block]) -> Inside:
        """The address of one more block of a call."""
        blocks.append(block)
        return Inside(block.number)

    def _read(self, row: Function, parameter: Parameter, argument: Any, word: int, words: list[int]) -> bytes:
        if parameter.name == "pCopy":  # the engine's own struct, wherever it is
            layout = CUDA_MEMCPY3D if "3D" in row.symbol else CUDA_MEMCPY2D
            return ctypes.string_at(word, ctypes.sizeof(layout))
        if word in self._buffers:
            data = _bytes(self._buffers[word])
            if parameter.role in (Role.HOST_READ, Role.IN) and parameter.count != Term():
                wanted = _term(words, parameter.count) * max(parameter.element_bytes, 1)
                data = data[:wanted] if wanted else data
            return data
        if isinstance(argument, (ctypes.Array, ctypes.Structure)):
            return _bytes(argument)
        raise EngineError(f"{row.symbol} points to memory that the snapshot does not hold ({parameter.name})")

    def _inside(self, parameter: Parameter, data: bytes, blocks: list[Block]) -> list[tuple[int, Word]]:
        """What the pointers inside a struct of the engine's point to."""
        if parameter.name == "config":
            config = CUlaunchConfig.from_buffer_copy(data)
            if not config.numAttrs:
                return [(CUlaunchConfig.attrs.offset, 0)]
            size = config.numAttrs * ctypes.sizeof(CUlaunchAttribute)
            attributes = self.block(ctypes.string_at(config.attrs, size))
            return [(CUlaunchConfig.attrs.offset, self._at(attributes, blocks))]
        if parameter.role == Role.IMAGE and data[:4] == _WRAPPER:
            if len(data) != WRAPPER_BYTES:  # the engine's own: it lets none of a snapshot pass
                raise EngineError("a module image has a wrapper of a broken length")
            return self._containers(data, blocks)
        if parameter.name == "pCopy":
            return list(self._copied(data, blocks))
        return []

    def _containers(self, data: bytes, blocks: list[Block]) -> list[tuple[int, Word]]:
        """What a fatbinC wrapper of relocatable device code points to: a container, and a list of more of them."""
        container, listed = struct.unpack_from("<QQ", data, 8)
        addresses = [container]
        while (address := ctypes.c_uint64.from_address(listed + 8 * (len(addresses) - 1)).value) != 0:
            addresses.append(address)
        containers = (self.block(_bytes(self._buffers[address]), scan=False) for address in addresses)
        places = [self._at(block, blocks) for block in containers]
        words = [(8 * number, place) for number, place in enumerate(places[1:])]
        return [(8, places[0]), (16, self._at(self.block(bytes(8 * len(places)), words, scan=False), blocks))]

    def _copied(self, data: bytes, blocks: list[Block]) -> Iterable[tuple[int, Word]]:
        """Host memory on both sides of a copy of two or three dimensions, unless it is pinned.

        A block begins at the first byte that is copied; what is before it is not ours to read.
        """
        layout = copy_layout(data)
        copy = layout.from_buffer_copy(data)
        for side in extents.SIDES:
            if getattr(copy, side + "MemoryType") != MemoryType.HOST:
                continue
            pointer, (offset, size) = getattr(copy, side + "Host"), extents.of_side(copy, side)
            first = (pointer + offset) % 2**64
            if not size:
                yield getattr(layout, side + "Host").offset, 0
            if not size or self._is_captured(first, size):
                continue
            if not self._is_own(first, size):
                raise EngineError(f"{side}Host of a copy is no memory that the snapshot holds")
            reads = side == "src"
            block = (
                self.block(ctypes.string_at(first, size), scan=False) if reads else self._room(first, size)
            )
            yield getattr(layout, side + "Host").offset, Inside(self._at(block, blocks).block, -offset)

    def _is_own(self, address: int, size_bytes: int) -> bool:
        """Whether this is inside a buffer that was handed to `keep`."""
        held = self._buffers.get(address)
        if held is not None and size_bytes <= ctypes.sizeof(held):
            return True
        return any(
            start <= address and address + size_bytes <= start + ctypes.sizeof(buffer)
            for start, buffer in self._buffers.items()
        )

    def _parameters(self, argument: Any, blocks: list[Block]) -> Word:
        """The array of pointers to the parameters of a kernel, as one block of parameters and one of pointers."""
        if self.layout is None:
            raise EngineError("a launch whose parameter layout is not known")
        pointers = (
            list((ctypes.c_uint64 * len(self.layout)).from_address(_number(argument))) if self.layout else []
        )
        end = max((offset + size for offset, size in self.layout), default=0)
        data = bytearray(end)
        for pointer, (offset, size) in zip(pointers, self.layout, strict=True):
            data[offset : offset + size] = ctypes.string_at(pointer, size)
        buffer = self._at(self.block(bytes(data)), blocks).block
        words = [(8 * i, Inside(buffer, offset)) for i, (offset, _) in enumerate(self.layout)]
        return self._at(self.block(bytes(8 * max(len(words), 1)), words, scan=False), blocks)

    def _extra(self, argument: Any, blocks: list[Block]) -> Word:
        """CU_LAUNCH_PARAM_BUFFER_POINTER, the buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, its size, CU_LAUNCH_PARAM_END."""
        words = (ctypes.c_uint64 * 5).from_address(_number(argument))
        size = ctypes.c_uint64.from_address(words[3]).value
        buffer = self._at(self.block(ctypes.string_at(words[1], size)), blocks)
        places = [(8, buffer), (24, self._at(self.block(size.to_bytes(8, "little"), scan=False), blocks))]
        return self._at(self.block(struct.pack("<5Q", 1, 0, 2, 0, 0), places, scan=False), blocks)

    @staticmethod
    def _without_logs(
        row: Function, arguments: tuple[Any, ...], words: list[int]
    ) -> tuple[tuple[Any, ...], list[int]]:
        """Without the options that name a buffer for the compiler's messages."""
        names = [parameter.name for parameter in row.parameters]
        of_library = ("jitOptions", "jitOptionsValues", "numJitOptions")
        wanted = ("options", "optionValues", "numOptions") if "options" in names else of_library
        keys, values, count = map(names.index, wanted)
        given, words = list(arguments), list(words)
        kept = [
            (int(key), int(value or 0))
            for key, value in zip(given[keys] or (), given[values] or (), strict=True)
            if key not in _JIT_LOGS
        ]
        given[keys] = (ctypes.c_uint32 * len(kept))(*(key for key, _ in kept)) if kept else None
        given[values] = (ctypes.c_uint64 * len(kept))(*(value for _, value in kept)) if kept else None
        for place in (keys, values):
            words[place] = _number(given[place])
        words[count] = len(kept)
        return tuple(given), words


def _bytes(buffer: Any) -> bytes:
    return ctypes.string_at(ctypes.addressof(buffer), ctypes.sizeof(buffer))


def _number(argument: Any) -> int:
    """An argument as the driver would see it; 0 for a floating-point one, which may be no number."""
    if argument is None or isinstance(argument, (float, ctypes.c_float, ctypes.c_double)):
        return 0
    if isinstance(argument, int):
        return argument & (2**64 - 1)
    if isinstance(argument, ctypes._SimpleCData):
        return int(argument.value or 0) & (2**64 - 1)
    return ctypes.addressof(argument)


def _term(words: list[int], term: Term) -> int:
    return term.scale * math.prod(words[position] for position in term.parameters)
