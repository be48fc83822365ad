// Module variables that the application never asked the address of.
//
// A kernel may read and write any variable of its module, so the window depends on them all. Their names
// are in the image that was loaded, and an image can be a compressed fat binary: that is not taken apart
// inside the application. Whoever started the capture is asked, through a socket in its folder, once for each
// module that a window launches from; the driver then says where each variable is, and it is one more range
// of memory. Without an answer, in bounded time, the variables stay unknown, and `replay pack` names them.
#include "objects/modules.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/selection.h"
#include "base/state.h"
#include "driver/ask.h"
#include "driver/real.h"
#include "memory/memory.h"
#include "objects/kernels.h"
#include "objects/stream_capture.h"
#include "objects/variable_names.h"
#include "record/encode.h"
#include "record/writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 64 };

struct module {
  struct module *next;
  uint64_t handle, context; // context: of a CUmodule, 0 for a CUlibrary
  bool is_library;
  unsigned part_count;
  struct image_part *parts;
  size_t named_count; // contexts in which the variables are known
  uint64_t *named_in;
};

// A module whose variables have to be asked for before the next launch, in one context.
struct wish {
  uint64_t handle, context;
};

static MUTEX(lock);
static struct module *modules;
static struct wish *wishes;
static size_t wish_count;
static atomic_bool has_wishes;
static _Atomic uint64_t first_context;
static atomic_bool several_contexts;       // have been made
static _Atomic uint64_t loads;             // counts modules
static _Atomic uint64_t loads_looked_at;   // REACH_LIVE: how many there were when all were wished for,
static _Atomic uint64_t context_looked_at; // and in which context

// ---- which modules there are --------------------------------------------------------------------

static void free_module(struct module *module) {
  for (unsigned n = 0; n < module->part_count; n++)
    free(module->parts[n].data);
  free(module->parts);
  free(module->named_in);
  free(module);
}

static struct module *copy_of(const struct module *module) {
  struct module *copy = calloc(1, sizeof *copy);
  if (copy == NULL)
    return NULL;
  *copy = *module;
  copy->next = NULL;
  copy->named_in = NULL;
  copy->named_count = 0;
  copy->part_count = 0;
  copy->parts = calloc(module->part_count, sizeof *copy->parts);
  for (unsigned n = 0; copy->parts != NULL && n < module->part_count; n++) {
    struct image_part *part = &copy->parts[n];
    *part = module->parts[n];
    part->data = part->data_bytes > 0 ? malloc(part->data_bytes) : NULL;
    if (part->data_bytes > 0 && part->data == NULL)
      break;
    if (part->data != NULL)
      memcpy(part->data, module->parts[n].data, part->data_bytes);
    copy->part_count++;
  }
  return copy;
}

// The parameter that holds the image, and its first part; -1: the function loads none.
static int image_parameter(unsigned id, unsigned *first_part) {
  *first_part = 0;
  switch (id) {
  case ID_cuModuleLoad:
  case ID_cuLibraryLoadFromFile:
    *first_part = 1; // part 0 is the file's name
    return 1;
  case ID_cuModuleLoadData:
  case ID_cuModuleLoadDataEx:
  case ID_cuModuleLoadFatBinary:
  case ID_cuLibraryLoadData:
    return 1;
  default:
    return -1;
  }
}

void keep_image(struct call *call) {
  unsigned first_part;
  int parameter = image_parameter(call->function->id, &first_part);
  if (parameter < 0)
    return;
  struct module *module = calloc(1, sizeof *module);
  if (module == NULL)
    return;
  module->parts = calloc(MAX_PARTS, sizeof *module->parts);
  for (unsigned n = 0; module->parts != NULL && n < call->attachment_count; n++) {
    const struct attachment *item = &call->attachments[n];
    if (item->parameter != (unsigned)parameter || item->part < first_part || module->part_count == MAX_PARTS)
      continue;
    struct image_part *part = &module->parts[module->part_count];
    *part = (struct image_part){
        .storage = item->storage, .offset = item->offset, .length = item->length, .check = item->check};
    part->mapped = item->storage == STORAGE_FILE ? item->mapped : NULL;
    part->data_bytes = item->storage == STORAGE_INLINE ? (uint32_t)item->length : item->reference_bytes;
    part->data = part->data_bytes > 0 ? malloc(part->data_bytes) : NULL;
    if (part->data == NULL && part->data_bytes > 0)
      break;
    if (part->data != NULL)
      memcpy(part->data, item->data, part->data_bytes);
    module->part_count++;
  }
  call->loading = module;
}

static struct module **place_of(uint64_t handle) {
  struct module **place = &modules;
  while (*place != NULL && (*place)->handle != handle)
    place = &(*place)->next;
  return place;
}

