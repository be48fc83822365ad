// Module variables that the application never asked the address of.
//
// A kernel may read and write any variable of its module, so the window depends on them all. Their names
// are in the image that was loaded, and an image can be a compressed fat binary: that is not taken apart
// inside the application. Whoever started the capture is asked, through a socket in its folder, once for each
// module that a window launches from; the driver then says where each variable is, and it is one more range
// of memory. Without an answer, in bounded time, the variables stay unknown, and `replay pack` names them.
#include "base/selection.h"
#include "driver/real.h"
#include "memory/memory.h"
#include "objects/objects.h"
#include "record/encode.h"

enum { MAX_PARTS = 64 };

// That the variables of a module become known in a context.
struct wish {
  uint64_t context;
  bool is_answered; // false: before the next launch
};

struct module {
  struct module *next;
  unsigned users;           // the list, and who asks for its variables
  uint64_t handle, context; // context: of a CUmodule, 0 for a CUlibrary
  bool is_library;
  unsigned part_count;
  struct attachment *parts;
  size_t wish_count, wish_capacity;
  struct wish *wishes;
};

static MUTEX(lock);
static ZERO_IN_CHILD struct module *modules;  // a child calls the driver anew
static ZERO_IN_CHILD atomic_uint open_wishes; // that are not answered
static _Atomic uint64_t loads;                // counts modules
static _Atomic uint64_t loads_looked_at;      // REACH_LIVE: how many there were when all were wished for,
static _Atomic uint64_t context_looked_at;    // and in which context

// ---- which modules there are --------------------------------------------------------------------

// With the lock held, or of one that nobody else has seen.
static void let_go(struct module *module) {
  if (--module->users > 0)
    return;
  for (unsigned n = 0; n < module->part_count; n++)
    free((void *)(uintptr_t)module->parts[n].data);
  free(module->parts);
  free(module->wishes);
  free(module);
}

// With the image, or the name of the file that it is in, as its second parameter.
static bool loads_image(const struct function *function) {
  return (function->gives == HANDLE_CUmodule || function->gives == HANDLE_CUlibrary) &&
         (parameter_of(function, 1)->role == ROLE_IMAGE || parameter_of(function, 1)->role == ROLE_STRING);
}

