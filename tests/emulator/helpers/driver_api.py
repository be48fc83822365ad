"""The driver API through ctypes, as thin as it can be: integers and pointers go in, error numbers come out."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path

# Numbers of cuda.h that tests name.
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
NO_DEVICE, INVALID_DEVICE, INVALID_IMAGE, INVALID_CONTEXT = 100, 101, 200, 201
NO_BINARY_FOR_GPU, INVALID_PTX, INVALID_HANDLE, NOT_FOUND, NOT_READY = 209, 218, 400, 500, 600
ILLEGAL_ADDRESS, LAUNCH_OUT_OF_RESOURCES, LAUNCH_TIMEOUT = 700, 701, 702
CONTEXT_IS_DESTROYED, NOT_PERMITTED, NOT_SUPPORTED = 709, 800, 801
ALREADY_REGISTERED, NOT_REGISTERED, COOPERATIVE_TOO_LARGE, INVALID_CLUSTER_SIZE = 712, 713, 720, 912
LEGACY_STREAM, PER_THREAD_STREAM, NON_BLOCKING = 1, 2, 1

handle = ctypes.c_uint64
out = ctypes.byref
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"

# c[i] = a[i] + b[i] for i < n
VECTOR_ADD = (
    HEADER
    + """
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p1; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra done;
  mul.wide.s32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
done:
  ret;
}
"""
)

# store(p, v): *p = v. add_global(p): *p = counter + table[1], then counter = counter + 1. Variables with values.
VARIABLES = (
    HEADER
    + """
