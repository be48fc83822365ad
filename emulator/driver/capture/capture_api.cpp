// Beginning and ending captures, and asking about them.
#include "capture.hpp"
#include "entry/entry.hpp"

using namespace emulator::driver;

namespace {

// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream of a context with a blocking stream that is
// captured.
void require_no_implicit_capture(const Stream &stream) {
  if (!stream.legacy)
    return;
  for (const auto &capture : captures())
    require(!blocks_legacy_stream(*capture, *stream.context), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

CUstreamCaptureStatus status_of(const Capture *capture) {
  return !capture                 ? CU_STREAM_CAPTURE_STATUS_NONE
         : capture->invalidated() ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

} // namespace

// ---- beginning and ending

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  return enter("cuStreamBeginCapture_v2", Needs::healthy, hStream,
               [&](Call &call) { begin_capture(stream_of(*call.context, hStream), nullptr, mode); });
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream hStream) {
  return enter("cuStreamBeginCapture", Needs::healthy, hStream, [&](Call &call) {
    begin_capture(stream_of(*call.context, hStream), nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL);
  });
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                             const CUgraphNode *dependencies,
                                             const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                             CUstreamCaptureMode mode) {
  return enter("cuStreamBeginCaptureToGraph", Needs::healthy, hStream, [&](Call &call) {
    auto stream = stream_of(*call.context, hStream);
    auto graph = graph_of(hGraph);
    auto first = dependencies_of(*graph, dependencies, dependencyData, numDependencies);
    begin_capture(stream, graph, mode)->place_of(*stream).add(first);
  });
}

CUresult CUDAAPI cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) {
  return enter("cuStreamEndCapture", Needs::context, hStream, [&](Call &call) {
    if (phGraph)
      *phGraph = nullptr;
    auto stream = stream_of(*call.context, hStream);
    Capture *capture = capture_of(*stream);
    // Nothing is lost without it where the graph is the program's own.
    require(phGraph != nullptr || (capture && capture->into_given_graph), CUDA_ERROR_INVALID_VALUE);
    require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    require(capture->origin == stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == std::this_thread::get_id(),
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    for (const auto &dependency : capture->place_of(*stream).dependencies)
      capture->loose.erase(dependency.node.get());
    bool unjoined = !capture->loose.empty(), invalidated = capture->invalidated();
    auto graph = end_capture(*capture, !unjoined && !invalidated);
    require(!invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    require(!unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    if (phGraph)
      *phGraph = handle_of<CUgraph>(graph.get());
  });
}

// ---- asking

CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
  return enter("cuStreamIsCapturing", Needs::context, hStream, [&](Call &call) {
    require(captureStatus != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    require_no_implicit_capture(*stream);
    *captureStatus = status_of(capture_of(*stream));
  });
}

static CUresult capture_info(const char *function, CUstream handle, CUstreamCaptureStatus *status,
                             cuuint64_t *identifier, CUgraph *graph, const CUgraphNode **dependencies,
                             const CUgraphEdgeData **edges, size_t *count) {
  return enter(function, Needs::context, handle, [&](Call &call) {
    require(status != nullptr && (!edges || dependencies), CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, handle);
    require_no_implicit_capture(*stream);
    Capture *capture = capture_of(*stream);
    bool active = capture && !capture->invalidated();
    Capture::Place none;
    Capture::Place &place = active ? capture->place_of(*stream) : none;
    if (dependencies && !edges)
      for (const auto &dependency : place.dependencies)
        require(is_default(dependency.edge), CUDA_ERROR_LOSSY_QUERY);
    *status = status_of(capture);
    place.seen_nodes.clear();
    place.seen_edges.clear();
    for (const auto &dependency : place.dependencies) {
      place.seen_nodes.push_back(handle_of<CUgraphNode>(dependency.node.get()));
      place.seen_edges.push_back(dependency.edge);
    }
    if (identifier)
      *identifier = active ? capture->identifier : 0;
    if (graph)
      *graph = active ? handle_of<CUgraph>(capture->graph.get()) : nullptr;
    if (dependencies)
      *dependencies = place.seen_nodes.data();
    if (edges)
      *edges = place.seen_edges.data();
    if (count)
      *count = place.seen_nodes.size();
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
  return enter(function, Needs::healthy, handle, [&](Call &call) {
    auto stream = stream_of(*call.context, handle);
    require(recorder_of(*stream) != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    Capture &capture = *capture_of(*stream);
    require(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES, CUDA_ERROR_INVALID_VALUE);
    auto added = dependencies_of(*capture.graph, nodes, edges, count);
    Capture::Place &place = capture.place_of(*stream);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
      // Documented: nodes that are removed from the set this way do not count as unjoined.
      for (const auto &dependency : place.dependencies)
        capture.loose.erase(dependency.node.get());
      place.dependencies.clear();
    }
    place.add(added);
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
    std::swap(*mode, thread_capture_mode());
  });
}
