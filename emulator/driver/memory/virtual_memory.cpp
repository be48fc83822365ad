// Virtual memory management: address ranges, physical memory and the mappings between them.
#include "virtual_memory.hpp"

#include "allocations.hpp"
#include "device/context.hpp"
#include "device/device.hpp"
#include "heap.hpp"
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

// Reserved ranges, by base. Guarded by the driver's lock.
std::map<uint64_t, uint64_t> &reservations() {
  static auto *only = new std::map<uint64_t, uint64_t>;
  return *only;
}

bool reserved(uint64_t address, uint64_t bytes) {
  auto above = reservations().upper_bound(address);
  if (above == reservations().begin())
    return false;
  auto [base, length] = *std::prev(above);
  return address - base < length && bytes <= length - (address - base);
}

bool granular(uint64_t value) { return value % block_bytes == 0; }

void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }

// Where NVIDIA's driver reserves addresses for itself when it starts, and those that it gives out.
constexpr uint64_t own_begin = 0x2'0000'0000, own_given = 0x3'0200'0000, own_end = 0x6'0020'0000;

bool is_own(uint64_t address, uint64_t bytes) {
  return settings().own_range && address >= own_begin && address < own_end && bytes <= own_end - address;
}

bool is_reserved_in_part(uint64_t address, uint64_t bytes) {
  auto behind = reservations().lower_bound(address + bytes);
  return behind != reservations().begin() && std::prev(behind)->first + std::prev(behind)->second > address;
}

// The lowest free addresses of the own range. 0 when there are none, or there is no such range.
uint64_t reserve_own(uint64_t bytes, uint64_t alignment) {
  uint64_t base = round_up(own_given, alignment);
  for (const auto &[start, length] : reservations())
    if (start < base + bytes && start + length > base)
      base = round_up(start + length, alignment);
  return is_own(base, bytes) ? base : 0;
}

// The address asked for if it is free, since that is all a hint can promise. 0 when it is not.
uint64_t reserve_at(uint64_t hint, uint64_t bytes, uint64_t alignment) {
  if (hint == 0 || hint % alignment != 0 || hint + bytes < hint)
    return 0;
  if (is_own(hint, bytes))
    return is_reserved_in_part(hint, bytes) ? 0 : hint;
  void *mapped = mmap(pointer(hint), bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == MAP_FAILED)
    return 0;
  if (mapped != pointer(hint)) { // a kernel older than 4.17 takes the flag for a hint
    munmap(mapped, bytes);
    return 0;
  }
  return hint;
}

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
    auto mapping = driver().allocations->find(at);
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

void drain_every_context(Lock &lock) {
  std::vector<std::shared_ptr<Context>> contexts;
  driver().contexts.for_each([&](const std::shared_ptr<Context> &context) { contexts.push_back(context); });
  for (const auto &context : contexts)
    drain(lock, *context);
}

} // namespace

