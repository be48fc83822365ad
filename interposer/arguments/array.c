// CUDA arrays and tensor maps.
#include "arguments/arguments.h"

#include "memory/arrays.h"
#include "record/encode.h"
#include "record/writer.h"

#include <string.h>

struct flat_descriptor { // CUDA_ARRAY_DESCRIPTOR
  uint64_t width, height;
  uint32_t format, channels;
};
_Static_assert(sizeof(struct flat_descriptor) == 24, "CUDA_ARRAY_DESCRIPTOR");

static const void *argument(const struct call *call, unsigned position) {
  return (const void *)(uintptr_t)call->arguments[position];
}

static uint64_t made(const struct call *call) {
  uint64_t handle = 0;
  if (call->arguments[0] != 0)
    memcpy(&handle, argument(call, 0), 8);
  return handle;
}

// Attached and tracked in one step: the address of the array's range is made here.
void array_leave(struct call *call) {
  bool mipmapped = call->function->id == ID_cuMipmappedArrayCreate;
  struct array_descriptor descriptor = {0};
  if (made(call) == 0 || call->arguments[1] == 0)
    return;
  if (call->function->id == ID_cuArrayCreate_v2) {
    struct flat_descriptor flat;
    memcpy(&flat, argument(call, 1), sizeof flat);
    descriptor = (struct array_descriptor){
        .width = flat.width, .height = flat.height, .format = flat.format, .channels = flat.channels};
  } else {
    memcpy(&descriptor, argument(call, 1), sizeof descriptor);
  }
  const char *problem;
  uint32_t levels = mipmapped ? (uint32_t)call->arguments[2] : 1;
  const struct array_layout *layout = arrays_add(made(call), &descriptor, mipmapped, levels, &problem);
  if (layout != NULL)
    attach(call, 0, 1, layout, offsetof(struct array_layout, parts) + layout->count * sizeof *layout->parts);
  else
    write_note(NOTE_MEMORY_NOT_READ, call->record_function, call->number,
               "the contents of the array 0x%llx (format 0x%x): %s", (unsigned long long)made(call),
               descriptor.format, problem);
}

// Of the arrays of an encoder, some have fewer elements than the tensor has dimensions.
void tensor_map_enter(struct call *call) {
  uint64_t rank = (uint32_t)call->arguments[2];
  if (rank < 1 || rank > 5) // the driver will say so
    return;
  if (call->arguments[5] != 0 && rank > 1)
    attach_unsafe(call, 5, 0, argument(call, 5), (rank - 1) * 8);
  for (unsigned corner = 6; call->function->id == ID_cuTensorMapEncodeIm2col && corner < 8; corner++)
    if (call->arguments[corner] != 0 && rank > 2)
      attach_unsafe(call, corner, 0, argument(call, corner), (rank - 2) * 4);
}

unsigned array_copy_spans(const struct call *call, struct span spans[2]) {
  // Positions of the arrays among the parameters; 0xff: none. Device memory beside them, with its length.
  unsigned first = 0xff, second = 0xff, device = 0xff, length = 0;
  switch (call->function->id) {
  case ID_cuMemcpyAtoA_v2:
    first = 0, second = 2;
    break;
  case ID_cuMemcpyAtoD_v2:
    device = 0, first = 1, length = 3;
    break;
  case ID_cuMemcpyDtoA_v2:
    first = 0, device = 2, length = 3;
    break;
  case ID_cuMemcpyAtoH_v2:
  case ID_cuMemcpyAtoHAsync_v2:
    first = 1;
    break;
  case ID_cuMemcpyHtoA_v2:
  case ID_cuMemcpyHtoAAsync_v2:
    first = 0;
    break;
  default:
    return 0;
  }
  unsigned count = 0;
  for (unsigned n = 0; n < 2; n++) {
    unsigned position = n == 0 ? first : second;
    uint64_t base = position != 0xff ? array_base(call->arguments[position], false) : 0;
    if (base != 0)
      spans[count++] = (struct span){base, 1};
  }
  if (device != 0xff && call->arguments[length] != 0)
    spans[count++] = (struct span){call->arguments[device], call->arguments[length]};
  return count;
}
