// An event remembers the newest marker that was recorded into it, or who recorded it in place of a stream.
#pragma once

#include "operation.hpp"

namespace emulator::driver {

struct Event {
  Context *context = nullptr;
  unsigned flags = 0;
  std::shared_ptr<Work> recorded;     // null before the first record
  std::shared_ptr<Recorder> recorder; // last recorded in a stream that was recorded itself

  void set_recorded(std::shared_ptr<Work> work) {
    recorded = std::move(work);
    recorder = nullptr;
  }
};

// Records the event in a stream, or in the recording of it.
void record(Lock &lock, const std::shared_ptr<Stream> &stream, Event &event);

// Documented with cuEventRecordWithFlags and cuStreamWaitEvent, for events outside of a graph: "each launch
// of the graph will record `event` to capture execution of the node's dependencies", and "will wait for all
// work captured in `event`", as of the launch.
struct EventOperation final : Operation {
  CUgraphNodeType kind;
  CUevent handle;
  std::shared_ptr<Event> event;

  EventOperation(CUgraphNodeType type, CUevent of); // CUDA_ERROR_INVALID_VALUE when there is none
  CUgraphNodeType type() const override { return kind; }
  Works works() const override;
};

} // namespace emulator::driver
