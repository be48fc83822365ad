"""Structs of the driver that calls and nodes of graphs share: attributes of launches, operations on memory, copies."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from replay.api import extents
from replay.api.extents import Copy, Extent
from replay.api.structs import CUlaunchAttribute, CUstreamBatchMemOpParams, LaunchAttributeId
from replay.engine.placing.addresses import AddressMap
from replay.errors import EngineError


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

    data: CUlaunchAttribute
    late: tuple[str, int] | None = None


def live_attribute(
    addresses: AddressMap, captured: CUlaunchAttribute, note: Callable[[str], None]
) -> Attribute | None:
    """A captured attribute of a launch, a stream or a node; None for one that is left out, with a note that says why.

    What an access policy speaks of is no access: it may reach beyond captured memory, and is left out then.
    """
    kind, data = captured.id, CUlaunchAttribute.from_buffer_copy(captured)
    if kind not in list(LaunchAttributeId):
        note(f"a launch attribute was left out: {kind} is not known, and its value may be a pointer")
        return None
    if kind in (LaunchAttributeId.PROGRAMMATIC_EVENT, LaunchAttributeId.LAUNCH_COMPLETION_EVENT):
        event = data.value.programmaticEvent.event  # as which the other begins
        data.value.programmaticEvent.event = 0
        return Attribute(data, ("CUevent", event) if event else None)
    if kind == LaunchAttributeId.DEVICE_UPDATABLE_KERNEL_NODE:  # whose handle the driver gives
        data.value.deviceUpdatableKernelNode.devNode = 0
    window = data.value.accessPolicyWindow
    if kind == LaunchAttributeId.ACCESS_POLICY_WINDOW and window.base_ptr:
        live = addresses.reach(window.base_ptr, window.num_bytes)
        if live is None:
            note("a launch attribute was left out: an access policy for memory that was not captured")
            return None
        window.base_ptr = live
    return Attribute(data)


class Operations(NamedTuple):
    """Waits for and writes of single values. addresses: of each place of one what is there, what it reaches, its
    name, and whether it is written."""

    buffer: Any
    addresses: list[tuple[int, int, Extent, str, bool]]


def memory_operations(buffer: Any, count: int, where: object) -> Operations:
    """Captured CUstreamBatchMemOpParams, one after another, without what only their driver knew."""
    addresses = []
    for number, operation in enumerate((CUstreamBatchMemOpParams * count).from_buffer(buffer)):
        try:
            touched = extents.of_operation(operation)
        except ValueError as error:
            raise EngineError(str(error), where=where) from None
        operation.waitValue.alias = 0
        if touched is not None:
            captured, size_bytes, write = touched
            operation.waitValue.address = 0
            place = word_in(operation.waitValue, "address")
            addresses.append((place, captured, Extent(0, size_bytes), f"operation {number}", write))
    return Operations(buffer, addresses)
