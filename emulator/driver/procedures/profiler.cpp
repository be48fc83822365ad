// cuProfilerStart and cuProfilerStop: nothing listens, as without a profiler on the real driver.
#include "core/driver.hpp"

using namespace emulator::driver;

CUresult CUDAAPI cuProfilerStart(void) {
  return enter("cuProfilerStart", Needs::context, [](Call &) {});
}

CUresult CUDAAPI cuProfilerStop(void) {
  return enter("cuProfilerStop", Needs::context, [](Call &) {});
}
