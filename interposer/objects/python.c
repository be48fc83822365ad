// Python frames of the thread that launches, read where they lie.
//
// Whoever calls the driver from Python has released the interpreter's lock by then (ctypes, cuda.bindings,
// Triton's launchers), and to take it back could wait for ever: another thread may hold it and wait for a
// lock of this one. So no object is made, counted or changed here. The frames of this thread do not move
// while it is in here, and what is read of them is read as by a profiler from outside: by the layout of each
// release of CPython. What the interpreter says of itself is asked of it: where the fields of code objects
// are (the table of its members), lines (PyCode_Addr2Line), characters (PyUnicode_ReadChar). None of these
// allocates or needs the lock.
//
// The first frames are read by a way that survives a wrong address, and have to lead to code objects with
// names that are text. If they do not, the frames of this process are not known.
#include "objects/python.h"

#include "base/state.h"

#include <dlfcn.h>
#include <stdlib.h>

// ---- layouts ------------------------------------------------------------------------------------

// Offsets in PyThreadState, in what it leads to, and in a frame; of a release that keeps them through its
// minor version. Where `holder` is set, the first frame is reached through one more structure (_PyCFrame).
struct layout {
  uint16_t holder, first;      // of the thread; 0: no holder
  uint16_t previous, code, at; // of a frame
  bool at_is_offset, units;    // `at` is an int, not a pointer; in instructions, not bytes
};
enum { FIRST_MINOR = 9 };
static const struct layout layouts[] = {
    {0, 24, 24, 32, 104, true, false}, // 3.9: PyFrameObject
    {0, 24, 24, 32, 96, true, true},   // 3.10
    {56, 8, 48, 32, 56, false, false}, // 3.11: _PyInterpreterFrame
    {56, 0, 8, 0, 56, false, false},   // 3.12
    {0, 72, 8, 0, 56, false, false},   // 3.13
    {0, 72, 8, 0, 56, false, false},   // 3.14
};
enum { TAG_BITS = 3 }; // of a reference in a frame since 3.14

// PyObject and PyTypeObject, of which the stable ABI knows the beginning, and PyMemberDef.
enum { TYPE_OF_OBJECT = 8, BASIC_BYTES_OF_TYPE = 32, MEMBERS_OF_TYPE = 240 };
struct member {
  const char *name;
  int type;
  intptr_t offset;
  int flags;
  const char *documentation;
};

// ---- the interpreter ----------------------------------------------------------------------------

static struct {
  const struct layout *layout;
  const uint8_t *code_type, *text_type;
  size_t code_bytes; // of a code object, before its instructions
  intptr_t file, name, qualified, line, table;
  void *(*thread_state)(void);
  int (*line_of)(const void *code, int byte);
  intptr_t (*length_of)(const void *text);
  uint32_t (*character_of)(const void *text, intptr_t place);
  int (*is_initialised)(void);
  void *(*first_interpreter)(void), *(*next_interpreter)(void *); // NULL from 3.12 on
} python;
enum { NOT_LOOKED, FOUND, CHECKED, UNUSABLE };
static atomic_int state;
static const char *problem;
static MUTEX(looking);

