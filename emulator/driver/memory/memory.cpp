// Linear device memory and managed memory.
#include "allocations.hpp"
#include "device/context.hpp"
#include "device/device.hpp"
#include "heap.hpp"
#include "pool.hpp"
#include "stream/scheduler.hpp"

#include <algorithm>

using namespace emulator::driver;

namespace {

constexpr uint64_t pitch_alignment = 512;

} // namespace

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
  return enter("cuMemAlloc_v2", Needs::healthy, [&](Call &call) {
    require(dptr != nullptr && bytesize > 0, CUDA_ERROR_INVALID_VALUE);
    *dptr = allocate_device(*call.context, bytesize, MemoryKind::device)->base;
  });
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                    unsigned int ElementSizeBytes) {
  return enter("cuMemAllocPitch_v2", Needs::healthy, [&](Call &call) {
    require(dptr != nullptr && pPitch != nullptr && WidthInBytes > 0 && Height > 0, CUDA_ERROR_INVALID_VALUE);
    require(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16,
            CUDA_ERROR_INVALID_VALUE);
    uint64_t pitch = round_up(WidthInBytes, pitch_alignment);
    uint64_t bytes = 0;
    require(pitch >= WidthInBytes && !__builtin_mul_overflow(pitch, Height, &bytes),
            CUDA_ERROR_OUT_OF_MEMORY);
    *dptr = allocate_device(*call.context, bytes, MemoryKind::device)->base;
    *pPitch = pitch;
  });
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
  return enter("cuMemAllocManaged", Needs::healthy, [&](Call &call) {
    require(dptr != nullptr && bytesize > 0, CUDA_ERROR_INVALID_VALUE);
    require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST, CUDA_ERROR_INVALID_VALUE);
    *dptr = allocate_device(*call.context, bytesize, MemoryKind::managed, flags)->base;
  });
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr) {
  return enter("cuMemFree_v2", Needs::healthy, [&](Call &call) {
    if (dptr == 0)
      return; // accepted by the real driver, though undocumented
    auto allocation = driver().allocations->find(dptr);
    require(allocation && allocation->base == dptr, CUDA_ERROR_INVALID_VALUE);
    require(allocation->kind == MemoryKind::device || allocation->kind == MemoryKind::managed,
            CUDA_ERROR_INVALID_VALUE);
    Context &owner = *allocation->context;
    drain(call.lock, owner); // work may still use it
    if (&owner != call.context)
      drain(call.lock, *call.context);
    // While this thread waited, another may have freed it too.
    require(driver().allocations->find(dptr) == allocation, CUDA_ERROR_INVALID_VALUE);
    if (allocation->pool)
      allocation->pool->used_bytes -= allocation->footprint;
    release(allocation);
    require(call.context->error == CUDA_SUCCESS, call.context->error);
  });
}

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free, size_t *total) {
  return enter("cuMemGetInfo_v2", Needs::healthy, [&](Call &call) {
    require(free != nullptr && total != nullptr, CUDA_ERROR_INVALID_VALUE);
    *total = call.context->device.total_bytes;
    *free = call.context->device.total_bytes - call.context->device.used_bytes;
  });
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
  return enter("cuMemGetAddressRange_v2", Needs::healthy, [&](Call &) {
    auto allocation = driver().allocations->find(dptr);
    require(allocation != nullptr, CUDA_ERROR_NOT_FOUND);
    if (pbase)
      *pbase = allocation->base;
    if (psize)
      *psize = allocation->bytes;
  });
}

// Managed memory is plain memory here: hints are validated, remembered by nobody and without effect.
static void require_managed_range(CUdeviceptr address, size_t bytes) {
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  auto allocation = driver().allocations->find(address);
  require(allocation && allocation->kind == MemoryKind::managed && bytes <= allocation->end() - address,
          CUDA_ERROR_INVALID_VALUE);
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise, CUdevice) {
  return enter("cuMemAdvise", Needs::healthy, [&](Call &) { require_managed_range(devPtr, count); });
}

CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise, CUmemLocation) {
  return enter("cuMemAdvise_v2", Needs::healthy, [&](Call &) { require_managed_range(devPtr, count); });
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice, CUstream hStream) {
  return enter("cuMemPrefetchAsync", Needs::healthy, [&](Call &call) {
    require_managed_range(devPtr, count);
    stream_of(*call.context, hStream);
  });
}

CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation, unsigned int flags,
                                       CUstream hStream) {
  return enter("cuMemPrefetchAsync_v2", Needs::healthy, [&](Call &call) {
    require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    require_managed_range(devPtr, count);
    stream_of(*call.context, hStream);
  });
}

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                        unsigned int flags) {
  return enter("cuStreamAttachMemAsync", Needs::healthy, [&](Call &call) {
    require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE,
            CUDA_ERROR_INVALID_VALUE);
    stream_of(*call.context, hStream);
    require_managed_range(dptr, std::max<size_t>(length, 1));
  });
}

namespace {

void get_range_attribute(void *data, size_t bytes, CUmem_range_attribute attribute) {
  require(data != nullptr && bytes > 0 && bytes % sizeof(int) == 0, CUDA_ERROR_INVALID_VALUE);
  auto *values = static_cast<int *>(data);
  switch (attribute) {
  case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
    values[0] = 0;
    return;
  case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
  case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
  case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
    std::fill_n(values, bytes / sizeof(int), static_cast<int>(CU_DEVICE_INVALID)); // none is remembered
    return;
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

} // namespace

CUresult CUDAAPI cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                        CUdeviceptr devPtr, size_t count) {
  return enter("cuMemRangeGetAttribute", Needs::healthy, [&](Call &) {
    require_managed_range(devPtr, count);
    get_range_attribute(data, dataSize, attribute);
  });
}

CUresult CUDAAPI cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                         size_t numAttributes, CUdeviceptr devPtr, size_t count) {
  return enter("cuMemRangeGetAttributes", Needs::healthy, [&](Call &) {
    require(data && dataSizes && attributes && numAttributes > 0, CUDA_ERROR_INVALID_VALUE);
    require_managed_range(devPtr, count);
    for (size_t i = 0; i < numAttributes; ++i)
      get_range_attribute(data[i], dataSizes[i], attributes[i]);
  });
}
