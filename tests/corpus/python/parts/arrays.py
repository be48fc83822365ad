"""Device arrays for programs without torch: enough of a tensor for Triton, and copies for everybody."""

from __future__ import annotations

import numpy as np
from cuda.bindings import driver

TRITON_NAMES = {"float": "fp", "uint": "u", "int": "i"}


def ok(answer):
    """What a driver call returned after its status, which must be success."""
    assert answer[0] == driver.CUresult.CUDA_SUCCESS, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]


class DeviceArray:
    """A copy of a numpy array in device memory. `dtype` is Triton's name of the element type."""

    def __init__(self, values: np.ndarray) -> None:
        kind = values.dtype.name.rstrip("0123456789")
        self.dtype = TRITON_NAMES[kind] + values.dtype.name[len(kind) :]
        self.like = np.ascontiguousarray(values)
        self.pointer = ok(driver.cuMemAlloc(self.like.nbytes))
        ok(driver.cuMemcpyHtoD(self.pointer, self.like.ctypes.data, self.like.nbytes))

    def data_ptr(self) -> int:
        return int(self.pointer)

    def numpy(self) -> np.ndarray:
        values = np.empty_like(self.like)
        ok(driver.cuMemcpyDtoH(values.ctypes.data, self.pointer, values.nbytes))
        return values


def use_primary_context() -> None:
    """The primary context of device 0 becomes this thread's."""
    ok(driver.cuInit(0))
    ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(ok(driver.cuDeviceGet(0))))))
