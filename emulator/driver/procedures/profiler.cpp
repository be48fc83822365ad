// cuProfilerStart and cuProfilerStop: nothing listens, as without a profiler on the real driver.
#include "core/driver.hpp"

using namespace emulator::driver;

extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI cuProfilerStart(void) {
  return enter("cuProfilerStart", Needs::context, [](Call &) {});
}

extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI cuProfilerStop(void) {
  return enter("cuProfilerStop", Needs::context, [](Call &) {});
}
