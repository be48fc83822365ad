// Handles of kernels and functions: their names, whether the selection wants them, their parameter layout.
#define _GNU_SOURCE
#include "objects/kernels.h"

#include "base/fork.h"
#include "base/handles.h"
#include "base/macros.h"
#include "base/selection.h"
#include "base/state.h"
#include "base/thread.h"
#include "driver/ask.h"
#include "driver/real.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNEL_PARAMETERS = 4096, MAX_PARAMETER_BYTES = 32768 };

struct pair {
  uint64_t first, second;
};

static MUTEX(lock);
static struct handle_table table;      // a row's state: KERNEL_NEW, ...
static struct pair *library_of_module; // modules that cuLibraryGetModule gave: they end with their library
static size_t library_of_module_count;
static struct kernel unknown_kernel = {.name = "", .parameter_count = -1, .layout_asked = true};

// ---- the table ----------------------------------------------------------------------------------

bool launch_matters(struct thread *thread, uint64_t handle) {
  int now = current_mode();
  if ((now != MODE_CLOSED && now != MODE_DONE) || thread->depth > 0)
    return false;
  struct handle_row *row = find_row(&table, handle);
  uint32_t state = row != NULL ? atomic_load_explicit(&row->state, memory_order_relaxed) : KERNEL_NEW;
  if (UNLIKELY(now == MODE_DONE)) { // what is new by then is not looked at
    if (state == KERNEL_MATCHES && !selection.bounded)
      count_after_end();
    return false;
  }
  return state == KERNEL_NEW || (state == KERNEL_MATCHES && !launch_is_outside());
}

static void remember_kernel(uint64_t handle, uint64_t owner, const char *name, bool is_kernel) {
  if (handle <= DEAD_HANDLE)
    return;
  uint64_t context = is_kernel ? 0 : current_context();
  pthread_mutex_lock(&lock);
  for (size_t n = 0; n < library_of_module_count; n++)
    if (library_of_module[n].first == owner)
      owner = library_of_module[n].second;
  struct handle_row *row = find_handle(&table, handle);
  const struct kernel *known = row != NULL ? row->object : NULL;
  if (known != NULL && (known->owner != owner || strcmp(known->name, name) != 0)) {
    end_handle(row); // its end was not seen
    known = NULL;
  }
  struct kernel *kernel = known == NULL ? calloc(1, sizeof *kernel) : NULL;
  char *copy = kernel != NULL ? strdup(name) : NULL;
  if (copy != NULL) {
    *kernel = (struct kernel){.handle = handle, .owner = owner, .context = context, .name = copy};
    kernel->is_kernel = is_kernel;
    kernel->parameter_count = -1;
  }
  if (copy == NULL || !add_handle(&table, handle, kernel)) {
    free(copy);
    free(kernel);
  }
  pthread_mutex_unlock(&lock);
}

// Rows die; the kernels stay allocated, because a launch in another thread may be looking at one.
static void forget(bool (*ends)(const struct kernel *, uint64_t), uint64_t value) {
  pthread_mutex_lock(&lock);
  struct handle_row *row;
  for (size_t position = 0; (row = next_handle(&table, &position)) != NULL;)
    if (ends(row->object, value))
      end_handle(row);
  pthread_mutex_unlock(&lock);
}

static bool ends_with_owner(const struct kernel *kernel, uint64_t owner) {
  return kernel->owner == owner || kernel->owner == 0;
}

static bool ends_with_context(const struct kernel *kernel, uint64_t context) {
  return kernel->context == context || kernel->owner == 0;
}

void forget_kernels_of_context(uint64_t context) { forget(ends_with_context, context); }

static void reset(void) {
  atomic_store(&table.rows, NULL);
  library_of_module_count = 0;
}
IN_CHILD(reset);

// ---- what the driver knows ----------------------------------------------------------------------

static const char *name_from_driver(uint64_t handle, bool *is_kernel) {
  const char *name = NULL;
  int (*of_function)(const char **, uint64_t) = driver_symbol("cuFuncGetName");
  int (*of_kernel)(const char **, uint64_t) = driver_symbol("cuKernelGetName");
  *is_kernel = false;
  if (of_function != NULL && of_function(&name, handle) == SUCCESS && name != NULL)
    return name;
  *is_kernel = true;
  if (of_kernel != NULL && of_kernel(&name, handle) == SUCCESS && name != NULL)
    return name;
  return NULL;
}

