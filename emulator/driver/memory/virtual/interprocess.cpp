// Memory handles between processes of this driver. A handle names a memory file of the exporting process,
// which the importing one opens through /proc: both must run as the same user in the same process namespace.
// A handle comes from another program and is believed in nothing: the file must be one of this driver's,
// sealed against a change of size, and the range must lie inside it.
#include "core/heap.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "exec/interface/global_shadow.hpp"
#include "memory/allocations.hpp"
#include "stream/scheduler.hpp"
#include "virtual_memory.hpp"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace emulator::driver;

namespace {

constexpr char handle_magic[8] = {'r', 'e', 'p', 'l', 'a', 'y', 'M', '1'};
constexpr char heap_file_prefix[] = "replay-device-heap";

struct Handle {
  char magic[8];
  int32_t process;
  int32_t file;         // its number in that process
  uint64_t file_number; // st_ino: the number may have been given to another file since
  uint64_t offset;      // of the allocation in the file
  uint64_t bytes;
  uint64_t identifier; // of the allocation: handles of a later one at the same place differ
  int32_t device;
  int32_t reserved[3];
};
static_assert(sizeof(Handle) == sizeof(CUipcMemHandle), "the header's size");

// Closed when left.
struct File {
  int number;
  ~File() {
    if (number >= 0)
      close(number);
  }
};

bool is_shared_heap(int file) {
  char target[64];
  std::string link = "/proc/self/fd/" + std::to_string(file);
  ssize_t length = readlink(link.c_str(), target, sizeof target - 1);
  std::string expected = std::string("/memfd:") + heap_file_prefix;
  if (length < 0 || std::string(target, static_cast<size_t>(length)).rfind(expected, 0) != 0)
    return false;
  int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & size_seals) == size_seals;
}

std::shared_ptr<Allocation> opened_before(const Context &context, const Handle &handle) {
  for (const auto &allocation : allocations().all())
    if (allocation->kind == MemoryKind::foreign && allocation->context == &context &&
        allocation->file_number == handle.file_number && allocation->bytes == handle.bytes &&
        allocation->base - allocation->mapped_base == handle.offset)
      return allocation;
  return nullptr;
}

// The pages move: nothing may run that could touch them, in any context.
void wait_for_everything(Lock &lock) {
  while (!driver().busy.empty()) {
    std::vector<std::shared_ptr<Context>> contexts;
    driver().contexts.for_each([&](const auto &context) { contexts.push_back(context); });
    for (const auto &context : contexts)
      drain(lock, *context);
  }
}

CUresult open_handle(const char *function, CUdeviceptr *result, const CUipcMemHandle &given, unsigned flags) {
  return enter(function, Needs::healthy, [&](Call &call) {
    require(result != nullptr && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE);
    Handle handle;
    std::memcpy(&handle, &given, sizeof handle);
    require(std::memcmp(handle.magic, handle_magic, sizeof handle_magic) == 0, CUDA_ERROR_INVALID_HANDLE);
    // Not yet seen on a GPU (GT-ERROR-CODES): the error for a handle of the process itself.
    require(handle.process != getpid(), CUDA_ERROR_INVALID_CONTEXT);
    require(handle.device >= 0 && static_cast<size_t>(handle.device) < driver().devices.size(),
            CUDA_ERROR_INVALID_HANDLE);
    if (auto known = opened_before(*call.context, handle)) {
      ++known->opened;
      *result = known->base;
      return;
    }
    std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
    File file{open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)};
    struct stat status;
    require(file.number >= 0 && fstat(file.number, &status) == 0, CUDA_ERROR_MAP_FAILED);
    require(status.st_ino == handle.file_number && is_shared_heap(file.number), CUDA_ERROR_INVALID_HANDLE);
    uint64_t size = static_cast<uint64_t>(status.st_size);
    require(handle.bytes > 0 && handle.offset <= size && handle.bytes <= size - handle.offset,
            CUDA_ERROR_INVALID_HANDLE);
    uint64_t base = map_aligned(size, block_bytes, PROT_NONE);
    require(base != 0, CUDA_ERROR_OUT_OF_MEMORY);
    void *mapped = mmap(reinterpret_cast<void *>(base), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                        file.number, 0);
    if (mapped == MAP_FAILED) {
      munmap(reinterpret_cast<void *>(base), size);
      fail(CUDA_ERROR_MAP_FAILED);
    }
    auto allocation = std::make_shared<Allocation>();
    allocation->base = base + handle.offset;
    allocation->bytes = handle.bytes;
    allocation->kind = MemoryKind::foreign;
    allocation->device = &device_of(handle.device);
    allocation->context = call.context;
    allocation->mapped_base = base;
    allocation->mapped_bytes = size;
    allocation->file_number = handle.file_number;
    allocation->opened = 1;
    allocation->everywhere = true; // documented: peer access is enabled as needed
    allocations().insert(allocation);
    *result = allocation->base;
  });
}

} // namespace

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
  return enter("cuIpcGetMemHandle", Needs::healthy, [&](Call &call) {
    require(pHandle != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto allocation = allocations().find(dptr);
    // Documented: the base of memory from cuMemAlloc.
    require(allocation && allocation->base == dptr && allocation->kind == MemoryKind::device &&
                !allocation->pool,
            CUDA_ERROR_INVALID_VALUE);
    wait_for_everything(call.lock);
    require(allocations().find(dptr) == allocation, CUDA_ERROR_INVALID_VALUE); // freed meanwhile
    allocation->is_shared = true;
    emulator::global_shadow().written(allocation->base, allocation->bytes);
    SharedPiece piece = allocation->device->heap->share(dptr, heap_file_prefix);
    struct stat status;
    require(fstat(piece.file, &status) == 0, CUDA_ERROR_MAP_FAILED);
    Handle handle{};
    std::memcpy(handle.magic, handle_magic, sizeof handle_magic);
    handle.process = getpid();
    handle.file = piece.file;
    handle.file_number = status.st_ino;
    handle.offset = dptr - piece.base;
    handle.bytes = allocation->bytes;
    handle.identifier = allocation->identifier;
    handle.device = allocation->device->ordinal;
    std::memcpy(pHandle, &handle, sizeof handle);
  });
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return open_handle("cuIpcOpenMemHandle", pdptr, handle, Flags);
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return open_handle("cuIpcOpenMemHandle_v2", pdptr, handle, Flags);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr) {
  return enter("cuIpcCloseMemHandle", Needs::healthy, [&](Call &call) {
    auto allocation = allocations().find(dptr);
    require(allocation && allocation->kind == MemoryKind::foreign && allocation->base == dptr,
            CUDA_ERROR_INVALID_VALUE);
    if (allocation->opened > 1) {
      --allocation->opened;
      return;
    }
    drain(call.lock, *call.context);
    require(allocations().find(dptr) == allocation, CUDA_ERROR_INVALID_VALUE);
    release(allocation);
  });
}
