// What a thread may not call while streams are captured.
#include "capture.hpp"
#include "entry/entry.hpp"

#include <algorithm>
#include <cstring>

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

} // namespace

CUstreamCaptureMode &thread_capture_mode() { return thread_mode; }

bool blocks_legacy_stream(const Capture &capture, const Context &context) {
  return std::any_of(capture.streams.begin(), capture.streams.end(), [&](const auto &item) {
    return item.first->context == &context && item.first->blocking();
  });
}

void refuse_while_capturing(const char *function) {
  bool copy = named(function, synchronous_copies);
  if (!copy && !named(function, unsafe_functions))
    return;
  const Context *context = current_context();
  bool any = false;
  for (const auto &capture : captures()) {
    // A copy through the legacy stream has a better reason to fail: it is found when the copy is issued.
    bool implicit =
        copy && context && !PerThreadDefaultStream::active() && blocks_legacy_stream(*capture, *context);
    if (prohibits(*capture) && !implicit) {
      capture->invalidate();
      any = true;
    }
  }
  require(!any, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

} // namespace emulator::driver
