// Page-locked host memory: allocated by the driver, or the application's own, registered.
#include "described.hpp"
#include "entry/entry.hpp"
#include "stream/scheduler.hpp"

#include <sys/mman.h>
#include <unistd.h>

using namespace emulator::driver;

namespace {

constexpr unsigned host_alloc_flags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned register_flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

uint64_t address_of(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

void *allocate(Context &context, size_t bytes, unsigned flags) {
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  return reinterpret_cast<void *>(allocate_host(context, bytes, flags)->base);
}

} // namespace

bool emulator::driver::is_mapped(uint64_t address, uint64_t bytes) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes == 0 || address + bytes < address || address + bytes > UINT64_MAX - page)
    return false;
  uint64_t begin = address / page * page, end = (address + bytes + page - 1) / page * page;
  // It writes nothing and asks nothing of the pages, as mincore does: Linux only looks for gaps between
  // mappings.
  return msync(reinterpret_cast<void *>(begin), end - begin, MS_ASYNC) == 0;
}

CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t bytesize) {
  return enter("cuMemAllocHost_v2", Needs::healthy, [&](Call &call) {
    require(pp != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pp = allocate(*call.context, bytesize, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
  });
}

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
  return enter("cuMemHostAlloc", Needs::healthy, [&](Call &call) {
    require(pp != nullptr && (Flags & ~host_alloc_flags) == 0, CUDA_ERROR_INVALID_VALUE);
    *pp = allocate(*call.context, bytesize, Flags);
  });
}

CUresult CUDAAPI cuMemFreeHost(void *p) {
  return enter("cuMemFreeHost", Needs::healthy, [&](Call &call) {
    if (p == nullptr)
      return;
    auto allocation = allocations().find(address_of(p));
    require_free(allocation && allocation->kind == MemoryKind::host && allocation->base == address_of(p),
                 address_of(p));
    drain(call.lock, *allocation->context);
    drain(call.lock, *call.context);
    // While this thread waited, another may have freed it too.
    require(allocations().find(address_of(p)) == allocation, CUDA_ERROR_INVALID_VALUE);
    release(allocation);
  });
}

CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
  return enter("cuMemHostRegister_v2", Needs::healthy, [&](Call &call) {
    require(p != nullptr && bytesize > 0 && (Flags & ~register_flags) == 0, CUDA_ERROR_INVALID_VALUE);
    require(address_of(p) + bytesize > address_of(p), CUDA_ERROR_INVALID_VALUE);
    require(!allocations().overlaps(address_of(p), bytesize), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    require(is_mapped(address_of(p), bytesize), CUDA_ERROR_INVALID_VALUE);
    auto allocation = std::make_shared<Allocation>();
    allocation->base = address_of(p);
    allocation->bytes = bytesize;
    allocation->kind = MemoryKind::registered;
    allocation->context = call.context;
    allocation->flags = Flags;
    allocation->everywhere = true;
    if (Flags & CU_MEMHOSTREGISTER_READ_ONLY)
      allocation->writable = 0;
    allocations().insert(allocation);
  });
}

CUresult CUDAAPI cuMemHostUnregister(void *p) {
  return enter("cuMemHostUnregister", Needs::healthy, [&](Call &call) {
    require(p != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto allocation = allocations().find(address_of(p));
    require(allocation && allocation->kind == MemoryKind::registered && allocation->base == address_of(p),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    drain(call.lock, *allocation->context);
    drain(call.lock, *call.context);
    // While this thread waited, another may have freed it too.
    require(allocations().find(address_of(p)) == allocation, CUDA_ERROR_INVALID_VALUE);
    release(allocation);
  });
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
  return enter("cuMemHostGetDevicePointer_v2", Needs::healthy, [&](Call &) {
    require(pdptr != nullptr && p != nullptr && Flags == 0, CUDA_ERROR_INVALID_VALUE);
    auto allocation = allocations().find(address_of(p));
    require(allocation && (allocation->is_host() || allocation->kind == MemoryKind::managed),
            CUDA_ERROR_INVALID_VALUE);
    *pdptr = address_of(p);
  });
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p) {
  return enter("cuMemHostGetFlags", Needs::healthy, [&](Call &) {
    require(pFlags != nullptr && p != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto allocation = allocations().find(address_of(p));
    require(allocation && allocation->kind == MemoryKind::host, CUDA_ERROR_INVALID_VALUE);
    // Unified addressing maps every such buffer, as on the real driver.
    *pFlags = allocation->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  });
}