struct kernel *kernel_of_handle(uint64_t handle) {
  struct handle_row *row = find_handle(&table, handle);
  if (row == NULL && handle > DEAD_HANDLE) {
    bool is_kernel;
    const char *name = name_from_driver(handle, &is_kernel);
    // Remembered without a name as well, so that the driver is not asked at every launch.
    remember_kernel(handle, 0, name != NULL ? name : "", is_kernel);
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

// Asks for parameter after parameter until the driver says that there is none of that number.
static bool ask_with(const char *symbol, struct kernel *kernel) {
  int (*ask)(uint64_t, size_t, size_t *, size_t *) = driver_symbol(symbol);
  if (ask == NULL)
    return false;
  uint32_t *layout = NULL;
  size_t count = 0, end = 0;
  int result;
  for (;;) {
    size_t offset = 0, size = 0;
    result = ask(kernel->handle, count, &offset, &size);
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
  const char *first = kernel->is_kernel ? "cuKernelGetParamInfo" : "cuFuncGetParamInfo";
  const char *second = kernel->is_kernel ? "cuFuncGetParamInfo" : "cuKernelGetParamInfo";
  if (!ask_with(first, &answer))
    ask_with(second, &answer);
  if (answer.parameter_count < 0 && current_context() == 0)
    return; // the driver may answer once there is a context
  pthread_mutex_lock(&asking);
  if (!kernel->layout_asked) {
    kernel->layout = answer.layout;
    kernel->parameter_bytes = answer.parameter_bytes;
    kernel->parameter_count = answer.parameter_count;
    __atomic_store_n(&kernel->layout_asked, true, __ATOMIC_RELEASE);
    answer.layout = NULL;
  }
  pthread_mutex_unlock(&asking);
  free(answer.layout);
}

size_t ask_attributes(const struct kernel *kernel, int32_t pairs[2 * KERNEL_ATTRIBUTES]) {
  int (*ask_function)(int *, int, uint64_t) = driver_symbol("cuFuncGetAttribute");
  int (*ask_kernel)(int *, int, uint64_t, int) = driver_symbol("cuKernelGetAttribute");
  int (*current_device)(int *) = driver_symbol("cuCtxGetDevice");
  int device;
  if (kernel->is_kernel &&
      (ask_kernel == NULL || current_device == NULL || current_device(&device) != SUCCESS))
    return 0;
  if (!kernel->is_kernel && ask_function == NULL)
    return 0;
  size_t count = 0;
  for (int attribute = 0; attribute < KERNEL_ATTRIBUTES; attribute++) {
    int value;
    int result = kernel->is_kernel ? ask_kernel(&value, attribute, kernel->handle, device)
                                   : ask_function(&value, attribute, kernel->handle);
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
  int (*function_of)(uint64_t *, uint64_t) = driver_symbol("cuKernelGetFunction");
  uint64_t candidates[MAX_ASKED], found = 0, function;
  size_t count = 0;
  if (function_of == NULL || kernel->name[0] == '\0')
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
    if (function_of(&function, candidates[n]) == SUCCESS && function == kernel->handle)
      found = candidates[n];
  return found;
}

// ---- calls that make and end handles ------------------------------------------------------------

static uint64_t output(const struct call *call, unsigned parameter) {
  uint64_t value = 0;
  if (call->arguments[parameter] != 0)
    memcpy(&value, (const void *)(uintptr_t)call->arguments[parameter], 8);
  return value;
}

void note_kernels(const struct call *call) {
  const uint64_t *arguments = call->arguments;
  switch (call->function->id) {
  case ID_cuModuleGetFunction:
    remember_kernel(output(call, 0), arguments[1], (const char *)(uintptr_t)arguments[2], false);
    break;
  case ID_cuLibraryGetKernel:
    remember_kernel(output(call, 0), arguments[1], (const char *)(uintptr_t)arguments[2], true);
    break;
  case ID_cuKernelGetFunction: {
    struct kernel *kernel = kernel_of_handle(arguments[1]);
    remember_kernel(output(call, 0), kernel->owner, kernel->name, false);
    break;
  }
  case ID_cuLibraryGetModule: {
    pthread_mutex_lock(&lock);
    struct pair *grown = realloc(library_of_module, (library_of_module_count + 1) * sizeof *grown);
    if (grown != NULL) {
      library_of_module = grown;
      library_of_module[library_of_module_count++] = (struct pair){output(call, 0), arguments[1]};
    }
    pthread_mutex_unlock(&lock);
    break;
  }
  case ID_cuLibraryUnload:
    pthread_mutex_lock(&lock);
    for (size_t n = 0; n < library_of_module_count;) {
      if (library_of_module[n].second == arguments[0])
        library_of_module[n] = library_of_module[--library_of_module_count];
      else
        n++;
    }
    pthread_mutex_unlock(&lock);
    forget(ends_with_owner, arguments[0]);
    break;
  case ID_cuModuleUnload:
    forget(ends_with_owner, arguments[0]);
    break;
  case ID_cuModuleEnumerateFunctions:
  case ID_cuLibraryEnumerateKernels:
    for (uint64_t n = 0; arguments[0] != 0 && n < arguments[1]; n++) {
      uint64_t handle;
      bool is_kernel;
      memcpy(&handle, (const uint8_t *)(uintptr_t)arguments[0] + n * 8, 8);
      const char *name = handle != 0 ? name_from_driver(handle, &is_kernel) : NULL;
      if (name != NULL)
        remember_kernel(handle, arguments[2], name, call->function->id == ID_cuLibraryEnumerateKernels);
    }
    break;
  default:
    break;
  }
}
