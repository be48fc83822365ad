// covers: Pinned host memory: mapped pointers that kernels use, flags, attributes, asynchronous copies.
#include "../check.cuh"

__global__ void square(const int *in, int *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    out[i] = in[i] * in[i];
}

int main() {
  const int count = 5000;
  const size_t bytes = count * sizeof(int);
  CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
  int *pinned = nullptr, *mapped = nullptr, *view = nullptr;
  CHECK(cudaMallocHost(&pinned, bytes));
  CHECK(cudaHostAlloc(&mapped, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  CHECK(cudaHostGetDevicePointer(&view, mapped, 0));
  unsigned flags = 0;
  CHECK(cudaHostGetFlags(&flags, mapped));
  REQUIRE((flags & (cudaHostAllocMapped | cudaHostAllocPortable)) ==
          (cudaHostAllocMapped | cudaHostAllocPortable));
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, pinned + 1));
  REQUIRE(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned + 1);
  int local = 0;
  CHECK(cudaPointerGetAttributes(&attributes, &local));
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);

  auto values = random_values<short>(count);
  std::vector<int> squares(count);
  for (int i = 0; i < count; i++) {
    pinned[i] = values[i];
    squares[i] = values[i] * values[i];
  }
  Buffer<int> data(count);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMemcpyAsync(data, pinned, bytes, cudaMemcpyHostToDevice, stream));
  square<<<20, 256, 0, stream>>>(data, view, count);
  CHECK(cudaStreamSynchronize(stream));
  equal("written by the kernel", mapped, squares.data(), count);

  for (int i = 0; i < count; i++)
    mapped[i] = values[count - 1 - i];
  square<<<20, 256, 0, stream>>>(view, data, count);
  CHECK(cudaMemcpyAsync(pinned, data, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (int i = 0; i < count; i++)
    REQUIRE(pinned[i] == squares[count - 1 - i]);

  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFreeHost(mapped));
  EXPECT(cudaFreeHost(&local), cudaErrorInvalidValue);
  EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
  CHECK(cudaStreamDestroy(stream));
  return ok();
}
