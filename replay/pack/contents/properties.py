"""What an application asked for when it allocated memory, and what it told the driver about it since."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replay.api.structs import CUmemAllocationProp, CUmemLocation, read_struct
from replay.snapshot.schema import ATTACH, PREFETCH, MemoryHint

if TYPE_CHECKING:  # it brings in numpy, which a replay can do without
    from replay.raw.events import RawCall

HINTS = frozenset(
    ("cuMemAdvise", "cuMemAdvise_v2", "cuMemPrefetchAsync", "cuMemPrefetchAsync_v2", "cuStreamAttachMemAsync")
)
_LOCATION_DEVICE, _LOCATION_HOST = 1, 2
_UNSETS = {2: 1, 4: 3, 6: 5}  # CUmem_advise: UNSET_READ_MOSTLY and so on -> what it takes back
_ACCESSED_BY = 5  # holds for each location by itself
MAXIMUM_HINTS = 256  # of one allocation

_POOL_ATTRIBUTES = {
    1: "pool_reuse_follow_event_dependencies", 2: "pool_reuse_allow_opportunistic",
    3: "pool_reuse_allow_internal_dependencies", 4: "pool_release_threshold",
}  # fmt: skip


@dataclass(frozen=True)
class Physical:
    """What a CUmemGenericAllocationHandle stands for. number: 0 when no recorded call made it."""

    number: int
    device: int
    properties: dict[str, int]


def physical_of(call: RawCall, number: int, device: int) -> Physical:
    """What cuMemCreate made, or an import from another process brought."""
    given = call.inputs.get("prop")
    if given is None or given.data is None:
        imported = "Import" in call.function.symbol
        return Physical(number, device, {"imported": 1} if imported else {})
    try:
        wanted = read_struct(CUmemAllocationProp, given.data)
    except ValueError:
        return Physical(number, device, {})
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
    return Physical(number, location.id if location.type == _LOCATION_DEVICE else device, kept)


def describe_pool(call: RawCall, pools: dict[int, dict[str, int]]) -> None:
    """Take over what cuMemPoolCreate or cuMemPoolSetAttribute says."""
    if call.function.symbol == "cuMemPoolCreate":
        pool, given = call.output_word("pool"), call.inputs.get("poolProps")
        if not pool or given is None or given.data is None or len(given.data) < 40:
            return
        # CUmemPoolProps: allocType, handleTypes, location {type, id}, win32SecurityAttributes, maxSize, usage
        kind, handles, location, number, _, largest, usage = struct.unpack_from("<IIIiQQH", given.data)
        pools[pool] = {
            "pool_allocation_type": kind, "pool_location_type": location, "pool_location_id": number,
        } | {
            name: value
            for name, value in (
                ("pool_handle_types", handles), ("pool_maximum_bytes", largest), ("pool_usage", usage),
            )
            if value
        }  # fmt: skip
        return
    name = _POOL_ATTRIBUTES.get(call.argument("attr"))
    value = call.inputs.get("value")
    if name is not None and value is not None and value.data is not None and len(value.data) >= 4:
        width = 8 if call.argument("attr") == 4 else 4
        pools.setdefault(call.argument("pool"), {})[name] = int.from_bytes(value.data[:width], "little")


def properties_of(call: RawCall, pools: dict[int, dict[str, int]]) -> dict[str, int]:
    """What an allocating call asked for beside the size."""
    symbol = call.function.symbol
    if symbol == "cuMemAllocPitch_v2":
        return {
            "pitch_bytes": call.output_word("pPitch") or 0,
            "row_bytes": call.argument("WidthInBytes"),
            "rows": call.argument("Height"),
        }
    if symbol == "cuMemAllocManaged":
        return {"attach_flags": call.argument("flags") & 0xFFFFFFFF}
    if symbol == "cuMemAllocAsync":
        return {"default_pool": 1}
    if symbol == "cuMemAllocFromPoolAsync":
        pool = call.argument("pool")
        return {"pool": pool} | pools.get(pool, {})
    return {}


def hints_of(call: RawCall) -> Iterator[tuple[MemoryHint, int]]:
    """What a call says about managed memory, with offset 0, and its address."""
    symbol = call.function.symbol
    if symbol == "cuStreamAttachMemAsync":
        flags = call.argument("flags") & 0xFFFFFFFF
        yield MemoryHint(ATTACH, 0, call.argument("length"), flags, 0), call.argument("dptr")
        return
    if symbol.endswith("_v2"):
        word = call.argument("location")
        location = read_struct(CUmemLocation, word.to_bytes(8, "little"))
        kind, number = int(location.type), int(location.id)
    else:
        word = call.argument("device", call.argument("dstDevice")) & 0xFFFFFFFF
        number = word - (1 << 32) if word >= 1 << 31 else word
        kind = _LOCATION_HOST if number < 0 else _LOCATION_DEVICE
    advice = PREFETCH if "Prefetch" in symbol else call.argument("advice") & 0xFF
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