static bool find(void *function, const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static intptr_t member_of_code(const char *name) {
  const struct member *member;
  memcpy(&member, python.code_type + MEMBERS_OF_TYPE, sizeof(void *));
  for (; member != NULL && member->name != NULL; member++)
    if (strcmp(member->name, name) == 0)
      return member->offset;
  return 0;
}

static int unusable(const char *why) {
  problem = why;
  return UNUSABLE;
}

static int look_for_interpreter(void) {
  const char *(*version)(void);
  if (!find(&version, "Py_GetVersion") || !find(&python.is_initialised, "Py_IsInitialized"))
    return NOT_LOOKED; // it may be loaded later
  const char *text = version();
  long minor = strncmp(text, "3.", 2) == 0 ? strtol(text + 2, NULL, 10) : 0;
  if (minor < FIRST_MINOR || minor >= FIRST_MINOR + (long)(sizeof layouts / sizeof *layouts))
    return unusable("this release of Python is not known");
  if (strstr(version(), "free-threading") != NULL)
    return unusable("a free-threaded Python is not known");
  if (!find(&python.code_type, "PyCode_Type") || !find(&python.text_type, "PyUnicode_Type") ||
      !find(&python.thread_state, "PyGILState_GetThisThreadState") ||
      !find(&python.line_of, "PyCode_Addr2Line") || !find(&python.length_of, "PyUnicode_GetLength") ||
      !find(&python.character_of, "PyUnicode_ReadChar"))
    return unusable("this Python does not export what is asked");
  // Before 3.12 a thread is known by its first interpreter, whichever it is in now.
  enum { KNOWS_ITS_INTERPRETER = 12 };
  if (minor < KNOWS_ITS_INTERPRETER && (!find(&python.first_interpreter, "PyInterpreterState_Head") ||
                                        !find(&python.next_interpreter, "PyInterpreterState_Next")))
    return unusable("this Python does not export what is asked");
  python.layout = &layouts[minor - FIRST_MINOR];
  memcpy(&python.code_bytes, python.code_type + BASIC_BYTES_OF_TYPE, sizeof python.code_bytes);
  python.file = member_of_code("co_filename");
  python.name = member_of_code("co_name");
  python.qualified = member_of_code("co_qualname"); // since 3.11
  python.qualified = python.qualified != 0 ? python.qualified : python.name;
  python.line = member_of_code("co_firstlineno");
  python.table = member_of_code(minor == 9 ? "co_lnotab" : "co_linetable");
  if (python.file == 0 || python.name == 0 || python.line == 0 || python.table == 0)
    return unusable("code objects of this Python are not known");
  return FOUND;
}

const char *why_no_python(void) {
  return atomic_load(&state) == NOT_LOOKED ? "no Python is loaded" : problem;
}

// ---- walking ------------------------------------------------------------------------------------

static const uint8_t *load(const uint8_t *base, size_t offset) {
  const uint8_t *found;
  memcpy(&found, base + offset, sizeof found);
  return found;
}

static bool load_carefully(const uint8_t **found, const uint8_t *base, size_t offset) {
  return base != NULL && read_memory(found, base + offset, sizeof *found);
}

static const uint8_t *untagged(const uint8_t *reference) {
  return (const uint8_t *)((uintptr_t)reference & ~(uintptr_t)TAG_BITS);
}

// Of a code object that holds its instructions itself, which an object with a size counts by two bytes.
static bool is_inside(const uint8_t *code, int64_t byte) {
  enum { SIZE_OF_OBJECT = 16, INSTRUCTION_BYTES = 2 };
  return -INSTRUCTION_BYTES <= byte && byte < (int64_t)word_at(code, SIZE_OF_OBJECT) * INSTRUCTION_BYTES;
}

// The first frame of a thread must lead to a code object, where it is at must be inside that, and its file
// must have a name. Frames of the interpreter itself, which have none, may come before it.
static bool makes_sense(const uint8_t *thread) {
  const struct layout *layout = python.layout;
  const uint8_t *holder = thread, *frame = NULL, *code = NULL, *type = NULL, *text = NULL;
  if (layout->holder != 0 && !load_carefully(&holder, thread, layout->holder))
    return false;
  if (!load_carefully(&frame, holder, layout->first))
    return false;
  for (unsigned n = 0; n < 4 && type != python.code_type; n++) {
    if (n > 0 && !load_carefully(&frame, frame, layout->previous))
      return false;
    if (!load_carefully(&code, frame, layout->code))
      return false;
    code = untagged(code);
    if (code != NULL && !load_carefully(&type, code, TYPE_OF_OBJECT))
      return false;
  }
  if (type == python.code_type && !layout->at_is_offset) {
    const uint8_t *at = NULL;
    if (!load_carefully(&at, frame, layout->at) || !is_inside(code, at - (code + python.code_bytes)))
      return false;
  }
  return type == python.code_type && load_carefully(&text, code, (size_t)python.file) &&
         load_carefully(&type, text, TYPE_OF_OBJECT) && type == python.text_type;
}

static bool has_several_interpreters(void) {
  if (python.first_interpreter == NULL)
    return false;
  void *first = python.first_interpreter();
  return first != NULL && python.next_interpreter(first) != NULL;
}

static const uint8_t *thread_with_frames(void) {
  const uint8_t *thread =
      python.is_initialised() && !has_several_interpreters() ? python.thread_state() : NULL;
  const uint8_t *holder = thread;
  if (thread != NULL && python.layout->holder != 0)
    holder = load(thread, python.layout->holder);
  return holder != NULL && load(holder, python.layout->first) != NULL ? thread : NULL;
}

static bool is_usable(void) {
  int now = atomic_load_explicit(&state, memory_order_acquire);
  if (LIKELY(now == CHECKED) || now == UNUSABLE)
    return now == CHECKED;
  HOLD(looking);
  now = atomic_load(&state);
  if (now == NOT_LOOKED)
    now = look_for_interpreter();
  if (now == FOUND) {
    const uint8_t *thread = python.is_initialised() ? python.thread_state() : NULL, *holder = thread, *first;
    if (thread != NULL &&
        (python.layout->holder == 0 || load_carefully(&holder, thread, python.layout->holder)) &&
        load_carefully(&first, holder, python.layout->first) && first != NULL)
      now =
          makes_sense(thread) ? CHECKED : unusable("frames of this Python are not where they were expected");
  }
  atomic_store_explicit(&state, now, memory_order_release);
  return now == CHECKED;
}

unsigned python_frames(struct python_frame *frames, unsigned most, bool *more) {
  *more = false;
  const uint8_t *thread = is_usable() ? thread_with_frames() : NULL;
  if (thread == NULL)
    return 0;
  const struct layout *layout = python.layout;
  const uint8_t *holder = layout->holder != 0 ? load(thread, layout->holder) : thread;
  unsigned count = 0;
  for (const uint8_t *frame = load(holder, layout->first); frame != NULL;
       frame = load(frame, layout->previous)) {
    const uint8_t *code = untagged(load(frame, layout->code));
    if (code == NULL || load(code, TYPE_OF_OBJECT) != python.code_type)
      continue; // of the interpreter itself
    if (count == most) {
      *more = true;
      break;
    }
    int64_t byte = 0;
    if (layout->at_is_offset) {
      int32_t at;
      memcpy(&at, frame + layout->at, sizeof at);
      byte = layout->units ? (int64_t)at * 2 : at;
    } else {
      byte = load(frame, layout->at) - (code + python.code_bytes);
    }
    frames[count++] = (struct python_frame){code, byte < 0 ? 0 : (int32_t)byte};
  }
  return count;
}

// A code object may end and another one begin at its address: besides the address, what of it can be had at
// once.
uint64_t python_frame_key(const struct python_frame *frame) {
  enum { LENGTH_OF_TEXT = 16, HASH_OF_TEXT = 24 };
  const uint8_t *code = frame->code, *file = load(code, (size_t)python.file);
  const uint8_t *name = load(code, (size_t)python.name);
  int32_t line;
  memcpy(&line, code + python.line, sizeof line);
  const uint64_t words[] = {(uintptr_t)code,
                            (uint64_t)frame->byte << 32 | (uint32_t)line,
                            (uintptr_t)file,
                            word_at(file, LENGTH_OF_TEXT),
                            (uintptr_t)name,
                            word_at(name, HASH_OF_TEXT),
                            (uintptr_t)load(code, (size_t)python.table)};
  uint64_t key = 0;
  for (size_t n = 0; n < sizeof words / sizeof *words; n++)
    key = (key ^ words[n] ^ key >> 29) * 0x9e3779b97f4a7c15u;
  return key;
}

// ---- describing ---------------------------------------------------------------------------------

// As UTF-8, without what would end a line or a field; of a longer text its end.
static void copy_text(const uint8_t *text, char *to, size_t bytes) {
  size_t used = 0;
  to[0] = '\0';
  if (text == NULL || load(text, TYPE_OF_OBJECT) != python.text_type)
    return;
  intptr_t length = python.length_of(text), most = (intptr_t)(bytes - 1) / 4;
  for (intptr_t n = length > most ? length - most : 0; n < length; n++) {
    uint32_t character = python.character_of(text, n);
    used += put_character(to + used, character);
  }
  to[used] = '\0';
}

void describe_python_frame(const struct python_frame *frame, struct python_place *place) {
  const uint8_t *code = frame->code;
  place->line = python.line_of(code, frame->byte);
  copy_text(load(code, (size_t)python.file), place->file, sizeof place->file);
  copy_text(load(code, (size_t)python.qualified), place->function, sizeof place->function);
}
