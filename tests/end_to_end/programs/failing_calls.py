"""Calls that the driver refuses, of every family, between launches of a kernel; the program goes on as if they had not
been made.

usage: failing_calls.py
"""

from __future__ import annotations

import ctypes
import struct
import sys

cuda = ctypes.CDLL("libcuda.so.1")
NOTHING = 0xDEAD0000  # no handle, no address
PTX = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 place, .param .u32 amount)
{
  .reg .b32 %r<3>; .reg .b64 %rd1;
  ld.param.u64 %rd1, [place]; ld.param.u32 %r1, [amount];
  ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, %r1; st.global.u32 [%rd1], %r2;
  ret;
}
\0"""


def result(name: str, *arguments: object) -> int:
    words = [ctypes.c_uint64(word) if isinstance(word, int) else word for word in arguments]
    return int(getattr(cuda, name)(*words))


def call(name: str, *arguments: object) -> None:
    if code := result(name, *arguments):
        sys.exit(f"{name} returned {code}")


def made(name: str, *arguments: object) -> int:
    handle = ctypes.c_uint64(0)
    call(name, ctypes.byref(handle), *arguments)
    return handle.value


def refused(name: str, *arguments: object) -> None:
    if not result(name, *arguments):
        sys.exit(f"{name} was not refused")


def refused_creation(name: str, *arguments: object) -> None:
    refused(name, ctypes.byref(ctypes.c_uint64(0)), *arguments)


def resource(kind: int, place: int) -> bytes:
    return struct.pack("<I4xQ", kind, place).ljust(144, b"\0")


def refuse_objects(memory: int) -> None:
    array = made("cuArrayCreate_v2", struct.pack("<QQII", 16, 16, 0x20, 1))  # without the flag for surfaces
    for given in (resource(0, array), resource(0, NOTHING), resource(2, memory)):
        refused_creation("cuSurfObjectCreate", given)
    linear = struct.pack("<I4xQIIQ", 2, NOTHING, 0x20, 1, 64).ljust(144, b"\0")
    refused_creation("cuTexObjectCreate", linear, bytes(104), None)
    refused_creation("cuTexObjectCreate", resource(1, NOTHING), bytes(104), None)
    refused_creation("cuArrayCreate_v2", struct.pack("<QQII", 0, 0, 0x20, 1))
    refused("cuArrayDestroy", NOTHING)
    call("cuArrayDestroy", array)


def refuse_modules(module: int) -> None:
    refused_creation("cuModuleLoadData", PTX.replace(b".visible", b"nonsense"))
    refused_creation("cuModuleLoadData", b"\x7fELFgarbage" + bytes(200))
    refused_creation("cuModuleLoad", b"/no/such/file\0")
    refused_creation("cuLibraryLoadData", b"\x7fELFgarbage" + bytes(200), None, None, 0, None, None, 0)
    refused_creation("cuModuleGetFunction", module, b"missing\0")
    refused_creation("cuModuleGetFunction", NOTHING, b"add\0")
    refused_creation("cuModuleGetGlobal_v2", ctypes.byref(ctypes.c_uint64(0)), module, b"missing\0")


def refuse_streams() -> None:
    refused_creation("cuStreamCreate", 77)
    refused_creation("cuStreamCreateWithPriority", 99, 0)
    refused_creation("cuEventCreate", 0xFF00)
    refused_creation("cuCtxCreate_v2", 0xFFFF0000, 0)
    for name in ("cuStreamDestroy_v2", "cuEventDestroy_v2", "cuModuleUnload", "cuGraphExecDestroy"):
        refused(name, NOTHING)
    refused("cuEventRecord", NOTHING, 0)
    refused("cuStreamWaitEvent", 0, NOTHING, 0)


def refuse_memory(memory: int) -> None:
    host = ctypes.create_string_buffer(64)
    refused_creation("cuMemAlloc_v2", 1 << 60)
    refused("cuMemFree_v2", NOTHING)
    refused_creation("cuMemHostAlloc", 1 << 60, 0)
    refused("cuMemHostRegister_v2", 0x1000, 4096, 0)
    refused("cuMemHostUnregister", 0x1000)
    refused("cuMemcpyDtoH_v2", host, NOTHING, 64)
    refused("cuMemcpyHtoD_v2", NOTHING, host, 64)
    refused("cuMemsetD8_v2", NOTHING, 1, 64)
    refused("cuMemcpyDtoD_v2", NOTHING, memory, 64)
    refused("cuMemcpyDtoD_v2", memory, NOTHING, 64)
    refused_creation("cuMemPoolCreate", bytes(88))
    refused("cuMemMap", NOTHING, 4096, 0, 0x55, 0)


def refuse_launches(function: int) -> None:
    refused("cuLaunchKernel", NOTHING, 1, 1, 1, 1, 1, 1, 0, 0, None, None)
    refused("cuLaunchKernel", function, 1, 1, 1, 2048, 1, 1, 0, 0, None, None)
    refused("cuLaunchCooperativeKernel", function, 1 << 20, 1, 1, 1, 1, 1, 0, 0, None)
    graph = made("cuGraphCreate", 0)
    refused("cuGraphLaunch", NOTHING, 0)
    refused_creation("cuGraphInstantiateWithFlags", graph, 0xF000)
    refused_creation("cuGraphInstantiateWithFlags", NOTHING, 0)


def main() -> None:
    call("cuInit", 0)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
    memory = made("cuMemAlloc_v2", 4096)
    call("cuMemsetD8_v2", memory, 0, 4096)
    module = made("cuModuleLoadData", PTX)
    function = made("cuModuleGetFunction", module, b"add\0")
    parameters = (ctypes.c_uint64(memory), ctypes.c_uint32(7))
    pointers = (ctypes.c_void_p * 2)(*map(ctypes.addressof, parameters))
    for refuse in (
        lambda: refuse_objects(memory),
        lambda: refuse_modules(module),
        refuse_streams,
        lambda: refuse_memory(memory),
        lambda: refuse_launches(function),
    ):
        refuse()
        call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, 0, pointers, None)
    call("cuCtxSynchronize")
    got = ctypes.c_uint32(0)
    call("cuMemcpyDtoH_v2", ctypes.byref(got), memory, 4)
    assert got.value == 35, got.value
    print("failing calls: all correct")


if __name__ == "__main__":
    main()
