// Where nodes of graphs came from: the stack of the call that added or captured each, by the number that the
// driver gives tools. A handle is given out again when its node is gone; such a number is not.
#include "base/handles.h"
#include "driver/real.h"
#include "graph/description.h"
#include "objects/objects.h"

enum { MOST_NODES = 1 << 20 };

static MUTEX(lock);
static ZERO_IN_CHILD struct handle_table origins; // the stacks' numbers are its objects
static ZERO_IN_CHILD uint32_t count;

// 0: the driver does not say, or is older than CUDA 13.1.
static uint64_t key_of_node(uint64_t handle) {
  uint64_t identifier = 0;
  if (ASK("cuGraphNodeGetToolsId", handle, word(&identifier)) != SUCCESS)
    return 0;
  return identifier + DEAD_HANDLE + 1; // may be 0
}

static void remember(uint64_t node, uint32_t origin) {
  uint64_t key = node != 0 ? key_of_node(node) : 0;
  HOLD(lock);
  if (key != 0 && count < MOST_NODES && find_handle(&origins, key) == NULL &&
      add_handle(&origins, key, (void *)(uintptr_t)origin))
    count++;
}

// What a stream's next operation depends on is its newest node alone.
static uint64_t newest_node(const struct call *call) {
  uint64_t stream = stream_of_call(call), identifier, graph, nodes = 0;
  size_t found = 0;
  int status = 0;
  bool per_thread = (call->record_function & PER_THREAD_BIT) != 0;
  int result = per_thread ? ASK("cuStreamGetCaptureInfo_v2_ptsz", stream, word(&status), word(&identifier),
                                word(&graph), word(&nodes), word(&found))
                          : ASK("cuStreamGetCaptureInfo_v2", stream, word(&status), word(&identifier),
                                word(&graph), word(&nodes), word(&found));
  uint64_t node = 0;
  if (result == SUCCESS && found == 1 && nodes != 0)
    memcpy(&node, (const void *)(uintptr_t)nodes, sizeof node);
  return node;
}

void follow_captured_launch(const struct call *call) { remember(newest_node(call), call->origin); }

void follow_node_origin(const struct call *call) {
  if (call->origin != 0)
    remember(handle_given_out(call), call->origin);
}

uint32_t origin_of_node(uint64_t handle) {
  if (count == 0)
    return 0;
  uint64_t key = key_of_node(handle);
  HOLD(lock);
  const struct handle_row *row = find_handle(&origins, key);
  return row != NULL ? (uint32_t)(uintptr_t)row->object : 0;
}
