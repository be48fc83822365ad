// Streams that are captured into graphs, and graphs that are launched into streams.
#include "core/entry.hpp"
#include "core/same.hpp"

using namespace emulator::runtime;

// clang-format off
FORWARD_STREAM(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
               cuStreamBeginCapture, (stream, *same(&mode)))
FORWARD_STREAM(cudaStreamBeginCaptureToGraph,
               (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                const cudaGraphEdgeData *dependencyData, size_t numDependencies, cudaStreamCaptureMode mode),
               cuStreamBeginCaptureToGraph,
               (stream, graph, dependencies, same(dependencyData), numDependencies, *same(&mode)))
FORWARD_STREAM(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *pGraph), cuStreamEndCapture, (stream, pGraph))
FORWARD_STREAM(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus *pCaptureStatus),
               cuStreamIsCapturing, (stream, same(pCaptureStatus)))
FORWARD_STREAM(cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream), cuGraphLaunch, (graphExec, stream))
FORWARD_STREAM(cudaGraphUpload, (cudaGraphExec_t graphExec, cudaStream_t stream), cuGraphUpload, (graphExec, stream))
FORWARD_STREAM(cudaGraphInstantiateWithParams,
               (cudaGraphExec_t *pGraphExec, cudaGraph_t graph, cudaGraphInstantiateParams *instantiateParams),
               cuGraphInstantiateWithParams, (pGraphExec, graph, same(instantiateParams)))

// What a capture has so far. The driver gives edge data too; the versions without it have no place for any.
#define CAPTURE_INFO(name)                                                                                             \
  FORWARD_STREAM(name,                                                                                                 \
                 (cudaStream_t stream, cudaStreamCaptureStatus *captureStatus_out, unsigned long long *id_out,         \
                  cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,                                    \
                  const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out),                                \
                 cuStreamGetCaptureInfo,                                                                               \
                 (stream, same(captureStatus_out), reinterpret_cast<cuuint64_t *>(id_out), graph_out,                  \
                  dependencies_out, reinterpret_cast<const CUgraphEdgeData **>(edgeData_out), numDependencies_out))
#define UPDATE_DEPENDENCIES(name)                                                                                      \
  FORWARD_STREAM(name,                                                                                                 \
                 (cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *dependencyData,         \
                  size_t numDependencies, unsigned int flags),                                                         \
                 cuStreamUpdateCaptureDependencies,                                                                    \
                 (stream, dependencies, same(dependencyData), numDependencies, flags))
#if CUDART_VERSION >= 13000
CAPTURE_INFO(cudaStreamGetCaptureInfo)
UPDATE_DEPENDENCIES(cudaStreamUpdateCaptureDependencies)
#else
CAPTURE_INFO(cudaStreamGetCaptureInfo_v3)
UPDATE_DEPENDENCIES(cudaStreamUpdateCaptureDependencies_v2)
FORWARD_STREAM(cudaStreamUpdateCaptureDependencies,
               (cudaStream_t stream, cudaGraphNode_t *dependencies, size_t numDependencies, unsigned int flags),
               cuStreamUpdateCaptureDependencies, (stream, dependencies, nullptr, numDependencies, flags))
// The header renames this to cudaStreamGetCaptureInfo_v2.
FORWARD_STREAM(cudaStreamGetCaptureInfo,
               (cudaStream_t stream, cudaStreamCaptureStatus *captureStatus_out, unsigned long long *id_out,
                cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out, size_t *numDependencies_out),
               cuStreamGetCaptureInfo,
               (stream, same(captureStatus_out), reinterpret_cast<cuuint64_t *>(id_out), graph_out, dependencies_out,
                nullptr, numDependencies_out))
#undef cudaStreamGetCaptureInfo
// The first version, for programs compiled before CUDA 12.
RUNTIME_EXPORT cudaError_t CUDARTAPI RUNTIME_TWIN(cudaStreamGetCaptureInfo)(
    cudaStream_t stream, cudaStreamCaptureStatus *captureStatus_out, unsigned long long *id_out) {
  return enter(Needs::context, [&] {
    return driver.call_cuStreamGetCaptureInfo[default_stream](
        stream, same(captureStatus_out), reinterpret_cast<cuuint64_t *>(id_out), nullptr, nullptr, nullptr, nullptr);
  });
}
#endif
