// One thread block: its warps, shared memory and barriers.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "exec/block/tensor_memory.hpp"
#include "exec/check/block_checks.hpp"
#include "exec/warp/warp.hpp"

namespace emulator {

struct Barrier {
  uint32_t arrived = 0;  // threads; whole warps count as 32 when a count is given
  uint32_t expected = 0; // 0: all threads that have not exited
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

struct Cluster;
class PendingOperations;

struct Block {
  enum class State : uint8_t { done, exhausted, stuck };

  const Launch *launch = nullptr;
  Worker *worker = nullptr;
  Cluster *cluster = nullptr; // for handlers alone: no block calls it
  std::vector<Warp> warps;
  Barrier barriers[barriers_per_block];
  uint32_t open_barriers = 0; // bit b: somebody has arrived at barrier b; the others are as they began
  Buffer registers, shared, local;
  // Where asynchronous operations are deferred: what of shared memory, and of registers that wgmma takes,
  // they see, which a fence has made visible to them or they have written themselves.
  Buffer fenced_shared, fenced_registers;
  PendingOperations *pending = nullptr; // of the cluster
  uint64_t index = 0;                   // linear
  uint32_t position[3] = {};            // %ctaid
  uint32_t live_threads = 0;
  std::unique_ptr<TensorMemory> tensor_memory; // from its first use on

  // Takes the memory it needs; once, then any number of blocks run in it, one after the other.
  void prepare(const Launch &of, Worker &by);
  void start(uint64_t linear_index);
  // Done when all threads have exited, exhausted when the budget of some warp, or of all together, was used
  // up, stuck when all wait.
  State run(int64_t instructions_per_warp);
  int64_t spent = 0;           // instructions of the last run, of all warps
  bool passed_barrier = false; // in the last run
  bool can_run() const;
  std::unique_ptr<BlockChecks> checks; // nullptr: nothing is checked

  const Instruction *arrive(Warp &warp, const Instruction *i);
  void threads_left(uint32_t count);
  TensorMemory &tensor();

  // The bytes of a row that wgmma takes as it sees them.
  uint8_t *fenced_row(const Warp &warp, uint32_t offset) const {
    return fenced_registers.data() + (warp.registers - registers.data()) + offset;
  }
  void fence_registers(const Warp &warp);

private:
  void complete(uint32_t id);
  uint32_t waiting_at(uint32_t id) const; // threads
  void fill_specials(bool constant_in_launch);
};

} // namespace emulator