static void forget_module(struct module **place) {
  struct module *module = *place;
  *place = module->next;
  for (size_t n = 0; n < wish_count;) {
    if (wishes[n].handle == module->handle)
      wishes[n] = wishes[--wish_count];
    else
      n++;
  }
  atomic_store(&has_wishes, wish_count > 0);
  free_module(module);
}

static void forget_context(uint64_t context) {
  for (struct module **place = &modules; *place != NULL;) {
    struct module *module = *place;
    if (module->context == context) {
      forget_module(place);
      continue;
    }
    for (size_t n = 0; n < module->named_count;) {
      if (module->named_in[n] == context)
        module->named_in[n] = module->named_in[--module->named_count];
      else
        n++;
    }
    place = &module->next;
  }
}

static void note_context(const struct call *call) {
  uint64_t context = 0, none = 0;
  switch (call->function->id) {
  case ID_cuDevicePrimaryCtxRetain:
  case ID_cuCtxCreate_v2:
  case ID_cuCtxCreate_v3:
  case ID_cuCtxCreate_v4:
    if (call->arguments[0] != 0)
      memcpy(&context, (const void *)(uintptr_t)call->arguments[0], 8);
    if (!atomic_compare_exchange_strong(&first_context, &none, context) && none != context)
      atomic_store(&several_contexts, true);
    break;
  default:
    break;
  }
}

void note_modules(struct call *call, int result) {
  struct module *module = call->loading;
  call->loading = NULL;
  unsigned id = call->function->id;
  if (result == SUCCESS)
    note_context(call);
  bool ends_context = call->function->effect == EFFECT_END_OF_CONTEXT && call->ending_context != 0;
  bool unloads = id == ID_cuModuleUnload || id == ID_cuLibraryUnload;
  if (module != NULL && (result != SUCCESS || call->arguments[0] == 0)) {
    free_module(module);
    return;
  }
  if (result != SUCCESS || (module == NULL && !ends_context && !unloads))
    return;
  if (module != NULL) {
    memcpy(&module->handle, (const void *)(uintptr_t)call->arguments[0], 8);
    module->is_library = id == ID_cuLibraryLoadData || id == ID_cuLibraryLoadFromFile;
    module->context = module->is_library ? 0 : current_context();
  }
  pthread_mutex_lock(&lock);
  if (ends_context)
    forget_context(call->ending_context);
  uint64_t handle = module != NULL ? module->handle : unloads ? call->arguments[0] : 0;
  if (handle != 0) {
    struct module **place = place_of(handle);
    if (*place != NULL) // unloaded, or its end was not seen
      forget_module(place);
  }
  if (module != NULL) {
    module->next = modules;
    modules = module;
    atomic_fetch_add(&loads, 1);
  }
  pthread_mutex_unlock(&lock);
}

static void reset(void) {
  modules = NULL; // a child calls the driver anew, and what the parent loaded is not there
  wish_count = 0;
  atomic_store(&has_wishes, false);
}
IN_CHILD(reset);

// ---- which of them are wanted -------------------------------------------------------------------

static void wish_for(struct module *module, uint64_t context) {
  for (size_t n = 0; n < module->named_count; n++)
    if (module->named_in[n] == context)
      return;
  for (size_t n = 0; n < wish_count; n++)
    if (wishes[n].handle == module->handle && wishes[n].context == context)
      return;
  struct wish *grown = realloc(wishes, (wish_count + 1) * sizeof *grown);
  if (grown == NULL)
    return;
  wishes = grown;
  wishes[wish_count++] = (struct wish){module->handle, context};
  atomic_store(&has_wishes, true);
}

static void want_variables_in(struct kernel *kernel, uint64_t context) {
  if (selection.reach == REACH_LIVE) {
    uint64_t count = atomic_load(&loads);
    if (atomic_exchange(&loads_looked_at, count) != count ||
        atomic_exchange(&context_looked_at, context) != context) {
      pthread_mutex_lock(&lock);
      for (struct module *module = modules; module != NULL; module = module->next)
        wish_for(module, module->is_library ? context : module->context);
      pthread_mutex_unlock(&lock);
    }
  }
  if (kernel == NULL || kernel->owner == 0)
    return;
  if (context == 0 || __atomic_load_n(&kernel->variables_context, __ATOMIC_RELAXED) == context)
    return;
  pthread_mutex_lock(&lock);
  struct module *module = *place_of(kernel->owner);
  if (module != NULL)
    wish_for(module, context);
  __atomic_store_n(&kernel->variables_context, context, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&lock);
}

void want_variables(struct kernel *kernel) {
  // A CUkernel has variables in each context in which it is launched.
  want_variables_in(kernel, kernel != NULL && !kernel->is_kernel ? kernel->context : current_context());
}

