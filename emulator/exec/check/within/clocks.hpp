// What happens before what among the threads of a block, as barriers, fences and strong operations order it
// (PTX ISA, memory consistency model).
//
// A barrier of all threads begins a new phase: what lies in an earlier one is ordered. Inside a phase each
// thread has a clock, and knows of others up to which of their clocks it is ordered after them. Where the
// model needs a fence on both sides, the one of the reader is not asked for.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "exec/program/program.hpp"

namespace emulator {

struct Moment {
  uint32_t phase = 0;
  uint32_t clock = 0;
  uint32_t thread = 0;
};

class Clocks {
public:
  void prepare(uint32_t threads);
  // What has been is ordered before what comes: a barrier of all threads.
  void begin_phase() {
    ++phase_;
    if (!gates_.empty())
      seen_by_all_ = seen_;
  }
  void begin_block();
  uint32_t phase() const { return phase_; }

  // The clocks of the threads of a warp, until anything else is called.
  const uint32_t *of_warp(uint32_t warp) {
    begin_warp(warp);
    return clock_.data() + size_t{warp} * lanes_per_warp;
  }
  // Whether the thread is ordered after that moment. `then` is of this phase and another thread.
  bool knows(uint32_t thread, const Moment &then) const {
    return then.thread / lanes_per_warp == thread / lanes_per_warp
               ? warp_phase_[thread / lanes_per_warp] == phase_ && near(thread, then.thread) >= then.clock
               : far_[thread].phase == phase_ && far_[thread].time[then.thread] >= then.clock;
  }

  // bar.warp: each of the lanes is ordered after all of them.
  void join_lanes(uint32_t warp, uint32_t lanes);
  // Threads arrive at barrier `id`, and those that wait leave it once all have arrived.
  void arrive(uint32_t id, uint32_t warp, uint32_t lanes);
  void leave(uint32_t id, uint32_t warp, uint32_t lanes);
  void end_barrier(uint32_t id) { barriers_[id].phase = 0; }
  // A fence: what the thread writes strongly from now on tells of all that it has done until now.
  void fence(uint32_t thread);
  // Of each thread up to which clock this one is ordered after it in this phase, itself included. What it
  // does from now on is later.
  std::vector<uint32_t> tell(uint32_t thread);
  // A strong operation on the word at `address`.
  void read_strongly(uint32_t thread, uint64_t address);
  void write_strongly(uint32_t thread, uint64_t address, bool releases);

  // An mbarrier, by its address: what threads tell that arrive in one of its phases is known to who sees that
  // the phase is complete. Which of its phases, from 1 on:
  struct GatePhase {
    uint32_t gate = 0, number = 0;
  };
  void begin_gate(uint64_t mbarrier);
  void arrive_at_gate(uint32_t thread, uint64_t mbarrier, bool releases);
  void complete_phase(uint64_t mbarrier);
  void see_phase(uint32_t thread, uint64_t mbarrier); // the last one that is complete
  GatePhase current_phase(uint64_t mbarrier);
  bool has_seen(uint32_t thread, GatePhase one) const {
    return seen_by_all_[one.gate] >= one.number ||
           (far_[thread].phase == phase_ && far_[thread].time[threads_ + one.gate] >= one.number);
  }

private:
  // Up to which clock of each thread something is ordered after it, and then up to which phase of each gate;
  // of this phase, or empty.
  struct Knowledge {
    uint32_t phase = 0;
    std::vector<uint32_t> time;
  };
  // Those beyond the most that are kept apart share the last place.
  static constexpr uint32_t most_gates = 64;
  struct Gate {
    uint32_t place = 0, complete = 0; // in Knowledge::time after the threads; phases
    Knowledge arrived, told;          // in the phases until now, in those that are complete
  };
  uint32_t &near(uint32_t thread, uint32_t other) {
    return near_[thread * lanes_per_warp + other % lanes_per_warp];
  }
  uint32_t near(uint32_t thread, uint32_t other) const {
    return near_[thread * lanes_per_warp + other % lanes_per_warp];
  }
  uint32_t &clock_of(uint32_t thread);
  void begin_warp(uint32_t warp);
  void begin(Knowledge &knowledge);
  void publish(uint32_t thread, Knowledge &to);
  void learn(uint32_t thread, const Knowledge &from);
  void join(Knowledge &to, const Knowledge &from);
  Gate &gate(uint64_t mbarrier);
  Knowledge &at(uint64_t address);

  static constexpr uint32_t barriers = 16;
  static constexpr size_t most_places = 4096;
  uint32_t threads_ = 0;
  uint32_t phase_ = 0;
  std::vector<uint32_t> clock_;      // of threads whose warp has begun in this phase
  std::vector<uint32_t> near_;       // of each thread what it knows of its own warp
  std::vector<uint32_t> warp_phase_; // in which the two above were begun
  std::vector<bool> knows_near_;     // of each warp, whether `near_` is not all 0
  std::vector<Knowledge> far_;       // of each thread what it knows of all
  std::vector<Knowledge> fenced_;    // of each thread what it knew at its last fence
  Knowledge barriers_[barriers];
  std::unordered_map<uint64_t, Knowledge> places_; // words that strong writes went to
  Knowledge elsewhere_;                            // and all those beyond the most that are kept apart
  std::unordered_map<uint64_t, Gate> gates_;
  std::array<uint32_t, most_gates> seen_{}, seen_by_all_{}; // phases of each gate, by some thread or by all
};

} // namespace emulator
