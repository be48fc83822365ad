# covers: cuda.bindings: memory, modules, streams and errors of the driver, called from several Python threads
# needs: cuda.bindings nvidia-cuda-nvrtc
import threading

import numpy as np
from cuda.bindings import driver, nvrtc

SOURCE = b"""extern "C" __global__ void step(int* data, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < count) data[i] = data[i] * 3 + i; }"""


def ok(answer):
    assert int(answer[0]) == 0, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]


program = ok(nvrtc.nvrtcCreateProgram(SOURCE, b"step.cu", 0, None, None))
ok(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_75"]))
ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
ok(nvrtc.nvrtcGetPTX(program, ptx))

ok(driver.cuInit(0))
device = ok(driver.cuDeviceGet(0))
context = ok(driver.cuDevicePrimaryCtxRetain(device))
ok(driver.cuCtxSetCurrent(context))
kernel = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(ptx)), b"step"))
failures = []


def work(seed):
    try:
        ok(driver.cuCtxSetCurrent(context))
        stream = ok(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        values = np.random.default_rng(seed).integers(0, 100, 2000).astype(np.int32)
        pointer = ok(driver.cuMemAllocAsync(values.nbytes, stream))
        ok(driver.cuMemcpyHtoDAsync(pointer, values.ctypes.data, values.nbytes, stream))
        arguments = np.array([int(pointer)], np.uint64), np.array([2000], np.int32)
        addresses = np.array([argument.ctypes.data for argument in arguments], np.uint64)
        expected = values.astype(np.int64)
        for _ in range(10):
            ok(driver.cuLaunchKernel(kernel, 16, 1, 1, 128, 1, 1, 0, stream, addresses.ctypes.data, 0))
            expected = expected * 3 + np.arange(2000)
        result = np.empty_like(values)
        ok(driver.cuMemcpyDtoHAsync(result.ctypes.data, pointer, values.nbytes, stream))
        ok(driver.cuMemFreeAsync(pointer, stream))
        ok(driver.cuStreamSynchronize(stream))
        np.testing.assert_array_equal(result, expected.astype(np.int32))
        ok(driver.cuStreamDestroy(stream))
    except AssertionError as error:
        failures.append(error)


threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures[0]

error, _ = driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(ptx)), b"nothing")
assert error == driver.CUresult.CUDA_ERROR_NOT_FOUND
assert driver.cuMemAlloc(1 << 50)[0] == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
print("ok")
