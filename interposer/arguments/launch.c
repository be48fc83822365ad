// Launches: parameters, configuration with its attributes, what the driver says of the compiled kernel.
#include "arguments/arguments.h"
#include "generated/structs.h"
#include "objects/objects.h"
#include "record/encode.h"

enum { MAX_LAUNCH_ATTRIBUTES = 64 };

// Of kernelParams; `extra` follows where there is one.
static unsigned values_position(const struct call *call) { return has_launch_config(call->function) ? 2 : 9; }

const void *extra_buffer(const uint64_t *words, uint64_t *bytes) {
  const void *buffer = NULL;
  *bytes = 0;
  for (; words[0] == 1 || words[0] == 2; words += 2) { // CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE
    if (words[0] == 1)
      buffer = (const void *)(uintptr_t)words[1];
    else if (words[1] != 0)
      memcpy(bytes, (const void *)(uintptr_t)words[1], 8);
  }
  if (*bytes == 0)
    return ""; // a kernel without parameters: there may be no buffer
  return *bytes <= 65536 ? buffer : NULL;
}

static void pack_extra(struct call *call, const uint64_t *words) {
  uint64_t bytes;
  const void *buffer = extra_buffer(words, &bytes);
  if (buffer == NULL)
    return;
  uint8_t *copy = take_scratch(call, bytes);
  if (copy != NULL && read_memory(copy, buffer, bytes)) {
    call->packed = copy;
    call->packed_bytes = (uint32_t)bytes;
  }
}

bool pack_values(const struct kernel *kernel, const uint64_t *values, uint8_t *packed) {
  for (int32_t n = 0; n < kernel->parameter_count; n++)
    if (values[n] == 0) // the driver will refuse it, or it was not the kernel's layout
      return false;
  memset(packed, 0, kernel->parameter_bytes);
  for (int32_t n = 0; n < kernel->parameter_count; n++)
    memcpy(packed + kernel->layout[n * 2], (const void *)(uintptr_t)values[n], kernel->layout[n * 2 + 1]);
  return true;
}

void pack_launch_parameters(struct call *call) {
  unsigned position = values_position(call);
  const uint64_t *values = pointer_argument(call, position);
  struct kernel *kernel = call->kernel;
  if (kernel->owner == 0)
    write_note(NOTE_FUNCTION_UNKNOWN, call->record_function, call->number, "%s",
               kernel->name[0] != '\0' ? kernel->name : "no recorded call gave this handle");
  if (values == NULL) {
    if (position + 1 == call->function->parameter_count || call->arguments[position + 1] == 0)
      return; // a kernel without parameters
    pack_extra(call, pointer_argument(call, position + 1));
    if (call->packed == NULL)
      write_note(NOTE_PARAMETERS_UNKNOWN, call->record_function, call->number,
                 "%s: `extra` has no buffer that can be read", kernel->name);
    return;
  }
  ask_layout(kernel);
  uint8_t *packed = kernel->parameter_count >= 0 ? take_scratch(call, kernel->parameter_bytes) : NULL;
  if (packed == NULL || !pack_values(kernel, values, packed)) {
    write_note(NOTE_PARAMETERS_UNKNOWN, call->record_function, call->number, "%s", kernel->name);
    return;
  }
  call->packed = packed;
  call->packed_bytes = kernel->parameter_bytes;
}

void launch_is_described(const struct call *call) {
  struct kernel *kernel = call->kernel;
  if (kernel->handle == 0) // the kernel of all handles that nobody knows
    return;
  if (atomic_load_explicit(&kernel->described_window, memory_order_relaxed) != call->window)
    atomic_store(&kernel->described_window, call->window);
  if (call->packed != NULL && call->arguments[values_position(call)] != 0 &&
      atomic_load_explicit(&kernel->layout_window, memory_order_relaxed) != call->window)
    atomic_store(&kernel->layout_window, call->window);
}

void launch_enter(struct call *call) {
  unsigned values = values_position(call);
  if (call->packed != NULL && call->arguments[values] == 0) {
    attach(call, values + 1, 0, call->packed, call->packed_bytes);
  } else if (call->packed != NULL) {
    attach(call, values, 0, call->packed, call->packed_bytes);
    if (atomic_load_explicit(&call->kernel->layout_window, memory_order_relaxed) != call->window)
      attach(call, values, 1, call->kernel->layout, (uint64_t)call->kernel->parameter_count * 8);
  }
  if (atomic_load_explicit(&call->kernel->described_window, memory_order_relaxed) != call->window) {
    int32_t *pairs = (int32_t *)(void *)take_scratch(call, 2 * KERNEL_ATTRIBUTES * sizeof *pairs);
    // Of a launch that is told later, maybe by another thread and with a lock held, the driver is not asked.
    size_t count = pairs != NULL && call->flight == 0 ? ask_attributes(call->kernel, pairs) : 0;
    if (count > 0)
      attach(call, (unsigned)call->function->effect_terms[0].first, 1, pairs, count * 2 * sizeof *pairs);
  }
  if (!has_launch_config(call->function) || call->arguments[0] == 0)
    return;
  const struct CUlaunchConfig *config = pointer_argument(call, 0);
  attach(call, 0, 0, config, sizeof *config);
  if (config->attrs != 0 && config->numAttrs > 0 && config->numAttrs <= MAX_LAUNCH_ATTRIBUTES)
    attach_unsafe(call, 0, 1, (const void *)(uintptr_t)config->attrs,
                  config->numAttrs * sizeof(struct CUlaunchAttribute));
  if (config->numAttrs > MAX_LAUNCH_ATTRIBUTES)
    write_note(NOTE_STRUCT_POINTER, call->record_function, call->number,
               "%u launch attributes are more than any launch has; none was recorded", config->numAttrs);
}
