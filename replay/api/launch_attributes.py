"""Launch attributes (CUlaunchAttributeID of cuda.h, CUDA 13.5) as people read them: `CLUSTER_DIMENSION 4x1x1`.

Nothing here raises for a value that a stranger made up: what has no name is shown as its number.
"""

from __future__ import annotations

from replay.api import structs
from replay.api.structs import CUlaunchAttribute, CUlaunchAttributeValue, LaunchAttributeId

# fmt: off
_NAMES: dict[int, tuple[str, ...]] = {
    LaunchAttributeId.SYNCHRONIZATION_POLICY: ("0", "AUTO", "SPIN", "YIELD", "BLOCKING_SYNC"),
    LaunchAttributeId.CLUSTER_SCHEDULING_POLICY_PREFERENCE: ("DEFAULT", "SPREAD", "LOAD_BALANCING"),
    LaunchAttributeId.MEM_SYNC_DOMAIN: ("DEFAULT", "REMOTE"),
    LaunchAttributeId.PORTABLE_CLUSTER_SIZE_MODE: ("DEFAULT", "REQUIRE_PORTABLE", "ALLOW_NON_PORTABLE"),
    LaunchAttributeId.SHARED_MEMORY_MODE: (
        "DEFAULT", "REQUIRE_PORTABLE", "ALLOW_NON_PORTABLE", "ALLOW_OVERSIZED", "PREFER_OVERSIZED",
    ),
}
# fmt: on
_ACCESS = ("NORMAL", "STREAMING", "PERSISTING")


def is_known(attribute: CUlaunchAttribute) -> bool:
    """Whether this version knows what the attribute means; its value may hold a pointer or a handle otherwise."""
    return attribute.id in LaunchAttributeId.__members__.values()


def describe_attribute(attribute: CUlaunchAttribute) -> str:
    """Name and value on one line; the bytes of one that this version does not know."""
    if not is_known(attribute):
        held = bytes(attribute.value.pad).rstrip(b"\0")
        return f"attribute {attribute.id} (unknown) {held.hex() or '0'}"
    identifier = LaunchAttributeId(attribute.id)
    value = _value(identifier, attribute.value)
    return f"{identifier.name} {value}" if value else identifier.name


def describe_attributes(data: bytes) -> list[str]:
    """The attributes of a launch, from their bytes one after another. Raises ValueError for a broken length."""
    return [describe_attribute(item) for item in structs.read_launch_attributes(data)]


def _value(identifier: LaunchAttributeId, value: CUlaunchAttributeValue) -> str:
    if identifier == LaunchAttributeId.IGNORE:
        return ""
    if identifier == LaunchAttributeId.ACCESS_POLICY_WINDOW:
        window = value.accessPolicyWindow
        hit, miss = _name(_ACCESS, window.hitProp), _name(_ACCESS, window.missProp)
        return f"{window.base_ptr:#x} {window.num_bytes} bytes hit {window.hitRatio:.3g} {hit} miss {miss}"
    if identifier in (LaunchAttributeId.CLUSTER_DIMENSION, LaunchAttributeId.PREFERRED_CLUSTER_DIMENSION):
        return f"{value.clusterDim.x}x{value.clusterDim.y}x{value.clusterDim.z}"
    if identifier in (LaunchAttributeId.PROGRAMMATIC_EVENT, LaunchAttributeId.LAUNCH_COMPLETION_EVENT):
        event = value.programmaticEvent  # as which the other begins
        at_start = identifier == LaunchAttributeId.PROGRAMMATIC_EVENT and event.triggerAtBlockStart
        return f"{event.event:#x} flags {event.flags}" + (" at block start" if at_start else "")
    if identifier == LaunchAttributeId.MEM_SYNC_DOMAIN_MAP:
        return f"default {value.memSyncDomainMap.default_} remote {value.memSyncDomainMap.remote}"
    # All others are one number at the same place.
    return _name(_NAMES.get(identifier, ()), value.priority)


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)
