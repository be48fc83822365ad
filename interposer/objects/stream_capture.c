// Calls that go into a stream capture: the driver notes them down in a graph, and nothing runs.
#include "objects/stream_capture.h"

#include "base/bytes.h"
#include "base/macros.h"
#include "base/state.h"
#include "driver/real.h"

// cuLaunchKernelEx has its stream in the CUlaunchConfig.
uint64_t stream_of_call(const struct call *call) {
  uint64_t stream = 0;
  if (call->function->id == ID_cuLaunchKernelEx)
    read_memory(&stream, (const void *)(uintptr_t)(call->arguments[0] + 32), sizeof stream);
  else if (call->function->stream >= 0)
    stream = call->arguments[call->function->stream];
  return stream;
}

// The default stream answers with an error while another stream is being captured, and no capture suffers:
// cuStreamIsCapturing says so.
bool goes_into_capture(const struct call *call) {
  const struct function *function = call->function;
  if (LIKELY(atomic_load_explicit(&captures_under_way, memory_order_relaxed) <= 0) ||
      function->effect == EFFECT_BEGIN_CAPTURE || function->effect == EFFECT_END_CAPTURE ||
      (function->stream < 0 && function->id != ID_cuLaunchKernelEx))
    return false;
  bool per_thread = (call->record_function & PER_THREAD_BIT) != 0;
  int (*ask)(uint64_t, int *) =
      driver_symbol(per_thread ? "cuStreamIsCapturing_ptsz" : "cuStreamIsCapturing");
  int status = 0;
  return ask != NULL && ask(stream_of_call(call), &status) == SUCCESS && status != 0;
}
