"""Writes descriptions of graphs as `replay/raw/FORMAT.md` lays them out: the tests' own reading of that page."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

VERSION = 1
PARAMETERS, BUFFER, LAYOUT, ATTRIBUTES, NAME, KERNEL, OPERATIONS, ACCESS, CHILD, PROBLEM = range(1, 11)
CONDITION, BODY, CONDITIONAL = 11, 12, 13


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def node(
    handle: int,
    kind: int,
    parts: Iterable[tuple[int, bytes]] = (),
    after: Sequence[int] = (),
    edge: bytes = bytes(8),
) -> bytes:
    """One node; `after`: positions of the nodes it depends on."""
    parts = list(parts)
    head = struct.pack("<QIIII", handle, kind, len(after), len(parts), 0)
    edges = b"".join(struct.pack("<II8s", place, 0, edge) for place in after)
    return (
        head + edges + b"".join(struct.pack("<II", part, len(data)) + _padded(data) for part, data in parts)
    )


def graph(*nodes: bytes) -> bytes:
    """Nodes in their order."""
    return struct.pack("<II", len(nodes), 0) + b"".join(nodes)


def conditional(
    handle: int,
    condition: int,
    kind: int,
    bodies: Sequence[bytes],
    value: int = 0,
    flags: int = 0,
    steps: int = 0,
) -> bytes:
    """A conditional node; `bodies`: the graphs in it."""
    member = struct.pack("<QIIQQ", condition, kind, len(bodies), 0x1234, 0)
    parts = [(PARAMETERS, member), (CONDITION, struct.pack("<IIII", value, flags, steps, 0))]
    return node(handle, CONDITIONAL, [*parts, *((BODY, body) for body in bodies)])


def description(graph: bytes, context: int = 0) -> bytes:
    """The whole attachment."""
    return struct.pack("<IIQ", VERSION, 0, context) + graph


def copy_3d(target: int, source: int, size_bytes: int) -> bytes:
    """CUDA_MEMCPY3D of one row from device to device."""
    side = "<QQQQI4xQQQQQQ"
    return (
        struct.pack(side, 0, 0, 0, 0, 2, 0, source, 0, 0, size_bytes, 1)
        + struct.pack(side, 0, 0, 0, 0, 2, 0, target, 0, 0, size_bytes, 1)
        + struct.pack("<QQQ", size_bytes, 1, 1)
    )


def kernel_parameters(
    function: int, grid: int = 1, block: int = 1, values: int = 0, context: int = 0
) -> bytes:
    """CUDA_KERNEL_NODE_PARAMS_v2."""
    return struct.pack("<Q7I4xQQQQ", function, grid, 1, 1, block, 1, 1, 0, values, 0, 0, context)