namespace emulator::driver {

bool claim_own_range() {
  if (!settings().own_range)
    return true;
  void *mapped = mmap(pointer(own_begin), own_end - own_begin, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == pointer(own_begin))
    return true;
  if (mapped != MAP_FAILED)
    munmap(mapped, own_end - own_begin);
  return false;
}

std::pair<uint64_t, uint64_t> reservation_of(uint64_t address) {
  auto above = reservations().upper_bound(address);
  if (above == reservations().begin())
    return {0, 0};
  std::pair<uint64_t, uint64_t> found = *std::prev(above);
  return address - found.first < found.second ? found : std::pair<uint64_t, uint64_t>{0, 0};
}

bool is_untouched(uint64_t address, uint64_t bytes) {
  constexpr uint64_t worth_asking_bytes = 64 << 10;
  auto mapping = bytes < worth_asking_bytes ? nullptr : driver().allocations->find(address);
  if (!mapping || !mapping->physical || mapping->end() - address < bytes)
    return false;
  auto offset = static_cast<off_t>(address - mapping->base);
  off_t written = lseek(mapping->physical->file, offset, SEEK_DATA);
  return written < 0 ? errno == ENXIO : written >= offset + static_cast<off_t>(bytes);
}

bool write_untouched(uint64_t address, const void *source, uint64_t bytes) {
  if (!is_untouched(address, bytes))
    return false;
  auto mapping = driver().allocations->find(address);
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

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                     unsigned long long flags) {
  return enter("cuMemAddressReserve", Needs::initialised, [&](Call &) {
    require(ptr != nullptr && size > 0 && granular(size) && flags == 0, CUDA_ERROR_INVALID_VALUE);
    require((alignment & (alignment - 1)) == 0, CUDA_ERROR_INVALID_VALUE);
    uint64_t aligned = std::max<uint64_t>(alignment, block_bytes);
    uint64_t base = reserve_at(addr, size, aligned);
    if (base == 0)
      base = reserve_own(size, aligned);
    if (base == 0)
      base = map_aligned(size, aligned, PROT_NONE);
    require(base != 0, CUDA_ERROR_OUT_OF_MEMORY);
    reservations()[base] = size;
    *ptr = base;
  });
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  return enter("cuMemAddressFree", Needs::initialised, [&](Call &) {
    auto found = reservations().find(ptr);
    require(found != reservations().end() && found->second == size, CUDA_ERROR_INVALID_VALUE);
    require(!driver().allocations->overlaps(ptr, size), CUDA_ERROR_INVALID_VALUE); // still mapped
    if (!is_own(ptr, size))
      munmap(pointer(ptr), size);
    reservations().erase(found);
  });
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                             const CUmemAllocationProp *prop, unsigned long long flags) {
  return enter("cuMemCreate", Needs::initialised, [&](Call &) {
    require(handle != nullptr && size > 0 && granular(size) && flags == 0, CUDA_ERROR_INVALID_VALUE);
    require_properties(prop);
    Device *device = device_of_location(prop->location);
    int file = memfd_create(file_name(prop->location).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
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
    require(reserved(ptr, size) && !driver().allocations->overlaps(ptr, size), CUDA_ERROR_INVALID_VALUE);
    void *mapped = mmap(pointer(ptr), size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0);
    require(mapped != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    auto mapping = std::make_shared<Allocation>();
    mapping->base = ptr;
    mapping->bytes = size;
    mapping->kind = MemoryKind::mapped;
    mapping->device = physical->device;
    mapping->readable = mapping->writable = 0; // until cuMemSetAccess
    mapping->physical = physical;
    driver().allocations->insert(mapping);
  });
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
  return enter("cuMemUnmap", Needs::initialised, [&](Call &call) {
    require(size > 0 && granular(size) && granular(ptr), CUDA_ERROR_INVALID_VALUE);
    drain_every_context(call.lock);
    for (const auto &mapping : mappings_in(ptr, size)) {
      driver().allocations->erase(mapping->base);
      mmap(pointer(mapping->base), mapping->bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
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
    drain_every_context(call.lock);
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
    auto mapping = driver().allocations->find(ptr);
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
    auto mapping = driver().allocations->find(reinterpret_cast<uint64_t>(addr));
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

CUresult CUDAAPI replayConfineMemory(CUdeviceptr base, size_t bytes, const unsigned long long *pieces,
                                     size_t count) {
  return enter("replayConfineMemory", Needs::initialised, [&](Call &call) {
    require(bytes > 0 && base + bytes > base && (pieces != nullptr || count == 0), CUDA_ERROR_INVALID_VALUE);
    std::vector<Stretch> wanted;
    uint64_t end = base;
    for (size_t i = 0; i < count; ++i) {
      Stretch piece{pieces[2 * i], pieces[2 * i + 1]};
      require(piece.bytes > 0 && piece.base >= end && piece.base - base <= bytes &&
                  piece.bytes <= bytes - (piece.base - base),
              CUDA_ERROR_INVALID_VALUE);
      end = piece.base + piece.bytes;
      wanted.push_back(piece);
    }
    if (driver().allocations->takes_away({base, bytes}, wanted))
      drain_every_context(call.lock);
    driver().allocations->confine({base, bytes}, wanted);
  });
}