.visible .global .align 4 .u32 counter = 5;
.visible .const .align 4 .u32 table[4] = {10, 20, 30, 40};
.visible .entry store(.param .u64 p, .param .u32 v)
{
  .reg .b32 %r1; .reg .b64 %rd1;
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [v];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry add_global(.param .u64 p)
{
  .reg .b32 %r<4>; .reg .b64 %rd1;
  ld.param.u64 %rd1, [p];
  ld.global.u32 %r1, [counter];
  ld.const.u32 %r2, [table+4];
  add.u32 %r3, %r1, %r2;
  st.global.u32 [%rd1], %r3;
  add.u32 %r1, %r1, 1;
  st.global.u32 [counter], %r1;
  ret;
}
"""
)


class CudaError(Exception):
    """A call that had to succeed did not."""


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint32 * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    ]


def argument(value: object) -> object:
    """Integers travel as 64-bit words, which x86-64 and aarch64 narrow as the callee declares."""
    if isinstance(value, int):
        return ctypes.c_uint64(value & (1 << 64) - 1)
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, str):
        return ctypes.c_char_p(value.encode())
    return value


def parameter_array(values: Sequence[object]) -> tuple[ctypes.Array[ctypes.c_void_p], list[object]]:
    """`kernelParams` for ctypes values, and what must stay alive with it."""
    kept = [ctypes.c_uint64(v) if isinstance(v, int) else v for v in values]
    pointers = (ctypes.c_void_p * max(len(kept), 1))(*[ctypes.addressof(v) for v in kept])  # type: ignore[arg-type]
    return pointers, kept


class Driver:
    """Every cu* function as a method that gives the error number; `do` raises instead."""

    def __init__(self, path: Path | str) -> None:
        self.library = ctypes.CDLL(str(path))
        self.context: int | None = None

    def __getattr__(self, name: str) -> object:
        if not name.startswith("cu"):
            raise AttributeError(name)
        function = getattr(self.library, name)
        return lambda *arguments: function(*map(argument, arguments))

    def do(self, name: str, *arguments: object) -> None:
        error = getattr(self, name)(*arguments)
        if error:
            raise CudaError(f"{name} gave {error}")

    def start(self) -> None:
        """cuInit, if there is a device a context; for scripts in a fresh process."""
        if self.cuInit(0) == SUCCESS:
            context = handle()
            self.do("cuDevicePrimaryCtxRetain", out(context), 0)
            self.do("cuCtxSetCurrent", context)
            self.context = context.value

    def make(self, name: str, *arguments: object) -> int:
        """Calls a function whose first argument is a 64-bit result, and gives that."""
        result = handle()
        self.do(name, out(result), *arguments)
        return result.value

    def make_last(self, name: str, *arguments: object) -> int:
        """The same for a function whose last argument is the result."""
        result = handle()
        self.do(name, *arguments, out(result))
        return result.value

    def integer(self, name: str, *arguments: object) -> int:
        """The same for an `int` result."""
        result = ctypes.c_int()
        self.do(name, out(result), *arguments)
        return result.value

    def integer_last(self, name: str, *arguments: object) -> int:
        result = ctypes.c_int()
        self.do(name, *arguments, out(result))
        return result.value

    def alloc(self, size: int) -> int:
        return self.make("cuMemAlloc_v2", size)

    def free_bytes(self) -> int:
        return self.make("cuMemGetInfo_v2", out(handle()))

    def write(self, address: int, data: bytes) -> None:
        self.do("cuMemcpyHtoD_v2", address, data, len(data))

    def read(self, address: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        self.do("cuMemcpyDtoH_v2", buffer, address, size)
        return buffer.raw

    def floats(self, address: int, count: int) -> list[float]:
        return list(struct.unpack(f"{count}f", self.read(address, 4 * count)))

    def words(self, address: int, count: int) -> list[int]:
        return list(struct.unpack(f"{count}I", self.read(address, 4 * count)))

    def module(self, ptx: str) -> int:
        return self.make("cuModuleLoadData", ptx)

    def function(self, module: int, name: str) -> int:
        return self.make("cuModuleGetFunction", module, name)

    def launch(
        self,
        function: int,
        grid: Sequence[int],
        block: Sequence[int],
        values: Sequence[object],
        *,
        shared_bytes: int = 0,
        stream: int = 0,
        name: str = "cuLaunchKernel",
    ) -> int:
        """The error number of a launch. `values` are ctypes values; a plain int is a 64-bit one."""
        pointers, kept = parameter_array(values)
        grid = [*grid, 1, 1][:3]
        block = [*block, 1, 1][:3]
        extra = () if name.startswith("cuLaunchCooperative") else (None,)
        error: int = getattr(self, name)(function, *grid, *block, shared_bytes, stream, pointers, *extra)
        del kept
        return error

    def launch_ex(
        self,
        function: int,
        grid: Sequence[int],
        block: Sequence[int],
        values: Sequence[object],
        attributes: Sequence[tuple[int, Sequence[int]]] = (),
        *,
        stream: int = 0,
    ) -> int:
        """cuLaunchKernelEx; each attribute is its id and the words of its value."""
        rows = (LaunchAttribute * max(len(attributes), 1))()
        for row, (identifier, words) in zip(rows, attributes, strict=False):
            row.id = identifier
            row.value[: len(words)] = words
        config = LaunchConfig(
            (ctypes.c_uint * 3)(*[*grid, 1, 1][:3]),
            (ctypes.c_uint * 3)(*[*block, 1, 1][:3]),
            0,
            stream,
            rows,
            len(attributes),
        )
        pointers, kept = parameter_array(values)
        error: int = self.cuLaunchKernelEx(out(config), function, pointers, None)
        del kept
        return error

    def vectors(self, count: int) -> tuple[int, int, int]:
        """Device arrays a = 0, 1, 2.., b = 0, 2, 4.. and c, empty, of `count` floats."""
        a, b, c = (self.alloc(4 * count) for _ in range(3))
        self.write(a, struct.pack(f"{count}f", *range(count)))
        self.write(b, struct.pack(f"{count}f", *[2 * i for i in range(count)]))
        return a, b, c

    def vector_add(self) -> int:
        return self.function(self.module(VECTOR_ADD), "vector_add")
