// cuProfilerStart and cuProfilerStop: nothing listens, as without a profiler on the real driver.
#include "entry/entry.hpp"

using namespace emulator::driver;

// The profiler that wrote files of its own is gone from the real driver, which says so even before cuInit.
CUresult CUDAAPI cuProfilerInitialize(const char *, const char *, int) {
  return enter("cuProfilerInitialize", Needs::nothing, [](Call &) { fail(CUDA_ERROR_NOT_SUPPORTED); });
}

CUresult CUDAAPI cuProfilerStart(void) {
  return enter("cuProfilerStart", Needs::context, [](Call &) {});
}

CUresult CUDAAPI cuProfilerStop(void) {
  return enter("cuProfilerStop", Needs::context, [](Call &) {});
}
