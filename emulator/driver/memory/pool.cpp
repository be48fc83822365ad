#include "pool.hpp"

#include "described.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "stream/recorder.hpp"

#include <algorithm>

using namespace emulator::driver;

namespace emulator::driver {

void MemoryPool::take(uint64_t bytes) {
  uint64_t needed = used_bytes + bytes;
#if CUDA_VERSION >= 12020
  require(properties.maxSize == 0 || needed <= properties.maxSize, CUDA_ERROR_OUT_OF_MEMORY);
#endif
  if (needed > reserved_bytes) {
    if (device)
      device->take(needed - reserved_bytes);
    reserved_bytes = needed;
  }
  used_bytes = needed;
  used_high_bytes = std::max(used_high_bytes, used_bytes);
  reserved_high_bytes = std::max(reserved_high_bytes, reserved_bytes);
}

void MemoryPool::give_back(uint64_t bytes) {
  used_bytes -= bytes;
  if (destroyed)
    trim(0);
}

void MemoryPool::trim(uint64_t keep_bytes) {
  uint64_t target = std::max(used_bytes, keep_bytes);
  if (reserved_bytes <= target)
    return;
  if (device)
    device->give_back(reserved_bytes - target);
  reserved_bytes = target;
}

std::shared_ptr<MemoryPool> new_pool(Device *device, const CUmemPoolProps &properties) {
  auto pool = std::make_shared<MemoryPool>();
  pool->device = device;
  pool->properties = properties;
  if (device) {
    pool->readable = pool->writable = 1u << device->ordinal;
    device->after_wait = settle_pools;
  }
  driver().pools.add(pool);
  return pool;
}

void settle_pools(Device &device) {
  driver().pools.for_each([&](const std::shared_ptr<MemoryPool> &pool) {
    if (pool->device == &device)
      pool->trim(pool->release_threshold_bytes);
  });
}

void empty_pools(Device &device) {
  driver().pools.for_each([&](const std::shared_ptr<MemoryPool> &pool) {
    if (pool->device == &device)
      pool->trim(0);
  });
}

} // namespace emulator::driver

namespace {

std::shared_ptr<MemoryPool> default_pool(Device &device) {
  if (!device.default_pool) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device.ordinal;
    device.default_pool = new_pool(&device, properties);
    device.default_pool->is_default = true;
  }
  return device.default_pool;
}

std::shared_ptr<MemoryPool> current_pool(Device &device) {
  return device.current_pool ? device.current_pool : default_pool(device);
}

// The address is known at the call; the memory may be used by work that follows in the stream. Taking it at
// once is stricter than a GPU only in how soon it runs out.
CUdeviceptr allocate(Context &context, const std::shared_ptr<MemoryPool> &pool, size_t bytes) {
  require(bytes > 0, CUDA_ERROR_INVALID_VALUE);
  return allocate_from_pool(context, pool, bytes)->base;
}

