// What the workers of a launch share, and what each keeps between blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "exec/interface/found_places.hpp"
#include "exec/interface/touched.hpp"
#include "exec/program/program.hpp"
#include "exec/warp/reach.hpp"

namespace emulator {

// What all workers of a launch share and none changes.
struct Launch {
  const Program *program = nullptr;
  const LaunchRequest *request = nullptr;
  const ptx::Module *module = nullptr;
  MemoryMap *memory = nullptr;
  uint8_t *parameters = nullptr;   // copied at the call, in ParameterMemory
  uint64_t parameter_bytes = 0;    // with some room after the last
  std::vector<uint8_t> workspace;  // cooperative launches: what %envreg1 and 2 point to
  uint64_t function_addresses = 0; // address of ptx::Module::functions[0]
  uint32_t shared_bytes = 0;       // static and dynamic
  uint32_t shared_whole_bytes = 0; // in whole units
  uint32_t shared_end_bytes = 0;   // what the block may touch: one of the two
  uint32_t local_bytes = 0;        // per thread: the program's, and more where the stack's limit asks for it
  uint32_t frame_bytes = 0;        // of the frames alone
  uint32_t threads_per_block = 0;
  uint32_t warps_per_block = 0;
  uint64_t clusters = 0;
  std::chrono::steady_clock::time_point begin;
  // No other launch runs, and this one on one thread: its atomic operations need not be atomic. Another
  // launch that begins takes that back and waits while one is on its way (launch/alone.hpp).
  mutable std::atomic<bool> is_alone{false}, in_atomic{false};
};

// Memory a worker has seen an instruction touch.
struct CachedRange {
  uint64_t base = 0;
  uint64_t end = 0;
  bool writable = false;
};

// How often an account was reached, and by how many lanes in all: the classes of its instructions are
// added up once, when the launch has ended.
struct Executed {
  uint64_t warps = 0;
  uint64_t threads = 0;
};

// What one instruction cost so far, in launches that ask for it.
struct NotedCost {
  GlobalCounters global;
  SharedCounters shared = {};
  AccessKind kind = AccessKind::load;
};

// A grid that a kernel launches.
struct DeviceLaunch {
  const ptx::Function *kernel = nullptr;
  Dim3 grid, block;
  uint32_t shared_bytes = 0;
  std::vector<uint8_t> parameters;
  bool is_tail = false; // after all others
};

class GlobalRaces;

struct Worker {
  const Launch *launch = nullptr;
  std::vector<CachedRange> ranges;
  LaunchCounters counters;
  std::vector<Executed> executed;
  ReachSlots reach;
  alignas(64) uint8_t spare_row[lanes_per_warp * 8];
  // Of the instruction that is watched: its sources that are where it writes.
  alignas(64) uint8_t kept_rows[WatchedNumbers::most_sources][lanes_per_warp * 8];
  uint64_t sector_marks[marked_sectors / 64 + 1] = {}; // for counting; all zero between two accesses
  uint64_t clock_reads = 0;
  std::vector<DeviceLaunch> device_launches;
  std::unordered_map<uint64_t, DeviceLaunch> parameter_buffers; // by address: launches that are being made
  std::unordered_map<uint64_t, uint32_t> device_errors;         // the last of each thread that has one
  bool awaits_prerequisite = false; // the kernel that griddepcontrol.wait waits for has not run yet
  uint64_t next_cluster = 0; // to begin, where they begin in order; kernels may take some out of the launch
  Touched touched;           // where the launch asks for it
  TouchedSites sites;        // likewise
  std::vector<NotedCost> costs; // likewise, beside the program's code
  NotedCost before;             // what had been counted when the access now under way began
  // What handles stood for when they were first used in this launch.
  std::unordered_map<uint64_t, std::shared_ptr<const Texture>> textures;
  std::unordered_map<uint64_t, std::shared_ptr<const Surface>> surfaces;
  FoundPlaces found;                         // by checks
  std::shared_ptr<GlobalRaces> global_races; // of a launch that is looked at for them
  uint64_t numbers_told = 0;
};

} // namespace emulator
