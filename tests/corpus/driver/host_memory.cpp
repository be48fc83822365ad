// covers: Host memory that kernels reach: pinned, write-combined, registered where it lies, managed; their
// attributes and addresses, asynchronous copies, rows and boxes.
#include "check.hpp"

static unsigned memory_type(const void *host) {
  unsigned type = 0;
  CUresult result = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(host));
  return result == CUDA_SUCCESS ? type : 0;
}

int main() {
  Primary primary;
  CUfunction kernel = function(load(AXPB), "axpb");
  const uint32_t count = 1024;
  auto run = [&](CUdeviceptr x) {
    return launch(kernel, 4, 256, nullptr, x, uint32_t(3), uint32_t(4), count);
  };
  const auto expected = axpb(counting(count), 3, 4);
  auto check = [&](const char *what, const uint32_t *x) { equal(what, {x, x + count}, expected); };

  void *pinned, *mapped;
  CHECK(cuMemAllocHost(&pinned, count * 4));
  CHECK(cuMemHostAlloc(&mapped, count * 4, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED));
  unsigned flags = 0;
  CHECK(cuMemHostGetFlags(&flags, mapped));
  REQUIRE(flags & CU_MEMHOSTALLOC_WRITECOMBINED);
  REQUIRE(memory_type(pinned) == CU_MEMORYTYPE_HOST && memory_type(&flags) == 0);
  for (void *host : {pinned, mapped}) {
    auto *x = static_cast<uint32_t *>(host);
    std::iota(x, x + count, 0);
    CUdeviceptr address;
    CHECK(cuMemHostGetDevicePointer(&address, host, 0));
    CHECK(run(address));
    CHECK(cuCtxSynchronize());
    check("pinned", x);
  }

  const size_t page = 4096;
  void *raw = std::aligned_alloc(page, page);
  auto *own = static_cast<uint32_t *>(raw);
  std::iota(own, own + count, 0);
  CHECK(cuMemHostRegister(own, page, CU_MEMHOSTREGISTER_DEVICEMAP));
  EXPECT(cuMemHostRegister(own, page, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CUdeviceptr address;
  CHECK(cuMemHostGetDevicePointer(&address, own, 0));
  CHECK(run(address));
  CHECK(cuCtxSynchronize());
  check("registered", own);
  CHECK(cuMemHostUnregister(own));
  EXPECT(cuMemHostUnregister(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  std::free(raw);

  CHECK(cuMemAllocManaged(&address, count * 4, CU_MEM_ATTACH_GLOBAL));
  auto *both = reinterpret_cast<uint32_t *>(address);
  std::iota(both, both + count, 0);
  CHECK(run(address));
  CHECK(cuCtxSynchronize());
  check("managed", both);
  CHECK(cuMemFree(address));

  // A 20 x 8 rectangle out of rows of 32 words, through a pitched allocation.
  CUdeviceptr pitched;
  size_t pitch;
  CHECK(cuMemAllocPitch(&pitched, &pitch, 20 * 4, 8, 4));
  REQUIRE(pitch >= 80 && pitch % 4 == 0);
  auto *source = static_cast<uint32_t *>(pinned);
  CUDA_MEMCPY2D rows = {};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = source;
  rows.srcPitch = 32 * 4;
  rows.srcXInBytes = 5 * 4;
  rows.srcY = 2;
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = pitched;
  rows.dstPitch = pitch;
  rows.WidthInBytes = 20 * 4;
  rows.Height = 8;
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemcpy2DAsync(&rows, stream));
  CHECK(cuStreamSynchronize(stream));
  for (unsigned y = 0; y < 8; y++)
    equal("row", words(pitched + y * pitch, 20), {source + (y + 2) * 32 + 5, source + (y + 2) * 32 + 25});
  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemFree(pitched));
  CHECK(cuMemFreeHost(pinned));
  CHECK(cuMemFreeHost(mapped));
  return ok();
}
