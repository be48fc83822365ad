// The primary contexts of the devices, the ends of contexts, and calls that go into a stream capture: the
// driver notes those down in a graph, and nothing runs.
#include "driver/real.h"
#include "generated/structs.h"
#include "objects/objects.h"

enum { MAX_DEVICES = 64 };

static ZERO_IN_CHILD struct {
  _Atomic uint64_t context;
  atomic_int retained;
} primary[MAX_DEVICES];

// Any other that ends a primary context ends it for all who retained it.
static bool is_release(const struct call *call) {
  return call->function->id == ID_cuDevicePrimaryCtxRelease_v2;
}

void note_contexts(const struct call *call) {
  if (is_release(call) && call->arguments[0] < MAX_DEVICES)
    atomic_fetch_sub(&primary[call->arguments[0]].retained, 1);
  if (call->function->effect != EFFECT_RETAIN_PRIMARY || call->arguments[1] >= MAX_DEVICES)
    return;
  atomic_store(&primary[call->arguments[1]].context, handle_given_out(call));
  atomic_fetch_add(&primary[call->arguments[1]].retained, 1);
}

uint64_t context_that_ends(const struct call *call) {
  uint64_t ended = call->arguments[0];
  if (position_of_handle(call->function, HANDLE_CUcontext) == 0)
    return ended;
  bool ends = ended < MAX_DEVICES && (!is_release(call) || atomic_load(&primary[ended].retained) <= 1);
  return ends ? atomic_load(&primary[ended].context) : 0;
}

// ---- stream captures ----------------------------------------------------------------------------

uint64_t stream_of_call(const struct call *call) {
  uint64_t stream = 0;
  if (has_launch_config(call->function))
    read_memory(&stream, &((const struct CUlaunchConfig *)pointer_argument(call, 0))->hStream, sizeof stream);
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
      (function->stream < 0 && !has_launch_config(function)))
    return false;
  bool per_thread = (call->record_function & PER_THREAD_BIT) != 0;
  uint64_t stream = stream_of_call(call);
  int status = 0, result = per_thread ? ASK("cuStreamIsCapturing_ptsz", stream, word(&status))
                                      : ASK("cuStreamIsCapturing", stream, word(&status));
  return result == SUCCESS && status != 0;
}
