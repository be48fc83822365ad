// The state of one warp. Lanes that run together form a group; groups that parted at a branch meet again at
// the join their record names. A group is in exactly one list: ready, or waiting (for a barrier or for
// lanes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/warp/shadow.hpp"
#include "exec/warp/worker.hpp"

namespace emulator {

struct Block;
struct Warp;

// Ends the launch. Thrown by handlers, caught where blocks are run.
struct Fault {
  LaunchStatus status;
  std::string message;
};

struct Join {
  const Instruction *at = nullptr;
  uint32_t expected = 0; // lanes that will come; 0: the record is free
  uint32_t arrived = 0;
  int32_t parent = -1;
  int32_t frame = -1;
  int64_t since = 0; // Warp::now() when the first of those that wait arrived
};

struct Frame {
  uint32_t lanes = 0; // 0: the record is free
  int32_t parent = -1;
  const Callee *callee = nullptr;
  const FunctionCode *function = nullptr;
  const Instruction *back = nullptr;
  uint32_t local_offset = 0;
  std::vector<uint8_t> saved_rows;
  std::vector<uint32_t> stack_tops; // of the caller, where alloca is used
};

struct Group {
  const Instruction *next = nullptr;
  uint32_t lanes = 0;
  int32_t join = -1;
  int32_t frame = 0;
};

// An object in memory that lanes wait for, and what may be asked of it on their behalf.
struct Awaited {
  uint64_t address = 0;
  // What a wait would answer now, for these lanes, into its destination.
  void (*put_answers)(Warp &, const Instruction *, uint32_t lanes) = nullptr;
  std::string (*describe)(const Warp &, uint64_t address) = nullptr;
};

// What WaitingGroup::barrier says when it is no barrier of the block.
constexpr int32_t waits_for_lanes = -1;
constexpr int32_t waits_for_cluster = -2;
constexpr int32_t waits_for_mbarrier = -3;
constexpr int32_t waits_for_prerequisite = -6;

struct WaitingGroup {
  Group group;
  const Instruction *instruction = nullptr;
  uint32_t participants = 0; // lanes that execute it (a guard may leave some out)
  uint32_t named = 0;        // .sync: lanes it waits for
  int32_t barrier = waits_for_lanes;
  Awaited awaited; // when it is an mbarrier
};

// In registers: processors that all builds run on have no instruction for it.
inline uint32_t count_lanes(uint32_t lanes) {
  lanes -= lanes >> 1 & 0x55555555;
  lanes = (lanes & 0x33333333) + (lanes >> 2 & 0x33333333);
  return ((lanes + (lanes >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}
inline uint32_t first_lane(uint32_t lanes) { return static_cast<uint32_t>(__builtin_ctz(lanes)); }

// A launch runs only while nothing else sees its counters.
struct Warp {
  uint8_t *registers = nullptr;
  uint8_t *spare_row = nullptr; // of the worker: where a result waits of which some lanes are kept
  uint32_t active = 0;          // lanes that execute the current instruction
  uint32_t existing = 0;        // lanes that the block has threads for
  uint32_t live = 0;            // existing and not exited
  uint32_t active_count = 0;    // of the group, guards not considered
  int64_t credit = 0;           // instructions until the group must let others run
  int64_t slice = 0;            // what credit began with
  int64_t budget = 0;           // instructions until the warp must, not counting the current slice
  int64_t run_before = 0;       // instructions of this warp in the slices that have ended
  Group current;
  uint64_t local_base = 0; // of lane 0
  uint64_t local_stride = 0;
  uint64_t local_offset = 0; // of the current frame
  uint64_t shared_base = 0;
  uint64_t shared_bytes = 0;
  const uint8_t *parameters = nullptr;
  CachedRange *ranges = nullptr;      // one per memory instruction, of the worker
  LaunchCounters *counters = nullptr; // of the worker
  Executed *executed = nullptr;       // one per account, of the worker
  const Launch *launch = nullptr;
  Block *block = nullptr;             // for handlers alone: no warp calls it
  const uint32_t *position = nullptr; // of the block
  Worker *worker = nullptr;
  const Program *program = nullptr;
  Shadow *shadow = nullptr;                // of the block's checks, where undefined bits are followed
  uint32_t index = 0;                      // in its block
  uint32_t at_cluster_barrier = 0;         // lanes that have arrived in a phase that has not ended
  uint32_t stack_top[lanes_per_warp] = {}; // where alloca goes on, in local memory
  std::vector<Group> ready;                // taken from the back
  std::vector<WaitingGroup> waiting;
  std::vector<Join> joins;
  std::vector<Frame> frames;

  template <typename T> T *row(uint32_t offset) { return reinterpret_cast<T *>(registers + offset); }
  uint32_t &predicate(uint32_t offset) { return *row<uint32_t>(offset); }

  void start(uint32_t lanes);
  // Runs ready groups until none is left or the budget is used up; with `steps`, of so many instructions, at
  // any of which it stops.
  void run(int64_t instructions, uint64_t steps);
  uint32_t active_lanes() const { return count_lanes(active); }
  bool finished() const { return live == 0; }

  // Called by handlers of control instructions. Those that return an instruction return the one to run next,
  // nullptr when the current group has come to a stop.
  void account(const Instruction *i) {
    Executed &e = executed[i->account];
    ++e.warps;
    e.threads += active_count;
    counters->warp_instructions += i->count; // the clock of the kernel, too
    credit -= i->count;
  }
  const Instruction *go_to(const Instruction *next) { return credit < 0 ? turn(next) : next; }
  const Instruction *diverge(const Instruction *i, uint32_t taken, const Instruction *target,
                             const Instruction *fall_through);
  const Instruction *arrive(const Instruction *i);
  void exit_lanes();
  const Instruction *wait_for_lanes(const Instruction *i, uint32_t named);
  const Instruction *wait_at_barrier(const Instruction *i, int32_t barrier);
  const Instruction *enter_function(const FunctionCode &function, const Callee &callee,
                                    const Instruction *back);
  const Instruction *leave_function();
  // Gives the lanes in `lanes`, a part of the current group, a group of their own at `next`.
  void split_off(uint32_t lanes, const Instruction *next);

  // Lets the waiting groups that `which` picks run again, after their instruction or at it. True when there
  // were any.
  template <typename Which> bool wake(Which which, bool after) {
    size_t kept = 0, before = waiting.size();
    for (size_t k = 0; k < before; ++k) {
      WaitingGroup &group = waiting[k];
      if (!which(group)) {
        waiting[kept++] = group;
        continue;
      }
      group.group.next = group.instruction + (after ? 1 : 0);
      ready.push_back(group.group);
    }
    waiting.resize(kept);
    return kept != before;
  }

  // Lanes that have waited at a join since `latest` or longer run on without the others. False when there are
  // none.
  bool detach_joins(int64_t latest = INT64_MAX);
  void set_lanes(uint32_t lanes);

private:
  const Instruction *turn(const Instruction *next);
  void enter(const Group &group);
  int32_t new_join(const Instruction *at);
  void remove_from_joins(uint32_t lanes);
  void match_waiting();
  int64_t now() const { return run_before + slice - credit; }
  void end_slice();
  // Sets the slice of the current group: until the budget ends, or others want to run.
  void begin_slice();
  void run_steps(const Instruction *next, uint64_t &steps);
  void wait_at_join(Join &join, uint32_t lanes);
};

// Ends the launch with a message that names kernel, line, block and thread.
[[noreturn]] void fail(const Warp &warp, const Instruction *i, LaunchStatus status, const std::string &what,
                       uint32_t lane);

} // namespace emulator
