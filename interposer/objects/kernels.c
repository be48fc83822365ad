// Handles of kernels and functions: their names, whether the selection wants them, their parameter layout.
#include "base/handles.h"
#include "base/selection.h"
#include "driver/real.h"
#include "objects/objects.h"

enum { MAX_KERNEL_PARAMETERS = 4096, MAX_PARAMETER_BYTES = 32768 };

static MUTEX(lock);
static ZERO_IN_CHILD struct handle_table table; // a row's state: KERNEL_NEW, ...
static ZERO_IN_CHILD struct handle_table
    libraries; // of modules that cuLibraryGetModule gave: they end with them
static struct kernel unknown_kernel = {.name = "", .parameter_count = -1, .layout_asked = true};

// ---- the table ----------------------------------------------------------------------------------

bool launch_matters(struct thread *thread, uint64_t handle) {
  lose_time();
  int now = current_mode();
  if (now == MODE_INERT || thread->depth > 0)
    return false;
  if (UNLIKELY(now == MODE_OPEN)) // a window has opened since enter_closed looked
    return true;
  struct handle_row *row = find_row(&table, handle);
  uint32_t state = row != NULL ? atomic_load_explicit(&row->state, memory_order_relaxed) : KERNEL_NEW;
  if (UNLIKELY(now == MODE_DONE)) { // what is new by then is not looked at
    if (state == KERNEL_MATCHES && !selection.bounded && selection.source == NULL)
      count_after_end();
    return false;
  }
  if (state == KERNEL_NEW || (state == KERNEL_MATCHES && !launch_is_outside()))
    return true;
  return UNLIKELY(asks_for_origins()) && atomic_load(&captures_under_way) > 0; // it becomes a node
}

static void remember_kernel(uint64_t handle, uint64_t owner, const char *name, bool is_kernel,
                            bool is_enumerated) {
  if (handle <= DEAD_HANDLE)
    return;
  uint64_t context = is_kernel ? 0 : current_context();
  HOLD(lock);
  struct handle_row *row = find_handle(&libraries, owner);
  owner = row != NULL ? (uint64_t)(uintptr_t)row->object : owner;
  row = find_handle(&table, handle);
  const struct kernel *known = row != NULL ? row->object : NULL;
  if (known != NULL && (known->owner != owner || strcmp(known->name, name) != 0)) {
    end_handle(row); // its end was not seen
    known = NULL;
  }
  struct kernel *kernel = known == NULL ? calloc(1, sizeof *kernel) : NULL;
  char *copy = kernel != NULL ? strdup(name) : NULL;
  if (copy != NULL) {
    *kernel = (struct kernel){handle, owner, context, copy, is_kernel, is_enumerated, .parameter_count = -1};
  }
  if (copy == NULL || !add_handle(&table, handle, kernel)) {
    free(copy);
    free(kernel);
  }
}

// Rows die; the kernels stay allocated, because a launch in another thread may be looking at one.
static void forget(bool (*ends)(const struct kernel *, uint64_t), uint64_t value) {
  HOLD(lock);
  struct handle_row *row;
  for (size_t position = 0; (row = next_handle(&table, &position)) != NULL;)
    if (ends(row->object, value))
      end_handle(row);
}

static bool ends_with_owner(const struct kernel *kernel, uint64_t owner) {
  return kernel->owner == owner || kernel->owner == 0;
}

static bool ends_with_context(const struct kernel *kernel, uint64_t context) {
  return kernel->context == context || kernel->owner == 0;
}

void forget_kernels_of_context(uint64_t context) { forget(ends_with_context, context); }

// ---- what the driver knows ----------------------------------------------------------------------

static const char *name_from_driver(uint64_t handle, bool *is_kernel) {
  const char *name = NULL;
  *is_kernel = false;
  if (ASK("cuFuncGetName", word(&name), handle) == SUCCESS && name != NULL)
    return name;
  *is_kernel = true;
  return ASK("cuKernelGetName", word(&name), handle) == SUCCESS ? name : NULL;
}

struct kernel *kernel_of_handle(uint64_t handle) {
  struct handle_row *row = find_handle(&table, handle);
  if (row == NULL && handle > DEAD_HANDLE) {
    bool is_kernel;
    const char *name = name_from_driver(handle, &is_kernel);
    // Remembered without a name as well, so that the driver is not asked at every launch.
    remember_kernel(handle, 0, name != NULL ? name : "", is_kernel, false);
    row = find_handle(&table, handle);
  }
  return row != NULL ? row->object : &unknown_kernel;
}

bool kernel_matches(struct kernel *kernel) {
  struct handle_row *row = find_handle(&table, kernel->handle);
  if (row == NULL || kernel == &unknown_kernel)
    return false;
  uint32_t state = atomic_load(&row->state);
  if (state == KERNEL_NEW) {
    state = name_is_selected(kernel->name) ? KERNEL_MATCHES : KERNEL_OTHER;
    atomic_store(&row->state, state);
  }
  return state == KERNEL_MATCHES;
}

void match_kernels_anew(void) {
  HOLD(lock);
  struct handle_row *row;
  for (size_t position = 0; (row = next_handle(&table, &position)) != NULL;)
    atomic_store(&row->state, KERNEL_NEW);
}

