"""Calls as somebody would write them who wants a replay to reach memory that is not the snapshot's.

They follow from the table of driver functions: a new row is tried without anybody thinking of it.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from typing import Any

from hypothesis import strategies as st

from replay.api import structs
from replay.api.functions import listed_functions
from replay.api.vocabulary import HANDLE_TYPES, Function, Parameter, Role, Term
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.pieces import Placed
from replay.planning.spans import Span
from replay.snapshot.schema import Call

ROWS = {row.symbol: row for row in listed_functions() if row.is_replayed and not row.unsupported}

# ---- memory: real where this process itself would write to it -------------------------------------------------------

PAGE = 4096
DEVICE, DEVICE_LIVE, DEVICE_BYTES = 0x3200_0000_0000, 0x4200_0000_0000, 2 << 20
PEER, PEER_LIVE = DEVICE + (16 << 20), 0x4300_0000_0000
VARIABLE, VARIABLE_LIVE, VARIABLE_BYTES = 0x3300_0000_0000, 0x4400_0000_0000, 64
ARRAY = 0x3500_0000_0000  # the capture's own name for a CUDA array, in no memory at all
HOST, READ_ONLY, HOST_BYTES = 0x3600_0000_0000, 0x3700_0000_0000, 4 * PAGE


class HostMemory:
    """Two captured stretches of host memory, in a buffer of this process with room around them."""

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(16 * PAGE)
        start = -(-ctypes.addressof(self.buffer) // PAGE) * PAGE
        self.first, self.second = start + PAGE, start + 9 * PAGE

    def is_untouched_around(self) -> bool:
        """Whether nothing was written outside of the two."""
        start, end = ctypes.addressof(self.buffer), ctypes.addressof(self.buffer) + len(self.buffer)
        edges = (start, self.first, self.first + HOST_BYTES, self.second, self.second + HOST_BYTES, end)
        pieces = zip(edges[::2], edges[1::2], strict=True)
        return not any(ctypes.string_at(a, b - a).strip(b"\0") for a, b in pieces)


MEMORY = HostMemory()
PLACED = [
    Placed(Span(DEVICE, DEVICE_BYTES, False), DEVICE_LIVE, "relocated"),
    Placed(Span(PEER, DEVICE_BYTES, False), PEER_LIVE, "relocated"),
    Placed(Span(HOST, HOST_BYTES, True), MEMORY.first, "relocated"),
    Placed(Span(READ_ONLY, HOST_BYTES, True, register_flags=8), MEMORY.second, "relocated"),
]
LIVE = [(item.live_address, item.live_address + item.span.size_bytes) for item in PLACED] + [
    (VARIABLE_LIVE, VARIABLE_LIVE + VARIABLE_BYTES)
]
WRITABLE = [item for item in LIVE if item[0] != MEMORY.second]


def address_map() -> AddressMap:
    addresses = AddressMap(PLACED)
    addresses.bind(VARIABLE, VARIABLE_BYTES, VARIABLE_LIVE)
    addresses.bind_array(ARRAY)
    return addresses


_EDGES = [(item.span.address, item.span.end) for item in PLACED] + [(VARIABLE, VARIABLE + VARIABLE_BYTES)]
ADDRESSES = sorted(
    {edge + delta for pair in _EDGES for edge in pair for delta in (-16, -1, 0, 1, 8, 64)}
    | {start + PAGE for start, _ in _EDGES}
    | {ARRAY, ARRAY + 8, 0x7F12_3456_7000, 2**63, 2**64 - 8, 2**64 - 1}
)
CAPTURED = frozenset(ADDRESSES)
SIZES = [
    0, 1, 4, 8, 16, 63, 64, 65, PAGE - 1, PAGE, HOST_BYTES, HOST_BYTES + 1, DEVICE_BYTES - 1, DEVICE_BYTES,
    DEVICE_BYTES + 1, 1 << 30, 2**31, 2**32, 1 << 44, READ_ONLY - HOST, PEER - DEVICE, 2**63, 2**64 - 1, 2**64 - 4096,
]  # fmt: skip
HANDLE, LIVE_HANDLE = 0x51, 0x5151  # of every type

# ---- a hostile call ----------------------------------------------------------------------------------------------

address = st.sampled_from(ADDRESSES) | st.sampled_from([DEVICE, DEVICE + PAGE, HOST, HOST + PAGE])
size = st.sampled_from(SIZES[:8]) | st.sampled_from(SIZES)
small = st.sampled_from([0, 1, 2, 3, 4, 8, 16])
anything = address | size


def _structure(kind: type[ctypes.Structure]) -> st.SearchStrategy[bytes]:
    """Its fields by what they are called: memory types, pointers, numbers."""

    def field(name: str, c_type: Any) -> st.SearchStrategy[int]:
        if name.endswith("MemoryType"):
            return st.sampled_from([1, 2, 3, 4, 1, 2, 4, 5])
        if name.endswith(("Host", "Device", "place", "base_ptr")):
            return address
        if name.endswith("Array") or name.startswith("reserved"):
            return st.sampled_from([HANDLE, 0, HOST])
        return small if ctypes.sizeof(c_type) < 8 or name[3:4] in "YZL" or name == "Depth" else size

    simple = [(name, c_type) for name, c_type, *_ in kind._fields_ if not hasattr(c_type, "_length_")]  # type: ignore

    def make(values: tuple[int, ...]) -> bytes:
        made = kind()
        for (name, _), value in zip(simple, values, strict=True):
            setattr(made, name, value)
        return bytes(made)

    return st.tuples(*(field(name, c_type) for name, c_type in simple)).map(make)


def _words(count: int, of: st.SearchStrategy[int] = anything) -> st.SearchStrategy[bytes]:
    return st.lists(of, min_size=count, max_size=count).map(lambda found: struct.pack(f"<{count}Q", *found))


_box = st.tuples(*[
    st.tuples(st.just(1), address, size, small, st.sampled_from([0, 1]), small) for _ in "sd"
], st.tuples(size, small, small)).map(
    lambda parts: struct.pack("<I4xQQQIiI4xQQQIiQQQ", *itertools.chain(*parts)).ljust(112, b"\0")
)  # fmt: skip
_operation = st.tuples(st.sampled_from([1, 2, 3, 4, 5, 6, 8, 9]), address, anything, anything).map(
    lambda parts: struct.pack("<I4xQQ8xQ8x", *parts)
)
_resource = st.tuples(
    st.sampled_from([0, 2, 3, 2, 3, 7]), address, st.sampled_from([1, 0x20, 0xB0]), small
).flatmap(
    lambda head: _words(3, size).map(lambda rest: struct.pack("<I4xQII", *head) + rest.ljust(120, b"\0"))
)
_option = st.integers(0, 40)

# By C type of the elements; every other type is words of anything.
ELEMENTS: dict[str, st.SearchStrategy[bytes]] = {
    "CUDA_MEMCPY2D": _structure(structs.CUDA_MEMCPY2D),
    "CUDA_MEMCPY3D": _structure(structs.CUDA_MEMCPY3D),
    "CUDA_MEMCPY3D_PEER": _structure(structs.CUDA_MEMCPY3D),
    "CUDA_MEMCPY3D_BATCH_OP": _box,
    "CUstreamBatchMemOpParams": _operation,
    "CUDA_RESOURCE_DESC": _resource,
    "CUjit_option": _option.map(lambda value: struct.pack("<I", value)),
    "CUlibraryOption": _option.map(lambda value: struct.pack("<I", value)),
    "CUdeviceptr": _words(1, address),
    "size_t": _words(1, size),
}


def element_of(parameter: Parameter) -> st.SearchStrategy[bytes]:
    """One element of what a parameter points to."""
    if parameter.element in HANDLE_TYPES:
        return st.just(struct.pack("<Q", HANDLE))
    if parameter.element in ELEMENTS:
        return ELEMENTS[parameter.element]
    count = -(-parameter.element_bytes // 8)
    return _words(count).map(lambda data: data[: parameter.element_bytes])


@st.composite
def calls(draw: st.DrawFn, row: Function) -> Call:
    """One call of a row."""
    arguments: list[int] = []
    inputs: dict[str, bytes] = {}
    outputs: dict[str, bytes] = {}
    for parameter in row.parameters:
        name, role = parameter.name, parameter.role
        if role == Role.VALUE:
            arguments.append(draw(small | size))
        elif role == Role.HANDLE:
            arguments.append(draw(st.sampled_from([HANDLE, 0, HANDLE, 1])))
        else:
            arguments.append(draw(address | st.just(0)))
    for parameter in row.parameters:
        name, role = parameter.name, parameter.role
        if role in (Role.IN, Role.INOUT, Role.CUSTOM) and parameter.element_bytes:
            count = min(count_of(row, parameter.count, arguments), 4 if parameter.element_bytes > 1 else 8)
            least = draw(st.sampled_from([count, count, 0]))
            elements = draw(st.lists(element_of(parameter), min_size=least, max_size=max(count, least)))
            inputs[draw(st.sampled_from([name, f"{name}.0"]))] = b"".join(elements)
        if role == Role.STRING:
            inputs[name] = b"name"
        if role == Role.IMAGE or (role == Role.STRING and row.custom):
            inputs[name if role == Role.IMAGE else f"{name}.1"] = draw(st.sampled_from(IMAGES))
        if role == Role.HOST_READ or name in ("pCopy", "src", "srcs", "op", "opList"):
            length = draw(st.sampled_from([None, 0, 1, 8, 64, PAGE]))
            if length is not None:
                inputs[name if role == Role.HOST_READ else f"{name}.1"] = bytes(length)
                inputs[f"{name}.2"] = struct.pack("<2Q", 0, 1)
        if role in (Role.OUT, Role.INOUT):
            outputs[name] = struct.pack("<Q", HANDLE + 1)
        if (role == Role.HOST_WRITE or name in ("pCopy", "dst")) and draw(st.booleans()):
            outputs[name if role == Role.HOST_WRITE else f"{name}.2"] = bytes(8)
        if name in ("kernelParams", "extra"):
            inputs[f"{name}.0"] = draw(_words(2, address))
            inputs[f"{name}.1"] = draw(
                st.lists(small, max_size=4).map(lambda v: struct.pack(f"<{len(v)}I", *v))
            )
        if name == "config":
            config = struct.pack("<7I4xQQI4x", 1, 1, 1, 1, 1, 1, 0, 0, draw(address), draw(small))
            attribute = draw(st.tuples(st.integers(0, 20), address, anything))
            inputs["config.0"] = config
            inputs["config.1"] = struct.pack("<I4xQQ48x", *attribute)
    result = draw(st.sampled_from([0, 0, 0, 0, 1, 700]))
    return Call(7, row.symbol, "window", 1, arguments, result, inputs=inputs, outputs=outputs)


IMAGES = [
    b".version 7.0\n",
    struct.pack("<IIQQ", 0x466243B1, 1, HOST, HOST),
    struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 40),
    b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 64, 1 << 40, 0, 64, 56, 1, 64, 9, 1),
]  # fmt: skip


def count_of(row: Function, term: Term, words: list[int]) -> int:
    product = term.scale
    for position in term.parameters:
        product *= words[position] & ((1 << 8 * row.parameters[position].size_bytes) - 1)
    return product
