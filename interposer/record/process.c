// What the capture says in words: notes, and texts about its process, its driver and its devices, and about
// what it did to the application.
#include "record/process.h"

#include "base/state.h"
#include "driver/real.h"
#include "record/writer.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

// ---- what of the user's is not written: the home folder, and values in command lines that look like secrets

static const char removed[] = "[removed]";

// The home folder of whoever packs reads these paths again, so it is told, not guessed from this environment.
size_t without_home(char *path) {
  const char *home = getenv("REPLAY_CAPTURE_HOME");
  size_t length = strlen(path), prefix = home != NULL ? strlen(home) : 0;
  if (prefix < 2 || strncmp(path, home, prefix) != 0 || (path[prefix] != '/' && path[prefix] != '\0'))
    return length;
  path[0] = '~';
  memmove(path + 1, path + prefix, length - prefix + 1);
  return length - prefix + 1;
}

static bool names_secret(const char *word, size_t length) {
  static const char *const parts[] = {"token",  "secret", "passw", "passphrase", "pwd",   "credential",
                                      "apikey", "-key",   "_key",  "auth",       "cookie"};
  for (size_t at = 0; at < length; at++)
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++)
      if (strlen(parts[n]) <= length - at && strncasecmp(word + at, parts[n], strlen(parts[n])) == 0)
        return true;
  return false;
}

// Appends what there is room for.
static void append(char *to, size_t room, const char *bytes, size_t length) {
  size_t used = strlen(to), left = room - used - 1;
  memcpy(to + used, bytes, length < left ? length : left);
  to[used + (length < left ? length : left)] = '\0';
}

// words: each ends with a zero byte, as in /proc/self/cmdline. to: one line.
static void private_command(char *to, size_t room, const char *words, size_t length) {
  bool keep = getenv("REPLAY_CAPTURE_KEEP_COMMAND_LINE") != NULL, hide = false;
  to[0] = '\0';
  for (size_t at = 0, bytes; at < length; at += bytes + 1) {
    const char *word = words + at;
    bytes = strnlen(word, length - at);
    const char *equals = memchr(word, '=', bytes);
    size_t name = equals != NULL ? (size_t)(equals + 1 - word) : bytes;
    bool secret = !keep && names_secret(word, name);
    bool address = !keep && memmem(word, bytes, "://", 3) != NULL && memchr(word, '@', bytes) != NULL;
    if (at > 0)
      append(to, room, " ", 1);
    if (hide || address) {
      append(to, room, removed, sizeof removed - 1);
    } else if (secret && equals != NULL) {
      append(to, room, word, name);
      append(to, room, removed, sizeof removed - 1);
    } else {
      size_t head = equals != NULL ? name : 0, begin = strlen(to) + head;
      append(to, room, word, bytes);
      if (!keep && begin < strlen(to))
        without_home(to + begin);
    }
    hide = !hide && secret && equals == NULL && word[0] == '-';
  }
  for (char *at = to; *at != '\0'; at++)
    if (*at == '\n')
      *at = ' ';
}

// ---- notes --------------------------------------------------------------------------------------

void write_note(enum note code, uint16_t function, uint64_t call, const char *format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(text, sizeof text, format, values);
  va_end(values);
  put_note(code, function, call, text, length < 0 ? 0 : strlen(text));
}

// Written at every launch that the selection matches, so without the cost of printf.
void write_matched_note(uint16_t function, uint64_t call, uint64_t ordinal, const char *name) {
  char text[1024], *at = text + 20;
  size_t length = strlen(name);
  if (length > sizeof text - 24)
    length = sizeof text - 24;
  memcpy(text + 21, name, length);
  text[20] = ' ';
  do {
    *--at = (char)('0' + ordinal % 10);
    ordinal /= 10;
  } while (ordinal > 0);
  put_note(NOTE_LAUNCH_MATCHED, function, call, at, (size_t)(text + 21 - at) + length);
}

void write_process_text(const char *text, size_t bytes) {
  struct record record;
  if (!begin_record(&record, RECORD_PROCESS, 0, 0, bytes))
    return;
  put_bytes(&record, text, bytes);
  end_record(&record);
}

// ---- texts --------------------------------------------------------------------------------------

#ifndef REPLAY_VERSION
#define REPLAY_VERSION "unknown"
#endif

enum { TEXT_BYTES = 65536, MAX_DEVICES = 64 };

