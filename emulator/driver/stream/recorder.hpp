// The one way of an operation into a stream. A stream may be recorded: what is submitted to it does not run,
// but goes to its recorder. What that makes of it is said in capture/; here is what calls have to know.
#pragma once

#include "event.hpp"
#include "operation.hpp"

namespace emulator::driver {

class Recorder {
public:
  virtual ~Recorder() = default;
  virtual bool invalidated() const = 0;
  virtual void invalidate() = 0;
  // After what the stream has recorded before. Throws what the operation's `check` throws.
  virtual void add(Stream &stream, OperationPointer operation) = 0;
  // Memory whose address is known now and which is there from this place in the recording to its free.
  virtual CUdeviceptr allocate(Stream &stream, size_t bytes) = 0;
  virtual void free(Stream &stream, CUdeviceptr address) = 0;
  // From then on the event means what the stream has recorded so far.
  virtual void record(const Stream &stream, Event &event) = 0;
  // What it is for a stream, recorded or not, to wait for an event that means something here.
  virtual void wait(const std::shared_ptr<Stream> &stream, const Event &event) = 0;
  virtual void stream_ends(const Stream &stream) = 0;
};

// Null for a stream that is not recorded. Throws when the recording has been invalidated.
Recorder *recorder_of(const Stream &stream);

// Each throws, and invalidates the recordings concerned, where one forbids:
void refuse_recorded(
    const Stream &stream); // work that cannot be recorded or would join a recorded stream; waiting
void refuse_waiting(const Context &context); // waiting for all of a context, or asking about it

// Runs the operation, or records it. The last of its works; null when it was recorded.
std::shared_ptr<Work> submit(Lock &lock, const std::shared_ptr<Stream> &stream, OperationPointer operation);

} // namespace emulator::driver
