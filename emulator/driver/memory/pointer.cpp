// What the driver knows about a pointer.
#include "allocations.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "virtual/reservations.hpp"
#include "virtual/virtual_memory.hpp"

using namespace emulator::driver;

namespace {

template <typename T> void put(void *data, T value) { *static_cast<T *>(data) = value; }

// False when the attribute does not apply to the pointer; unknown attributes throw.
bool get(void *data, CUpointer_attribute attribute, CUdeviceptr pointer, const Context *current) {
  auto found = allocations().find(pointer);
  bool known = found && found->kind != MemoryKind::heap && !found->freeing;
  const Allocation *allocation = known ? found.get() : nullptr;
  auto [reserved_base, reserved_bytes] = reservation_of(pointer);
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    put<CUcontext>(data, handle_of<CUcontext>(allocation ? allocation->context : nullptr));
    return allocation && allocation->context;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    put<unsigned>(data, !allocation             ? 0u
                        : allocation->is_host() ? unsigned{CU_MEMORYTYPE_HOST}
                                                : unsigned{CU_MEMORYTYPE_DEVICE});
    return allocation;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    put<CUdeviceptr>(data, allocation ? pointer : 0);
    return allocation;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER: {
    bool reachable = allocation && (allocation->is_host() || allocation->kind == MemoryKind::managed);
    put<void *>(data, reachable ? reinterpret_cast<void *>(pointer) : nullptr);
    return reachable;
  }
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    put<int>(data, allocation && allocation->sync_memops);
    return allocation;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    put<unsigned long long>(data, allocation ? allocation->identifier : 0);
    return allocation;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    put<int>(data, allocation && allocation->kind == MemoryKind::managed);
    return allocation;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
    const Device *device = !allocation           ? nullptr
                           : allocation->device  ? allocation->device
                           : allocation->context ? &allocation->context->device
                                                 : nullptr;
    put<int>(data, device ? device->ordinal : -2); // -2 is what the documentation gives for "none"
    return allocation;
  }
  // Documented: the range is what cuMemAddressReserve gave, mapped or not; the mapping is what lies in it.
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    put<CUdeviceptr>(data, reserved_bytes ? reserved_base : allocation ? allocation->base : 0);
    return allocation || reserved_bytes;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    put<size_t>(data, reserved_bytes ? reserved_bytes : allocation ? allocation->bytes : 0);
    return allocation || reserved_bytes;
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    put<CUdeviceptr>(data, allocation ? allocation->base : 0);
    return allocation;
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    put<size_t>(data, allocation ? allocation->bytes : 0);
    return allocation;
  case CU_POINTER_ATTRIBUTE_MAPPED:
    put<int>(data, allocation != nullptr);
    return true;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    put<int>(data, allocation && allocation->kind == MemoryKind::device && !allocation->pool);
    return allocation;
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    put<int>(data, 0);
    return allocation;
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    put<unsigned long long>(
        data, allocation && allocation->physical ? allocation->physical->properties.requestedHandleTypes : 0);
    return allocation;
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
    unsigned long long flags = 0;
    if (allocation && current)
      flags = may_touch(*current, *allocation, true)    ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
              : may_touch(*current, *allocation, false) ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                                        : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    put<unsigned long long>(data, flags);
    return allocation;
  }
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    put<CUmemoryPool>(data, handle_of<CUmemoryPool>(allocation ? allocation->pool.get() : nullptr));
    return allocation && allocation->pool;
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    put<unsigned long long>(data, !allocation ? 0
                                  : allocation->physical
                                      ? reinterpret_cast<uint64_t>(allocation->physical.get())
                                      : allocation->identifier);
    return allocation;
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

} // namespace

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return enter("cuPointerGetAttribute", Needs::initialised, [&](Call &) {
    require(data != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(get(data, attribute, ptr, current_context()), CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                        void **data, CUdeviceptr ptr) {
  return enter("cuPointerGetAttributes", Needs::initialised, [&](Call &) {
    require(numAttributes > 0 && attributes != nullptr && data != nullptr, CUDA_ERROR_INVALID_VALUE);
    // Unlike the single form, a pointer that the driver does not know gives empty values and success.
    for (unsigned i = 0; i < numAttributes; ++i) {
      require(data[i] != nullptr, CUDA_ERROR_INVALID_VALUE);
      get(data[i], attributes[i], ptr, current_context());
    }
  });
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return enter("cuPointerSetAttribute", Needs::initialised, [&](Call &) {
    require(value != nullptr && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
    auto allocation = allocations().find(ptr);
    require(allocation != nullptr, CUDA_ERROR_INVALID_VALUE);
    // NVIDIA's driver was seen to refuse it for such memory; cuCtxSetFlags(CU_CTX_SYNC_MEMOPS) is for that.
    require(allocation->kind != MemoryKind::mapped, CUDA_ERROR_NOT_SUPPORTED);
    allocation->sync_memops = *static_cast<const unsigned *>(value) != 0;
  });
}
