// Memory pools.
#include "core/entry.hpp"
#include "core/same.hpp"

using namespace emulator::runtime;

// clang-format off
FORWARD(cudaMemPoolCreate, (cudaMemPool_t *memPool, const cudaMemPoolProps *poolProps),
        cuMemPoolCreate, (memPool, same(poolProps)))
FORWARD(cudaMemPoolDestroy, (cudaMemPool_t memPool), cuMemPoolDestroy, (memPool))
FORWARD(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep), cuMemPoolTrimTo, (memPool, minBytesToKeep))
FORWARD(cudaMemPoolSetAttribute, (cudaMemPool_t memPool, cudaMemPoolAttr attr, void *value),
        cuMemPoolSetAttribute, (memPool, static_cast<CUmemPool_attribute>(attr), value))
FORWARD(cudaMemPoolGetAttribute, (cudaMemPool_t memPool, cudaMemPoolAttr attr, void *value),
        cuMemPoolGetAttribute, (memPool, static_cast<CUmemPool_attribute>(attr), value))
FORWARD(cudaMemPoolSetAccess, (cudaMemPool_t memPool, const cudaMemAccessDesc *descList, size_t count),
        cuMemPoolSetAccess, (memPool, same(descList), count))
FORWARD(cudaMemPoolGetAccess, (cudaMemAccessFlags *flags, cudaMemPool_t memPool, cudaMemLocation *location),
        cuMemPoolGetAccess, (same(flags), memPool, same(location)))
FORWARD(cudaMemPoolExportToShareableHandle,
        (void *shareableHandle, cudaMemPool_t memPool, cudaMemAllocationHandleType handleType, unsigned int flags),
        cuMemPoolExportToShareableHandle,
        (shareableHandle, memPool, static_cast<CUmemAllocationHandleType>(handleType), flags))
FORWARD(cudaMemPoolImportFromShareableHandle,
        (cudaMemPool_t *memPool, void *shareableHandle, cudaMemAllocationHandleType handleType, unsigned int flags),
        cuMemPoolImportFromShareableHandle,
        (memPool, shareableHandle, static_cast<CUmemAllocationHandleType>(handleType), flags))
FORWARD(cudaMemPoolExportPointer, (cudaMemPoolPtrExportData *exportData, void *ptr),
        cuMemPoolExportPointer, (same(exportData), device_pointer(ptr)))
FORWARD(cudaMemPoolImportPointer, (void **ptr, cudaMemPool_t memPool, cudaMemPoolPtrExportData *exportData),
        cuMemPoolImportPointer, (device_pointer(ptr), memPool, same(exportData)))
FORWARD(cudaDeviceGetDefaultMemPool, (cudaMemPool_t *memPool, int device),
        cuDeviceGetDefaultMemPool, (memPool, device_of(device)))
FORWARD(cudaDeviceGetMemPool, (cudaMemPool_t *memPool, int device), cuDeviceGetMemPool, (memPool, device_of(device)))
FORWARD(cudaDeviceSetMemPool, (int device, cudaMemPool_t memPool), cuDeviceSetMemPool, (device_of(device), memPool))

#if CUDART_VERSION >= 13000
FORWARD(cudaMemGetDefaultMemPool, (cudaMemPool_t *memPool, cudaMemLocation *location, cudaMemAllocationType type),
        cuMemGetDefaultMemPool, (memPool, same(location), static_cast<CUmemAllocationType>(type)))
FORWARD(cudaMemGetMemPool, (cudaMemPool_t *memPool, cudaMemLocation *location, cudaMemAllocationType type),
        cuMemGetMemPool, (memPool, same(location), static_cast<CUmemAllocationType>(type)))
FORWARD(cudaMemSetMemPool, (cudaMemLocation *location, cudaMemAllocationType type, cudaMemPool_t memPool),
        cuMemSetMemPool, (same(location), static_cast<CUmemAllocationType>(type), memPool))
#endif