// Asks for parameter after parameter until the driver says that there is none of that number.
static bool ask_with(bool of_kernel, struct kernel *kernel) {
  uint32_t *layout = NULL;
  size_t count = 0, end = 0;
  int result;
  for (;;) {
    size_t offset = 0, size = 0;
    result = of_kernel ? ASK("cuKernelGetParamInfo", kernel->handle, count, word(&offset), word(&size))
                       : ASK("cuFuncGetParamInfo", kernel->handle, count, word(&offset), word(&size));
    if (result != SUCCESS || count >= MAX_KERNEL_PARAMETERS || offset + size > MAX_PARAMETER_BYTES)
      break;
    uint32_t *grown = realloc(layout, (count + 1) * 2 * sizeof *layout);
    if (grown == NULL)
      break;
    layout = grown;
    layout[count * 2] = (uint32_t)offset;
    layout[count * 2 + 1] = (uint32_t)size;
    count++;
    if (offset + size > end)
      end = offset + size;
  }
  if (result != ERROR_INVALID_VALUE) {
    free(layout);
    return false;
  }
  kernel->layout = layout;
  kernel->parameter_bytes = (uint32_t)end;
  kernel->parameter_count = (int32_t)count;
  return true;
}

static MUTEX(asking); // not held while the driver is asked

void ask_layout(struct kernel *kernel) {
  if (__atomic_load_n(&kernel->layout_asked, __ATOMIC_ACQUIRE))
    return;
  struct kernel answer = *kernel;
  answer.layout = NULL;
  answer.parameter_count = -1;
  if (!ask_with(kernel->is_kernel, &answer))
    ask_with(!kernel->is_kernel, &answer);
  if (answer.parameter_count < 0 && current_context() == 0)
    return; // the driver may answer once there is a context
  HOLD(asking);
  if (kernel->layout_asked) {
    free(answer.layout);
    return;
  }
  kernel->layout = answer.layout;
  kernel->parameter_bytes = answer.parameter_bytes;
  kernel->parameter_count = answer.parameter_count;
  __atomic_store_n(&kernel->layout_asked, true, __ATOMIC_RELEASE);
}

size_t ask_attributes(const struct kernel *kernel, int32_t pairs[2 * KERNEL_ATTRIBUTES]) {
  int device = kernel->is_kernel ? current_device() : 0;
  size_t count = 0;
  for (int attribute = 0; device >= 0 && attribute < KERNEL_ATTRIBUTES; attribute++) {
    int value;
    uint64_t what = (uint64_t)attribute;
    int result = kernel->is_kernel
                     ? ASK("cuKernelGetAttribute", word(&value), what, kernel->handle, (uint64_t)device)
                     : ASK("cuFuncGetAttribute", word(&value), what, kernel->handle);
    if (result != SUCCESS)
      continue;
    pairs[2 * count] = attribute;
    pairs[2 * count + 1] = value;
    count++;
  }
  return count;
}

uint64_t library_kernel_of(const struct kernel *kernel) {
  enum { MAX_ASKED = 64 };
  uint64_t candidates[MAX_ASKED], found = 0, function;
  size_t count = 0;
  if (kernel->name[0] == '\0')
    return 0;
  pthread_mutex_lock(&lock);
  struct handle_row *row;
  for (size_t position = 0; count < MAX_ASKED && (row = next_handle(&table, &position)) != NULL;) {
    const struct kernel *other = row->object;
    if (other->is_kernel && other->owner != 0 && strcmp(other->name, kernel->name) == 0)
      candidates[count++] = other->handle;
  }
  pthread_mutex_unlock(&lock);
  for (size_t n = 0; n < count && found == 0; n++)
    if (ASK("cuKernelGetFunction", word(&function), candidates[n]) == SUCCESS && function == kernel->handle)
      found = candidates[n];
  return found;
}

// ---- calls that make and end handles ------------------------------------------------------------

static void library_gave_module(uint64_t module, uint64_t library) {
  HOLD(lock);
  struct handle_row *row = find_handle(&libraries, module);
  if (row != NULL)
    end_handle(row); // its end was not seen
  if (module > DEAD_HANDLE)
    add_handle(&libraries, module, (void *)(uintptr_t)library);
}

static void forget_modules_of(uint64_t library) {
  HOLD(lock);
  struct handle_row *row;
  for (size_t position = 0; (row = next_handle(&libraries, &position)) != NULL;)
    if ((uint64_t)(uintptr_t)row->object == library)
      end_handle(row);
}

static void remember_enumerated(const struct call *call, bool is_kernel) {
  const uint64_t *arguments = call->arguments, *handles = pointer_argument(call, 0);
  for (uint64_t n = 0; handles != NULL && n < arguments[1]; n++) {
    bool unused;
    const char *name = handles[n] != 0 ? name_from_driver(handles[n], &unused) : NULL;
    if (name != NULL)
      remember_kernel(handles[n], arguments[2], name, is_kernel, true);
  }
}

void note_kernels(const struct call *call) {
  const struct function *function = call->function;
  bool is_kernel = function->gives == HANDLE_CUkernel;
  if (unloads(function)) {
    forget_modules_of(call->arguments[0]);
    forget(ends_with_owner, call->arguments[0]);
  } else if (function->gives == HANDLE_CUmodule && position_of_handle(function, HANDLE_CUlibrary) == 1) {
    library_gave_module(handle_given_out(call), call->arguments[1]);
  } else if (!is_kernel && function->gives != HANDLE_CUfunction) {
    return;
  } else if (parameter_of(function, 0)->count.first >= 0) {
    remember_enumerated(call, is_kernel);
  } else if (position_of_handle(function, HANDLE_CUkernel) == 1) {
    struct kernel *kernel = kernel_of_handle(call->arguments[1]);
    remember_kernel(handle_given_out(call), kernel->owner, kernel->name, is_kernel, false);
  } else {
    remember_kernel(handle_given_out(call), call->arguments[1], pointer_argument(call, 2), is_kernel, false);
  }
}
