// The headers of both APIs, in the one order that works: include nothing of CUDA in any other way.
//
// Files in stream_calls/ are compiled twice. With RUNTIME_PER_THREAD_DEFAULT_STREAM the runtime's own header
// renames every function that a stream takes part in to its `_ptsz` or `_ptds` twin, so one body defines
// both. The driver's header, included first, keeps its plain names: which of the driver's twins is called is
// said at the call.
#pragma once

// Every function that the headers declare is exported; nothing else is.
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaTypedefs.h>
// Of headers that come in packages of their own.
extern "C" {
typedef CUresult (*PFN_cuProfilerStart_v4000)(void);
typedef CUresult (*PFN_cuProfilerStop_v4000)(void);
}

#ifdef RUNTIME_PER_THREAD_DEFAULT_STREAM
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#endif
#include <cuda_runtime_api.h>
extern "C" {
cudaError_t CUDARTAPI cudaProfilerStart(void);
cudaError_t CUDARTAPI cudaProfilerStop(void);
}
#pragma GCC visibility pop

// For functions that no header declares: those which compiled code calls.
#define RUNTIME_EXPORT extern "C" __attribute__((visibility("default")))

namespace emulator::runtime {

// What cudaRuntimeGetVersion says: the version whose behaviour this is, whatever headers the build found.
constexpr int runtime_version = RUNTIME_MAJOR == 12 ? 12090 : 13000;

// The meaning of stream 0, as a program chose it when it was compiled.
enum class DefaultStream { legacy, per_thread };

#ifdef RUNTIME_PER_THREAD_DEFAULT_STREAM
constexpr DefaultStream default_stream = DefaultStream::per_thread;
// For names that no header declares.
#define RUNTIME_TWIN(name) name##_ptsz
#else
constexpr DefaultStream default_stream = DefaultStream::legacy;
#define RUNTIME_TWIN(name) name
#endif

} // namespace emulator::runtime
