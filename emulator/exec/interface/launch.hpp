// What the driver says of a launch, what the executor says of a kernel, and what device code may touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/interface/access_costs.hpp"
#include "exec/interface/counters.hpp"
#include "exec/interface/findings.hpp"
#include "exec/interface/image.hpp"
#include "exec/interface/touched.hpp"

namespace emulator {

struct Parameter {
  std::string name;
  uint32_t offset_bytes;
  uint32_t size_bytes;
  uint32_t alignment_bytes;
};

struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0; // end of the last parameter
  uint32_t static_shared_bytes = 0;
  uint32_t local_bytes_per_thread = 0;
  uint32_t constant_bytes = 0;
  uint32_t registers_per_thread = 0;     // modelled: 32-bit slots after reuse by liveness, 255 at most
  uint32_t max_threads_per_block = 1024; // from .maxntid / .reqntid
  uint32_t required_block[3] = {0, 0, 0};
  uint32_t required_cluster[3] = {0, 0, 0};
  uint32_t ptx_version = 0;         // 84 for .version 8.4
  uint32_t target_sm = 0;           // 80 for .target sm_80
  std::string unsupported;          // first instruction this executor lacks, empty when none
  uint32_t unsupported_line = 0;    // its line in the PTX
  bool releases_dependents = false; // has griddepcontrol.launch_dependents
};

// One range of device-visible memory. `base` is inclusive, `end` exclusive.
struct Range {
  uint64_t base = 0;
  uint64_t end = 0;
  bool writable = true;
  bool is_followed =
      false; // written by kernels and calls of the driver alone: what GlobalShadow keeps is true
};

// What device code may touch. Implemented by the driver; called from executor threads at the same time.
class MemoryMap {
public:
  virtual ~MemoryMap() = default;
  // The range that holds `address`, or an empty Range. Executor threads cache the answer; the map must
  // not shrink while a launch runs (the driver defers frees).
  virtual Range find(uint64_t address) const = 0;
  // For messages: what lies nearest to `address`, in words ("256 bytes after the 4,096-byte allocation at
  // 0x...").
  virtual std::string describe(uint64_t address) const = 0;
  // Device-side malloc and free. 0 when the heap is exhausted.
  virtual uint64_t device_malloc(uint64_t bytes) = 0;
  virtual void device_free(uint64_t address) = 0;
  // What a handle stands for: an object's handle, or the address of a .texref or .surfref variable. nullptr
  // when it stands for nothing, and then `problem` says why ("a texture object that was destroyed").
  virtual std::shared_ptr<const Texture> texture(uint64_t handle, std::string &problem) const = 0;
  virtual std::shared_ptr<const Surface> surface(uint64_t handle, std::string &problem) const = 0;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct LaunchRequest {
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;
  uint32_t dynamic_shared_bytes = 0;
  uint32_t shared_unit_bytes = 1; // in which blocks are given shared memory; %total_smem_size is a multiple
  bool exact_shared = false;      // what a unit has beyond what was asked for is not to be touched
  uint64_t interleave = 0;        // instructions after which the next warp of a block goes on; 0: as it comes
  bool deferred = false; // asynchronous operations are done at the last moment (REPLAY_EMULATOR_DEFERRED)
  uint64_t deferred_seed = 0; // not 0: at moments drawn from it
  // With deferred: runs what griddepcontrol.wait waits for, once, when no block can go on without it or none
  // is left. False when it failed: then the launch goes no further.
  std::function<bool()> prerequisite;
  bool cooperative = false;
  const void *parameters = nullptr; // packed as KernelInfo::parameters says; copied at the call
  size_t parameter_bytes = 0;
  uint32_t multiprocessors = 1;   // for %nsmid, %smid
  uint32_t worker_threads = 0;    // 0: all processors this process may use
  uint64_t timeout_ms = 0;        // 0: none
  uint32_t depth = 0;             // of launches from kernels: 0 is one of the host
  uint64_t stack_bytes = 0;       // of a thread, for recursion and alloca, if it is more than there is anyway
  bool fuse_multiply_add = false; // REPLAY_EMULATOR_FUSE, facts in docs/cpu-driver.md
  bool record_touched = false;    // REPLAY_EMULATOR_TOUCHED
  const WatchedPages *watched = nullptr; // with record_touched: who touched what first, too
  bool record_costs = false;             // of each access: REPLAY_EMULATOR_COUNTERS
  uint32_t checks = 0;                   // bit_of(Check): REPLAY_EMULATOR_CHECKS
  bool takes_notes = false;              // something of each access that nothing is known of before
  // Receives what printf prints, one call a thread, with the bytes it takes in the device's buffer. Without
  // one it goes to stdout at once.
  std::function<void(std::string text, size_t buffer_bytes)> print;
  bool notes_each = false; // with takes_notes: of each that is like one before, too
};

// How many blocks a cluster of this launch has.
inline uint64_t blocks_per_cluster(const LaunchRequest &request) {
  return uint64_t{request.cluster.x} * request.cluster.y * request.cluster.z;
}

enum class LaunchStatus {
  ok,
  illegal_address,
  misaligned_address,
  illegal_instruction, // unknown op, or trap
  assertion,
  deadlock,
  timeout,
  out_of_resources,
  stack_overflow,
};
constexpr const char *launch_status_names[] = {
    "ok",       "illegal_address", "misaligned_address", "illegal_instruction", "assertion",
    "deadlock", "timeout",         "out_of_resources",   "stack_overflow"};

struct LaunchResult {
  LaunchStatus status = LaunchStatus::ok;
  std::string message;               // kernel, PTX line, block, thread, address; empty when ok
  LaunchCounters counters;           // meaningful when status is ok
  Touched touched;                   // with LaunchRequest::record_touched
  AccessCosts costs;                 // with LaunchRequest::record_costs
  std::vector<NamedAccess> accesses; // the dearest of them
  std::vector<uint32_t>
      text_checks;               // with record_touched: CRC-32 of each text of the module, which lines are of
  TouchedSites sites;            // with LaunchRequest::watched: of each key of `touched` in global memory
  std::vector<Finding> findings; // with LaunchRequest::checks
  std::vector<Unchecked> unchecked; // and what was not checked
};

} // namespace emulator
