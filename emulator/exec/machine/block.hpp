// One thread block: its warps, shared memory and barriers, and what a worker keeps between blocks.
#pragma once

#include <chrono>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "exec/machine/warp.hpp"
#include "exec/operations/access.hpp"

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
};

struct Barrier {
  uint32_t arrived = 0;  // threads; whole warps count as 32 when a count is given
  uint32_t expected = 0; // 0: all threads that have not exited
  bool open = false;     // somebody has arrived
  bool all = true;       // .red.and
  bool any = false;      // .red.or
  uint32_t ones = 0;     // .red.popc
};

constexpr uint32_t barriers_per_block = 16;

// Zeroed memory. Pages that nobody touches cost nothing.
class Buffer {
public:
  void resize(size_t bytes, size_t alignment);
  uint8_t *data() const { return data_; }
  size_t size() const { return size_; }

private:
  std::unique_ptr<void, void (*)(void *)> storage_{nullptr, std::free};
  uint8_t *data_ = nullptr;
  size_t size_ = 0;
};

struct Worker {
  const Launch *launch = nullptr;
  std::vector<CachedRange> ranges;
  LaunchCounters counters;
  std::vector<Executed> executed;
  ReachSlots reach;
  uint64_t sector_marks[marked_sectors / 64 + 1] = {}; // for counting; all zero between two accesses
  uint64_t clock_reads = 0;
  // What handles stood for when they were first used in this launch.
  std::unordered_map<uint64_t, std::shared_ptr<const Texture>> textures;
  std::unordered_map<uint64_t, std::shared_ptr<const Surface>> surfaces;
};

struct Cluster;

struct Block {
  enum class State : uint8_t { done, exhausted, stuck };

  const Launch *launch = nullptr;
  Worker *worker = nullptr;
  Cluster *cluster = nullptr;
  std::vector<Warp> warps;
  Barrier barriers[barriers_per_block];
  Buffer registers, shared, local;
  uint64_t index = 0;        // linear
  uint32_t position[3] = {}; // %ctaid
  uint32_t live_threads = 0;

  // Takes the memory it needs; once, then any number of blocks run in it, one after the other.
  void prepare(const Launch &of, Worker &by);
  void start(uint64_t linear_index);
  // Done when all threads have exited, exhausted when the budget of some warp, or of all together, was used
  // up, stuck when all wait.
  State run(int64_t instructions_per_warp);
  int64_t spent = 0; // instructions of the last run, of all warps
  bool can_run() const;

  const Instruction *arrive(Warp &warp, const Instruction *i);
  void threads_left(uint32_t count);

private:
  void complete(uint32_t id);
  void fill_specials(bool constant_in_launch);
};

// Runs a launch to its end. `status` is ok or what stopped it.
LaunchResult run_launch(Launch &launch);

uint32_t usable_processors();

} // namespace emulator
