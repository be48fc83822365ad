"""Two MiB of noise in memory of each kind, tables of pointers all over it, and two arrays, between cuProfilerStart and
cuProfilerStop.

One memory has two addresses, one array is of a context of its own, and the last table appears while the window is open.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
from ctypes_calls import call, made  # noqa: E402

from replay.api.structs import CUDA_MEMCPY3D

SIZE = 2 << 20
LINE = 64  # bytes: each line of a table begins with a pointer to the middle of a line elsewhere
LINES = SIZE // LINE
ROW, ROWS = 2048, 256  # of the arrays
HOST, DEVICE, ARRAY = 1, 2, 3
# out[i] += *table[LINE * i]
GATHER = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry gather(.param .u64 table, .param .u64 out) {
    .reg .b32 %r<6>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [table]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
    mul.wide.u32 %rd3, %r1, 64; add.u64 %rd1, %rd1, %rd3;
    mul.wide.u32 %rd3, %r1, 4; add.u64 %rd2, %rd2, %rd3;
    ld.global.u64 %rd4, [%rd1]; ld.global.u32 %r4, [%rd4];
    ld.global.u32 %r5, [%rd2]; add.u32 %r5, %r5, %r4; st.global.u32 [%rd2], %r5;
    ret;
}
"""
rng = numpy.random.default_rng(5)


class Descriptor(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = [("Width", ctypes.c_uint64), ("Height", ctypes.c_uint64), ("Format", ctypes.c_uint32),
                ("NumChannels", ctypes.c_uint32)]  # fmt: skip


def fill(address: int, data: bytes) -> int:
    call("cuMemcpyHtoD_v2", address, data, len(data))
    return address


def memory(data: bytes) -> int:
    return fill(made("cuMemAlloc_v2", len(data)), data)


def registered() -> int:
    libc = ctypes.CDLL(None)
    libc.aligned_alloc.restype = ctypes.c_void_p
    address = libc.aligned_alloc(ctypes.c_size_t(4096), ctypes.c_size_t(SIZE))
    call("cuMemHostRegister_v2", address, SIZE, ctypes.c_uint32(2))
    return made("cuMemHostGetDevicePointer_v2", address, ctypes.c_uint32(0))


def mapped_twice() -> tuple[int, int]:
    physical = made("cuMemCreate", SIZE, struct.pack("<IIIiQQ", 1, 0, 1, 0, 0, 0), 0)
    places = []
    for _ in range(2):
        places.append(made("cuMemAddressReserve", SIZE, SIZE, 0, 0))
        call("cuMemMap", places[-1], SIZE, 0, physical, 0)
        call("cuMemSetAccess", places[-1], SIZE, struct.pack("<IiI", 1, 0, 3), 1)
    return places[0], places[1]


def copy_array(array: int, kind: int, address: int, into: bool) -> None:
    copy = CUDA_MEMCPY3D(WidthInBytes=ROW, Height=ROWS, Depth=1)
    array_side, memory_side = ("dst", "src") if into else ("src", "dst")
    for name, value in ((f"{array_side}MemoryType", ARRAY), (f"{array_side}Array", array),
                        (f"{memory_side}MemoryType", kind), (f"{memory_side}Pitch", ROW),
                        (f"{memory_side}{'Host' if kind == HOST else 'Device'}", address)):  # fmt: skip
        setattr(copy, name, value)
    call("cuMemcpy3D_v2", ctypes.byref(copy))


def noisy_array() -> int:
    array = made("cuArrayCreate_v2", ctypes.byref(Descriptor(ROW, ROWS, 1, 1)))
    noise = ctypes.create_string_buffer(rng.bytes(ROW * ROWS), ROW * ROWS)
    copy_array(array, HOST, ctypes.addressof(noise), True)
    return array


def table_of(targets: list[int]) -> bytes:
    table = numpy.frombuffer(rng.bytes(SIZE), "<u8").copy()
    lines = rng.integers(0, LINES, LINES) * LINE + LINE // 2
    table[:: LINE // 8] = rng.choice(numpy.array(targets, "<u8"), LINES) + lines.astype("<u8")
    return table.tobytes()


def launch(function: int, table: int, out: int) -> None:
    values = [ctypes.c_uint64(table), ctypes.c_uint64(out)]
    parameters = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
    shape = map(ctypes.c_uint32, (LINES // 256, 1, 1, 256, 1, 1, 0))
    call("cuLaunchKernel", function, *shape, 0, parameters, None)


def main() -> None:
    call("cuInit", 0)
    context = made("cuDevicePrimaryCtxRetain", 0)
    call("cuCtxSetCurrent", context)
    function = made("cuModuleGetFunction", made("cuModuleLoadData", GATHER.encode()), b"gather")
    first, second = mapped_twice()
    targets = [
        memory(rng.bytes(SIZE)),
        fill(made("cuMemAllocManaged", SIZE, ctypes.c_uint32(1)), rng.bytes(SIZE)),
        fill(made("cuMemHostAlloc", SIZE, ctypes.c_uint32(2)), rng.bytes(SIZE)),
        fill(registered(), rng.bytes(SIZE)),
    ]
    array = noisy_array()
    other_context = made("cuCtxCreate_v2", ctypes.c_uint32(0), ctypes.c_int(0))
    other_array = noisy_array()
    call("cuCtxSetCurrent", context)
    targets += [first, second]
    fill(second, table_of(targets))  # and so at the first address too
    table = table_of(targets)
    repeated = table[: SIZE // 8] * 8
    tables = [memory(table), first, second, memory(repeated)]
    out, copies = memory(rng.bytes(4 * LINES)), [memory(bytes(ROW * ROWS)) for _ in range(2)]

    call("cuCtxSynchronize")
    call("cuProfilerStart")
    for one in tables:
        launch(function, one, out)
    copy_array(array, DEVICE, copies[0], False)
    launch(function, memory(table_of(targets)), out)
    call("cuCtxSynchronize")
    call("cuCtxSetCurrent", other_context)
    copy_array(other_array, DEVICE, copies[1], False)
    call("cuCtxSynchronize")
    call("cuCtxSetCurrent", context)
    call("cuProfilerStop")


main()
