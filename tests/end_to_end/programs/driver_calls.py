"""What the Python programs of these tests share: driver calls that must succeed, a context, a kernel and its launch."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda.bindings import driver as cu

HEADER = ".version 7.0\n.target sm_50\n.address_size 64\n"
# adds one to the 32-bit word at p
BUMP = """
.visible .entry bump(.param .u64 p) {
    .reg .u64 %a; .reg .u32 %v;
    ld.param.u64 %a, [p];
    ld.global.u32 %v, [%a]; add.u32 %v, %v, 1; st.global.u32 [%a], %v;
    ret;
}
"""


def check(answer: tuple[Any, ...]) -> Any:
    """What a call gave, without its CUresult."""
    assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) == 2 else answer[1:]


def start(device: int = 0) -> Any:
    """The primary context of a device, current."""
    check(cu.cuInit(0))
    context = check(cu.cuDevicePrimaryCtxRetain(device))
    check(cu.cuCtxSetCurrent(context))
    return context


def load(text: str) -> Any:
    """A module of PTX; `text` is what follows its header."""
    return check(cu.cuModuleLoadData((HEADER + text).encode()))


def function(module: Any, name: str) -> Any:
    """A kernel of a module."""
    return check(cu.cuModuleGetFunction(module, name.encode()))


def launch(kernel: Any, *values: Any, block: int = 1, stream: Any = 0) -> None:
    """One block. values: a numpy scalar as it is, anything else as 8 bytes."""
    held = [np.array([value if isinstance(value, np.generic) else np.uint64(int(value))]) for value in values]
    pointers = np.array([value.ctypes.data for value in held], np.uint64)
    check(cu.cuLaunchKernel(kernel, 1, 1, 1, block, 1, 1, 0, stream, pointers.ctypes.data, 0))


def words(address: Any, count: int) -> np.ndarray[Any, Any]:
    """What device memory holds, as u32."""
    found = np.zeros(count, np.uint32)
    check(cu.cuMemcpyDtoH(found.ctypes.data, address, found.nbytes))
    return found
