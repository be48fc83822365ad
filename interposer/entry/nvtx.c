// Ranges that bound the selection, NVTX ranges by name and those of the library; and NVTX ranges around
// launches.
//
// The shim is an NVTX injection library: the NVTX headers inside the application look for one in
// NVTX_INJECTION64_PATH at their first call and ask it to fill in their functions. Identifiers and layouts
// are those of nvtx3/nvToolsExt.h and nvtx3/nvtxDetail/nvtxTypes.h, which are the published interface between
// the two.
#include "base/selection.h"
#include "call/call.h"
#include "objects/ranges.h"
#include "window/window.h"

#include <wchar.h>

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
  union {
    const char *narrow; // also of a registered one
    const wchar_t *wide;
  } message;
};
_Static_assert(sizeof(struct attributes) == 48, "nvToolsExt.h");
enum { MESSAGE_NARROW = 1, MESSAGE_WIDE = 2, MESSAGE_REGISTERED = 3 };

enum { NAME_BYTES = 1024 }; // of one in wide characters, which is made UTF-8

static const char *narrow(const wchar_t *wide, char name[NAME_BYTES]) {
  enum { CHARACTER_BYTES = 4 };
  size_t used = 0;
  while (wide != NULL && *wide != 0 && used + CHARACTER_BYTES < NAME_BYTES)
    used += put_character(name + used, (uint32_t)*wide++);
  name[used] = '\0';
  return name;
}

// NULL: it has none.
static const char *name_of_event(const struct attributes *event, char name[NAME_BYTES]) {
  if (event == NULL || event->size < sizeof *event)
    return NULL;
  if (event->message_type == MESSAGE_WIDE)
    return narrow(event->message.wide, name);
  return event->message_type == MESSAGE_NARROW || event->message_type == MESSAGE_REGISTERED
             ? event->message.narrow
             : NULL;
}

static struct attributes event_of_name(const char *name) {
  return (struct attributes){
      .size = sizeof(struct attributes), .message_type = MESSAGE_NARROW, .message.narrow = name};
}

static struct attributes event_of_wide_name(const wchar_t *name) {
  return (struct attributes){
      .size = sizeof(struct attributes), .message_type = MESSAGE_WIDE, .message.wide = name};
}

// Whether the name holds `text`; where that begins with ^, whether it begins with the rest of it.
static bool holds(const char *name, const char *text, size_t length) {
  if (length > 0 && text[0] == '^')
    return strncmp(name, text + 1, length - 1) == 0;
  return memmem(name, strlen(name), text, length) != NULL;
}

// Lines of a domain and a text that its framework writes into names.
static bool has_wanted_text(const char *domain, const char *name) {
  if (domain == NULL)
    domain = "";
  for (const char *line = selection.nvtx_texts; line != NULL && *line != '\0';) {
    size_t length = strcspn(line, "\n"), domain_bytes = strcspn(line, "\t\n");
    if (domain_bytes < length && strlen(domain) == domain_bytes && memcmp(domain, line, domain_bytes) == 0 &&
        holds(name, line + domain_bytes + 1, length - domain_bytes - 1))
      return true;
    line += length + (line[length] != '\0');
  }
  return false;
}

// NAME or NAME@DOMAIN. A name may hold an @ itself, so the whole text is tried first.
static bool is_selected(const char *domain, const char *name) {
  const char *wanted = selection.nvtx_range;
  if (wanted == NULL || name == NULL)
    return false;
  if (strcmp(name, wanted) == 0 || has_wanted_text(domain, name))
    return true;
  const char *at = strrchr(wanted, '@');
  return at != NULL && domain != NULL && strcmp(at + 1, domain) == 0 &&
         strlen(name) == (size_t)(at - wanted) && strncmp(name, wanted, (size_t)(at - wanted)) == 0;
}

// ---- pushing and popping ------------------------------------------------------------------------

