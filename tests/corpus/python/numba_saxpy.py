# covers: numba-cuda: a kernel over slices and strides of two dimensions, device functions, several types, streams.
# needs: numba_cuda numpy
import numpy as np
from numba import cuda


@cuda.jit(device=True)
def clamp(value, low, high):
    return min(max(value, low), high)


@cuda.jit
def saxpy(a, x, y):
    row, column = cuda.grid(2)
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = clamp(a * x[row, column] + y[row, column], -1000, 1000)


stream = cuda.stream()
for dtype in (np.float32, np.float64, np.int32, np.int64):
    x = np.arange(60 * 70).reshape(60, 70).astype(dtype)
    y = (x.T.copy().T % 100).astype(dtype)
    on_device = cuda.to_device(y, stream=stream)
    saxpy[(8, 5), (8, 16), stream](dtype(-2), cuda.to_device(x, stream=stream), on_device)
    got = on_device.copy_to_host(stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(got, np.clip(-2 * x + y, -1000, 1000))

whole = np.zeros(100, np.float32)
device_whole = cuda.to_device(whole.reshape(10, 10))
saxpy[(1, 1), (16, 16)](np.float32(1), cuda.to_device(np.ones((10, 5), np.float32)), device_whole[:, ::2])
expected = np.zeros((10, 10), np.float32)
expected[:, ::2] = 1
np.testing.assert_array_equal(device_whole.copy_to_host(), expected)
print("ok")
