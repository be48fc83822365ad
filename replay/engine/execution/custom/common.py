"""What the exceptions have in common."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from replay.api import extents
from replay.api.extents import Copy, Extent
from replay.api.graphs import OPERATION_BYTES
from replay.api.structs import LaunchAttributeId
from replay.api.vocabulary import Function
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

Arguments = dict[str, Any]  # rebuilt arguments by parameter name
Rebuild = Callable[["Executor", "Prepared", Function], Arguments]

ATTRIBUTE_VALUE = 8  # offset in CUlaunchAttribute
_OPERATION_ADDRESS, _OPERATION_ALIAS = (
    8,
    32,
)  # offsets in CUstreamBatchMemOpParams; the second is the driver's own


def word_in(structure: ctypes.Structure, field: str) -> int:
    """The address of a field."""
    return ctypes.addressof(structure) + int(getattr(type(structure), field).offset)


def clear_pointers(copy: Copy, side: str) -> None:
    """Forget what a side of a copy points to: of the three pointers the driver takes one, and gets no other."""
    for field in ("Host", "Device", "Array"):
        setattr(copy, side + field, 0)


def begin_at_once(copy: Copy, side: str) -> bool:
    """Let a side of a copy skip nothing from its pointer on, if the copy says how far apart rows and slices are, which
    would follow from what is skipped otherwise. Whether that is so."""
    flat = getattr(copy, "Depth", 1) == 1 and not getattr(copy, side + "Z", 0)
    if not getattr(copy, side + "Pitch") or not (flat or getattr(copy, side + "Height", 1)):
        return False
    for field in ("XInBytes", "Y", "Z"):
        if hasattr(copy, side + field):
            setattr(copy, side + field, 0)
    return True


class Attribute(NamedTuple):
    """A CUlaunchAttribute for this replay. late: C type and captured value of the handle that its value begins with; it
    is 0 in `data`."""

    data: bytes
    late: tuple[str, int] | None = None


def live_attribute(executor: Executor, data: bytes) -> Attribute | None:
    """A captured attribute of a launch, a stream or a node; None for one that is left out, with a note that says why.

    What an access policy speaks of is no access: it may reach beyond captured memory, and is left out then.
    """
    kind, value = struct.unpack_from("<I4xQ", data)
    rest = data[ATTRIBUTE_VALUE + 8 :]
    if kind not in list(LaunchAttributeId):
        executor.note(f"a launch attribute was left out: {kind} is not known, and its value may be a pointer")
        return None
    if kind in (LaunchAttributeId.PROGRAMMATIC_EVENT, LaunchAttributeId.LAUNCH_COMPLETION_EVENT):
        return Attribute(data[:ATTRIBUTE_VALUE] + bytes(8) + rest, ("CUevent", value) if value else None)
    if kind == LaunchAttributeId.DEVICE_UPDATABLE_KERNEL_NODE:  # whose handle the driver gives
        return Attribute(data[: ATTRIBUTE_VALUE + 8] + bytes(8) + data[ATTRIBUTE_VALUE + 16 :])
    if kind == LaunchAttributeId.ACCESS_POLICY_WINDOW and value:
        size_bytes = int.from_bytes(rest[:8], "little")
        live = executor.addresses.reach(value, size_bytes)
        if live is None:
            executor.note(
                "a launch attribute was left out: an access policy for memory that was not captured"
            )
            return None
        return Attribute(data[:ATTRIBUTE_VALUE] + live.to_bytes(8, "little") + rest)
    return Attribute(data)


class Operations(NamedTuple):
    """Waits for and writes of single values. addresses: of each place of one in `data` what stands there, what it
    reaches, its name, and whether it is written."""

    data: bytes
    addresses: list[tuple[int, int, Extent, str, bool]]


def memory_operations(data: bytes, where: object) -> Operations:
    """Captured CUstreamBatchMemOpParams, one after another, without what only their driver knew."""
    found, addresses = bytearray(data), []
    for number, at in enumerate(range(0, len(data), OPERATION_BYTES)):
        try:
            touched = extents.of_operation(data[at : at + OPERATION_BYTES])
        except ValueError as error:
            raise EngineError(str(error), where=where) from None
        struct.pack_into("<Q", found, at + _OPERATION_ALIAS, 0)
        if touched is not None:
            captured, size_bytes, write = touched
            struct.pack_into("<Q", found, at + _OPERATION_ADDRESS, 0)
            place = at + _OPERATION_ADDRESS
            addresses.append((place, captured, Extent(0, size_bytes), f"operation {number}", write))
    return Operations(bytes(found), addresses)
