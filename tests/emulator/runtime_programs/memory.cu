// Memory of every kind, filled and copied in one, two and three dimensions.
#include "check.h"

#include <cstring>
#include <vector>

__global__ void increment(int *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] += 1;
}

static void pitched() {
  const size_t width = 100, height = 7;
  unsigned char *device;
  size_t pitch;
  OK(cudaMallocPitch(&device, &pitch, width, height));
  CHECK(pitch >= width && pitch % 32 == 0);
  OK(cudaMemset2D(device, pitch, 0x5a, width, height));
  std::vector<unsigned char> in(width * height), out(width * height, 0);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<unsigned char>(i * 7);
  OK(cudaMemcpy2D(out.data(), width, device, pitch, width, height, cudaMemcpyDeviceToHost));
  for (unsigned char byte : out)
    CHECK(byte == 0x5a);
  OK(cudaMemcpy2D(device, pitch, in.data(), width, width, height, cudaMemcpyHostToDevice));
  // A rectangle out of the middle.
  std::vector<unsigned char> part(10 * 3);
  OK(cudaMemcpy2D(part.data(), 10, device + 2 * pitch + 5, pitch, 10, 3, cudaMemcpyDeviceToHost));
  for (size_t y = 0; y < 3; ++y)
    for (size_t x = 0; x < 10; ++x)
      CHECK(part[y * 10 + x] == in[(y + 2) * width + x + 5]);
  ERROR_IS(cudaMemcpy2D(out.data(), 10, device, pitch, width, height, cudaMemcpyDeviceToHost),
           cudaErrorInvalidPitchValue);
  OK(cudaMemcpy2D(nullptr, 10, nullptr, 10, 0, 5, cudaMemcpyDeviceToHost));
  OK(cudaFree(device));
}

static void boxes() {
  cudaExtent extent = make_cudaExtent(20 * sizeof(int), 5, 4);
  cudaPitchedPtr box;
  OK(cudaMalloc3D(&box, extent));
  CHECK(box.pitch >= extent.width && box.xsize == extent.width && box.ysize == 5);
  OK(cudaMemset3D(box, 0, extent));
  std::vector<int> in(20 * 5 * 4), out(20 * 5 * 4, -1);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<int>(i);
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(in.data(), 20 * sizeof(int), 20 * sizeof(int), 5);
  copy.dstPtr = box;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  cudaMemcpy3DParms back{};
  back.srcPtr = box;
  back.dstPtr = make_cudaPitchedPtr(out.data(), 20 * sizeof(int), 20 * sizeof(int), 5);
  back.srcPos = make_cudaPos(sizeof(int), 1, 2);
  back.dstPos = make_cudaPos(2 * sizeof(int), 0, 1);
  back.extent = make_cudaExtent(3 * sizeof(int), 2, 2);
  back.kind = cudaMemcpyDefault;
  OK(cudaMemcpy3DAsync(&back, nullptr));
  OK(cudaDeviceSynchronize());
  for (int z = 0; z < 4; ++z)
    for (int y = 0; y < 5; ++y)
      for (int x = 0; x < 20; ++x) {
        bool inside = z >= 1 && z < 3 && y < 2 && x >= 2 && x < 5;
        int expected = inside ? in[((z + 1) * 5 + y + 1) * 20 + x - 1] : -1;
        CHECK(out[(z * 5 + y) * 20 + x] == expected);
      }
  OK(cudaFree(box.ptr));
}

