#include "capture.hpp"

#include "device/context.hpp"
#include "event.hpp"
#include "graph/graph.hpp"

#include <algorithm>
#include <cstring>

using namespace emulator::driver;

namespace emulator::driver {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Calls that act at once, unseen by the capture whose work may depend on them.
constexpr const char *unsafe_functions[] = {
    "cuMemAlloc_v2",          "cuMemAllocPitch_v2", "cuMemAllocManaged",  "cuMemFree_v2",
    "cuMemAllocHost_v2",      "cuMemHostAlloc",     "cuMemFreeHost",      "cuMemHostRegister_v2",
    "cuMemHostUnregister",    "cuArrayCreate_v2",   "cuArray3DCreate_v2", "cuArrayDestroy",
    "cuMipmappedArrayCreate", "cuModuleLoad",       "cuModuleLoadData",   "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",  "cuModuleUnload",     "cuEventQuery",       "cuEventSynchronize",
};
// Synchronous copies: the same, where the legacy stream does not already give a reason of its own.
constexpr const char *synchronous_copies[] = {
    "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2",        "cuMemcpyDtoD_v2", "cuMemcpy",        "cuMemcpyPeer",
    "cuMemcpy2D_v2",   "cuMemcpy2DUnaligned_v2", "cuMemcpy3D_v2",   "cuMemcpy3DPeer",  "cuMemcpyDtoA_v2",
    "cuMemcpyAtoD_v2", "cuMemcpyHtoA_v2",        "cuMemcpyAtoH_v2", "cuMemcpyAtoA_v2",
};

template <size_t count> bool named(const char *function, const char *const (&names)[count]) {
  return std::any_of(names, names + count, [&](const char *name) { return !std::strcmp(name, function); });
}

// Whether this thread may not make unsafe calls because of the capture.
bool prohibits(const Capture &capture) {
  bool own = capture.thread == std::this_thread::get_id();
  switch (thread_mode) {
  case CU_STREAM_CAPTURE_MODE_GLOBAL:
    return own ? capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED
               : capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL:
    return own && capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  default:
    return false;
  }
}

bool takes_part(const Capture &capture, const Context &context) {
  return std::any_of(capture.streams.begin(), capture.streams.end(),
                     [&](const auto &stream) { return stream->context == &context; });
}

// Whether the legacy stream of the context would depend on it.
bool blocks_legacy_stream(const Capture &capture, const Context &context) {
  return std::any_of(capture.streams.begin(), capture.streams.end(),
                     [&](const auto &stream) { return stream->context == &context && stream->blocking(); });
}

// Invalidates the captures for which `concerned` holds; true when there was one.
template <typename Predicate> bool invalidate_if(Predicate &&concerned) {
  bool any = false;
  for (const auto &capture : driver().captures)
    if (concerned(*capture)) {
      capture->invalidated = true;
      any = true;
    }
  return any;
}

void invalidate(Capture &capture) { capture.invalidated = true; }

void require_mode(CUstreamCaptureMode mode) {
  require(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED,
          CUDA_ERROR_INVALID_VALUE);
}

void join(const std::shared_ptr<Capture> &capture, const std::shared_ptr<Stream> &stream) {
  stream->capture = capture;
  stream->capture_dependencies.clear();
  capture->streams.push_back(stream);
}

void add_dependencies(Stream &stream, const std::vector<GraphDependency> &added) {
  auto &present = stream.capture_dependencies;
  for (const auto &dependency : added) {
    auto same = [&](const auto &other) { return other.node == dependency.node; };
    if (std::none_of(present.begin(), present.end(), same))
      present.push_back(dependency);
  }
}

// The streams go back to running their work. Gives the graph, unless it has to go.
std::shared_ptr<Graph> end(const std::shared_ptr<Capture> &capture, bool keep_graph) {
  capture->ended = true;
  for (const auto &stream : capture->streams) {
    stream->capture = nullptr;
    stream->capture_dependencies.clear();
  }
  capture->streams.clear();
  capture->origin = nullptr;
  auto &captures = driver().captures;
  captures.erase(std::remove(captures.begin(), captures.end(), capture), captures.end());
  auto graph = std::move(capture->graph);
  --graph->captures;
  if (!keep_graph && !capture->into_given_graph)
    destroy_graph(*graph);
  return graph;
}

std::shared_ptr<Capture> begin(const std::shared_ptr<Stream> &stream, std::shared_ptr<Graph> graph,
                               CUstreamCaptureMode mode) {
  require_mode(mode);
  require(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  require(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
  auto capture = std::make_shared<Capture>();
  capture->identifier = driver().next_identifier++;
  capture->into_given_graph = graph != nullptr;
  capture->graph = graph ? graph : new_graph();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  ++capture->graph->captures;
  join(capture, stream);
  driver().captures.push_back(capture);
  return capture;
}

} // namespace

bool capturing(const Stream &stream) {
  if (!stream.capture)
    return false;
  require(!stream.capture->invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  return true;
}

std::shared_ptr<GraphNode> capture(Stream &stream, OperationPointer operation) {
  Capture &sequence = *stream.capture;
  auto &dependencies = stream.capture_dependencies;
  auto node = add_node(*sequence.graph, std::move(operation), dependencies);
  for (const auto &dependency : dependencies)
    sequence.loose.erase(dependency.node.get());
  sequence.loose.insert(node.get());
  dependencies = {{node, {}}};
  return node;
}

void capture_record(Stream &stream, Event &event) {
  event.set_recorded(nullptr);
  event.captured = stream.capture;
  event.captured_dependencies = stream.capture_dependencies;
}

void require_no_implicit_capture(const Stream &stream) {
  if (!stream.legacy)
    return;
  for (const auto &capture : driver().captures)
    require(!blocks_legacy_stream(*capture, *stream.context), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void refuse_capturing(const Stream &stream) {
  if (driver().captures.empty())
    return;
  if (capturing(stream)) {
    invalidate(*stream.capture);
    fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  if (stream.legacy) {
    bool any = invalidate_if([&](const Capture &c) { return blocks_legacy_stream(c, *stream.context); });
    require(!any, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
}

void refuse_waiting(const Stream &stream) { refuse_capturing(stream); }

void refuse_waiting(const Context &context) {
  bool any = invalidate_if([&](const Capture &capture) { return takes_part(capture, context); });
  require(!any, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void refuse_while_capturing(const char *function) {
  bool copy = named(function, synchronous_copies);
  if (!copy && !named(function, unsafe_functions))
    return;
  Context *context = current_context();
  auto concerned = [&](const Capture &capture) {
    // A copy through the legacy stream has a better reason to fail: it is found when the copy is issued.
    bool implicit =
        copy && context && !PerThreadDefaultStream::active() && blocks_legacy_stream(capture, *context);
    return prohibits(capture) && !implicit;
  };
  require(!invalidate_if(concerned), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void end_captures(const Context &context) {
  auto captures = driver().captures; // `end` changes the list
  for (const auto &capture : captures)
    if (takes_part(*capture, context))
      end(capture, false);
}

void stream_ends(const Stream &stream) {
  if (!stream.capture)
    return;
  auto capture = stream.capture;
  if (capture->origin.get() == &stream)
    end(capture, false); // nobody can end it any more
}

} // namespace emulator::driver

// ---- beginning and ending

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  return enter("cuStreamBeginCapture_v2", Needs::healthy,
               [&](Call &call) { begin(stream_of(*call.context, hStream), nullptr, mode); });
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream hStream) {
  return enter("cuStreamBeginCapture", Needs::healthy, [&](Call &call) {
    begin(stream_of(*call.context, hStream), nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL);
  });
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                             const CUgraphNode *dependencies,
                                             const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                             CUstreamCaptureMode mode) {
  return enter("cuStreamBeginCaptureToGraph", Needs::healthy, [&](Call &call) {
    auto stream = stream_of(*call.context, hStream);
    auto graph = graph_of(hGraph);
    auto first = dependencies_of(*graph, dependencies, dependencyData, numDependencies);
    begin(stream, graph, mode);
    add_dependencies(*stream, first);
  });
}

CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) {
  return enter("cuStreamEndCapture", Needs::context, [&](Call &call) {
    if (phGraph)
      *phGraph = nullptr;
    auto stream = stream_of(*call.context, hStream);
    auto capture = stream->capture;
    // Nothing is lost without it where the graph is the program's own.
    require(phGraph != nullptr || (capture && capture->into_given_graph), CUDA_ERROR_INVALID_VALUE);
    require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    require(capture->origin == stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == std::this_thread::get_id(),
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    for (const auto &dependency : stream->capture_dependencies)
      capture->loose.erase(dependency.node.get());
    bool unjoined = !capture->loose.empty(), invalidated = capture->invalidated;
    auto graph = end(capture, !unjoined && !invalidated);
    require(!invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    require(!unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    if (phGraph)
      *phGraph = handle_of<CUgraph>(graph.get());
  });
}

// ---- asking

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
  return enter("cuStreamIsCapturing", Needs::context, [&](Call &call) {
    require(captureStatus != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    require_no_implicit_capture(*stream);
    *captureStatus = !stream->capture               ? CU_STREAM_CAPTURE_STATUS_NONE
                     : stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  });
}

static CUresult capture_info(const char *function, CUstream handle, CUstreamCaptureStatus *status,
                             cuuint64_t *identifier, CUgraph *graph, const CUgraphNode **dependencies,
                             const CUgraphEdgeData **edges, size_t *count) {
  return enter(function, Needs::context, [&](Call &call) {
    require(status != nullptr && (!edges || dependencies), CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, handle);
    require_no_implicit_capture(*stream);
    const Capture *capture = stream->capture.get();
    bool active = capture && !capture->invalidated;
    const auto &present = stream->capture_dependencies;
    if (active && dependencies && !edges)
      for (const auto &dependency : present)
        require(is_default(dependency.edge), CUDA_ERROR_LOSSY_QUERY);
    *status = active    ? CU_STREAM_CAPTURE_STATUS_ACTIVE
              : capture ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                        : CU_STREAM_CAPTURE_STATUS_NONE;
    stream->seen_dependencies.clear();
    stream->seen_edges.clear();
    if (active)
      for (const auto &dependency : present) {
        stream->seen_dependencies.push_back(handle_of<CUgraphNode>(dependency.node.get()));
        stream->seen_edges.push_back(dependency.edge);
      }
    if (identifier)
      *identifier = active ? capture->identifier : 0;
    if (graph)
      *graph = active ? handle_of<CUgraph>(capture->graph.get()) : nullptr;
    if (dependencies)
      *dependencies = stream->seen_dependencies.data();
    if (edges)
      *edges = stream->seen_edges.data();
    if (count)
      *count = stream->seen_dependencies.size();
  });
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                        cuuint64_t *id_out) {
  return capture_info("cuStreamGetCaptureInfo", hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr,
                      nullptr);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                           cuuint64_t *id_out, CUgraph *graph_out,
                                           const CUgraphNode **dependencies_out,
                                           size_t *numDependencies_out) {
  return capture_info("cuStreamGetCaptureInfo_v2", hStream, captureStatus_out, id_out, graph_out,
                      dependencies_out, nullptr, numDependencies_out);
}

CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                           cuuint64_t *id_out, CUgraph *graph_out,
                                           const CUgraphNode **dependencies_out,
                                           const CUgraphEdgeData **edgeData_out,
                                           size_t *numDependencies_out) {
  return capture_info("cuStreamGetCaptureInfo_v3", hStream, captureStatus_out, id_out, graph_out,
                      dependencies_out, edgeData_out, numDependencies_out);
}

// ---- changing

static CUresult update_dependencies(const char *function, CUstream handle, const CUgraphNode *nodes,
                                    const CUgraphEdgeData *edges, size_t count, unsigned flags) {
  return enter(function, Needs::healthy, [&](Call &call) {
    auto stream = stream_of(*call.context, handle);
    require(capturing(*stream), CUDA_ERROR_ILLEGAL_STATE);
    require(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES, CUDA_ERROR_INVALID_VALUE);
    auto added = dependencies_of(*stream->capture->graph, nodes, edges, count);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
      // Documented: nodes that are removed from the set this way do not count as unjoined.
      for (const auto &dependency : stream->capture_dependencies)
        stream->capture->loose.erase(dependency.node.get());
      stream->capture_dependencies.clear();
    }
    add_dependencies(*stream, added);
  });
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
                                                   size_t numDependencies, unsigned int flags) {
  return update_dependencies("cuStreamUpdateCaptureDependencies", hStream, dependencies, nullptr,
                             numDependencies, flags);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                                      const CUgraphEdgeData *dependencyData,
                                                      size_t numDependencies, unsigned int flags) {
  return update_dependencies("cuStreamUpdateCaptureDependencies_v2", hStream, dependencies, dependencyData,
                             numDependencies, flags);
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  return enter("cuThreadExchangeStreamCaptureMode", Needs::initialised, [&](Call &) {
    require(mode != nullptr, CUDA_ERROR_INVALID_VALUE);
    require_mode(*mode);
    std::swap(*mode, thread_mode);
  });
}

// ---- events between capturing streams

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  return enter("cuStreamWaitEvent", Needs::healthy, [&](Call &call) {
    auto event = driver().events.get(hEvent);
    require(Flags == CU_EVENT_WAIT_DEFAULT || Flags == CU_EVENT_WAIT_EXTERNAL, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    bool inside = capturing(*stream);
    if (Flags == CU_EVENT_WAIT_EXTERNAL) { // documented: invalid outside of capture
      require(inside, CUDA_ERROR_INVALID_VALUE);
      capture(*stream, make_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, hEvent));
      return;
    }
    auto sequence = event->captured;
    if (!sequence) {
      if (!event->recorded)
        return; // documented: a wait for an event that was never recorded does nothing
      if (inside) {
        invalidate(*stream->capture);
        fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
      }
      auto work = std::make_shared<Work>();
      work->after.push_back(event->recorded);
      issue(call.lock, stream, work);
      return;
    }
    if (sequence->ended || sequence->invalidated) {
      bool over = sequence->ended;
      if (inside)
        invalidate(*stream->capture);
      fail(over ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    if (inside && stream->capture != sequence) {
      invalidate(*stream->capture);
      invalidate(*sequence);
      fail(CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (stream->legacy) {
      invalidate(*sequence);
      fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    if (!inside)
      join(sequence, stream);
    add_dependencies(*stream, event->captured_dependencies);
  });
}
