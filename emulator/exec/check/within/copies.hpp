// Asynchronous copies of a block: from which moment on each is known to be done, and to whom.
//
// A copy begins where it is issued. Its end is known to the thread that waits for it, and to those that are
// ordered after that wait; or to those who see the phase of an mbarrier complete that counts it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/check/within/clocks.hpp"

namespace emulator {

// What the end of a copy is told by: groups of its thread, of cp.async or of bulk copies, or an mbarrier.
enum class CopyEnd : uint8_t { group, bulk_group, gate };

class Copies {
public:
  void prepare(uint32_t threads, Clocks &clocks);
  void start();

  // A number for a copy that the thread issues. mbarrier: with CopyEnd::gate.
  uint32_t issue(uint32_t thread, uint32_t instruction, CopyEnd end, uint64_t mbarrier);
  // The same of one that ends with such a phase.
  uint32_t issue(uint32_t thread, uint32_t instruction, Clocks::GatePhase end) {
    copies_.push_back({thread, instruction, CopyEnd::gate, 0, end});
    return static_cast<uint32_t>(copies_.size() - 1);
  }
  uint32_t thread_of(uint32_t copy) const { return copies_[copy].thread; }
  uint32_t instruction_of(uint32_t copy) const { return copies_[copy].instruction; }

  void commit(uint32_t thread, CopyEnd end) {
    Series &series = of(thread, end);
    series.groups.push_back(series.issued);
  }
  // At most so many groups stay.
  void wait(uint32_t thread, CopyEnd end, uint64_t groups);
  // For all that the thread has issued.
  void wait_for_all(uint32_t thread, CopyEnd end) { done(thread, end, of(thread, end).issued); }
  // The current phase of the mbarrier ends after all that the thread has issued.
  void arrive_after(uint32_t thread, uint64_t mbarrier);

  // Whether the thread is ordered after the end of the copy.
  bool knows_end(uint32_t thread, uint32_t copy) const;
  // Whether all threads are, from now on. False also where nobody can tell at once.
  bool is_known_to_all(uint32_t copy) const;

private:
  struct Copy {
    uint32_t thread, instruction;
    CopyEnd end;
    uint32_t number; // in its series
    Clocks::GatePhase phase;
  };
  // The first so many of a series have ended: at a wait, or with a phase of a gate.
  struct Ended {
    uint32_t count = 0;
    bool with_phase = false;
    Moment at;
    Clocks::GatePhase phase;
  };
  struct Series {
    uint32_t issued = 0, known_to_all = 0;
    std::vector<uint32_t> groups; // how many had been issued when each was committed, of those not waited for
    std::vector<Ended> ended;
  };
  Series &of(uint32_t thread, CopyEnd end) { return series_[thread][static_cast<size_t>(end)]; }
  void done(uint32_t thread, CopyEnd end, uint32_t count);
  void add(Series &series, const Ended &ended);

  static constexpr size_t most_kept = 64;
  Clocks *clocks_ = nullptr;
  std::vector<Copy> copies_;
  std::vector<std::array<Series, 2>> series_; // of each thread
};

} // namespace emulator
