// covers: A sum by shared memory inside blocks, warp shuffles at the end, and a second launch over the
// blocks' results.
#include "../check.cuh"

template <class T> __global__ void reduce(const T *in, T *out, int count) {
  __shared__ T partial[256];
  T sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    sum += in[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int width = 128; width >= 32; width /= 2) {
    if (threadIdx.x < width)
      partial[threadIdx.x] += partial[threadIdx.x + width];
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    sum = partial[threadIdx.x];
    for (int offset = 16; offset; offset /= 2)
      sum += __shfl_down_sync(~0u, sum, offset);
    if (threadIdx.x == 0)
      out[blockIdx.x] = sum;
  }
}

template <class T> void test(const char *name, int count) {
  std::vector<T> values(count);
  T expected = 0;
  for (int i = 0; i < count; i++)
    values[i] = (T)(i % 251 - 125), expected += values[i];
  Buffer<T> in(values), blocks(37), out(1);
  reduce<<<37, 256>>>(in.data, blocks.data, count);
  reduce<<<1, 256>>>(blocks.data, out.data, 37);
  equal(name, out.host(), {expected});
}

int main() {
  for (int count : {1, 31, 257, 100003}) {
    test<int>("int", count), test<long long>("long long", count);
    test<float>("float", count), test<double>("double", count);
  }
  return ok();
}