static void host_and_managed() {
  const int count = 300;
  const size_t bytes = count * sizeof(int);
  int *pinned, *mapped;
  OK(cudaMallocHost(&pinned, bytes));
  OK(cudaHostAlloc(&mapped, bytes, cudaHostAllocMapped));
  int *device_view;
  OK(cudaHostGetDevicePointer(&device_view, mapped, 0));
  unsigned flags = 0;
  OK(cudaHostGetFlags(&flags, mapped));
  CHECK(flags & cudaHostAllocMapped);
  for (int i = 0; i < count; ++i)
    mapped[i] = i;
  increment<<<3, 128>>>(device_view, count);
  OK(cudaDeviceSynchronize());
  CHECK(mapped[299] == 300);
  std::vector<int> plain(count, 4);
  OK(cudaHostRegister(plain.data(), bytes, cudaHostRegisterMapped));
  ERROR_IS(cudaHostRegister(plain.data(), bytes, cudaHostRegisterMapped),
           cudaErrorHostMemoryAlreadyRegistered);
  OK(cudaHostGetDevicePointer(&device_view, plain.data(), 0));
  increment<<<3, 128>>>(device_view, count);
  OK(cudaDeviceSynchronize());
  CHECK(plain[0] == 5);
  OK(cudaHostUnregister(plain.data()));
  ERROR_IS(cudaHostUnregister(plain.data()), cudaErrorHostMemoryNotRegistered);

  int *managed;
  OK(cudaMallocManaged(&managed, bytes));
  for (int i = 0; i < count; ++i)
    managed[i] = 10 * i;
  increment<<<3, 128>>>(managed, count);
  OK(cudaDeviceSynchronize());
  CHECK(managed[7] == 71);

  int *device;
  OK(cudaMalloc(&device, bytes));
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, device + 3));
  CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
  CHECK(attributes.devicePointer == device + 3 && attributes.hostPointer == nullptr);
  OK(cudaPointerGetAttributes(&attributes, pinned));
  CHECK(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
  OK(cudaPointerGetAttributes(&attributes, managed));
  CHECK(attributes.type == cudaMemoryTypeManaged);
  OK(cudaPointerGetAttributes(&attributes, plain.data()));
  CHECK(attributes.type == cudaMemoryTypeUnregistered && attributes.devicePointer == nullptr);

  OK(cudaMemcpy(device, managed, bytes, cudaMemcpyDefault));
  OK(cudaMemcpy(pinned, device, bytes, cudaMemcpyDefault));
  CHECK(std::memcmp(pinned, managed, bytes) == 0);
  std::vector<int> other(count);
  OK(cudaMemcpy(other.data(), pinned, bytes, cudaMemcpyHostToHost));
  CHECK(other[7] == 71);
  ERROR_IS(cudaMemcpy(other.data(), pinned, bytes, static_cast<cudaMemcpyKind>(9)),
           cudaErrorInvalidMemcpyDirection);
  ERROR_IS(cudaMemcpy(nullptr, device, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  OK(cudaMemcpy(nullptr, device, 0, cudaMemcpyDeviceToHost));
  OK(cudaFree(device));
  ERROR_IS(cudaFree(device), cudaErrorInvalidValue);
  OK(cudaFree(managed));
  OK(cudaFreeHost(pinned));
  OK(cudaFreeHost(mapped));
  OK(cudaFree(nullptr));
  OK(cudaFreeHost(nullptr));
}

static void pools() {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  int *memory;
  OK(cudaMallocAsync(&memory, 1000 * sizeof(int), stream));
  OK(cudaMemsetAsync(memory, 0, 1000 * sizeof(int), stream));
  increment<<<8, 128, 0, stream>>>(memory, 1000);
  int last = 0;
  OK(cudaMemcpyAsync(&last, memory + 999, sizeof last, cudaMemcpyDeviceToHost, stream));
  OK(cudaFreeAsync(memory, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(last == 1);
  cudaMemPool_t pool;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  OK(cudaMemPoolCreate(&pool, &properties));
  OK(cudaMallocFromPoolAsync(&memory, 64, pool, stream));
  OK(cudaFreeAsync(memory, stream));
  unsigned long long threshold = 4096;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  threshold = 0;
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  CHECK(threshold == 4096);
  OK(cudaMemPoolDestroy(pool));
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaStreamDestroy(stream));
}

static void sizes() {
  int *memory;
  OK(cudaMalloc(&memory, 0));
  CHECK(memory == nullptr);
  size_t free_bytes, total_bytes, later;
  OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  OK(cudaMalloc(&memory, 1 << 20));
  OK(cudaMemGetInfo(&later, &total_bytes));
  CHECK(free_bytes <= total_bytes && later + (1 << 20) <= free_bytes);
  OK(cudaFree(memory));
  ERROR_IS(cudaMalloc(&memory, total_bytes * 2), cudaErrorMemoryAllocation);
  ERROR_IS(cudaGetLastError(), cudaErrorMemoryAllocation);
  ERROR_IS(cudaMalloc(static_cast<int **>(nullptr), 4), cudaErrorInvalidValue);
}

int main() {
  pitched();
  boxes();
  host_and_managed();
  pools();
  sizes();
  std::puts("ok");
}