struct text {
  char *bytes;
  size_t length;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int length = vsnprintf(text->bytes + text->length, TEXT_BYTES - text->length, format, values);
  va_end(values);
  if (length > 0)
    text->length +=
        (size_t)length < TEXT_BYTES - text->length ? (size_t)length : TEXT_BYTES - text->length - 1;
}

// The number that a launcher of several processes gave this one; "" when there is none.
static const char *rank(void) {
  static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                          "SLURM_PROCID"};
  for (size_t n = 0; n < sizeof variables / sizeof *variables; n++) {
    const char *value = getenv(variables[n]);
    if (value != NULL && value[0] != '\0' && strlen(value) < 8 && value[strspn(value, "0123456789")] == '\0')
      return value;
  }
  return "";
}

void describe_process(uint32_t forked_from) {
  enum { COMMAND_BYTES = 32768 };
  struct { // a thread's stack may be small
    char text[TEXT_BYTES], words[COMMAND_BYTES], command[COMMAND_BYTES], executable[PATH_MAX];
  } *room = calloc(1, sizeof *room);
  if (room == NULL)
    return;
  struct text text = {room->text, 0};
  if (readlink("/proc/self/exe", room->executable, sizeof room->executable - 1) < 0)
    room->executable[0] = '\0';
  int descriptor = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t length = descriptor >= 0 ? read(descriptor, room->words, COMMAND_BYTES - 1) : 0;
  if (descriptor >= 0)
    close(descriptor);
  if (length > 0)
    private_command(room->command, COMMAND_BYTES, room->words, (size_t)length);
  without_home(room->executable);
  add(&text, "pid=%d\nparent=%d\nexecutable=%s\ncommand=%s\nshim_version=%s\n", (int)getpid(),
      forked_from != 0 ? (int)forked_from : (int)getppid(), room->executable, room->command, REPLAY_VERSION);
  if (rank()[0] != '\0')
    add(&text, "rank=%s\n", rank());
  write_process_text(text.bytes, text.length);
  free(room);
}

static void describe_device(struct text *text, int ordinal) {
  enum { MULTIPROCESSOR_COUNT = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; // CUdevice_attribute
  int device;
  char name[256] = "";
  uint8_t uuid[16];
  size_t bytes;
  if (ASK("cuDeviceGet", word(&device), (uint64_t)ordinal) != SUCCESS)
    return;
  if (ASK("cuDeviceGetName", word(name), sizeof name, (uint64_t)device) == SUCCESS)
    add(text, "device.%d.name=%s\n", ordinal, name);
  int major = device_attribute(device, CAPABILITY_MAJOR), minor = device_attribute(device, CAPABILITY_MINOR);
  if (major >= 0 && minor >= 0)
    add(text, "device.%d.compute_capability=%d.%d\n", ordinal, major, minor);
  if (ASK("cuDeviceGetUuid_v2", word(uuid), (uint64_t)device) == SUCCESS) {
    add(text, "device.%d.uuid=", ordinal);
    for (int n = 0; n < 16; n++)
      add(text, n == 4 || n == 6 || n == 8 || n == 10 ? "-%02x" : "%02x", uuid[n]);
    add(text, "\n");
  }
  if (ASK("cuDeviceTotalMem_v2", word(&bytes), (uint64_t)device) == SUCCESS)
    add(text, "device.%d.total_memory_bytes=%zu\n", ordinal, bytes);
  int multiprocessors = device_attribute(device, MULTIPROCESSOR_COUNT);
  if (multiprocessors >= 0)
    add(text, "device.%d.multiprocessors=%d\n", ordinal, multiprocessors);
}

void describe_driver(void) {
  struct text text = {malloc(TEXT_BYTES), 0};
  if (text.bytes == NULL)
    return;
  int version = driver_version(), count = 0;
  if (version > 0)
    add(&text, "driver_version=%d\n", version);
  char *path = driver_path();
  if (path != NULL)
    without_home(path);
  add(&text, "driver_path=%s\n", path != NULL ? path : "");
  free(path);
  if (ASK("cuDeviceGetCount", word(&count)) == SUCCESS)
    for (int n = 0; n < count && n < MAX_DEVICES; n++)
      describe_device(&text, n);
  write_process_text(text.bytes, text.length);
  free(text.bytes);
}

void describe_perturbation(void) {
  char text[1024];
#define LINE(name) "perturbation." #name "=%lu\n"
#define VALUE(name) , atomic_load(&perturbation.name)
  int length = snprintf(text, sizeof text, PERTURBATION(LINE) PERTURBATION(VALUE));
  write_process_text(text, (size_t)length);
}
