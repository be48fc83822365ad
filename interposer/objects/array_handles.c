// CUDA arrays, and the texture and surface objects and references over them: what making, binding and ending
// them changes for the search of memory that a launch can reach.
#include "objects/array_handles.h"

#include "memory/arrays.h"
#include "memory/tensor_maps.h"
#include "memory/textures.h"

#include <string.h>

enum { RESOURCE_ARRAY = 0, RESOURCE_MIPMAPPED_ARRAY = 1, RESOURCE_LINEAR = 2, RESOURCE_PITCH2D = 3 };

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
  case ID_cuTexRefSetAddress2D_v3: // the reference and the address are at other places
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
