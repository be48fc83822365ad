// Every range of memory that the driver knows, by address: what pointers are validated against, and what
// kernels may touch.
#pragma once

#include "core/heap.hpp"
#include "device/driver.hpp"

#include <deque>
#include <map>
#include <shared_mutex>

namespace emulator::driver {

class AdvisedRanges;

enum class MemoryKind {
  device,     // cuMemAlloc and its kin
  managed,    // cuMemAllocManaged, __managed__ variables
  host,       // cuMemAllocHost, cuMemHostAlloc
  registered, // cuMemHostRegister
  mapped,     // cuMemMap
  global,     // a module's variable
  heap,       // device-side malloc
  foreign,    // cuIpcOpenMemHandle: another process's
};

// Memory whose address stays when it is freed: what is there comes and goes as work runs.
class KeptMemory : public std::enable_shared_from_this<KeptMemory> {
public:
  virtual ~KeptMemory() = default;
  // What has been issued, though perhaps not yet run: a beginning without its end.
  virtual bool outstanding() const = 0;
  virtual void issue_free() = 0; // CUDA_ERROR_INVALID_VALUE when nothing is outstanding
  virtual void end() = 0;        // what runs then, under the driver's lock
};

struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  Device *device = nullptr;   // null for host memory
  Context *context = nullptr; // null where no context owns it (virtual memory)
  unsigned flags = 0;         // of the call that made it
  uint64_t identifier = 0;    // CU_POINTER_ATTRIBUTE_BUFFER_ID
  uint64_t footprint = 0;     // bytes taken from the device
  uint32_t readable = ~0u;    // bit per device ordinal
  uint32_t writable = ~0u;
  bool everywhere = false; // host and managed memory: any device may touch it
  bool sync_memops = false;
  bool is_shared = false; // other processes may have opened it, or it is mapped at other addresses, too
  bool freeing = false;   // cuMemFreeAsync was called; earlier work may still use it, later work must not
  std::shared_ptr<AdvisedRanges> advised; // kind managed, once something was said
  std::shared_ptr<MemoryPool> pool;
  KeptMemory *kept = nullptr;                 // whose address outlives what is there
  std::shared_ptr<PhysicalMemory> physical;   // kind mapped
  uint64_t mapped_base = 0, mapped_bytes = 0; // kind foreign: the pages, of which this is a part
  uint64_t pages_base = 0, pages_end = 0;     // of the device's heap: the pages around it
  uint64_t file_number = 0;                   // kind foreign: which memory file they are
  unsigned opened = 0;                        // kind foreign: cuIpcOpenMemHandle calls not yet closed
  uint64_t end() const { return base + bytes; }
  bool is_host() const { return kind == MemoryKind::host || kind == MemoryKind::registered; }
};

struct Stretch {
  uint64_t base = 0;
  uint64_t bytes = 0;
};

// Thread-safe: executor threads look up while other threads allocate.
class Allocations {
public:
  void insert(std::shared_ptr<Allocation> allocation);
  void erase(uint64_t base);
  // The allocation that holds `address`, or null.
  std::shared_ptr<Allocation> find(uint64_t address) const;
  // True when every byte of [base, base + bytes) lies in a known range.
  bool covers(uint64_t base, uint64_t bytes) const;
  // True when [base, base + bytes) touches any known range.
  bool overlaps(uint64_t base, uint64_t bytes) const;
  // Of [base, base + bytes) kernels may touch these pieces alone, in order and apart from each other, as if
  // each were an allocation. Calls of the driver may touch all of it. Said anew of a part, it holds for that.
  void confine(Stretch stretch, const std::vector<Stretch> &pieces);
  // Whether kernels may touch less then than now.
  bool takes_away(Stretch stretch, const std::vector<Stretch> &pieces) const;
  // What holds `address` for a kernel: a piece where memory is confined, else the allocation; {0, 0}:
  // nothing.
  Stretch for_kernels(uint64_t address) const;
  // The nearest of these that begins at or below `address`, and the nearest above; {0, 0} where there is
  // none.
  std::pair<Stretch, Stretch> neighbours(uint64_t address) const;
  std::vector<std::shared_ptr<Allocation>> all() const;
  // For messages: base and size of what was freed last at `address`, as far as it is remembered; {0, 0}
  // otherwise.
  std::pair<uint64_t, uint64_t> freed_at(uint64_t address) const;

private:
  bool is_confined(uint64_t address) const; // called with the lock held
  void remember_freed(uint64_t base, uint64_t bytes);

  mutable std::shared_mutex mutex_;
  std::map<uint64_t, uint64_t> confined_, pieces_; // base -> bytes
  std::map<uint64_t, std::shared_ptr<Allocation>> by_base_;
  std::deque<std::pair<uint64_t, uint64_t>> freed_; // base and size, the latest last
};

Allocations &allocations();

// Whether kernels of the context may read the allocation, or write it.
bool may_touch(const Context &context, const Allocation &allocation, bool write);

// Whether kernels and calls of this process alone write it: not the host, nor other processes.
bool is_followed(const Allocation &allocation);
bool is_followed(uint64_t address);

// Allocates device memory of `kind` in the context and enters it. Throws CUDA_ERROR_OUT_OF_MEMORY.
std::shared_ptr<Allocation> allocate_device(Context &context, uint64_t bytes, MemoryKind kind,
                                            unsigned flags = 0, uint64_t alignment = allocation_alignment);
// The same from a pool, whose place decides which memory it is.
std::shared_ptr<Allocation> allocate_from_pool(Context &context, const std::shared_ptr<MemoryPool> &pool,
                                               uint64_t bytes);
// Allocates memory of the host that devices may touch.
std::shared_ptr<Allocation> allocate_host(Context &context, uint64_t bytes, unsigned flags);
// Frees what either made. Work that uses it must have ended.
void release(const std::shared_ptr<Allocation> &allocation);

// Whether the process has memory at every page of the range.
bool is_mapped(uint64_t address, uint64_t bytes);

// Throws CUDA_ERROR_INVALID_VALUE unless [address, address + bytes) lies in memory that the context may
// touch. Kept memory counts as there, because it will be when work has run; work asks `covers`.
void require_range(Context &context, uint64_t address, uint64_t bytes, bool write);

} // namespace emulator::driver