// A CUkernel runs in the context of its stream, which need not be the current one where there are several.
static uint64_t context_of_launch(const struct call *call) {
  int (*context_of_stream)(uint64_t, uint64_t *) = driver_symbol("cuStreamGetCtx");
  uint64_t stream = stream_of_call(call), context = 0;
  enum { LAST_CONSTANT = 2 }; // CU_STREAM_PER_THREAD
  if (stream > LAST_CONSTANT && context_of_stream != NULL && context_of_stream(stream, &context) == SUCCESS)
    return context;
  return current_context();
}

void want_variables_of_launch(const struct call *call) {
  struct kernel *kernel = call->kernel;
  if (kernel->is_kernel && atomic_load_explicit(&several_contexts, memory_order_relaxed))
    want_variables_in(kernel, context_of_launch(call));
  else
    want_variables(kernel);
}

bool variables_are_wanted(void) { return atomic_load_explicit(&has_wishes, memory_order_relaxed); }

// ---- asking where they are ----------------------------------------------------------------------

// As if the application had asked, and marked as what it did not do. The context is where the
// application would have said where the address goes.
static void record_question(unsigned id, uint64_t context, uint64_t owner, const char *name,
                            const uint64_t found[2]) {
  uint16_t function = (uint16_t)(id | BY_CAPTURE_BIT);
  uint64_t number = next_call_number(), arguments[4] = {context, 0, owner, (uint64_t)(uintptr_t)name};
  struct attachment asked = {.parameter = 3}, answered = {.parameter = 3, .part = 1};
  set_bytes(&asked, name, strlen(name));
  set_bytes(&answered, found, 16);
  struct record record;
  if (!begin_record(&record, RECORD_ENTER, function, number, sizeof arguments + attachment_bytes(&asked)))
    return;
  put_bytes(&record, arguments, sizeof arguments);
  put_attachment(&record, &asked);
  end_record(&record);
  if (!begin_record(&record, RECORD_LEAVE, function, number, 8 + attachment_bytes(&answered)))
    return;
  put_u64(&record, SUCCESS);
  put_attachment(&record, &answered);
  end_record(&record);
}

static void find_variable(const struct module *module, uint64_t context, const char *name) {
  static const struct {
    const char *symbol;
    unsigned id;
    bool of_library;
  } getters[] = {{"cuModuleGetGlobal_v2", ID_cuModuleGetGlobal_v2, false},
                 {"cuLibraryGetManaged", ID_cuLibraryGetManaged, true},
                 {"cuLibraryGetGlobal", ID_cuLibraryGetGlobal, true}};
  for (size_t n = 0; n < sizeof getters / sizeof *getters; n++) {
    int (*get)(uint64_t *, uint64_t *, uint64_t, const char *) =
        getters[n].of_library == module->is_library ? driver_symbol(getters[n].symbol) : NULL;
    uint64_t found[2] = {0, 0};
    struct range known;
    if (get == NULL || get(&found[0], &found[1], module->handle, name) != SUCCESS || found[1] == 0)
      continue;
    bool asked = memory_find(found[0], &known) && known.base == found[0] && known.owner == module->handle;
    if (!asked) {
      record_question(getters[n].id, context, module->handle, name, found);
      memory_add(found[0], found[1], RANGE_GLOBAL, context, module->handle);
      if (is_host_visible(found[0]))
        memory_make_host_visible(found[0]);
    }
    return;
  }
}

static void find_variables(struct module *module, uint64_t context) {
  bool pushed = push_context(context);
  for (unsigned n = 0; n < module->part_count && writer_is_open(); n++) {
    uint32_t bytes = 0;
    bool is_gone = false;
    char *names = variable_names(&module->parts[n], &bytes, &is_gone);
    if (is_gone && module->parts[n].storage == STORAGE_FILE && rescue_image(&module->parts[n]))
      names = variable_names(&module->parts[n], &bytes, &is_gone);
    for (uint32_t at = 0; names != NULL && at < bytes; at += (uint32_t)strlen(names + at) + 1)
      if (strlen(names + at) <= INLINE_BYTES)
        find_variable(module, context, names + at);
    free(names);
  }
  if (pushed)
    pop_context();
}

void ask_for_variables(void) {
  for (;;) {
    pthread_mutex_lock(&lock);
    struct wish wish = {0, 0};
    struct module *module = NULL, *copy = NULL;
    if (wish_count > 0) {
      wish = wishes[--wish_count];
      module = *place_of(wish.handle);
    }
    if (module != NULL) {
      copy = copy_of(module);
      uint64_t *grown = realloc(module->named_in, (module->named_count + 1) * sizeof *grown);
      if (grown != NULL) {
        module->named_in = grown;
        module->named_in[module->named_count++] = wish.context;
      }
    }
    atomic_store(&has_wishes, wish_count > 0);
    pthread_mutex_unlock(&lock);
    if (wish.handle == 0)
      return;
    if (copy != NULL) {
      uint64_t begin_ns = now_ns();
      find_variables(copy, wish.context);
      atomic_fetch_add(&perturbation.asked_ns, now_ns() - begin_ns);
      free_module(copy);
    }
  }
}
