// Stream capture: what is submitted to a stream becomes nodes of a graph and does not run.
//
// A sequence begins in one stream and spreads to every stream that waits for an event recorded in it. The
// rules are those of cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode and, for what may not be asked
// meanwhile, the CUDA C++ Programming Guide, "Prohibited and Unhandled Operations". Which calls count as
// potentially unsafe is documented by example only; the list in prohibitions.cpp is not yet seen on a GPU
// (GT-CAPTURE-UNSAFE).
#pragma once

#include "graph/graph.hpp"
#include "stream/recorder.hpp"

#include <set>
#include <thread>

namespace emulator::driver {

// One sequence.
struct Capture final : Recorder, std::enable_shared_from_this<Capture> {
  struct Place {
    // What the stream's next node depends on.
    std::vector<GraphDependency> dependencies;
    // As a call was told them: pointers to these are valid until the next call that works on the stream.
    std::vector<CUgraphNode> seen_nodes;
    std::vector<CUgraphEdgeData> seen_edges;

    void add(const std::vector<GraphDependency> &more); // those that are not there yet
  };

  uint64_t identifier = 0;
  std::shared_ptr<Graph> graph;
  bool into_given_graph = false; // cuStreamBeginCaptureToGraph: the program's, not ours to give or destroy
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  std::shared_ptr<Stream> origin;
  std::map<std::shared_ptr<Stream>, Place> streams;             // origin and all that joined
  std::map<const Event *, std::vector<GraphDependency>> events; // what waiting for each means
  std::set<const GraphNode *> loose;                            // nodes that nothing captured depends on
  bool is_invalid = false;
  bool ended = false;

  Place &place_of(const Stream &stream);
  Place &join(const std::shared_ptr<Stream> &stream);

  bool invalidated() const override { return is_invalid; }
  void invalidate() override { is_invalid = true; }
  void add(Stream &stream, OperationPointer operation) override;
  CUdeviceptr allocate(Stream &stream, size_t bytes) override;
  void free(Stream &stream, CUdeviceptr address) override;
  void record(const Stream &stream, Event &event) override;
  void wait(const std::shared_ptr<Stream> &stream, const Event &event) override;
  void stream_ends(const Stream &stream) override;
};

// The capture that a stream takes part in, or null. Captures alone record streams.
Capture *capture_of(const Stream &stream);

std::shared_ptr<Capture> begin_capture(const std::shared_ptr<Stream> &stream,
                                       const std::shared_ptr<Graph> &graph, CUstreamCaptureMode mode);
// The streams go back to running their work. Gives the graph, unless it has to go.
std::shared_ptr<Graph> end_capture(Capture &capture, bool keep_graph);
// The context ends, and with it the sequences that one of its streams takes part in.
void end_captures(const Context &context);

// Begun and not ended.
const std::vector<std::shared_ptr<Capture>> &captures();

void require_mode(CUstreamCaptureMode mode); // CUDA_ERROR_INVALID_VALUE for none of the three
// What cuThreadExchangeStreamCaptureMode exchanges.
CUstreamCaptureMode &thread_capture_mode();
// Driver::refuse_call while there are captures: throws, and invalidates the captures concerned, for what may
// be unsafe next to one.
void refuse_while_capturing(const char *function);
// Whether the legacy stream of the context would depend on it.
bool blocks_legacy_stream(const Capture &capture, const Context &context);

} // namespace emulator::driver
