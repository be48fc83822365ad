# covers: Kernels of Hopper, through NVRTC: copies of tensors into a ring of mbarriers by one warpgroup, products by
# wgmma in two others, copies back; attention with scores and sums of two steps at once.
# needs: cuda.bindings numpy nvidia-cuda-nvrtc
# relocation: proven
import ctypes
import sys
from pathlib import Path

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = Path(__file__).parent / "parts" / "warpgroups.cu"
SIDE, THREADS, ROWS = 64, 384, 128
FLOAT16, FLOAT32, SWIZZLE_128B = 6, 7, 3  # as cuda.h numbers them
DRIVER = ctypes.CDLL("libcuda.so.1")


def do(answer):
    error, *values = answer
    assert error.value == 0, error
    return values[0] if len(values) == 1 else values


def compiled():
    program = do(nvrtc.nvrtcCreateProgram(SOURCE.read_bytes(), b"warpgroups.cu", 0, [], []))
    options = [b"--std=c++17", b"--gpu-architecture=compute_90a", *(text.encode() for text in sys.argv[1:])]
    status = nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    log = b" " * do(nvrtc.nvrtcGetProgramLogSize(program))
    do(nvrtc.nvrtcGetProgramLog(program, log))
    assert status.value == 0, log.decode()
    ptx = b" " * do(nvrtc.nvrtcGetPTXSize(program))
    do(nvrtc.nvrtcGetPTX(program, ptx))
    return do(driver.cuModuleLoadData(ptx))


def on_device(values):
    address = do(driver.cuMemAlloc(values.nbytes))
    do(driver.cuMemcpyHtoD(address, values.ctypes.data, values.nbytes))
    return int(address)


def tiles(address, values):
    """A tensor map of a matrix: tiles of 64 rows and 64 columns, those of halves with the swizzle of 128 bytes."""
    halves = values.dtype == np.float16
    rows, columns = values.shape
    room = (ctypes.c_uint8 * 192)()
    at = -(-ctypes.addressof(room) // 64) * 64
    status = DRIVER.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), FLOAT16 if halves else FLOAT32, 2, ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(columns, rows), (ctypes.c_uint64 * 1)(columns * values.itemsize),
        (ctypes.c_uint32 * 2)(SIDE, SIDE), (ctypes.c_uint32 * 2)(1, 1), 0, SWIZZLE_128B if halves else 0, 0, 0,
    )  # fmt: skip
    assert status == 0, status
    return (ctypes.c_uint8 * 128).from_buffer_copy(ctypes.string_at(at, 128))


def launch(kernel, grid, shared_bytes, values, result):
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    do(driver.cuFuncSetAttribute(kernel, attribute, shared_bytes))
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    do(
        driver.cuLaunchKernel(
            kernel, *grid, 1, THREADS, 1, 1, shared_bytes, 0, ctypes.addressof(arguments), 0
        )
    )
    address, like = result
    found = np.empty_like(like)
    do(driver.cuMemcpyDtoH(found.ctypes.data, address, found.nbytes))
    return found


def product(module, random, rows, columns, depth):
    # Small integers: the sums are exact, so that their order has no say.
    a, b = (random.integers(-4, 5, (n, depth)).astype(np.float16) for n in (rows, columns))
    c = np.full((rows, columns), np.nan, np.float32)
    at = [on_device(values) for values in (a, b, c)]
    maps = [tiles(address, values) for address, values in zip(at, (a, b, c), strict=True)]
    kernel = do(driver.cuModuleGetFunction(module, b"product"))
    shared_bytes = 3 * 3 * SIDE * SIDE * 2 + 2 * SIDE * SIDE * 4 + 1024
    found = launch(
        kernel, (columns // SIDE, rows // ROWS), shared_bytes, [*maps, ctypes.c_int(depth)], (at[2], c)
    )
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.T.astype(np.float32))


def attention(module, random, heads, length):
    q, k, v = (random.normal(size=(heads * length, SIDE)).astype(np.float16) for _ in range(3))
    out = np.full((heads * length, SIDE), np.nan, np.float32)
    at = [on_device(values) for values in (q, k, v, out)]
    maps = [tiles(address, values) for address, values in zip(at, (q, k, v), strict=False)]
    scale = 1 / np.sqrt(SIDE)
    kernel = do(driver.cuModuleGetFunction(module, b"attention"))
    found = launch(
        kernel,
        (length // ROWS, heads),
        (2 + 4) * SIDE * SIDE * 2 + 1024,
        [*maps, ctypes.c_void_p(at[3]), ctypes.c_int(length), ctypes.c_float(scale * np.log2(np.e))],
        (at[3], out),
    )
    q, k, v = (values.astype(np.float64).reshape(heads, length, SIDE) for values in (q, k, v))
    scores = np.exp(scale * (q @ k.transpose(0, 2, 1)))
    wanted = (scores / scores.sum(axis=2, keepdims=True)) @ v
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, atol=2e-3)


do(driver.cuInit(0))
do(driver.cuCtxSetCurrent(do(driver.cuDevicePrimaryCtxRetain(do(driver.cuDeviceGet(0))))))
module = compiled()
random = np.random.default_rng(1)
product(module, random, 256, 192, 320)
attention(module, random, 2, 256)
print("ok")