void keep_image(struct call *call) {
  struct module *module = loads_image(call->function) ? calloc(1, sizeof *module) : NULL;
  if (module == NULL)
    return;
  module->users = 1;
  unsigned first_part = parameter_of(call->function, 1)->role == ROLE_STRING; // part 0 is the file's name
  module->parts = calloc(MAX_PARTS, sizeof *module->parts);
  for (unsigned n = 0; module->parts != NULL && n < call->attachment_count; n++) {
    const struct attachment *item = &call->attachments[n];
    if (item->parameter != 1 || item->part < first_part || module->part_count == MAX_PARTS)
      continue;
    struct attachment *part = &module->parts[module->part_count];
    void *copy = malloc(item->data_bytes);
    if (copy == NULL)
      break;
    *part = *item;
    part->data = memcpy(copy, item->data, item->data_bytes);
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

// Of one context; 0: of all.
static void forget_wishes(struct module *module, uint64_t context) {
  for (size_t n = 0; n < module->wish_count;) {
    if (context != 0 && module->wishes[n].context != context) {
      n++;
      continue;
    }
    atomic_fetch_sub(&open_wishes, !module->wishes[n].is_answered);
    module->wishes[n] = module->wishes[--module->wish_count];
  }
}

static void forget_module(struct module **place) {
  struct module *module = *place;
  *place = module->next;
  forget_wishes(module, 0);
  let_go(module);
}

static void forget_context(uint64_t context) {
  for (struct module **place = &modules; *place != NULL;) {
    if ((*place)->context == context) {
      forget_module(place);
      continue;
    }
    forget_wishes(*place, context);
    place = &(*place)->next;
  }
}

void note_modules(struct call *call, int result) {
  struct module *module = call->loading;
  call->loading = NULL;
  const struct function *function = call->function;
  bool ends_context = function->effect == EFFECT_END_OF_CONTEXT && call->ending_context != 0;
  if (module != NULL && (result != SUCCESS || call->arguments[0] == 0)) {
    let_go(module);
    return;
  }
  if (result != SUCCESS || (module == NULL && !ends_context && !unloads(function)))
    return;
  if (module != NULL) {
    module->handle = handle_given_out(call);
    module->is_library = function->gives == HANDLE_CUlibrary;
    module->context = module->is_library ? 0 : current_context();
  }
  HOLD(lock);
  if (ends_context)
    forget_context(call->ending_context);
  uint64_t handle = module != NULL ? module->handle : unloads(function) ? call->arguments[0] : 0;
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
}

// ---- which of them are wanted -------------------------------------------------------------------

static void wish_for(struct module *module, uint64_t context) {
  for (size_t n = 0; n < module->wish_count; n++)
    if (module->wishes[n].context == context)
      return;
  if (!HAS_ROOM(module->wishes, module->wish_count, module->wish_capacity))
    return;
  module->wishes[module->wish_count++] = (struct wish){.context = context};
  atomic_fetch_add(&open_wishes, 1);
}

void want_variables(struct kernel *kernel, uint64_t context) {
  if (!kernel->is_kernel)
    context = kernel->context;
  if (selection.reach == REACH_LIVE) {
    uint64_t count = atomic_load(&loads);
    if (atomic_exchange(&loads_looked_at, count) != count ||
        atomic_exchange(&context_looked_at, context) != context) {
      HOLD(lock);
      for (struct module *module = modules; module != NULL; module = module->next)
        wish_for(module, module->is_library ? context : module->context);
    }
  }
  if (kernel->owner == 0 || context == 0 ||
      __atomic_load_n(&kernel->variables_context, __ATOMIC_RELAXED) == context)
    return;
  HOLD(lock);
  struct module *module = *place_of(kernel->owner);
  if (module != NULL)
    wish_for(module, context);
  __atomic_store_n(&kernel->variables_context, context, __ATOMIC_RELAXED);
}

// A CUkernel has variables in each context that it runs in: that of its stream, current or not.
void want_variables_of_launch(const struct call *call) {
  uint64_t stream = stream_of_call(call), context = 0;
  enum { LAST_CONSTANT = 2 }; // CU_STREAM_PER_THREAD
  if (call->kernel->is_kernel &&
      (stream <= LAST_CONSTANT || ASK("cuStreamGetCtx", stream, word(&context)) != SUCCESS))
    context = current_context();
  want_variables(call->kernel, context);
}

bool variables_are_wanted(void) { return atomic_load_explicit(&open_wishes, memory_order_relaxed) > 0; }

// ---- asking where they are ----------------------------------------------------------------------

// As if the application had asked, and marked as what it did not do. The context is where the
// application would have said where the address goes.
static void record_question(const struct function *getter, uint64_t context, uint64_t owner, const char *name,
                            const uint64_t found[2]) {
  uint64_t arguments[4] = {context, 0, owner, (uint64_t)(uintptr_t)name};
  struct attachment asked = {.parameter = 3}, answered = {.parameter = 3, .part = 1};
  set_bytes(&asked, name, strlen(name));
  set_bytes(&answered, found, 16);
  record_made_call(getter, (uint16_t)(getter->id | BY_CAPTURE_BIT), arguments, &asked, &answered);
}

static bool asks_for_variables(const struct function *function, bool of_library) {
  return function->effect == EFFECT_GLOBAL && function->record_id == function->id &&
         position_of_handle(function, of_library ? HANDLE_CUlibrary : HANDLE_CUmodule) >= 0;
}

// The newer function first: it finds managed variables.
static void find_variable(const struct module *module, uint64_t context, const char *name) {
  for (const struct function *getter = functions + FUNCTION_COUNT - 1; getter >= functions; getter--) {
    int (*get)(uint64_t *, uint64_t *, uint64_t, const char *) =
        asks_for_variables(getter, module->is_library) ? driver_symbol(getter->symbol) : NULL;
    uint64_t found[2] = {0, 0};
    struct range known;
    if (get == NULL || get(&found[0], &found[1], module->handle, name) != SUCCESS || found[1] == 0)
      continue;
    bool asked = memory_find(found[0], &known) && known.base == found[0] && known.owner == module->handle;
    if (!asked) {
      record_question(getter, context, module->handle, name, found);
      memory_add_variable(found, context, module->handle, false);
    }
    return;
  }
}

static void find_variables(struct module *module, uint64_t context) {
  bool pushed = push_context(context);
  for (unsigned n = 0; n < module->part_count && writer_is_open(); n++) {
    uint32_t bytes = 0;
    char *names = variable_names(&module->parts[n], NULL, &bytes);
    for (uint32_t at = 0; names != NULL && at < bytes; at += (uint32_t)strlen(names + at) + 1)
      if (strlen(names + at) <= INLINE_BYTES)
        find_variable(module, context, names + at);
    free(names);
  }
  if (pushed)
    pop_context();
}

// With the lock held. NULL: all are answered.
static struct module *next_to_ask(uint64_t *context) {
  for (struct module *module = modules; module != NULL; module = module->next)
    for (size_t n = 0; n < module->wish_count; n++)
      if (!module->wishes[n].is_answered) {
        module->wishes[n].is_answered = true;
        atomic_fetch_sub(&open_wishes, 1);
        *context = module->wishes[n].context;
        return module;
      }
  return NULL;
}

void ask_for_variables(void) {
  struct module *module;
  uint64_t context;
  pthread_mutex_lock(&lock);
  while ((module = next_to_ask(&context)) != NULL) {
    module->users++;
    pthread_mutex_unlock(&lock);
    uint64_t begin_ns = now_ns();
    find_variables(module, context);
    atomic_fetch_add(&perturbation.asked_ns, now_ns() - begin_ns);
    pthread_mutex_lock(&lock);
    let_go(module);
  }
  pthread_mutex_unlock(&lock);
}

static MUTEX(asking_types);

const char *element_types_of(struct kernel *kernel, uint32_t *bytes) {
  HOLD(asking_types);
  if (!kernel->types_asked && kernel->owner != 0) {
    kernel->types_asked = true;
    pthread_mutex_lock(&lock);
    struct module *module = *place_of(kernel->owner);
    if (module != NULL)
      module->users++;
    pthread_mutex_unlock(&lock);
    for (unsigned n = 0; module != NULL && n < module->part_count && kernel->types_bytes == 0; n++) {
      free(kernel->types);
      kernel->types = variable_names(&module->parts[n], kernel->name, &kernel->types_bytes);
    }
    if (module != NULL) {
      HOLD(lock);
      let_go(module);
    }
  }
  *bytes = kernel->types_bytes;
  return kernel->types;
}
