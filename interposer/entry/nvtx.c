// Ranges that bound the selection: NVTX ranges by name, and cuProfilerStart to cuProfilerStop.
//
// The shim is an NVTX injection library: the NVTX headers inside the application look for one in
// NVTX_INJECTION64_PATH at their first call and ask it to fill in their functions. Identifiers and layouts
// are those of nvtx3/nvToolsExt.h and nvtx3/nvtxDetail/nvtxTypes.h, which are the published interface between
// the two.
#define _GNU_SOURCE
#include "base/macros.h"
#include "base/selection.h"
#include "base/state.h"
#include "call/lifetime.h"
#include "window/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// ---- names --------------------------------------------------------------------------------------

// What nvtxDomainHandle_t and nvtxStringHandle_t point to. Programs make few of them and keep them, and may
// use one after its end: they are never freed.
struct domain {
  char *name;
};
struct registered {
  char *text;
};

// nvtxEventAttributes_v2; later versions append.
struct attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  union {
    const char *ascii;
    const wchar_t *unicode;
    const struct registered *registered;
  } message;
};
_Static_assert(sizeof(struct attributes) == 48, "nvToolsExt.h");
enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };

enum { NARROW_BYTES = 1024 }; // of a range's name: what is longer is cut, and then matches nothing

static const char *narrow(const wchar_t *wide, char text[NARROW_BYTES]) {
  size_t length = 0;
  for (; wide != NULL && *wide != 0; wide++) {
    uint32_t point = (uint32_t)*wide;
    uint8_t bytes[4];
    size_t count = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t n = count; n > 1; n--, point >>= 6)
      bytes[n - 1] = (uint8_t)(0x80 | (point & 0x3f));
    bytes[0] = (uint8_t)(count == 1 ? point : (0xf00u >> count & 0xff) | point);
    if (length + count >= NARROW_BYTES)
      break;
    memcpy(text + length, bytes, count);
    length += count;
  }
  text[length] = '\0';
  return text;
}

// NAME or NAME@DOMAIN. A name may hold an @ itself, so the whole text is tried first.
static bool is_selected(const struct domain *domain, const char *name) {
  const char *wanted = selection.nvtx_range;
  if (wanted == NULL || name == NULL)
    return false;
  if (strcmp(name, wanted) == 0)
    return true;
  const char *at = strrchr(wanted, '@');
  return at != NULL && domain != NULL && domain->name != NULL && strcmp(at + 1, domain->name) == 0 &&
         strlen(name) == (size_t)(at - wanted) && strncmp(name, wanted, (size_t)(at - wanted)) == 0;
}

static bool event_is_selected(const struct domain *domain, const struct attributes *event) {
  char text[NARROW_BYTES];
  if (event == NULL || event->size < sizeof *event)
    return false;
  switch (event->message_type) {
  case MESSAGE_ASCII:
    return is_selected(domain, event->message.ascii);
  case MESSAGE_UNICODE:
    return is_selected(domain, narrow(event->message.unicode, text));
  case MESSAGE_REGISTERED:
    return event->message.registered != NULL && is_selected(domain, event->message.registered->text);
  default:
    return false;
  }
}

// ---- pushing and popping ------------------------------------------------------------------------

// Each thread has a stack of ranges in each domain. Only the depth counts, and which levels were selected.
enum { DOMAINS = 32, LEVELS = 64 };
struct stack {
  const struct domain *domain;
  int depth;
  uint64_t selected; // bit n: the range at depth n
  bool used;
};
static _Thread_local struct stack stacks[DOMAINS] __attribute__((tls_model("initial-exec")));

static struct stack *stack_of(const struct domain *domain) {
  for (struct stack *stack = stacks; stack < stacks + DOMAINS; stack++) {
    if (!stack->used)
      *stack = (struct stack){.domain = domain, .used = true};
    if (stack->domain == domain)
      return stack;
  }
  return NULL;
}

static int push(const struct domain *domain, bool selected) {
  int error = errno;
  struct stack *stack = stack_of(domain);
  if (stack == NULL)
    return -1; // NVTX_NO_PUSH_POP_TRACKING
  int level = stack->depth++;
  if (selected && level < LEVELS) {
    stack->selected |= (uint64_t)1 << level;
    begin_selected_range();
  }
  errno = error;
  return level;
}

