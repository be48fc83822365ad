// CUDA arrays, and the texture and surface objects and references over them: what making, binding and ending
// them changes for the search of memory that a launch can reach.
#include "custom/custom.h"

#include <string.h>

enum { RESOURCE_ARRAY = 0, RESOURCE_MIPMAPPED_ARRAY = 1, RESOURCE_LINEAR = 2, RESOURCE_PITCH2D = 3 };

struct flat_descriptor { // CUDA_ARRAY_DESCRIPTOR
  uint64_t width, height;
  uint32_t format, channels;
};
_Static_assert(sizeof(struct flat_descriptor) == 24, "CUDA_ARRAY_DESCRIPTOR");

struct resource { // the beginning of CUDA_RESOURCE_DESC
  uint32_t type;
  uint64_t place; // a handle or a device address
};

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

static uint64_t target_of(const struct resource *resource) {
  switch (resource->type) {
  case RESOURCE_ARRAY:
    return array_base(resource->place, false);
  case RESOURCE_MIPMAPPED_ARRAY:
    return array_base(resource->place, true);
  case RESOURCE_LINEAR:
  case RESOURCE_PITCH2D:
    return resource->place;
  default:
    return 0;
  }
}

void follow_arrays(const struct call *call) {
  const uint64_t *words = call->arguments;
  struct resource resource;
  switch (call->function->id) {
  case ID_cuMipmappedArrayGetLevel:
    arrays_add_part(made(call), words[1], true, (uint32_t)words[2], 0);
    break;
  case ID_cuArrayGetPlane:
    arrays_add_part(made(call), words[1], false, 0, (uint32_t)words[2]);
    break;
  case ID_cuTexObjectCreate:
  case ID_cuSurfObjectCreate:
    if (words[1] == 0)
      break;
    memcpy(&resource, argument(call, 1), sizeof resource);
    objects_add(made(call), call->function->id == ID_cuTexObjectCreate ? OBJECT_TEXTURE : OBJECT_SURFACE,
                target_of(&resource));
    break;
  case ID_cuTexObjectDestroy:
    objects_remove(words[0], OBJECT_TEXTURE);
    break;
  case ID_cuSurfObjectDestroy:
    objects_remove(words[0], OBJECT_SURFACE);
    break;
  case ID_cuTexRefSetArray:
  case ID_cuSurfRefSetArray:
    objects_add(words[0], OBJECT_REFERENCE, array_base(words[1], false));
    break;
  case ID_cuTexRefSetMipmappedArray:
    objects_add(words[0], OBJECT_REFERENCE, array_base(words[1], true));
    break;
  case ID_cuTexRefSetAddress_v2:
  case ID_cuTexRefSetAddress2D_v2:
  case ID_cuTexRefSetAddress2D_v3: // the reference and the address stand at other places
    objects_add(words[call->function->id == ID_cuTexRefSetAddress_v2 ? 1 : 0], OBJECT_REFERENCE, words[2]);
    break;
  case ID_cuTensorMapEncodeTiled:
  case ID_cuTensorMapEncodeIm2col:
  case ID_cuTensorMapEncodeIm2colWide:
  case ID_cuTensorMapReplaceAddress:
    if (words[0] != 0)
      tensor_map_add(argument(call, 0), words[call->function->id == ID_cuTensorMapReplaceAddress ? 1 : 3]);
    break;
  case ID_cuTexRefDestroy:
    objects_remove(words[0], OBJECT_REFERENCE);
    break;
  default:
    break;
  }
}
