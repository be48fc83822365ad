"""Nodes of graphs as the driver lays them out in memory, for the recording driver and for who calls it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

# CUgraphNodeType
KERNEL, MEMCPY, MEMSET, CHILD, EMPTY, WAIT, RECORD, SIGNAL = 0, 1, 2, 4, 5, 6, 7, 8
BATCH, CONDITIONAL = 12, 13

MEMBER_BYTES = {KERNEL: 72, MEMCPY: 216, MEMSET: 48, WAIT: 8, RECORD: 8, BATCH: 32, CONDITIONAL: 32}
BODIES = 16 + 16  # where CUgraphNodeParams has the address of the driver's handles of the graphs inside
OPERATION_BYTES, VALUE_BYTES = 48, 64
SET_DEPENDENCIES = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES


def bytes_at(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)


def put(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))


def word(data: bytes | bytearray, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


@dataclass
class Node:
    """member: what CUgraphNodeParams holds for its type, pointing to memory of this driver's own."""

    handle: int
    kind: int
    member: bytes = b""
    edges: tuple[tuple[int, bytes], ...] = ()  # node that it depends on, CUgraphEdgeData
    attributes: dict[int, bytes] = field(default_factory=dict)
    child: int = 0
    enabled: int = 1
    bodies: tuple[int, ...] = ()
    has_own_condition: bool = False  # made for the graph that the node is in


def number(address: int, size: int) -> int:
    return int.from_bytes(bytes_at(address, size), "little")
