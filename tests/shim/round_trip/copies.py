"""Valid copies of every shape, batches of them, memory operations, and what they mean."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

from .launches import word

if TYPE_CHECKING:
    from replay.api.vocabulary import Function

    from .caller import Caller
    from .recorder import Recorder


# One side of CUDA_MEMCPY2D and CUDA_MEMCPY3D
_SIDE_2D = struct.Struct("<QQI4xQQQQ")  # x, y, type, host, device, array, pitch


_SIDE_3D = struct.Struct(
    "<QQQQI4xQQQQQQ"
)  # x, y, z, level, type, host, device, array, reserved, pitch, height


def _rows(recorder: Recorder, at: int, three: bool, read: bool) -> list[Any]:
    side = _SIDE_3D if three else _SIDE_2D
    extent_at = at + 2 * side.size
    width, height = word(extent_at), word(extent_at + 8)
    depth = word(extent_at + 16) if three else 1
    described: list[Any] = [width, height, depth]
    for place in range(2):
        values = side.unpack(ctypes.string_at(at + place * side.size, side.size))
        if three:
            x, y, z, level, kind, host, device, array, _, pitch, rows = values
        else:
            x, y, kind, host, device, array, pitch = values
            z, level, rows = 0, 0, height
        pitch, rows = pitch or width, rows or height
        if kind == 3:
            described.append([recorder.handle("CUarray", array), x, y, z, level])
        elif kind == 1 and place == 0:
            start = host + x + y * pitch + z * pitch * rows
            data = b"".join(
                ctypes.string_at(start + line * pitch + page * pitch * rows, width)
                for page in range(depth)
                for line in range(height)
            )
            described.append(data.hex())
        elif kind == 1:
            described.append("host memory")
        else:
            described.append([recorder.address(device), x, y, z, pitch, rows])
    return described


def rectangle_rows(recorder: Recorder, at: int, three: bool) -> list[Any]:
    """What a copy of a rectangle moves, from CUDA_MEMCPY2D or CUDA_MEMCPY3D."""
    return _rows(recorder, at, three, True)


def device_rectangle(caller: Caller) -> bytes:
    """A CUDA_MEMCPY3D between two places in device memory."""
    size = (caller.rng.randrange(1, 40), caller.rng.randrange(1, 6), caller.rng.randrange(1, 4))
    return b"".join(_side(caller, True, False, *size) for _ in range(2)) + struct.pack("<QQQ", *size)


def copy_2d(recorder: Recorder, function: Function, words: list[int], at: int) -> Any:
    return _rows(recorder, at, False, True)


def copy_3d(recorder: Recorder, function: Function, words: list[int], at: int) -> Any:
    return _rows(recorder, at, True, True)


def _side(caller: Caller, three: bool, host: bool, width: int, height: int, depth: int) -> bytes:
    x, y, z = caller.rng.randrange(4), caller.rng.randrange(3), caller.rng.randrange(2) if three else 0
    pitch, rows = width + x + caller.rng.randrange(9), height + y
    size = pitch * rows * (depth + z)
    at = caller.buffer(caller.rng.randbytes(size)) if host else caller.block(size)
    where = (1, at, 0) if host else (2, 0, at)
    if three:
        return _SIDE_3D.pack(x, y, z, 0, *where, 0, 0, pitch, rows)
    return _SIDE_2D.pack(x, y, *where, 0, pitch)


def rectangle(caller: Caller, function: Function) -> dict[str, int]:
    three = "3D" in function.symbol
    width, height = caller.rng.randrange(1, 40), caller.rng.randrange(1, 6)
    depth = caller.rng.randrange(1, 4) if three else 1
    from_host = caller.rng.random() < 0.5
    data = _side(caller, three, from_host, width, height, depth)
    data += _side(caller, three, not from_host and caller.rng.random() < 0.5, width, height, depth)
    data += struct.pack("<QQQ" if three else "<QQ", *((width, height, depth) if three else (width, height)))
    return {"pCopy": caller.buffer(data)}


_OPERAND = struct.Struct("<I4xQQQIi")  # type, address, row length, layer height, location


_MEMORY_OPERATION = struct.Struct("<I4xQQ4x4x16x")  # operation, address, value


def batch_operation(recorder: Recorder, at: int) -> Any:
    """CUDA_MEMCPY3D_BATCH_OP between two places in memory."""
    sides = []
    for place in range(2):
        kind, address, *rest = _OPERAND.unpack(ctypes.string_at(at + place * _OPERAND.size, _OPERAND.size))
        sides.append([kind, recorder.address(address), rest])
    return [*sides, ctypes.string_at(at + 80, 32).hex()]


def memory_operation(recorder: Recorder, at: int) -> Any:
    """CUstreamBatchMemOpParams that writes or awaits a value."""
    kind, address, value = _MEMORY_OPERATION.unpack(ctypes.string_at(at, _MEMORY_OPERATION.size))
    return [kind, recorder.address(address), value]


def _attributes() -> bytes:
    return struct.pack("<IIiIiI", 1, 0, 0, 0, 0, 0)  # in the order of the stream


def batch_of_copies(caller: Caller, function: Function) -> dict[str, int]:
    count = caller.rng.randrange(1, 4)
    sizes = [caller.rng.randrange(1, 60) for _ in range(count)]
    return {
        "dsts": caller.buffer(struct.pack(f"<{count}Q", *map(caller.block, sizes))),
        "srcs": caller.buffer(struct.pack(f"<{count}Q", *map(caller.block, sizes))),
        "sizes": caller.buffer(struct.pack(f"<{count}Q", *sizes)),
        "count": count,
        "attrs": caller.buffer(_attributes()),
        "attrsIdxs": caller.buffer(bytes(8)),
        "numAttrs": 1,
    }


def batch_of_boxes(caller: Caller, function: Function) -> dict[str, int]:
    names = {parameter.name for parameter in function.parameters}
    count = caller.rng.randrange(1, 4) if "numOps" in names else 1
    data = b""
    for _ in range(count):
        width, height, depth = (caller.rng.randrange(1, 20) for _ in range(3))
        for _ in range(2):
            data += _OPERAND.pack(1, caller.block(32 * 24 * 20), 32, 24, 1, 0)
        data += struct.pack("<QQQII", width, height, depth, 1, 0)
    return {"numOps": count, "opList": caller.buffer(data), "op": caller.buffer(data), "flags": 0}


def with_attributes(caller: Caller, function: Function) -> dict[str, int]:
    size = caller.rng.randrange(1, 60)
    return {
        "dst": caller.block(size), "src": caller.block(size), "size": size, "attr": caller.buffer(_attributes())
    }  # fmt: skip


def memory_operations(caller: Caller, function: Function) -> dict[str, int]:
    count = caller.rng.randrange(1, 4)
    data = b"".join(
        _MEMORY_OPERATION.pack(2, caller.block(8), caller.rng.getrandbits(32)) for _ in range(count)
    )
    return {"count": count, "paramArray": caller.buffer(data)}


def locations(caller: Caller, function: Function) -> dict[str, int]:
    count = caller.rng.randrange(1, 4)
    return {
        "dptrs": caller.buffer(struct.pack(f"<{count}Q", *(caller.block(64) for _ in range(count)))),
        "sizes": caller.buffer(struct.pack(f"<{count}Q", *(64 for _ in range(count)))),
        "count": count,
        "prefetchLocs": caller.buffer(struct.pack("<Ii", 1, 0)),
        "prefetchLocIdxs": caller.buffer(bytes(8)),
        "numPrefetchLocs": 1,
        "flags": 0,
    }


def peer_copy(caller: Caller, function: Function) -> dict[str, int]:
    """CUDA_MEMCPY3D_PEER has contexts where CUDA_MEMCPY3D has reserved words."""
    data = bytearray(device_rectangle(caller))
    for side in range(2):
        struct.pack_into("<Q", data, side * _SIDE_3D.size + 64, caller.main)
    return {"pCopy": caller.buffer(bytes(data))}


def peer_rectangle(recorder: Recorder, function: Function, words: list[int], at: int) -> Any:
    contexts = [recorder.handle("CUcontext", word(at + side * _SIDE_3D.size + 64)) for side in range(2)]
    return [contexts, rectangle_rows(recorder, at, True)]


def unified_copy(caller: Caller, function: Function) -> dict[str, int]:
    size = caller.rng.randrange(1, 200)
    return {"dst": caller.block(size), "src": caller.buffer(caller.rng.randbytes(size)), "ByteCount": size}


def unified_source(recorder: Recorder, function: Function, words: list[int]) -> Any:
    return ctypes.string_at(words[1], words[2]).hex()
