// An event remembers the newest marker that was recorded into it, or what a capturing stream had captured.
#pragma once

#include "core/driver.hpp"
#include "graph/dependency.hpp"

namespace emulator::driver {

struct Event {
  Context *context = nullptr;
  unsigned flags = 0;
  std::shared_ptr<Work> recorded; // null before the first record
  // Last recorded in a capturing stream: the sequence, and what a stream that waits will depend on.
  std::shared_ptr<Capture> captured;
  std::vector<GraphDependency> captured_dependencies;

  void set_recorded(std::shared_ptr<Work> work) {
    recorded = std::move(work);
    captured = nullptr;
    captured_dependencies.clear();
  }
};

// Records the event in a stream that is not capturing.
void record(Lock &lock, const std::shared_ptr<Stream> &stream, Event &event);

} // namespace emulator::driver
