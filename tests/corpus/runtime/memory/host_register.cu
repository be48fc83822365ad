// covers: cudaHostRegister: memory of the program's own, read and written by kernels, and what is refused.
#include "../check.cuh"

#include <sys/mman.h>

__global__ void rotate(const unsigned *in, unsigned *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    out[(i + 17) % count] = __funnelshift_l(in[i], in[i], 5);
}

int main() {
  const int count = 4096;
  const size_t bytes = count * sizeof(unsigned);
  auto *pages = static_cast<unsigned *>(
      mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  auto values = random_values<unsigned>(count);
  std::memcpy(pages, values.data(), bytes);

  CHECK(cudaHostRegister(pages, 2 * bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
  EXPECT(cudaHostRegister(pages, bytes, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT(cudaGetLastError(), cudaErrorHostMemoryAlreadyRegistered);
  unsigned *view = nullptr;
  CHECK(cudaHostGetDevicePointer(&view, pages, 0));
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, pages + 100));
  REQUIRE(attributes.type == cudaMemoryTypeHost && attributes.devicePointer == view + 100);

  rotate<<<16, 256>>>(view, view + count, count);
  CHECK(cudaDeviceSynchronize());
  std::vector<unsigned> expected(count);
  for (int i = 0; i < count; i++)
    expected[(i + 17) % count] = values[i] << 5 | values[i] >> 27;
  equal("rotated", pages + count, expected.data(), count);

  Buffer<unsigned> data(count);
  CHECK(cudaMemcpyAsync(data, pages + count, bytes, cudaMemcpyHostToDevice));
  rotate<<<16, 256>>>(data, view, count);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < count; i++)
    REQUIRE(pages[(i + 17) % count] == (expected[i] << 5 | expected[i] >> 27));

  CHECK(cudaHostUnregister(pages));
  EXPECT(cudaHostUnregister(pages), cudaErrorHostMemoryNotRegistered);
  EXPECT(cudaGetLastError(), cudaErrorHostMemoryNotRegistered);
  CHECK(cudaPointerGetAttributes(&attributes, pages));
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(cudaHostRegister(pages, bytes, cudaHostRegisterDefault));
  CHECK(cudaHostUnregister(pages));
  REQUIRE(munmap(pages, 2 * bytes) == 0);
  return ok();
}
