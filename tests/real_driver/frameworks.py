"""Libraries and frameworks, each imported, asked for devices and made to use one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Framework:
    module: str  # what must be importable
    code: str  # what to run; it may end in an exception


# Prints what the statement raises, without its traceback.
TRY = """
def attempt(name, work):
    try:
        print(name, work())
    except BaseException as error:
        print(name, type(error).__name__, str(error).splitlines()[:1])
"""


def framework(module: str, code: str) -> Framework:
    return Framework(module, TRY + code)


FRAMEWORKS = {
    "cuda.bindings": framework(
        "cuda.bindings.driver",
        """
from cuda.bindings import driver
attempt("version", driver.cuDriverGetVersion)
attempt("init", lambda: driver.cuInit(0))
attempt("count", driver.cuDeviceGetCount)
attempt("context", lambda: driver.cuCtxGetCurrent())
""",
    ),
    "cuda.core": framework(
        "cuda.core",
        """
import cuda.core
device = getattr(cuda.core, "Device", None) or cuda.core.experimental.Device
attempt("device", lambda: device(0).set_current())
""",
    ),
    "NVRTC": framework(
        "cuda.bindings.nvrtc",
        """
from cuda.bindings import nvrtc
error, program = nvrtc.nvrtcCreateProgram(b"__global__ void f(int *p) { *p = 1; }", b"f.cu", 0, [], [])
attempt("compile", lambda: nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_80"]))
attempt("bytes", lambda: nvrtc.nvrtcGetPTXSize(program))
""",
    ),
    "nvJitLink": framework(
        "nvidia.nvjitlink",
        """
import ctypes, glob, nvidia.nvjitlink
library = ctypes.CDLL(sorted(glob.glob(nvidia.nvjitlink.__path__[0] + "/lib/libnvJitLink.so.*"))[0])
numbers = ctypes.c_uint(), ctypes.c_uint()
attempt("version", lambda: library.nvJitLinkVersion(*map(ctypes.byref, numbers)))
""",
    ),
    "cuBLAS": framework(
        "nvidia.cublas",
        """
import ctypes, glob, nvidia.cublas
library = ctypes.CDLL(sorted(glob.glob(nvidia.cublas.__path__[0] + "/lib/libcublas.so.*"))[0])
handle = ctypes.c_void_p()
attempt("create", lambda: library.cublasCreate_v2(ctypes.byref(handle)))
""",
    ),
    "cuDNN": framework(
        "nvidia.cudnn",
        """
import ctypes, glob, nvidia.cudnn
library = ctypes.CDLL(sorted(glob.glob(nvidia.cudnn.__path__[0] + "/lib/libcudnn.so.*"))[0])
handle = ctypes.c_void_p()
attempt("create", lambda: library.cudnnCreate(ctypes.byref(handle)))
""",
    ),
    "numba-cuda": framework(
        "numba.cuda",
        """
from numba import cuda
attempt("available", cuda.is_available)
attempt("gpus", lambda: len(cuda.gpus))
attempt("array", lambda: cuda.device_array(4))
""",
    ),
    "CuPy": framework(
        "cupy",
        """
import cupy
attempt("count", cupy.cuda.runtime.getDeviceCount)
attempt("array", lambda: cupy.arange(4).sum())
""",
    ),
    "Warp": framework(
        "warp",
        """
import warp
attempt("init", warp.init)
attempt("devices", warp.get_cuda_device_count)
attempt("array", lambda: warp.zeros(4, device="cuda"))
""",
    ),
    "Triton": framework(
        "triton",
        """
import triton
from triton.runtime import driver
attempt("device", lambda: driver.active.get_current_device())
""",
    ),
    "PyTorch": framework(
        "torch",
        """
import torch
attempt("available", torch.cuda.is_available)
attempt("count", torch.cuda.device_count)
attempt("array", lambda: torch.ones(4, device="cuda"))
""",
    ),
    "JAX": framework(
        "jax",
        """
import jax
attempt("devices", lambda: jax.devices("cuda"))
attempt("sum", lambda: jax.numpy.arange(4).sum())
""",
    ),
    "TensorFlow": framework(
        "tensorflow",
        """
import tensorflow
attempt("devices", lambda: tensorflow.config.list_physical_devices("GPU"))
""",
    ),
    "tinygrad": framework(
        "tinygrad",
        """
from tinygrad import Tensor
attempt("sum", lambda: Tensor([1, 2], device="CUDA").sum().item())
""",
    ),
    "Dr.Jit": framework(
        "drjit",
        """
import drjit
attempt("backend", lambda: drjit.has_backend(drjit.JitBackend.CUDA))
""",
    ),
    "Taichi": framework(
        "taichi",
        """
import taichi
attempt("init", lambda: taichi.init(arch=taichi.cuda, log_level=taichi.ERROR))
""",
    ),
}