// Each thread has a stack of ranges in each domain, of which the depth counts, and which levels were
// selected.
enum { DOMAINS = 32, LEVELS = 64 };
struct stack {
  const char *domain;
  int depth, unknown; // unknown: of these the innermost that objects/ranges.c does not know
  uint64_t selected;  // bit n: the range at depth n
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

static void open_in_thread(struct stack *stack, const char *name, const struct attributes *event) {
  bool has_attributes = event != NULL && event->size >= sizeof *event;
  struct range_payload payload = {0};
  if (has_attributes)
    payload = (struct range_payload){event->payload_type, event->payload};
  uint32_t category = has_attributes ? event->category : 0;
  if (stack->unknown > 0 || !open_range(stack->domain, name != NULL ? name : "", category, payload))
    stack->unknown++;
}

static int push(const char *domain, const struct attributes *event) {
  KEEP_ERRNO;
  char room[NAME_BYTES];
  struct stack *stack = stack_of(domain);
  if (stack == NULL)
    return -1; // NVTX_NO_PUSH_POP_TRACKING
  const char *name = name_of_event(event, room);
  int level = stack->depth++;
  if (selection.nvtx_stacks)
    open_in_thread(stack, name, event);
  if (is_selected(domain, name) && level < LEVELS) {
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
  if (stack->unknown > 0)
    stack->unknown--;
  else if (selection.nvtx_stacks)
    close_range(domain);
  return level;
}

// Ranges that begin and end in any thread. The identifier itself says whether it was selected.
static uint64_t start(const char *domain, const struct attributes *event) {
  static _Atomic uint64_t started;
  KEEP_ERRNO;
  char room[NAME_BYTES];
  bool selected = is_selected(domain, name_of_event(event, room));
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

static int push_event(const struct attributes *event) { return push(NULL, event); }
static int push_name(const char *name) {
  struct attributes event = event_of_name(name);
  return push(NULL, &event);
}
static int push_wide(const wchar_t *name) {
  struct attributes event = event_of_wide_name(name);
  return push(NULL, &event);
}
static int pop_default(void) { return pop(NULL); }
static uint64_t start_event(const struct attributes *event) { return start(NULL, event); }
static uint64_t start_name(const char *name) {
  struct attributes event = event_of_name(name);
  return start(NULL, &event);
}
static uint64_t start_wide(const wchar_t *name) {
  struct attributes event = event_of_wide_name(name);
  return start(NULL, &event);
}
static void end_default(uint64_t identifier) { end_in_domain(NULL, identifier); }

static char *create_domain(const char *name) { return strdup(name != NULL ? name : ""); }
static char *create_wide_domain(const wchar_t *name) {
  char room[NAME_BYTES];
  return strdup(narrow(name, room));
}
static char *register_string(const char *domain, const char *string) {
  (void)domain;
  return create_domain(string);
}
static char *register_wide_string(const char *domain, const wchar_t *string) {
  (void)domain;
  return create_wide_domain(string);
}

// Ranges of frameworks that say where they are (replay/hints/torch_ranges.py).
EXPORT void replay_hint_range_push(const char *domain, const char *name) {
  struct attributes event = event_of_name(name);
  if (current_mode() == MODE_UNKNOWN)
    initialise();
  note_nvtx_is_used();
  push(domain, &event);
}

EXPORT void replay_hint_range_pop(const char *domain) { pop(domain); }

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
    {MODULE_CORE, 4, (any_function)start_event},
    {MODULE_CORE, 5, (any_function)start_name},
    {MODULE_CORE, 6, (any_function)start_wide},
    {MODULE_CORE, 7, (any_function)end_default},
    {MODULE_CORE, 8, (any_function)push_event},
    {MODULE_CORE, 9, (any_function)push_name},
    {MODULE_CORE, 10, (any_function)push_wide},
    {MODULE_CORE, 11, (any_function)pop_default},
    {MODULE_CORE2, 2, (any_function)start},
    {MODULE_CORE2, 3, (any_function)end_in_domain},
    {MODULE_CORE2, 4, (any_function)push},
    {MODULE_CORE2, 5, (any_function)pop},
    {MODULE_CORE2, 10, (any_function)register_string},
    {MODULE_CORE2, 11, (any_function)register_wide_string},
    {MODULE_CORE2, 12, (any_function)create_domain},
    {MODULE_CORE2, 13, (any_function)create_wide_domain},
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
  note_nvtx_is_used();
  if (selection.nvtx_range == NULL && !selection.nvtx_stacks)
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
