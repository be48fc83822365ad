"""Arrays of every kind, read and written by copies between cuProfilerStart and cuProfilerStop.

usage: arrays.py [WINDOWS]: how many such stretches, each on what the one before left.
"""

from __future__ import annotations

import ctypes
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
from ctypes_calls import call, made  # noqa: E402

from replay.api.structs import CUDA_MEMCPY2D, CUDA_MEMCPY3D

HOST, DEVICE, ARRAY = 1, 2, 3
UINT8, UINT16, HALF, FLOAT = 0x01, 0x02, 0x10, 0x20
LAYERED, SURFACE, CUBEMAP = 1, 2, 4
rng = random.Random(7)


class Descriptor(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [
        ("Width", ctypes.c_uint64), ("Height", ctypes.c_uint64), ("Depth", ctypes.c_uint64),
        ("Format", ctypes.c_uint32), ("NumChannels", ctypes.c_uint32), ("Flags", ctypes.c_uint32),
    ]  # fmt: skip


def memory(size: int) -> int:
    return made("cuMemAlloc_v2", size)


def box(array: int, into: bool, kind: int, address: int, width: int, height: int = 1, depth: int = 1,
        at: tuple[int, int, int] = (0, 0, 0), asynchronous: bool = False) -> None:  # fmt: skip
    """Copy a box of `width` bytes at (x bytes, y, z) of an array from or to tightly packed memory."""
    copy = CUDA_MEMCPY3D(WidthInBytes=width, Height=height, Depth=depth)
    array_side, memory_side = ("dst", "src") if into else ("src", "dst")
    for name, value in ((f"{array_side}MemoryType", ARRAY), (f"{array_side}Array", array),
                        (f"{array_side}XInBytes", at[0]), (f"{array_side}Y", at[1]), (f"{array_side}Z", at[2]),
                        (f"{memory_side}MemoryType", kind), (f"{memory_side}Pitch", width),
                        (f"{memory_side}Height", height),
                        (f"{memory_side}{'Host' if kind == HOST else 'Device'}", address)):  # fmt: skip
        setattr(copy, name, value)
    if asynchronous:
        call("cuMemcpy3DAsync_v2", ctypes.byref(copy), 0)
    else:
        call("cuMemcpy3D_v2", ctypes.byref(copy))


class Subject:
    """An array, or a level of one, with its extent in bytes, rows and slices, filled with noise."""

    def __init__(self, array: int, descriptor: Descriptor) -> None:
        element = element_bytes(descriptor)
        self.array, self.width = array, descriptor.Width * element
        self.half = descriptor.Width // 2 * element
        self.height, self.depth = max(descriptor.Height, 1), max(descriptor.Depth, 1)
        self.size = self.width * self.height * self.depth
        noise = ctypes.create_string_buffer(rng.randbytes(self.size), self.size)
        box(array, True, HOST, ctypes.addressof(noise), self.width, self.height, self.depth)
        self.copy = memory(self.size)

    def use(self, number: int) -> None:
        """Read all of it, and write its last row with the bytes of its first one."""
        box(
            self.array,
            False,
            DEVICE,
            self.copy,
            self.width,
            self.height,
            self.depth,
            asynchronous=number % 2 == 0,
        )
        last = (0, self.height - 1, self.depth - 1)
        box(self.array, True, DEVICE, self.copy + number, self.half, at=last)

    def contents(self) -> bytes:
        data = ctypes.create_string_buffer(self.size)
        box(self.array, False, HOST, ctypes.addressof(data), self.width, self.height, self.depth)
        return data.raw


def element_bytes(descriptor: Descriptor) -> int:
    return {UINT8: 1, UINT16: 2, HALF: 2, FLOAT: 4}[descriptor.Format] * descriptor.NumChannels


def plain(*fields: int) -> list[Subject]:
    descriptor = Descriptor(*fields)
    array = made("cuArray3DCreate_v2", ctypes.byref(descriptor))
    return [Subject(array, descriptor)]


def mipmapped(levels: int, *fields: int) -> list[Subject]:
    descriptor = Descriptor(*fields)
    array = made("cuMipmappedArrayCreate", ctypes.byref(descriptor), ctypes.c_uint32(levels))
    found = []
    for number in range(levels):
        level = made("cuMipmappedArrayGetLevel", array, ctypes.c_uint32(number))
        told = Descriptor()
        call("cuArray3DGetDescriptor_v2", ctypes.byref(told), level)
        found.append(Subject(level, told))
    return found


def flat(array: int, address: int, width: int, height: int, into: bool) -> None:
    copy = CUDA_MEMCPY2D(WidthInBytes=width, Height=height)
    array_side, memory_side = ("dst", "src") if into else ("src", "dst")
    for name, value in ((f"{array_side}MemoryType", ARRAY), (f"{array_side}Array", array),
                        (f"{memory_side}MemoryType", HOST), (f"{memory_side}Host", address),
                        (f"{memory_side}Pitch", width)):  # fmt: skip
        setattr(copy, name, value)
    call("cuMemcpy2D_v2" if into else "cuMemcpy2DUnaligned_v2", ctypes.byref(copy))


def line(first: int, second: int, device: int, number: int) -> None:
    """The copies that know one-dimensional arrays only, in a chain: each reads what the one before wrote."""
    size = 100
    host = ctypes.create_string_buffer(bytes((number + n) % 251 for n in range(size)), size)
    back = ctypes.create_string_buffer(size)
    call("cuMemcpyHtoA_v2", first, 4, host, size)
    call("cuMemcpyAtoA_v2", second, 16, first, 0, size)
    call("cuMemcpyAtoD_v2", device, second, 12, size)
    call("cuMemcpyDtoA_v2", first, 8, device, size)
    call("cuMemcpyAtoH_v2", back, first, 8, size)
    call("cuMemcpyHtoAAsync_v2", second, 120, host, size, 0)
    call("cuMemcpyAtoHAsync_v2", back, second, 0, size, 0)
    call("cuStreamSynchronize", 0)


def main() -> None:
    windows = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    call("cuInit", 0)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
    subjects = [
        *plain(1000, 0, 0, FLOAT, 1, 0),
        *plain(63, 41, 0, HALF, 4, SURFACE),
        *plain(1024, 600, 0, FLOAT, 1, 0),  # several chunks of a snapshot
        *plain(20, 10, 5, UINT8, 2, 0),
        *plain(50, 0, 4, UINT16, 1, LAYERED),
        *plain(33, 9, 3, FLOAT, 2, LAYERED | SURFACE),
        *plain(16, 16, 6, UINT8, 4, CUBEMAP),
        *plain(8, 8, 12, FLOAT, 1, CUBEMAP | LAYERED),
        *mipmapped(4, 37, 22, 0, FLOAT, 4, 0),
        *mipmapped(3, 16, 8, 12, UINT16, 2, SURFACE),
        *mipmapped(3, 16, 16, 2, UINT8, 1, LAYERED),
    ]
    lines = [made("cuArray3DCreate_v2", ctypes.byref(Descriptor(300, 0, 0, UINT8, 1, 0))) for _ in range(2)]
    device = memory(256)
    unused = plain(512, 512, 0, FLOAT, 4, 0)
    picture = ctypes.create_string_buffer(rng.randbytes(64 * 32), 64 * 32)
    for window in range(windows):
        call("cuProfilerStart")
        for number, subject in enumerate(subjects):
            subject.use(number % 4 + window)
        line(*lines, device, window)
        # One that lives only inside the window, and one of the same shape after it: the handle may be the same.
        for turn in range(2):
            array = made("cuArray3DCreate_v2", ctypes.byref(Descriptor(64, 32, 0, UINT8, 1, 0)))
            flat(array, ctypes.addressof(picture), 64, 32, True)
            box(array, False, DEVICE, device, 64, 4, at=(0, 7 + turn, 0))
            flat(array, ctypes.addressof(picture), 64, 16, False)
            call("cuArrayDestroy", array)
        call("cuProfilerStop")
    total = sum(sum(subject.contents()) for subject in subjects)
    print(f"arrays hold {total}, and {sum(unused[0].contents())} was not used")


if __name__ == "__main__":
    main()
