// Launches: parameters, configuration with its attributes, what the driver says of the compiled kernel.
#include "arguments/arguments.h"

#include "base/bytes.h"
#include "objects/kernels.h"
#include "record/encode.h"
#include "record/writer.h"

#include <string.h>

struct launch_config { // CUlaunchConfig
  uint32_t grid[3], block[3], shared_bytes;
  uint64_t stream, attributes;
  uint32_t attribute_count;
};
_Static_assert(sizeof(struct launch_config) == 56, "CUlaunchConfig");

enum { LAUNCH_ATTRIBUTE_BYTES = 72, MAX_LAUNCH_ATTRIBUTES = 64 };

static void launch_positions(const struct call *call, unsigned *values, int *extra) {
  bool with_config = call->function->id == ID_cuLaunchKernelEx;
  *values = with_config ? 2 : 9;
  *extra = with_config ? 3 : call->function->id == ID_cuLaunchKernel ? 10 : -1;
}

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

void pack_launch_parameters(struct call *call) {
  unsigned values_position;
  int extra_position;
  if (is_old_launch(call)) {
    pack_old_launch(call);
    return;
  }
  launch_positions(call, &values_position, &extra_position);
  const uint64_t *values = (const uint64_t *)(uintptr_t)call->arguments[values_position];
  struct kernel *kernel = call->kernel;
  if (kernel->owner == 0)
    write_note(NOTE_FUNCTION_UNKNOWN, call->record_function, call->number, "%s",
               kernel->name[0] != '\0' ? kernel->name : "no recorded call gave this handle");
  if (values == NULL) {
    if (extra_position < 0 || call->arguments[extra_position] == 0)
      return; // a kernel without parameters
    pack_extra(call, (const uint64_t *)(uintptr_t)call->arguments[extra_position]);
    if (call->packed == NULL)
      write_note(NOTE_PARAMETERS_UNKNOWN, call->record_function, call->number,
                 "%s: `extra` has no buffer that can be read", kernel->name);
    return;
  }
  ask_layout(kernel);
  uint8_t *packed = kernel->parameter_count >= 0 ? take_scratch(call, kernel->parameter_bytes) : NULL;
  for (int32_t n = 0; packed != NULL && n < kernel->parameter_count; n++)
    if (values[n] == 0)
      packed = NULL; // the driver will refuse it, or it was not the kernel's layout
  if (packed == NULL) {
    write_note(NOTE_PARAMETERS_UNKNOWN, call->record_function, call->number, "%s", kernel->name);
    return;
  }
  memset(packed, 0, kernel->parameter_bytes);
  for (int32_t n = 0; n < kernel->parameter_count; n++)
    memcpy(packed + kernel->layout[n * 2], (const void *)(uintptr_t)values[n], kernel->layout[n * 2 + 1]);
  call->packed = packed;
  call->packed_bytes = kernel->parameter_bytes;
}

void launch_is_described(const struct call *call) {
  struct kernel *kernel = call->kernel;
  unsigned values_position;
  int extra_position;
  if (kernel->handle == 0) // the kernel of all handles that nobody knows
    return;
  if (atomic_load_explicit(&kernel->described_window, memory_order_relaxed) != call->window)
    atomic_store(&kernel->described_window, call->window);
  launch_positions(call, &values_position, &extra_position);
  if (!is_old_launch(call) && call->packed != NULL && call->arguments[values_position] != 0 &&
      atomic_load_explicit(&kernel->layout_window, memory_order_relaxed) != call->window)
    atomic_store(&kernel->layout_window, call->window);
}

void launch_enter(struct call *call) {
  unsigned values_position;
  int extra_position;
  launch_positions(call, &values_position, &extra_position);
  if (is_old_launch(call)) {
    attach_old_launch(call);
  } else if (call->packed != NULL && call->arguments[values_position] != 0) {
    attach(call, values_position, 0, call->packed, call->packed_bytes);
    if (atomic_load_explicit(&call->kernel->layout_window, memory_order_relaxed) != call->window)
      attach(call, values_position, 1, call->kernel->layout, (uint64_t)call->kernel->parameter_count * 8);
  } else if (call->packed != NULL && extra_position >= 0) {
    attach(call, (unsigned)extra_position, 0, call->packed, call->packed_bytes);
  }
  if (atomic_load_explicit(&call->kernel->described_window, memory_order_relaxed) != call->window) {
    int32_t *pairs = (int32_t *)(void *)take_scratch(call, 2 * KERNEL_ATTRIBUTES * sizeof *pairs);
    size_t count = pairs != NULL ? ask_attributes(call->kernel, pairs) : 0;
    if (count > 0)
      attach(call, (unsigned)call->function->effect_terms[0].first, 1, pairs, count * 2 * sizeof *pairs);
  }
  if (call->function->id != ID_cuLaunchKernelEx || call->arguments[0] == 0)
    return;
  const struct launch_config *config = (const struct launch_config *)(uintptr_t)call->arguments[0];
  attach(call, 0, 0, config, sizeof *config);
  if (config->attributes != 0 && config->attribute_count > 0 &&
      config->attribute_count <= MAX_LAUNCH_ATTRIBUTES)
    attach_unsafe(call, 0, 1, (const void *)(uintptr_t)config->attributes,
                  (uint64_t)config->attribute_count * LAUNCH_ATTRIBUTE_BYTES);
  if (config->attribute_count > MAX_LAUNCH_ATTRIBUTES)
    write_note(NOTE_STRUCT_POINTER, call->record_function, call->number,
               "%u launch attributes are more than any launch has; none was recorded",
               config->attribute_count);
}
