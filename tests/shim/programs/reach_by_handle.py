"""One launch that reaches memory by what is no address: handles of objects, references, tensor maps.

usage: reach_by_handle.py {parameter|memory|reference|unbound|destroyed|map}. Prints the memory it made, what is
reached first.
"""

from __future__ import annotations

import ctypes
import struct
import sys

driver = ctypes.CDLL("libcuda.so.1")
kept: list[object] = []
LINEAR = 2


def buffer(data: bytes) -> int:
    holder = ctypes.create_string_buffer(data, len(data))
    kept.append(holder)
    return ctypes.addressof(holder)


def call(name: str, *words: int) -> None:
    result = getattr(driver, name)(*map(ctypes.c_uint64, words))
    assert result == 0, (name, result)


def made(name: str, *words: int) -> int:
    place = buffer(bytes(8))
    call(name, place, *words)
    return ctypes.c_uint64.from_address(place).value


def launch(parameters: bytes) -> None:
    function = made("cuModuleGetFunction", 77, buffer(b"four_words\0"))
    extra = struct.pack("<5Q", 1, buffer(parameters), 2, buffer(struct.pack("<Q", len(parameters))), 0)
    call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, 0, buffer(extra))


def resource(address: int) -> int:
    return buffer(struct.pack("<I4xQIIQ", LINEAR, address, 0x20, 1, 4096).ljust(144, b"\0"))


def main() -> None:
    way = sys.argv[1]
    call("cuInit", 0)
    reached, table, other = (made("cuMemAlloc_v2", 4096) for _ in range(3))
    ctypes.memset(reached, 7, 4096)
    parameters = bytes(32)
    if way in ("parameter", "memory", "destroyed"):
        handle = made("cuTexObjectCreate", resource(reached), buffer(bytes(104)), 0)
        parameters = struct.pack("<4Q", 1, handle, 2, 3)
        if way == "memory":
            ctypes.memmove(table + 512, struct.pack("<Q", handle), 8)
            parameters = struct.pack("<4Q", 1, table, 2, 3)
        if way == "destroyed":
            call("cuTexObjectDestroy", handle)
    elif way in ("reference", "unbound"):
        reference = made("cuModuleGetTexRef", 77, buffer(b"texture\0"))
        call("cuTexRefSetAddress_v2", 0, reference, reached, 4096)
        if way == "unbound":
            call("cuTexRefSetAddress_v2", 0, reference, 0, 0)
    elif way == "map":
        room = buffer(bytes(256))
        place = -(-room // 64) * 64
        extents, strides = buffer(struct.pack("<2Q", 8, 8)), buffer(struct.pack("<Q", 64))
        boxes = buffer(struct.pack("<2I", 4, 4))
        call("cuTensorMapEncodeTiled", place, 7, 2, reached + 64, extents, strides, boxes, boxes, 0, 0, 0, 0)
        parameters = bytes(64) + ctypes.string_at(place, 128)
    launch(parameters)
    print(reached, table, other)


if __name__ == "__main__":
    main()
