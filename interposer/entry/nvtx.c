// Ranges that bound the selection: NVTX ranges by name, and those of the library.
//
// The shim is an NVTX injection library: the NVTX headers inside the application look for one in
// NVTX_INJECTION64_PATH at their first call and ask it to fill in their functions; those with names in wide
// characters are left empty. Identifiers and layouts are those of nvtx3/nvToolsExt.h and
// nvtx3/nvtxDetail/nvtxTypes.h, which are the published interface between the two.
#include "base/selection.h"
#include "call/call.h"
#include "window/window.h"

// ---- names --------------------------------------------------------------------------------------

// What nvtxDomainHandle_t and nvtxStringHandle_t point to are names. Programs make few of them and keep them,
// and may use one after its end: they are never freed.

// nvtxEventAttributes_v2; later versions append.
struct attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const char *message; // also of a registered one
};
_Static_assert(sizeof(struct attributes) == 48, "nvToolsExt.h");
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

// NAME or NAME@DOMAIN. A name may hold an @ itself, so the whole text is tried first.
static bool is_selected(const char *domain, const char *name) {
  const char *wanted = selection.nvtx_range;
  if (wanted == NULL || name == NULL)
    return false;
  if (strcmp(name, wanted) == 0)
    return true;
  const char *at = strrchr(wanted, '@');
  return at != NULL && domain != NULL && strcmp(at + 1, domain) == 0 &&
         strlen(name) == (size_t)(at - wanted) && strncmp(name, wanted, (size_t)(at - wanted)) == 0;
}

static bool event_is_selected(const char *domain, const struct attributes *event) {
  return event != NULL && event->size >= sizeof *event &&
         (event->message_type == MESSAGE_ASCII || event->message_type == MESSAGE_REGISTERED) &&
         is_selected(domain, event->message);
}

// ---- pushing and popping ------------------------------------------------------------------------

// Each thread has a stack of ranges in each domain. Only the depth counts, and which levels were selected.
enum { DOMAINS = 32, LEVELS = 64 };
struct stack {
  const char *domain;
  int depth;
  uint64_t selected; // bit n: the range at depth n
  bool used;
};
static _Thread_local struct stack stacks[DOMAINS] __attribute__((tls_model("initial-exec")));

static struct stack *stack_of(const char *domain) {
  for (struct stack *stack = stacks; stack < stacks + DOMAINS; stack++) {
    if (!stack->used)
      *stack = (struct stack){.domain = domain, .used = true};
    if (stack->domain == domain)
      return stack;
  }
  return NULL;
}

static int push(const char *domain, bool selected) {
  KEEP_ERRNO;
  struct stack *stack = stack_of(domain);
  if (stack == NULL)
    return -1; // NVTX_NO_PUSH_POP_TRACKING
  int level = stack->depth++;
  if (selected && level < LEVELS) {
    stack->selected |= (uint64_t)1 << level;
    begin_selected_range();
  }
  return level;
}

static int pop(const char *domain) {
  KEEP_ERRNO;
  struct stack *stack = stack_of(domain);
  if (stack == NULL || stack->depth == 0)
    return -1;
  int level = --stack->depth;
  if (level < LEVELS && (stack->selected >> level & 1) != 0) {
    stack->selected &= ~((uint64_t)1 << level);
    end_selected_range();
  }
  return level;
}

// Ranges that begin and end in any thread. The identifier itself says whether it was selected.
static uint64_t start(bool selected) {
  static _Atomic uint64_t started;
  KEEP_ERRNO;
  if (selected)
    begin_selected_range();
  return (atomic_fetch_add(&started, 1) + 1) * 2 + selected;
}

static void end_in_domain(const char *domain, uint64_t identifier) {
  (void)domain;
  KEEP_ERRNO;
  if ((identifier & 1) != 0)
    end_selected_range();
}

// ---- what the application calls -----------------------------------------------------------------

static int push_event(const struct attributes *event) { return push(NULL, event_is_selected(NULL, event)); }
static int push_ascii(const char *name) { return push(NULL, is_selected(NULL, name)); }
static int pop_default(void) { return pop(NULL); }
static int push_in_domain(const char *domain, const struct attributes *event) {
  return push(domain, event_is_selected(domain, event));
}
static uint64_t start_event(const struct attributes *event) { return start(event_is_selected(NULL, event)); }
static uint64_t start_ascii(const char *name) { return start(is_selected(NULL, name)); }
static uint64_t start_in_domain(const char *domain, const struct attributes *event) {
  return start(event_is_selected(domain, event));
}
static void end_default(uint64_t identifier) { end_in_domain(NULL, identifier); }

static char *create_domain(const char *name) { return strdup(name != NULL ? name : ""); }
static char *register_string(const char *domain, const char *string) {
  (void)domain;
  return create_domain(string);
}

// Ranges of the library (replay/library/capturing.py). The windows so far, and one; 0: none follows.
EXPORT uint32_t replay_range_begin(void) {
  KEEP_ERRNO;
  if (current_mode() == MODE_UNKNOWN)
    initialise();
  uint32_t next = atomic_load(&window_number) + 1;
  if (!select_anew())
    return 0;
  begin_selected_range();
  return next;
}

EXPORT uint32_t replay_range_end(void) {
  KEEP_ERRNO;
  end_selected_range();
  return atomic_load(&window_number);
}

// ---- the injection ------------------------------------------------------------------------------

typedef void (*any_function)(void);
struct callbacks {
  size_t struct_size;
  int (*module_table)(int module, any_function ***table, unsigned *size);
};

struct callback {
  unsigned module, identifier;
  any_function function;
};
enum { EXPORT_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };
static const struct callback callbacks[] = {
    {MODULE_CORE, 4, (any_function)start_event},       {MODULE_CORE, 5, (any_function)start_ascii},
    {MODULE_CORE, 7, (any_function)end_default},       {MODULE_CORE, 8, (any_function)push_event},
    {MODULE_CORE, 9, (any_function)push_ascii},        {MODULE_CORE, 11, (any_function)pop_default},
    {MODULE_CORE2, 2, (any_function)start_in_domain},  {MODULE_CORE2, 3, (any_function)end_in_domain},
    {MODULE_CORE2, 4, (any_function)push_in_domain},   {MODULE_CORE2, 5, (any_function)pop},
    {MODULE_CORE2, 10, (any_function)register_string}, {MODULE_CORE2, 12, (any_function)create_domain},
};

// 1: NVTX calls what was filled in; the functions that were not stay without effect. Each copy of the NVTX
// headers in the process asks once.
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
  const struct callbacks *tables = export_table != NULL ? export_table(EXPORT_CALLBACKS) : NULL;
  if (tables == NULL || tables->struct_size < sizeof *tables)
    return 0;
  KEEP_ERRNO;
  if (current_mode() == MODE_UNKNOWN)
    initialise();
  if (selection.nvtx_range == NULL)
    return 0;
  for (size_t n = 0; n < sizeof callbacks / sizeof *callbacks; n++) {
    any_function **table = NULL;
    unsigned size = 0;
    if (tables->module_table((int)callbacks[n].module, &table, &size) && table != NULL &&
        callbacks[n].identifier < size && table[callbacks[n].identifier] != NULL)
      *table[callbacks[n].identifier] = callbacks[n].function;
  }
  return 1;
}