bool access_flags_are_known(CUmemAccess_flags flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
         flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

// A recorded stream has memory of the recording's own.
CUdeviceptr allocate_in(Stream &stream, const std::shared_ptr<MemoryPool> &pool, size_t bytes) {
  if (Recorder *recorder = recorder_of(stream)) {
    require(pool->device == &stream.context->device, CUDA_ERROR_INVALID_VALUE);
    return recorder->allocate(stream, bytes);
  }
  refuse_recorded(stream);
  return allocate(*stream.context, pool, bytes);
}

} // namespace

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
  return enter("cuMemAllocAsync", Needs::healthy, hStream, [&](Call &call) {
    require(dptr != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    Context &context = *stream->context;
    *dptr = allocate_in(*stream, current_pool(context.device), bytesize);
  });
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                         CUstream hStream) {
  return enter("cuMemAllocFromPoolAsync", Needs::healthy, hStream, [&](Call &call) {
    require(dptr != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    *dptr = allocate_in(*stream, driver().pools.get(pool, CUDA_ERROR_INVALID_VALUE), bytesize);
  });
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  return enter("cuMemFreeAsync", Needs::healthy, hStream, [&](Call &call) {
    auto stream = stream_of(*call.context, hStream);
    auto allocation = allocations().find(dptr);
    require_free(allocation && allocation->base == dptr && !allocation->freeing &&
                     (allocation->kind == MemoryKind::device || allocation->pool),
                 dptr);
    if (Recorder *recorder = recorder_of(*stream))
      return recorder->free(*stream, dptr);
    refuse_recorded(*stream);
    if (allocation->kept) {
      allocation->kept->issue_free();
      issue(call.lock, stream, [memory = allocation->kept->shared_from_this()]() -> Outcome {
        Lock lock(driver().mutex);
        memory->end();
        return {};
      });
      return;
    }
    issue(call.lock, stream, [allocation]() -> Outcome {
      Lock lock(driver().mutex);
      if (allocations().find(allocation->base) == allocation)
        release(allocation);
      return {};
    });
    // Documented: no later work may use it. Earlier work of the stream still does.
    allocation->freeing = true;
  });
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
  return enter("cuDeviceGetDefaultMemPool", Needs::initialised, [&](Call &) {
    require(pool_out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pool_out = handle_of<CUmemoryPool>(default_pool(device_of(dev)).get());
  });
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
  return enter("cuDeviceGetMemPool", Needs::initialised, [&](Call &) {
    require(pool != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pool = handle_of<CUmemoryPool>(current_pool(device_of(dev)).get());
  });
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  return enter("cuDeviceSetMemPool", Needs::initialised, [&](Call &) {
    auto wanted = driver().pools.get(pool, CUDA_ERROR_INVALID_VALUE);
    require(wanted->device == &device_of(dev), CUDA_ERROR_INVALID_VALUE);
    device_of(dev).current_pool = wanted;
  });
}

// The forms of CUDA 13 name a place and a kind of memory instead of a device. Pools exist for devices only.
static Device &pool_device(const CUmemLocation *location, CUmemAllocationType type) {
  require(location != nullptr, CUDA_ERROR_INVALID_VALUE);
  require(location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED,
          CUDA_ERROR_NOT_SUPPORTED);
  return device_of(location->id);
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                        CUmemAllocationType type) {
  return enter("cuMemGetDefaultMemPool", Needs::initialised, [&](Call &) {
    require(pool_out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pool_out = handle_of<CUmemoryPool>(default_pool(pool_device(location, type)).get());
  });
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
  return enter("cuMemGetMemPool", Needs::initialised, [&](Call &) {
    require(pool != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pool = handle_of<CUmemoryPool>(current_pool(pool_device(location, type)).get());
  });
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
  return enter("cuMemSetMemPool", Needs::initialised, [&](Call &) {
    auto wanted = driver().pools.get(pool, CUDA_ERROR_INVALID_VALUE);
    Device &device = pool_device(location, type);
    require(wanted->device == &device, CUDA_ERROR_INVALID_VALUE);
    device.current_pool = wanted;
  });
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
  return enter("cuMemPoolCreate", Needs::initialised, [&](Call &) {
    require(pool != nullptr && poolProps != nullptr, CUDA_ERROR_INVALID_VALUE);
    // Pools of managed memory are not there: their kind has a number above PINNED.
    require(poolProps->allocType >= CU_MEM_ALLOCATION_TYPE_PINNED && poolProps->allocType <= 2,
            CUDA_ERROR_INVALID_VALUE);
    require(poolProps->allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_NOT_SUPPORTED);
    Device *device = nullptr;
    switch (poolProps->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      device = &device_of(poolProps->location.id);
      require(poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
      require(poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE); // documented
      break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      require(poolProps->location.id == 0, CUDA_ERROR_INVALID_VALUE); // the only node
      require(poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
      break;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
    }
    *pool = handle_of<CUmemoryPool>(new_pool(device, *poolProps).get());
  });
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
  return enter("cuMemPoolDestroy", Needs::initialised, [&](Call &) {
    auto object = driver().pools.get(pool, CUDA_ERROR_INVALID_VALUE);
    require(!object->is_default, CUDA_ERROR_INVALID_VALUE);
    if (object->device && object->device->current_pool == object)
      object->device->current_pool = nullptr; // documented: the default pool becomes current
    object->destroyed = true;
    object->trim(0);
    driver().pools.remove(object.get());
  });
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  return enter("cuMemPoolTrimTo", Needs::initialised,
               [&](Call &) { driver().pools.get(pool, CUDA_ERROR_INVALID_VALUE)->trim(minBytesToKeep); });
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  return enter("cuMemPoolSetAttribute", Needs::initialised, [&](Call &) {
    auto object = driver().pools.get(pool, CUDA_ERROR_INVALID_VALUE);
    require(value != nullptr, CUDA_ERROR_INVALID_VALUE);
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      object->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *static_cast<int *>(value) != 0;
      return;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      object->release_threshold_bytes = *static_cast<cuuint64_t *>(value);
      return;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      require(*static_cast<cuuint64_t *>(value) == 0, CUDA_ERROR_INVALID_VALUE); // a reset, nothing else
      object->reserved_high_bytes = object->reserved_bytes;
      return;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      require(*static_cast<cuuint64_t *>(value) == 0, CUDA_ERROR_INVALID_VALUE);
      object->used_high_bytes = object->used_bytes;
      return;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
    }
  });
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  return enter("cuMemPoolGetAttribute", Needs::initialised, [&](Call &) {
    auto object = driver().pools.get(pool, CUDA_ERROR_INVALID_VALUE);
    require(value != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto put = [value](uint64_t number) { *static_cast<cuuint64_t *>(value) = number; };
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int *>(value) = object->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      return;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return put(object->release_threshold_bytes);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return put(object->reserved_bytes);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return put(object->reserved_high_bytes);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return put(object->used_bytes);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return put(object->used_high_bytes);
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
    }
  });
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
  return enter("cuMemPoolSetAccess", Needs::initialised, [&](Call &) {
    auto object = driver().pools.get(pool, CUDA_ERROR_INVALID_VALUE);
    require(map != nullptr || count == 0, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; ++i) {
      require(map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && access_flags_are_known(map[i].flags),
              CUDA_ERROR_INVALID_VALUE);
      // A pool's own device keeps its access. Not yet seen on a GPU (GT-ERROR-CODES): the error.
      require(&device_of(map[i].location.id) != object->device ||
                  map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
              CUDA_ERROR_INVALID_VALUE);
    }
    for (size_t i = 0; i < count; ++i) {
      uint32_t bit = 1u << map[i].location.id;
      bool read = map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      bool write = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      object->readable = read ? object->readable | bit : object->readable & ~bit;
      object->writable = write ? object->writable | bit : object->writable & ~bit;
    }
  });
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location) {
  return enter("cuMemPoolGetAccess", Needs::initialised, [&](Call &) {
    auto object = driver().pools.get(memPool, CUDA_ERROR_INVALID_VALUE);
    require(flags != nullptr && location != nullptr, CUDA_ERROR_INVALID_VALUE);
    bool on_host =
        location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (on_host) {
      *flags = object->device ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      return;
    }
    require(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    uint32_t bit = 1u << device_of(location->id).ordinal;
    *flags = object->writable & bit   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : object->readable & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                      : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  });
}

// No pool can be shared with another process, so there is nothing to export, whatever the pool.
static CUresult refuse_sharing(const char *function, CUmemoryPool pool) {
  return enter(function, Needs::initialised, [&](Call &) {
    driver().pools.get(pool, CUDA_ERROR_INVALID_VALUE);
    fail(CUDA_ERROR_NOT_SUPPORTED);
  });
}

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *, CUmemoryPool pool, CUmemAllocationHandleType,
                                                  unsigned long long) {
  return refuse_sharing("cuMemPoolExportToShareableHandle", pool);
}

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *, CUmemoryPool pool, CUmemPoolPtrExportData *) {
  return refuse_sharing("cuMemPoolImportPointer", pool);
}