static int pop(const struct domain *domain) {
  int error = errno;
  struct stack *stack = stack_of(domain);
  if (stack == NULL || stack->depth == 0)
    return -1;
  int level = --stack->depth;
  if (level < LEVELS && (stack->selected >> level & 1) != 0) {
    stack->selected &= ~((uint64_t)1 << level);
    end_selected_range();
  }
  errno = error;
  return level;
}

// Ranges that begin and end in any thread. The identifier itself says whether it was selected.
static uint64_t start(bool selected) {
  static _Atomic uint64_t started;
  int error = errno;
  uint64_t identifier = (atomic_fetch_add(&started, 1) + 1) * 2 + selected;
  if (selected)
    begin_selected_range();
  errno = error;
  return identifier;
}

static void end(uint64_t identifier) {
  int error = errno;
  if ((identifier & 1) != 0)
    end_selected_range();
  errno = error;
}

// ---- what the application calls -----------------------------------------------------------------

static int push_event(const struct attributes *event) { return push(NULL, event_is_selected(NULL, event)); }
static int push_ascii(const char *name) { return push(NULL, is_selected(NULL, name)); }
static int push_unicode(const wchar_t *name) {
  char text[NARROW_BYTES];
  return push(NULL, is_selected(NULL, narrow(name, text)));
}
static int pop_default(void) { return pop(NULL); }
static int push_in_domain(const struct domain *domain, const struct attributes *event) {
  return push(domain, event_is_selected(domain, event));
}
static uint64_t start_event(const struct attributes *event) { return start(event_is_selected(NULL, event)); }
static uint64_t start_ascii(const char *name) { return start(is_selected(NULL, name)); }
static uint64_t start_unicode(const wchar_t *name) {
  char text[NARROW_BYTES];
  return start(is_selected(NULL, narrow(name, text)));
}
static uint64_t start_in_domain(const struct domain *domain, const struct attributes *event) {
  return start(event_is_selected(domain, event));
}
static void end_in_domain(const struct domain *domain, uint64_t identifier) {
  (void)domain;
  end(identifier);
}

static struct domain *create_domain(const char *name) {
  struct domain *domain = calloc(1, sizeof *domain);
  if (domain != NULL)
    domain->name = strdup(name != NULL ? name : "");
  return domain;
}
static struct domain *create_domain_unicode(const wchar_t *name) {
  char text[NARROW_BYTES];
  return create_domain(narrow(name, text));
}
static struct registered *register_string(const struct domain *domain, const char *string) {
  (void)domain;
  struct registered *registered = calloc(1, sizeof *registered);
  if (registered != NULL)
    registered->text = strdup(string != NULL ? string : "");
  return registered;
}
static struct registered *register_unicode(const struct domain *domain, const wchar_t *string) {
  char text[NARROW_BYTES];
  return register_string(domain, narrow(string, text));
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
    {MODULE_CORE, 4, (any_function)start_event},
    {MODULE_CORE, 5, (any_function)start_ascii},
    {MODULE_CORE, 6, (any_function)start_unicode},
    {MODULE_CORE, 7, (any_function)end},
    {MODULE_CORE, 8, (any_function)push_event},
    {MODULE_CORE, 9, (any_function)push_ascii},
    {MODULE_CORE, 10, (any_function)push_unicode},
    {MODULE_CORE, 11, (any_function)pop_default},
    {MODULE_CORE2, 2, (any_function)start_in_domain},
    {MODULE_CORE2, 3, (any_function)end_in_domain},
    {MODULE_CORE2, 4, (any_function)push_in_domain},
    {MODULE_CORE2, 5, (any_function)pop},
    {MODULE_CORE2, 10, (any_function)register_string},
    {MODULE_CORE2, 11, (any_function)register_unicode},
    {MODULE_CORE2, 12, (any_function)create_domain},
    {MODULE_CORE2, 13, (any_function)create_domain_unicode},
};

// 1: NVTX calls what was filled in; the functions that were not stay without effect. Each copy of the NVTX
// headers in the process asks once.
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
  const struct callbacks *tables = export_table != NULL ? export_table(EXPORT_CALLBACKS) : NULL;
  if (tables == NULL || tables->struct_size < sizeof *tables)
    return 0;
  int error = errno;
  if (current_mode() == MODE_UNKNOWN)
    initialise();
  errno = error;
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
