// What calls say of objects: modules and libraries from files, module variables, CUDA arrays and tensor maps.
#include "arguments/arguments.h"
#include "driver/real.h"
#include "generated/structs.h"
#include "memory/arrays.h"
#include "record/encode.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void attach_file(struct call *call, unsigned parameter, const char *path) {
  int descriptor = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  struct stat status;
  if (descriptor < 0)
    return; // the driver will say so
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    size_t bytes = (size_t)status.st_size;
    void *contents = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (contents != MAP_FAILED) {
      attach_unsafe(call, parameter, 1, contents, bytes);
      munmap(contents, bytes);
    }
  }
  close(descriptor);
}

static uint64_t output(const struct call *call, unsigned position) {
  uint64_t value = 0; // the oldest versions have outputs of 32 bits
  memcpy(&value, pointer_argument(call, position),
         parameters[call->function->first_parameter + position].element_bytes);
  return value;
}

// The version that `function` does the same as.
static const struct function *newest(const struct function *function) {
  const struct function *other = functions;
  while (other->record_id != function->id)
    other++;
  return other;
}

void variable_leave(struct call *call) {
  uint64_t *found = take_scratch(call, 16);
  if (found == NULL)
    return;
  if (call->arguments[0] != 0 && call->arguments[1] != 0) {
    found[0] = output(call, 0);
    found[1] = output(call, 1);
  } else {
    int (*real)(uint64_t *, uint64_t *, uint64_t, uint64_t) = driver_symbol(newest(call->function)->symbol);
    if (real == NULL || real(&found[0], &found[1], call->arguments[2], call->arguments[3]) != SUCCESS)
      return;
  }
  attach(call, 3, 1, found, 16);
  memory_add_variable(found, current_context(), call->arguments[2],
                      call->function->id == ID_cuLibraryGetManaged);
}

// Its size is in a handle or in another interface, so the driver is asked.
void import_leave(struct call *call) {
  atomic_store(&memory_is_shared, true);
  unsigned position = (unsigned)call->function->effect_terms[0].first;
  uint64_t *found = take_scratch(call, 16);
  if (found == NULL || call->arguments[position] == 0)
    return;
  if (ASK("cuMemGetAddressRange_v2", word(&found[0]), word(&found[1]), output(call, position)) != SUCCESS) {
    write_note(NOTE_MEMORY_NOT_READ, call->record_function, call->number,
               "the driver does not say how large the memory is that %s gave", call->function->symbol);
    return;
  }
  attach(call, position, 1, found, 16);
  memory_add((struct range){.base = found[0], .bytes = found[1], .context = current_context()});
}

void load_file_enter(struct call *call) { attach_file(call, 1, pointer_argument(call, 1)); }

// ---- arrays and tensor maps ---------------------------------------------------------------------

// Attached and tracked in one step: the address of the array's range is made here.
void array_leave(struct call *call) {
  bool mipmapped = call->function->gives == HANDLE_CUmipmappedArray;
  struct CUDA_ARRAY3D_DESCRIPTOR descriptor;
  uint64_t handle = handle_given_out(call);
  if (handle == 0 || call->arguments[1] == 0)
    return;
  if (parameter_of(call->function, 1)->element_bytes == sizeof(struct CUDA_ARRAY_DESCRIPTOR)) {
    const struct CUDA_ARRAY_DESCRIPTOR *flat = pointer_argument(call, 1);
    descriptor = (struct CUDA_ARRAY3D_DESCRIPTOR){.Width = flat->Width,
                                                  .Height = flat->Height,
                                                  .Format = flat->Format,
                                                  .NumChannels = flat->NumChannels};
  } else {
    memcpy(&descriptor, pointer_argument(call, 1), sizeof descriptor);
  }
  const char *problem;
  uint32_t levels = mipmapped ? (uint32_t)call->arguments[2] : 1;
  const struct array_layout *layout = arrays_add(handle, &descriptor, mipmapped, levels, &problem);
  if (layout != NULL)
    attach(call, 0, 1, layout, offsetof(struct array_layout, parts) + layout->count * sizeof *layout->parts);
  else
    write_note(NOTE_MEMORY_NOT_READ, call->record_function, call->number,
               "the contents of the array 0x%lx (format 0x%x): %s", handle, descriptor.Format, problem);
}

// Of the arrays of an encoder, some have fewer elements than the tensor has dimensions.
void tensor_map_enter(struct call *call) {
  uint64_t rank = (uint32_t)call->arguments[2];
  if (rank < 1 || rank > 5) // the driver will say so
    return;
  if (call->arguments[5] != 0 && rank > 1)
    attach_unsafe(call, 5, 0, pointer_argument(call, 5), (rank - 1) * 8);
  for (unsigned corner = 6; rank > 2 && corner < 8; corner++)
    if (parameter_of(call->function, corner)->role == ROLE_CUSTOM && call->arguments[corner] != 0)
      attach_unsafe(call, corner, 0, pointer_argument(call, corner), (rank - 2) * 4);
}
