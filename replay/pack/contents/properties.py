"""What an application asked for when it allocated memory, and what it told the driver about it since."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from replay.api.parts import find_bytes, find_struct
from replay.api.structs import (
    CUDA_ARRAY3D_DESCRIPTOR,
    CUDA_ARRAY_DESCRIPTOR,
    CUmemAllocationProp,
    CUmemLocation,
    CUmemPoolProps,
    LocationType,
    read_struct,
)
from replay.api.vocabulary import Effect, Work
from replay.errors import FormatError
from replay.records import dataclass
from replay.snapshot.schema import ATTACH, PREFETCH, ArrayPart, ArrayShape, MemoryHint

if TYPE_CHECKING:  # it brings in numpy, which a replay can do without
    from replay.raw.events import RawCall

_UNSETS = {2: 1, 4: 3, 6: 5}  # CUmem_advise: UNSET_READ_MOSTLY and so on -> what it takes back
_ACCESSED_BY = 5  # holds for each location by itself
MAXIMUM_HINTS = 256  # of one allocation

_POOL_ATTRIBUTES = {
    1: "pool_reuse_follow_event_dependencies", 2: "pool_reuse_allow_opportunistic",
    3: "pool_reuse_allow_internal_dependencies", 4: "pool_release_threshold",
}  # fmt: skip


@dataclass(frozen=True)
class Physical:
    """The allocation of a CUmemGenericAllocationHandle. number: 0 when no recorded call made it."""

    number: int
    device: int
    properties: dict[str, int]


def physical_of(call: RawCall, number: int, device: int) -> Physical:
    """What cuMemCreate made, or an import from another process brought."""
    wanted = find_struct(call.inputs, "prop", CUmemAllocationProp)
    if wanted is None:
        return Physical(number, device, {"imported": 1} if "Import" in call.function.symbol else {})
    location = wanted.location
    found = {
        "physical_bytes": call.argument("size"),
        "allocation_type": wanted.type,
        "location_type": location.type,
        "location_id": location.id,
        "handle_types": wanted.requestedHandleTypes,
        "compression": wanted.allocFlags.compressionType,
        "rdma": wanted.allocFlags.gpuDirectRDMACapable,
        "usage": wanted.allocFlags.usage,
    }
    kept = {name: value for name, value in found.items() if value or name == "location_id"}
    return Physical(number, location.id if location.type == LocationType.DEVICE else device, kept)


def describe_pool(call: RawCall, pools: dict[int, dict[str, int]]) -> None:
    """Take over what cuMemPoolCreate or cuMemPoolSetAttribute says."""
    if call.function.creates:
        pool, given = call.output_word("pool"), find_struct(call.inputs, "poolProps", CUmemPoolProps)
        if not pool or given is None:
            return
        pools[pool] = {
            "pool_allocation_type": given.allocType,
            "pool_location_type": given.location.type,
            "pool_location_id": given.location.id,
        }
        optional = {
            "pool_handle_types": given.handleTypes,
            "pool_maximum_bytes": given.maxSize,
            "pool_usage": given.usage,
        }
        pools[pool] |= {name: value for name, value in optional.items() if value}
        return
    name = _POOL_ATTRIBUTES.get(call.argument("attr"))
    value = find_bytes(call.inputs, "value") or b""
    if name is not None and len(value) >= 4:
        width = 8 if call.argument("attr") == 4 else 4
        pools.setdefault(call.argument("pool"), {})[name] = int.from_bytes(value[:width], "little")


def properties_of(call: RawCall, pools: dict[int, dict[str, int]]) -> dict[str, int]:
    """What an allocating call asked for beside the size."""
    function = call.function
    if (pitch := call.output_word("pPitch")) is not None:
        return {
            "pitch_bytes": pitch,
            "row_bytes": call.argument("WidthInBytes"),
            "rows": call.argument("Height"),
        }
    if function.effect == Effect.MANAGED_ALLOC:
        return {"attach_flags": call.argument("flags") & 0xFFFFFFFF}
    if function.takes("CUmemoryPool"):
        pool = call.argument("pool")
        return {"pool": pool} | pools.get(pool, {})
    return {"default_pool": 1} if function.takes("CUstream") else {}


def hints_of(call: RawCall) -> Iterator[tuple[MemoryHint, int]]:
    """What a call says about managed memory, with offset 0, and its address."""
    function = call.function
    if function.takes("CUstream") and function.work == Work.NONE:
        flags = call.argument("flags") & 0xFFFFFFFF
        yield MemoryHint(ATTACH, 0, call.argument("length"), flags, 0), call.argument("dptr")
        return
    if function.takes("CUmemLocation"):
        word = call.argument("location")
        location = read_struct(CUmemLocation, word.to_bytes(8, "little"))
        kind, number = int(location.type), int(location.id)
    else:
        word = call.argument("device", call.argument("dstDevice")) & 0xFFFFFFFF
        number = word - (1 << 32) if word >= 1 << 31 else word
        kind = LocationType.HOST if number < 0 else LocationType.DEVICE
    advice = PREFETCH if function.work == Work.PREFETCH else call.argument("advice") & 0xFF
    yield MemoryHint(advice, 0, call.argument("count"), kind, number), call.argument("devPtr")


def add_hint(hints: list[MemoryHint], hint: MemoryHint, offset: int, whole_bytes: int) -> None:
    """Add a hint about the memory from `offset` on; it takes the place of earlier ones about the same bytes."""
    size = min(hint.size_bytes or whole_bytes, whole_bytes - offset)
    undone = _UNSETS.get(hint.advice, hint.advice)
    one_location = undone == _ACCESSED_BY

    def replaced(old: MemoryHint) -> bool:
        same = old.advice == undone and (
            not one_location or (old.location_type, old.location_id) == (hint.location_type, hint.location_id)
        )
        return same and offset <= old.offset and old.offset + old.size_bytes <= offset + size

    hints[:] = [old for old in hints if not replaced(old)]
    if hint.advice not in _UNSETS and len(hints) < MAXIMUM_HINTS:
        hints.append(MemoryHint(hint.advice, offset, size, hint.location_type, hint.location_id))


def read_array(handle_type: str, described: bytes, laid_out: bytes) -> tuple[int, ArrayShape]:
    """Address and shape of an array: from its descriptor (CUDA_ARRAY_DESCRIPTOR or CUDA_ARRAY3D_DESCRIPTOR) and what
    the shim attached. Raises ValueError, struct.error or FormatError when they make no sense."""
    with_depth = len(described) >= ctypes.sizeof(CUDA_ARRAY3D_DESCRIPTOR)
    given = read_struct(CUDA_ARRAY3D_DESCRIPTOR if with_depth else CUDA_ARRAY_DESCRIPTOR, described)
    depth, flags = (given.Depth, given.Flags) if with_depth else (0, 0)
    base, size_bytes, count = struct.unpack_from("<QQQ", laid_out)
    if len(laid_out) != 24 + 32 * count:
        raise FormatError(f"an array of {count} parts in {len(laid_out)} bytes")
    parts = [ArrayPart(*fields) for fields in struct.iter_unpack("<IIQQQ", laid_out[24:])]
    named: Any = handle_type if handle_type == "CUarray" else "CUmipmappedArray"
    shape = ArrayShape(named, given.Width, given.Height, depth, given.Format, given.NumChannels, flags, parts)
    if shape.size_bytes != size_bytes or base + size_bytes > 1 << 64:
        raise FormatError(f"an array of {size_bytes} bytes whose parts have {shape.size_bytes}")
    return base, shape
