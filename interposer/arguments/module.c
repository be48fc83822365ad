// Modules and libraries from files, module variables, and the parameters of contexts.
#define _GNU_SOURCE
#include "arguments/arguments.h"

#include "driver/ask.h"
#include "driver/real.h"
#include "memory/memory.h"
#include "record/encode.h"
#include "record/writer.h"

#include <fcntl.h>
#include <string.h>
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
  memcpy(&value, (const void *)(uintptr_t)call->arguments[position],
         parameters[call->function->first_parameter + position].element_bytes);
  return value;
}

void variable_leave(struct call *call) {
  uint64_t *found = take_scratch(call, 16);
  if (found == NULL)
    return;
  if (call->arguments[0] != 0 && call->arguments[1] != 0) {
    found[0] = output(call, 0);
    found[1] = output(call, 1);
  } else {
    unsigned slot = call->function->id == ID_cuLibraryGetGlobal    ? SLOT_cuLibraryGetGlobal
                    : call->function->id == ID_cuLibraryGetManaged ? SLOT_cuLibraryGetManaged
                                                                   : SLOT_cuModuleGetGlobal_v2;
    int (*real)(uint64_t *, uint64_t *, uint64_t, uint64_t) = real_function(slot);
    if (real(&found[0], &found[1], call->arguments[2], call->arguments[3]) != SUCCESS)
      return;
  }
  attach(call, 3, 1, found, 16);
  memory_add(found[0], found[1], RANGE_GLOBAL, current_context(), call->arguments[2]);
  if (call->function->id == ID_cuLibraryGetManaged || is_host_visible(found[0]))
    memory_make_host_visible(found[0]);
}

// Its size is in a handle or in another interface, so the driver is asked.
void import_leave(struct call *call) {
  unsigned position = (unsigned)call->function->effect_terms[0].first;
  uint64_t *found = take_scratch(call, 16);
  int (*address_range)(uint64_t *, uint64_t *, uint64_t) = driver_symbol("cuMemGetAddressRange_v2");
  if (found == NULL || address_range == NULL || call->arguments[position] == 0)
    return;
  if (address_range(&found[0], &found[1], output(call, position)) != SUCCESS) {
    write_note(NOTE_MEMORY_NOT_READ, call->record_function, call->number,
               "the driver does not say how large the memory is that %s gave", call->function->symbol);
    return;
  }
  attach(call, position, 1, found, 16);
  memory_add(found[0], found[1], RANGE_DEVICE, current_context(), 0);
}

void load_file_enter(struct call *call) { attach_file(call, 1, (const char *)(uintptr_t)call->arguments[1]); }

struct context_parameters { // CUctxCreateParams
  uint64_t affinity;
  int32_t affinity_count;
  uint64_t graphics;
};
_Static_assert(sizeof(struct context_parameters) == 24, "CUctxCreateParams");

void context_enter(struct call *call) {
  const struct context_parameters *given = (const struct context_parameters *)(uintptr_t)call->arguments[1];
  if (given == NULL)
    return;
  attach(call, 1, 0, given, sizeof *given);
  if (given->affinity != 0 || given->graphics != 0)
    write_note(NOTE_STRUCT_POINTER, call->record_function, call->number,
               "CUctxCreateParams holds pointers that were recorded by value only");
}
