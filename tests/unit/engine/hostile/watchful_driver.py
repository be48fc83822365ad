"""A driver that looks at everything that it is given.

What a call reaches is worked out here a second time, from cuda.h and not with the engine's own arithmetic.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from replay.api import structs
from replay.api.vocabulary import Function, Parameter, Role, Term

from ...helpers.fake_driver import FakeDriver, number
from .calls import CAPTURED, HANDLE, LIVE, LIVE_HANDLE, ROWS, WRITABLE, count_of


@dataclass
class Trespass(AssertionError):
    """A driver was given what it must not be."""

    text: str

    def __str__(self) -> str:
        return self.text


# Structs and arrays of numbers alone, which may be the numbers of addresses. What is not here and not looked into
# (`_LOOKED_INTO`) must hold no captured address: it may be a pointer.
NUMBERS = frozenset(
    (
        "CUexecAffinityParam", "CUjit_option", "CUlibraryOption", "CUmemAccessDesc", "CUmemLocation",
        "CUmemcpyAttributes", "CUDA_ARRAY_DESCRIPTOR", "CUDA_ARRAY3D_DESCRIPTOR", "CUDA_TEXTURE_DESC",
        "CUDA_RESOURCE_VIEW_DESC", "float", "size_t", "CU_DEV_SM_RESOURCE_GROUP_PARAMS", "unsigned int",
    )
)  # fmt: skip
NUMBER_PARAMETERS = frozenset((("cuMemPoolSetAttribute", "value"),))
POINTER_OPTIONS = frozenset((3, 5, 17, 18, 25, 27))  # CUjit_option whose value cuda.h calls a pointer


class WatchfulDriver(FakeDriver):
    """Raises Trespass when a call reaches memory that is neither placed nor a buffer of the engine of that size."""

    def __init__(self, own: Callable[[], Iterator[Any]], known_options: int = 35) -> None:
        super().__init__()
        self._own_buffers = own
        self._options = known_options
        self.arguments: list[Any] = []
        self.submitted: set[str] = set()

    def function(self, symbol: str, per_thread: bool = False) -> Callable[..., int]:
        run = super().function(symbol, per_thread)
        row = next((item for item in ROWS.values() if item.symbol == symbol), None)

        def watched(*arguments: Any) -> int:
            self.arguments = [
                item for item in arguments if isinstance(item, (ctypes.Array, ctypes.Structure))
            ]
            if row is not None:
                self.look(row, [number(item) & (2**64 - 1) for item in arguments])
                self.submitted.add(symbol)
            return run(*arguments)

        return watched

    # -- what memory is -------------------------------------------------------------------------------------------

    def own(self, at: int, size_bytes: int) -> bool:
        """Whether these bytes are in one buffer of the engine."""
        for held in itertools.chain(self.arguments, self._own_buffers()):
            start = ctypes.addressof(held)
            if start <= at and at + size_bytes <= start + ctypes.sizeof(held):
                return True
        return False

    def reached(self, at: int, size_bytes: int, write: bool, what: str) -> None:
        if size_bytes == 0:
            return
        at %= 2**64
        stretches = WRITABLE if write else LIVE
        if any(start <= at and at + size_bytes <= end for start, end in stretches) or self.own(
            at, size_bytes
        ):
            return
        raise Trespass(f"{what} reaches {size_bytes} bytes at {at:#x}")

    def given(self, at: int, size_bytes: int, what: str) -> bytes:
        """Bytes of the engine that the driver reads itself."""
        if size_bytes and not self.own(at, size_bytes):
            raise Trespass(f"{what} is read {size_bytes} bytes from {at:#x}, where no such buffer is")
        return ctypes.string_at(at, size_bytes)

    # -- what a call does -----------------------------------------------------------------------------------------

    def look(self, row: Function, words: list[int]) -> None:
        by_name = {item.name: word for item, word in zip(row.parameters, words, strict=True)}
        for parameter, word in zip(row.parameters, words, strict=True):
            what, role = f"{row.symbol} {parameter.name}", parameter.role
            length = self._count(row, parameter.count, words) * max(parameter.element_bytes, 1)
            if role == Role.ADDRESS:
                self._address(row, parameter, words, word, what)
            elif role == Role.HANDLE:
                if word in CAPTURED or word == HANDLE:
                    raise Trespass(f"{what} is a captured value")
            elif parameter.kind != "pointer" or word == 0:
                continue
            elif role in (Role.HOST_READ, Role.HOST_WRITE):
                self.reached(word, length, role == Role.HOST_WRITE, what)
            elif role in (Role.OUT, Role.INOUT):
                self.given(word, length, what)
            elif role == Role.IN or parameter.name in ("pCopy", "config"):
                self._struct(row, parameter, self.given(word, length, what), what, by_name)
            elif parameter.name == "kernelParams":
                pass  # as many pointers as the kernel has parameters: `test_preflight.py`
            elif parameter.name == "extra":
                pairs = struct.unpack("<5Q", self.given(word, 40, what))
                (size_bytes,) = struct.unpack("<Q", self.given(pairs[3], 8, what))
                self.given(pairs[1], size_bytes, what)
            elif role == Role.IMAGE:
                self._image(word, what)
            elif role == Role.STRING:
                self.given(word, 1, what)
            else:
                raise Trespass(f"{what} is passed on, and nobody here knows what it is")

    def _count(self, row: Function, term: Term, words: list[int]) -> int:
        """As the driver counts: a number that it is asked for through a pointer is there."""
        given = list(words)
        for position in term.parameters:
            if row.parameters[position].role == Role.INOUT and words[position]:
                size_bytes = row.parameters[position].element_bytes
                given[position] = int.from_bytes(
                    self.given(words[position], size_bytes, row.symbol), "little"
                )
        return count_of(row, term, given)

    def _address(self, row: Function, parameter: Parameter, words: list[int], at: int, what: str) -> None:
        position = row.parameters.index(parameter)
        touch = next((item for item in row.touches if item.parameter == position), None)
        if touch is None:
            if not row.custom:
                raise Trespass(f"{what}: the table does not say how far it reaches")
            return
        width, rows, pitch = (
            count_of(row, term, words) for term in (touch.row_bytes, touch.rows, touch.pitch_bytes)
        )
        for offset, size_bytes in _rows(width, rows, 1, pitch, 0, (0, 0, 0)):
            self.reached(at + offset, size_bytes, touch.write, what)

    def _struct(
        self, row: Function, parameter: Parameter, data: bytes, what: str, by_name: dict[str, int]
    ) -> None:
        element = parameter.element
        if element in ("CUDA_MEMCPY2D", "CUDA_MEMCPY3D", "CUDA_MEMCPY3D_PEER"):
            self._copy(data, element, what)
        elif element == "CUDA_MEMCPY3D_BATCH_OP":
            for at in range(0, len(data), 112):
                fields = struct.unpack_from("<I4xQQQIiI4xQQQIiQQQ", data, at)
                for write, (_, pointer, pitch, height, _, _) in ((False, fields[:6]), (True, fields[6:12])):
                    for offset, size_bytes in _rows(*fields[12:], pitch, height, (0, 0, 0)):
                        self.reached(pointer + offset, size_bytes, write, what)
        elif element == "CUstreamBatchMemOpParams":
            for at in range(0, len(data), 48):
                operation, pointer, *rest = struct.unpack_from("<I4xQ4Q", data, at)
                if operation in (1, 2, 4, 5):
                    self.reached(pointer, 4 if operation < 3 else 8, operation in (2, 5), what)
                elif operation not in (3, 6) or rest[2] in CAPTURED:
                    raise Trespass(f"{what} holds operation {operation}")
        elif element == "CUDA_RESOURCE_DESC":
            kind, pointer, form, channels, *extent = struct.unpack_from("<I4xQIIQQQ", data)
            texel = channels * {1: 1, 0x20: 4}.get(form, 1)
            boxes = {2: _rows(extent[0], 1, 1, 0, 0, (0, 0, 0)),
                     3: _rows(extent[0] * texel, extent[1], 1, extent[2], 0, (0, 0, 0))}  # fmt: skip
            for offset, size_bytes in boxes.get(kind, ()):
                self.reached(pointer + offset, size_bytes, False, what)
            if kind not in (2, 3) and pointer not in (0, LIVE_HANDLE):
                raise Trespass(f"{what} holds {pointer:#x}")
        elif element == "CUlaunchConfig":
            attributes, count = struct.unpack_from("<QI", data, 40)
            held = self.given(attributes, 72 * count, what) if count else b""
            for at in range(0, len(held), 72):
                self._attribute(held[at : at + 72], what)
        elif element == "CUstreamAttrValue":
            self._attribute(struct.pack("<I4x", by_name["attr"]) + data, what)
        elif parameter.name in ("optionValues", "jitOptionsValues", "libraryOptionValues"):
            self._options_of(row, parameter, data, what, by_name)
        elif element == "CUdeviceptr":
            sizes = self.given(by_name["sizes"], len(data), what)
            pairs = zip(struct.iter_unpack("<Q", data), struct.iter_unpack("<Q", sizes), strict=True)
            for (pointer,), (size_bytes,) in pairs:
                self.reached(pointer, size_bytes, parameter.name != "srcs", what)
        elif element == "CUmemPoolProps":
            if data[16:24].strip(b"\0") or data[34:].strip(b"\0"):
                raise Trespass(f"{what} holds security attributes, or something reserved")
        elif element not in NUMBERS and (row.symbol, parameter.name) not in NUMBER_PARAMETERS:
            for (word,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]):
                if word in CAPTURED:
                    raise Trespass(f"{what} holds the captured word {word:#x}")

    def _copy(self, data: bytes, element: str, what: str) -> None:
        kind = structs.CUDA_MEMCPY2D if element == "CUDA_MEMCPY2D" else structs.CUDA_MEMCPY3D
        copy = kind.from_buffer_copy(data)
        extent = (copy.WidthInBytes, copy.Height, getattr(copy, "Depth", 1))
        for side in ("src", "dst"):
            get = {name[3:]: getattr(copy, name) for name, *_ in kind._fields_ if name.startswith(side)}
            memory = get["MemoryType"]
            pointers = {"Host": 1, "Device": 2, "Array": 3}
            for name, of in pointers.items():
                if get[name] and of != (2 if memory == 4 else memory):
                    raise Trespass(f"{what} holds {side}{name}, which is not used")
            if memory == 3:
                if get["Array"] not in (0, LIVE_HANDLE):
                    raise Trespass(f"{what} holds the array {get['Array']:#x}")
                continue
            pointer = get["Host"] if memory == 1 else get["Device"]
            origin = (get["XInBytes"], get["Y"], get.get("Z", 0))
            for offset, size_bytes in _rows(*extent, get["Pitch"], get.get("Height", 0), origin):
                self.reached(pointer + offset, size_bytes, side == "dst", f"{what} {side}")
        for name in ("reserved0", "reserved1"):
            if getattr(copy, name, 0) not in (0, LIVE_HANDLE):
                raise Trespass(f"{what} holds {name}")

    def _attribute(self, data: bytes, what: str) -> None:
        kind, value = struct.unpack_from("<I4xQ", data)
        if kind > 18:
            raise Trespass(f"{what} holds attribute {kind}")
        if kind == 1 and value:
            self.reached(value, int.from_bytes(data[16:24], "little"), False, what)
        if kind in (7, 12) and value not in (0, LIVE_HANDLE):
            raise Trespass(f"{what} holds an event {value:#x}")
        if kind == 13 and int.from_bytes(data[16:24], "little"):
            raise Trespass(f"{what} holds a handle of a node")

    def _options_of(
        self, row: Function, parameter: Parameter, data: bytes, what: str, by_name: dict[str, int]
    ) -> None:
        library = parameter.name == "libraryOptionValues"
        keys_name = {"optionValues": "options", "jitOptionsValues": "jitOptions"}.get(
            parameter.name, "libraryOptions"
        )
        count = len(data) // 8
        keys = struct.unpack(f"<{count}I", self.given(by_name[keys_name], 4 * count, what))
        for key, (value,) in zip(keys, struct.iter_unpack("<Q", data), strict=True):
            if library and key != 1:
                raise Trespass(f"{what} passes library option {key}")
            if library:
                continue
            if key > self._options or (key in POINTER_OPTIONS and not self.own(value, 1)):
                raise Trespass(f"{what} passes option {key} with {value:#x}")

    def _image(self, at: int, what: str) -> None:
        head = self.given(at, 4, what)
        if head == b"\xb1\x43\x62\x46":
            _, container, more = struct.unpack("<QQQ", self.given(at, 24, what))
            if not (self.own(container, 16) and self.own(more, 8)):
                raise Trespass(f"{what} is a wrapper that points to {container:#x}")
        elif head == b"\x50\xed\x55\xba":
            _, _, header, size_bytes = struct.unpack("<IHHQ", self.given(at, 16, what))
            self.given(at, header + size_bytes, what)
        elif head == b"\x7fELF":
            sections, _, _, _, _, entry, count = struct.unpack("<QIHHHHH", self.given(at, 64, what)[40:62])
            self.given(at, sections + entry * count, what)


def _rows(
    width: int, height: int, depth: int, pitch: int, rows: int, origin: tuple[int, int, int]
) -> list[tuple[int, int]]:
    """First and last row of a box, as offsets and bytes, for both readings of a pitch of 0."""
    if 0 in (width, height, depth):
        return []
    x, y, z = origin
    found = []
    for row in (pitch,) if pitch else (width, width + x):
        for high in (rows,) if rows else (height, height + y):
            first = x + row * (y + high * z)
            found.append((first, row * ((height - 1) + high * (depth - 1)) + width))
    return found
