"""Which memory is allocated, and which contents belong to which allocation: a fold over the recorded calls.

An address can be used again after it was freed, so an allocation is one stretch of time at one address; contents that
were read belong to the allocation that is alive where their record is in the file.
"""

from __future__ import annotations

import bisect
import dataclasses
import struct
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from replay.api.parts import ARRAY_LAYOUT, find_bytes
from replay.api.vocabulary import ARRAY_TYPES, LOADED_TYPES, Effect, Moment, Role, Term
from replay.errors import FormatError
from replay.pack.contents.properties import (
    Physical,
    add_hint,
    describe_pool,
    hints_of,
    physical_of,
    properties_of,
    read_array,
)
from replay.raw.copies import RawCopy
from replay.raw.events import RawCall, RawContents
from replay.snapshot.schema import WHOLE_ADDRESS, WHOLE_BYTES, ArrayShape, MemoryHint

U64 = NDArray[np.uint64]
Kind = Literal["device", "managed", "host", "registered", "global", "array"]

_ALLOCATING: dict[Effect, Kind] = {
    Effect.ALLOC: "device",
    Effect.MANAGED_ALLOC: "managed",
    Effect.HOST_ALLOC: "host",
    Effect.HOST_REGISTER: "registered",
    Effect.MAP: "device",
}
_FREEING = frozenset((Effect.FREE, Effect.HOST_FREE, Effect.HOST_UNREGISTER, Effect.UNMAP))
MAXIMUM_CHANGES = 1_000_000  # of one allocation; a capture that has more was made by hand


@dataclass(eq=False)
class Allocation:
    """One allocation. born_call and died_call are numbers of window calls; None: before, or after, the window.

    before, after, changes: the pieces of contents that were read, in the order of their records.
    """

    kind: Kind
    address: int
    size_bytes: int
    device: int
    context: int
    born_call: int | None = None
    died_call: int | None = None
    name: str = ""
    owner: int = 0
    host_flags: int = 0
    function: str = ""
    physical: int = 0
    properties: dict[str, int] = field(default_factory=dict)
    hints: list[MemoryHint] = field(default_factory=list)
    device_address: int = 0  # of pinned memory, when it differs from `address`
    touched: bool = False
    array: ArrayShape | None = None
    before: list[RawContents | RawCopy] = field(default_factory=list)
    after: list[RawContents | RawCopy] = field(default_factory=list)
    changes: list[RawContents] = field(default_factory=list)  # CHANGED and SEEN
    blocks: dict[int, Allocation] = field(default_factory=dict)  # parts of it that were read by themselves
    block_starts: list[int] = field(default_factory=list)

    @property
    def placed_address(self) -> int:
        """Where the device sees it: what pointers to it hold."""
        return self.device_address or self.address

    @property
    def end(self) -> int:
        """The first address past it."""
        return self.address + self.size_bytes


def term_value(call: RawCall, term: Term) -> int | None:
    """The value of a term of the table for this call; None when an output that it needs was not recorded."""
    product = term.scale
    for position in term.parameters:
        parameter = call.function.parameters[position]
        if parameter.role in (Role.OUT, Role.INOUT):
            value = call.output_word(parameter.name)
            if value is None:
                return None
            product *= value
        else:
            product *= call.arguments[position]
    return product


