// Virtual memory management: physical memory and its mappings into reserved addresses.
#include "virtual_memory.hpp"

#include "core/heap.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "exec/interface/global_shadow.hpp"
#include "memory/allocations.hpp"
#include "reservations.hpp"
#include "stream/scheduler.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace emulator::driver;

namespace {

bool granular(uint64_t value) { return value % block_bytes == 0; }

void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }

Device *device_of_location(const CUmemLocation &location) {
  switch (location.type) {
  case CU_MEM_LOCATION_TYPE_DEVICE:
    return &device_of(location.id);
  case CU_MEM_LOCATION_TYPE_HOST:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA:
  case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
    return nullptr;
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

void require_properties(const CUmemAllocationProp *properties) {
  require(properties != nullptr, CUDA_ERROR_INVALID_VALUE);
  require(properties->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  require((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0,
          CUDA_ERROR_NOT_SUPPORTED);
  device_of_location(properties->location);
}

// The mappings that make up exactly [address, address + bytes), or an error.
std::vector<std::shared_ptr<Allocation>> mappings_in(uint64_t address, uint64_t bytes) {
  std::vector<std::shared_ptr<Allocation>> result;
  for (uint64_t at = address; at < address + bytes;) {
    auto mapping = allocations().find(at);
    require(mapping && mapping->kind == MemoryKind::mapped && mapping->base == at, CUDA_ERROR_INVALID_VALUE);
    at = mapping->end();
    require(at <= address + bytes, CUDA_ERROR_INVALID_VALUE);
    result.push_back(mapping);
  }
  return result;
}

// A memory file's name says where the memory is, for the process that imports it.
constexpr char file_prefix[] = "replay-device-memory";

std::string file_name(const CUmemLocation &location) {
  return std::string(file_prefix) + ":" + std::to_string(static_cast<int>(location.type)) + ":" +
         std::to_string(location.id);
}

// The place of a memory file that this driver made, in this process or another. Anything else is refused.
CUmemLocation location_of_file(int file) {
  char target[128];
  std::string link = "/proc/self/fd/" + std::to_string(file);
  ssize_t length = readlink(link.c_str(), target, sizeof target - 1);
  require(length > 0, CUDA_ERROR_INVALID_VALUE);
  target[length] = 0;
  int type = 0, identifier = 0;
  std::string format = std::string("/memfd:") + file_prefix + ":%d:%d";
  require(std::sscanf(target, format.c_str(), &type, &identifier) == 2, CUDA_ERROR_INVALID_VALUE);
  int seals = fcntl(file, F_GET_SEALS);
  require(seals >= 0 && (seals & size_seals) == size_seals, CUDA_ERROR_INVALID_VALUE);
  CUmemLocation location{};
  location.type = static_cast<CUmemLocationType>(type);
  location.id = identifier;
  return location;
}

void protect(const Allocation &mapping) {
  // The host pages follow the device's rights, so that the emulated driver itself cannot write by accident.
  int protection = mapping.writable ? PROT_READ | PROT_WRITE : mapping.readable ? PROT_READ : PROT_NONE;
  require(mprotect(pointer(mapping.base), mapping.bytes, protection) == 0, CUDA_ERROR_OUT_OF_MEMORY);
}

} // namespace

namespace emulator::driver {

bool is_untouched(uint64_t address, uint64_t bytes) {
  constexpr uint64_t worth_asking_bytes = 64 << 10;
  auto mapping = bytes < worth_asking_bytes ? nullptr : allocations().find(address);
  if (!mapping || !mapping->physical || mapping->end() - address < bytes)
    return false;
  auto offset = static_cast<off_t>(address - mapping->base);
  off_t written = lseek(mapping->physical->file, offset, SEEK_DATA);
  return written < 0 ? errno == ENXIO : written >= offset + static_cast<off_t>(bytes);
}

bool write_untouched(uint64_t address, const void *source, uint64_t bytes) {
  if (!is_untouched(address, bytes))
    return false;
  auto mapping = allocations().find(address);
  ssize_t written =
      pwrite(mapping->physical->file, source, bytes, static_cast<off_t>(address - mapping->base));
  return written >= 0 && static_cast<uint64_t>(written) == bytes;
}

PhysicalMemory::~PhysicalMemory() {
  close(file);
  if (device && !imported)
    device->give_back(bytes);
}

} // namespace emulator::driver

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                             const CUmemAllocationProp *prop, unsigned long long flags) {
  return enter("cuMemCreate", Needs::initialised, [&](Call &) {
    require(handle != nullptr && size > 0 && granular(size) && flags == 0, CUDA_ERROR_INVALID_VALUE);
    require_properties(prop);
    Device *device = device_of_location(prop->location);
    int file = memory_file(file_name(prop->location));
    require(file >= 0, CUDA_ERROR_OUT_OF_MEMORY);
    // Sealed, so that nobody it is shared with can take the pages away under a mapping.
    if (ftruncate(file, static_cast<off_t>(size)) != 0 || fcntl(file, F_ADD_SEALS, size_seals) != 0) {
      close(file);
      fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
    try {
      if (device)
        device->take(size);
    } catch (const Error &) {
      close(file);
      throw;
    }
    auto physical = std::make_shared<PhysicalMemory>();
    physical->device = device;
    physical->bytes = size;
    physical->properties = *prop;
    physical->file = file;
    if (settings().poison) {
      void *pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      require(pages != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
      __builtin_memset(pages, 0xCD, size);
      munmap(pages, size);
    }
    *handle = driver().physical.add(physical);
  });
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  return enter("cuMemRelease", Needs::initialised, [&](Call &) {
    auto physical = driver().physical.get(handle, CUDA_ERROR_INVALID_VALUE);
    // Mappings keep the memory; only the handle dies.
    if (--physical->handles == 0)
      driver().physical.remove(physical.get());
  });
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  return enter("cuMemMap", Needs::initialised, [&](Call &) {
    auto physical = driver().physical.get(handle, CUDA_ERROR_INVALID_VALUE);
    require(size > 0 && granular(size) && granular(ptr) && flags == 0, CUDA_ERROR_INVALID_VALUE);
    require(offset == 0 && size <= physical->bytes, CUDA_ERROR_INVALID_VALUE); // documented: offset must be 0
    require(is_reserved(ptr, size) && !allocations().overlaps(ptr, size), CUDA_ERROR_INVALID_VALUE);
    void *mapped = mmap(pointer(ptr), size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0);
    require(mapped != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    auto mapping = std::make_shared<Allocation>();
    mapping->base = ptr;
    mapping->bytes = size;
    mapping->kind = MemoryKind::mapped;
    mapping->device = physical->device;
    mapping->readable = mapping->writable = 0; // until cuMemSetAccess
    mapping->physical = physical;
    mapping->is_shared = physical->imported;
    // What is written at one address is then at the others, too.
    for (const auto &other : allocations().all())
      if (other->physical == physical) {
        mapping->is_shared = other->is_shared = true;
        emulator::global_shadow().written(other->base, other->bytes);
      }
    allocations().insert(mapping);
  });
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
  return enter("cuMemUnmap", Needs::initialised, [&](Call &call) {
    require(size > 0 && granular(size) && granular(ptr), CUDA_ERROR_INVALID_VALUE);
    drain(call.lock);
    for (const auto &mapping : mappings_in(ptr, size)) {
      void *reserved = mmap(pointer(mapping->base), mapping->bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
      require(reserved != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
      allocations().erase(mapping->base);
      emulator::global_shadow().end(mapping->base, mapping->bytes);
    }
  });
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
  return enter("cuMemSetAccess", Needs::initialised, [&](Call &call) {
    require(desc != nullptr && count > 0 && size > 0 && granular(size) && granular(ptr),
            CUDA_ERROR_INVALID_VALUE);
    auto mappings = mappings_in(ptr, size);
    for (size_t i = 0; i < count; ++i) {
      device_of_location(desc[i].location);
      require(desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
                  desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                  desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
              CUDA_ERROR_INVALID_VALUE);
    }
    drain(call.lock);
    for (const auto &mapping : mappings) {
      for (size_t i = 0; i < count; ++i) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
          continue; // host access to host memory; the pages are reachable anyway
        uint32_t bit = 1u << desc[i].location.id;
        bool read = desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        bool write = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        mapping->readable = read ? mapping->readable | bit : mapping->readable & ~bit;
        mapping->writable = write ? mapping->writable | bit : mapping->writable & ~bit;
      }
      protect(*mapping);
    }
  });
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
  return enter("cuMemGetAccess", Needs::initialised, [&](Call &) {
    require(flags != nullptr && location != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto mapping = allocations().find(ptr);
    require(mapping != nullptr, CUDA_ERROR_INVALID_VALUE);
    Device *device = device_of_location(*location);
    uint32_t bit = device ? 1u << device->ordinal : 0;
    *flags = mapping->writable & bit   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : mapping->readable & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  });
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option) {
  return enter("cuMemGetAllocationGranularity", Needs::initialised, [&](Call &) {
    require(granularity != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
            CUDA_ERROR_INVALID_VALUE);
    require_properties(prop);
    *granularity = block_bytes;
  });
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                        CUmemGenericAllocationHandle handle) {
  return enter("cuMemGetAllocationPropertiesFromHandle", Needs::initialised, [&](Call &) {
    require(prop != nullptr, CUDA_ERROR_INVALID_VALUE);
    *prop = driver().physical.get(handle, CUDA_ERROR_INVALID_VALUE)->properties;
  });
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
  return enter("cuMemRetainAllocationHandle", Needs::initialised, [&](Call &) {
    require(handle != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto mapping = allocations().find(reinterpret_cast<uint64_t>(addr));
    require(mapping && mapping->physical, CUDA_ERROR_INVALID_VALUE);
    ++mapping->physical->handles; // 0 when the last handle was released: it lives again
    *handle = driver().physical.add(mapping->physical);
  });
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType handleType,
                                              unsigned long long flags) {
  return enter("cuMemExportToShareableHandle", Needs::initialised, [&](Call &) {
    require(shareableHandle != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    auto physical = driver().physical.get(handle, CUDA_ERROR_INVALID_VALUE);
    require(handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
    // Documented: only for the kinds of handle that cuMemCreate was asked for.
    require(physical->properties.requestedHandleTypes & handleType, CUDA_ERROR_INVALID_VALUE);
    int file = fcntl(physical->file, F_DUPFD_CLOEXEC, 0);
    require(file >= 0, CUDA_ERROR_OUT_OF_MEMORY);
    *static_cast<int *>(shareableHandle) = file;
  });
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                                CUmemAllocationHandleType shHandleType) {
  return enter("cuMemImportFromShareableHandle", Needs::initialised, [&](Call &) {
    require(handle != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
    int given = static_cast<int>(reinterpret_cast<intptr_t>(osHandle));
    struct stat status;
    require(given >= 0 && fstat(given, &status) == 0, CUDA_ERROR_INVALID_VALUE);
    CUmemLocation location = location_of_file(given);
    Device *device = device_of_location(location);
    require(status.st_size > 0 && granular(static_cast<uint64_t>(status.st_size)), CUDA_ERROR_INVALID_VALUE);
    std::shared_ptr<PhysicalMemory> known;
    driver().physical.for_each([&](const std::shared_ptr<PhysicalMemory> &physical) {
      struct stat other;
      if (fstat(physical->file, &other) == 0 && other.st_ino == status.st_ino &&
          other.st_dev == status.st_dev)
        known = physical;
    });
    if (known) { // exported by this process: the same memory
      ++known->handles;
      *handle = handle_of<CUmemGenericAllocationHandle>(known.get());
      return;
    }
    auto physical = std::make_shared<PhysicalMemory>();
    physical->imported = true;
    physical->device = device;
    physical->bytes = static_cast<uint64_t>(status.st_size);
    physical->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    physical->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    physical->properties.location = location;
    physical->file = fcntl(given, F_DUPFD_CLOEXEC, 0);
    require(physical->file >= 0, CUDA_ERROR_OUT_OF_MEMORY);
    *handle = driver().physical.add(physical);
  });
}
