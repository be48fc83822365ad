"""What the programs use that call the driver API alone: calls that must succeed, a kernel that adds, and its memory."""

import ctypes

import numpy as np

driver = ctypes.CDLL("libcuda.so.1")
THREADS = 32
PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 data, .param .u32 value) {
  .reg .u64 %a<3>;
  .reg .u32 %r<4>;
  ld.param.u64 %a0, [data];
  ld.param.u32 %r0, [value];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %a1, %r1, 4;
  add.u64 %a2, %a0, %a1;
  ld.global.u32 %r2, [%a2];
  add.u32 %r3, %r2, %r0;
  st.global.u32 [%a2], %r3;
  ret;
}
\0"""


def call(name: str, *arguments: object) -> None:
    result = getattr(driver, name)(*arguments)
    assert result == 0, f"{name} returned {result}"


def handle() -> ctypes.c_uint64:
    return ctypes.c_uint64(0)


class Adder:
    """The kernel of the current context, and a word for each of its threads, 0 to 31 at first."""

    def __init__(self) -> None:
        module, self.function, self.memory = handle(), handle(), handle()
        call("cuModuleLoadData", ctypes.byref(module), PTX)
        call("cuModuleGetFunction", ctypes.byref(self.function), module, b"add")
        call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(4 * THREADS))
        self.numbers = np.arange(THREADS, dtype=np.uint32)
        source = self.numbers.ctypes.data_as(ctypes.c_void_p)
        call("cuMemcpyHtoD_v2", self.memory, source, ctypes.c_size_t(self.numbers.nbytes))

    def check(self, added: int) -> None:
        result = np.empty_like(self.numbers)
        target = result.ctypes.data_as(ctypes.c_void_p)
        call("cuMemcpyDtoH_v2", target, self.memory, ctypes.c_size_t(result.nbytes))
        assert (result == self.numbers + added).all()
