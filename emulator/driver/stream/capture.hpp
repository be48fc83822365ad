// Stream capture: work for a capturing stream becomes nodes of a graph and does not run.
//
// A sequence begins in one stream and spreads to every stream that waits for an event recorded in it. The
// rules are those of cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode and, for what may not be asked
// meanwhile, the CUDA C++ Programming Guide, "Prohibited and Unhandled Operations". Which calls count as
// potentially unsafe is documented by example only; the list in capture.cpp is not yet seen on a GPU.
#pragma once

#include "graph/operations.hpp"

#include <set>
#include <thread>

namespace emulator::driver {

struct Capture {
  uint64_t identifier = 0;
  std::shared_ptr<Graph> graph;
  bool into_given_graph = false; // cuStreamBeginCaptureToGraph: the program's, not ours to give or destroy
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::shared_ptr<Stream> origin;
  std::vector<std::shared_ptr<Stream>> streams; // origin and all that joined
  std::set<const GraphNode *> loose;            // captured nodes that nothing captured depends on
  bool invalidated = false;
  bool ended = false;
};

// Whether work for the stream becomes nodes. Throws when its capture has been invalidated.
bool capturing(const Stream &stream);
// Adds a node after what the stream has captured before, and makes it the stream's newest.
std::shared_ptr<GraphNode> capture(Stream &stream, OperationPointer operation);
// Records an event in a capturing stream: it then stands for the nodes that the stream's next node depends
// on.
void capture_record(Stream &stream, Event &event);

// Each throws, and invalidates the captures concerned, when a capture forbids:
void refuse_capturing(const Stream &stream);       // work that cannot be a node, or would join one
void refuse_waiting(const Stream &stream);         // waiting for a stream, or asking about it
void refuse_waiting(const Context &context);       // the same for all of a context
void refuse_while_capturing(const char *function); // what may be unsafe next to a capture
// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream of a context with a blocking stream that captures.
void require_no_implicit_capture(const Stream &stream);

// The context ends, and with it the sequences that one of its streams takes part in.
void end_captures(const Context &context);
// The stream's handle ends.
void stream_ends(const Stream &stream);

} // namespace emulator::driver