class Allocations:
    """The fold. `touched` are the allocations that the window touched, in the order of their first touch."""

    def __init__(self) -> None:
        self.touched: list[Allocation] = []
        self._born: list[Allocation] = []  # in the window
        self._starts: list[int] = []
        self._alive: dict[int, Allocation] = {}
        self._ending: dict[int, list[Allocation]] = {}  # call number -> what it is about to free
        self._loaded_in_window: dict[int, int] = {}  # CUmodule or CUlibrary -> the call that loaded it
        # Addresses and bytes of memory that ends with its launch
        self._of_graphs: set[tuple[int, int]] = set()
        self._arrays: dict[tuple[str, int], Allocation] = {}  # also by the handles of their levels and planes
        self._physical: dict[int, Physical] = {}  # CUmemGenericAllocationHandle -> its allocation now
        self._physical_count = 0
        self._pools: dict[int, dict[str, int]] = {}  # CUmemoryPool -> its properties
        self._untouched: tuple[U64, U64] | None = None

    def _whole(self, address: int) -> Allocation | None:
        """The allocation alive now that holds `address`, blocks or not. Nothing points into an array."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        found = self._alive[self._starts[place]]
        return found if address < found.end and found.kind != "array" else None

    def find(self, address: int) -> Allocation | None:
        """The allocation alive now that holds `address`; of one that was read in blocks, the block."""
        whole = self._whole(address)
        if whole is None or not whole.blocks:
            return whole
        place = bisect.bisect_right(whole.block_starts, address) - 1
        block = whole.blocks[whole.block_starts[place]] if place >= 0 else None
        return block if block is not None and address < block.end else None

    def find_array(self, c_type: str, handle: int) -> Allocation | None:
        """The array, or that of which the handle is a level or plane. c_type: CUarray or CUmipmappedArray."""
        return self._arrays.get((c_type, handle))

    def untouched_spans(self) -> tuple[U64, U64]:
        """Begins and ends of the memory alive now of which something was not touched yet."""
        if self._untouched is None:
            alive = [self._alive[start] for start in self._starts]
            found = [
                item
                for item in alive
                if not all(part.touched for part in (item.blocks.values() if item.blocks else (item,)))
            ]
            begins, ends = ([item.address for item in found], [item.end for item in found])
            self._untouched = np.array(begins, np.uint64), np.array(ends, np.uint64)
        return self._untouched

    def touch(self, allocation: Allocation | None) -> None:
        """The window refers to this allocation."""
        if allocation is not None and not allocation.touched:
            self._untouched = None
            allocation.touched = True
            self.touched.append(allocation)

    def touch_words(self, data: bytes) -> list[int]:
        """The window refers to what each 64-bit word of `data` points to. The words."""
        words: list[int] = np.frombuffer(data, dtype="<u8", count=len(data) // 8).tolist()
        for word in words:
            self.touch(self.find(word))
        return words

    def end_window(self) -> list[Allocation]:
        """What the window touched, as it is now; for the next one nothing is touched yet."""
        self._untouched = None
        ended = [dataclasses.replace(item) for item in self.touched]
        for item in self.touched:
            item.touched, item.before, item.after, item.changes = False, [], [], []
        for item in self._born:
            item.born_call = None
        self.touched, self._born = [], []
        self._of_graphs.clear()
        self._loaded_in_window.clear()
        return ended

    def contents(self, contents: RawContents | RawCopy, context: int, device: int) -> None:
        """Contents were read. They are the first touch, or the last look."""
        found = self._alive.get(contents.base) or self._block(contents)
        if found is not None and contents.allocation_bytes < found.size_bytes and found.kind != "array":
            found = self._block(contents)
        if found is None or found.size_bytes < contents.allocation_bytes:
            # Memory that no recorded call allocated, for example before the shim was loaded.
            found = Allocation("device", contents.base, contents.allocation_bytes, device, context)
            self._add(found)
        self.touch(found)
        if contents.moment == Moment.BEFORE:
            found.before.append(contents)
        elif contents.moment == Moment.AFTER:
            found.after.append(contents)
        elif isinstance(contents, RawContents) and len(found.changes) < MAXIMUM_CHANGES:
            found.changes.append(contents)

    def _block(self, contents: RawContents | RawCopy) -> Allocation | None:
        """Contents of a part of an allocation: a block that an allocator in the application had named."""
        whole = self._whole(contents.base)
        if whole is None or contents.base + contents.allocation_bytes > whole.end:
            return None
        known = whole.blocks.get(contents.base)
        if known is None and len(whole.blocks) < MAXIMUM_CHANGES:
            known = replace(
                whole, address=contents.base, size_bytes=contents.allocation_bytes, touched=False, before=[], after=[],
                changes=[], blocks={}, block_starts=[], hints=[],
                properties={**whole.properties, WHOLE_ADDRESS: whole.address, WHOLE_BYTES: whole.size_bytes},
            )  # fmt: skip
            self._untouched = None
            whole.blocks[contents.base] = known
            bisect.insort(whole.block_starts, contents.base)
        return known

    def enter(self, call: RawCall) -> None:
        """A call begins. What it frees is looked up now: at its answer, the address may be in use again."""
        if call.function.effect in _FREEING and not call.in_capture:
            self._ending[call.number] = self._freed(call)
        elif call.function.destroys in ARRAY_TYPES:
            array = self.find_array(call.function.destroys, call.arguments[0])
            self._ending[call.number] = [array] if array is not None else []
        elif call.function.destroys in LOADED_TYPES:
            owner = call.arguments[0]
            self._ending[call.number] = [
                item for item in self._alive.values() if owner and item.owner == owner
            ]

    def apply(self, call: RawCall, context: int, device: int, in_window: bool, ended_context: int) -> None:
        """The driver answered. ended_context: the context that the call ended, 0 for none."""
        ending = self._ending.pop(call.number, [])
        if call.result != 0 or call.in_capture:
            return
        function, effect = call.function, call.function.effect
        gives = function.gives.element if function.gives is not None else ""
        for allocation in ending:
            self._remove(allocation, call.number if in_window else None)
        if function.creates in LOADED_TYPES:
            self._loaded(call, in_window)
        elif effect in _ALLOCATING:
            self._allocate(call, _ALLOCATING[effect], context, device, in_window)
        elif effect == Effect.GLOBAL:
            self._global(call, context, device, in_window)
        elif effect == Effect.IMPORT:
            self._import(call, context, device, in_window)
        elif ended_context:
            for allocation in [item for item in self._alive.values() if item.context == ended_context]:
                self._remove(allocation, call.number if in_window else None)
        elif function.creates in ARRAY_TYPES:
            self._array(call, context, device, in_window)
        elif gives == "CUarray":
            self._array_part(call)
        elif gives == "CUmemGenericAllocationHandle":
            self._physical_memory(call, device)
        elif function.creates == "CUmemoryPool" or function.takes("CUmemoryPool"):
            describe_pool(call, self._pools)
        elif function.hint and not in_window:
            for hint, address in hints_of(call):
                found = self.find(address)
                if found is not None and found.kind == "managed":
                    add_hint(found.hints, hint, address - found.address, found.size_bytes)
        elif function.meaning == "cuMemHostGetDevicePointer_v2":
            host, pointer = self._alive.get(call.argument("p")), call.output_word("pdptr")
            if host is not None and pointer and pointer != host.address:
                host.device_address = pointer

    def graph_memory(self, address: int, size_bytes: int, context: int, device: int) -> None:
        """The window launches a graph that allocates this and frees it again."""
        alive = self.find(address)
        if alive is not None:
            self.touch(alive)
        elif address and size_bytes and (address, size_bytes) not in self._of_graphs:
            self._of_graphs.add((address, size_bytes))
            self.touch(Allocation("device", address, size_bytes, device, context))

    def graph_leaves(
        self, address: int, size_bytes: int, context: int, device: int, born: int | None
    ) -> None:
        """The launch of a graph has left memory allocated."""
        if address and size_bytes and address + size_bytes <= 1 << 64:
            allocation = Allocation("device", address, size_bytes, device, context, born)
            self._add(allocation)
            if born is not None:
                self.touch(allocation)

    def graph_frees(self, address: int, died: int | None) -> None:
        """The launch of a graph has freed memory that an earlier one had allocated."""
        found = self._alive.get(address)
        if found is not None:
            self._remove(found, died)

    def _allocate(self, call: RawCall, kind: Kind, context: int, device: int, in_window: bool) -> None:
        terms = call.function.effect_terms
        address, size_bytes = term_value(call, terms[0]), term_value(call, terms[1])
        if not address or not size_bytes or address + size_bytes > 1 << 64:
            return
        physical = Physical(0, device, {})
        if call.function.effect == Effect.MAP:
            physical = self._physical.get(call.argument("handle"), physical)
        flags = call.argument("Flags") if kind in ("host", "registered") else 0
        born = call.number if in_window else None
        self._add(
            Allocation(
                kind, address, size_bytes, physical.device, context, born, host_flags=flags,
                function=call.function.symbol, physical=physical.number,
                properties=physical.properties | properties_of(call, self._pools),
            )
        )  # fmt: skip

    def _import(self, call: RawCall, context: int, device: int, in_window: bool) -> None:
        """Memory of another process or interface, whose place and size the shim asked for."""
        parameter = call.function.parameters[call.function.effect_terms[0].parameters[0]]
        where = find_bytes(call.outputs, parameter.name, 1) or b""
        if len(where) != 16:
            return
        address, size_bytes = struct.unpack("<QQ", where)
        if address and size_bytes and address + size_bytes <= 1 << 64:
            born = call.number if in_window else None
            self._add(Allocation("device", address, size_bytes, device, context, born))

    def _array(self, call: RawCall, context: int, device: int, in_window: bool) -> None:
        handle, laid_out = call.output_word("pHandle"), find_bytes(call.outputs, ARRAY_LAYOUT)
        given = next((p.name for p in call.function.parameters if p.role == Role.IN), "")
        described = find_bytes(call.inputs, given)
        if not handle or laid_out is None or described is None:
            return  # a note of the shim says why
        handle_type = call.function.creates
        try:
            base, shape = read_array(handle_type, described, laid_out)
        except (ValueError, struct.error, FormatError):
            return
        born = call.number if in_window else None
        allocation = Allocation(
            "array", base, shape.size_bytes, device, context, born, owner=handle, array=shape
        )
        self._arrays[handle_type, handle] = allocation
        self._add(allocation)

    def _array_part(self, call: RawCall) -> None:
        handle = call.output_word(call.function.parameters[0].name)
        parent = self.find_array(call.function.parameters[1].c_type, call.arguments[1])
        if handle and parent is not None:
            self._arrays["CUarray", handle] = parent

    def _global(self, call: RawCall, context: int, device: int, in_window: bool) -> None:
        for parameter in call.function.parameters:
            where = find_bytes(call.outputs, parameter.name, 1) or b""
            name = find_bytes(call.inputs, parameter.name)
            if len(where) != 16 or name is None:
                continue
            address, size_bytes = struct.unpack("<QQ", where)
            alive = self._alive.get(address)
            if not address or not size_bytes or (alive is not None and alive.name):
                return
            _, owner = next(call.handles(), ("", 0))
            text = name.decode("utf-8", "replace")
            kind: Kind = "managed" if call.function.managed else "global"
            born = call.number if in_window else None
            if call.by_capture:  # it was there all the time
                born = self._loaded_in_window.get(owner)
            self._add(Allocation(kind, address, size_bytes, device, context, born, name=text, owner=owner))

    def _loaded(self, call: RawCall, in_window: bool) -> None:
        handle = call.output_word(call.function.parameters[0].name)
        if handle:
            self._loaded_in_window.pop(handle, None)
            if in_window:
                self._loaded_in_window[handle] = call.number

    def _physical_memory(self, call: RawCall, device: int) -> None:
        handle = call.output_word("handle")
        if not handle:
            return
        if not call.function.creates:  # one that exists
            mapping = self.find(call.argument("addr"))
            if mapping is not None and mapping.physical:
                self._physical[handle] = Physical(mapping.physical, mapping.device, mapping.properties)
            return
        self._physical_count += 1
        self._physical[handle] = physical_of(call, self._physical_count, device)

    def _freed(self, call: RawCall) -> list[Allocation]:
        terms = call.function.effect_terms
        address = term_value(call, terms[0]) or 0
        if call.function.effect == Effect.UNMAP:
            size_bytes = term_value(call, terms[1]) or 0
            first = bisect.bisect_left(self._starts, address)
            last = bisect.bisect_left(self._starts, address + size_bytes)
            return [self._alive[start] for start in self._starts[first:last]]
        found = self._alive.get(address)
        return [found] if found is not None else []

    def _remove(self, allocation: Allocation, died_call: int | None) -> None:
        self._untouched = None
        if self._alive.get(allocation.address) is allocation:
            del self._alive[allocation.address]
            del self._starts[bisect.bisect_left(self._starts, allocation.address)]
        if allocation.kind == "array":
            for key in [key for key, found in self._arrays.items() if found is allocation]:
                del self._arrays[key]
        for block in allocation.blocks.values():
            block.died_call = block.died_call or died_call
        # Also of one whose address was in use again before its end was on file.
        allocation.died_call = allocation.died_call or died_call

    def _add(self, allocation: Allocation) -> None:
        """What was there before must have ended, even if no call said so."""
        self._untouched = None
        place = bisect.bisect_right(self._starts, allocation.address) - 1
        while place >= 0 and self._alive[self._starts[place]].end > allocation.address:
            self._remove(self._alive[self._starts[place]], None)
            place -= 1
        place = bisect.bisect_left(self._starts, allocation.address)
        while place < len(self._starts) and self._starts[place] < allocation.end:
            self._remove(self._alive[self._starts[place]], None)
        bisect.insort(self._starts, allocation.address)
        self._alive[allocation.address] = allocation
        if allocation.born_call is not None:
            self._born.append(allocation)
