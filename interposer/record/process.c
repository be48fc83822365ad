// What the capture says in words: notes, and texts about its process, its driver and its devices, and about
// what it did to the application.
#include "record/writer.h"

#include "base/state.h"
#include "driver/real.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

// The home folder of whoever packs reads these paths again, so it is told, not guessed from this environment.
size_t without_home(char *path) {
  const char *home = getenv(ENV_HOME);
  size_t length = strlen(path), prefix = home != NULL ? strlen(home) : 0;
  if (prefix < 2 || strncmp(path, home, prefix) != 0 || (path[prefix] != '/' && path[prefix] != '\0'))
    return length;
  path[0] = '~';
  memmove(path + 1, path + prefix, length - prefix + 1);
  return length - prefix + 1;
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

// Only where it was asked for: it may hold secrets. Blanks are between the words.
static void add_command_line(struct text *text) {
  int descriptor = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return;
  add(text, "command=");
  char *line = text->bytes + text->length;
  ssize_t length = read(descriptor, line, TEXT_BYTES / 2);
  close(descriptor);
  for (ssize_t n = 0; n < length; n++)
    if (line[n] == '\0' || line[n] == '\n')
      line[n] = ' ';
  text->length += length > 0 ? (size_t)length - 1 : 0; // a zero byte ends the last word
  add(text, "\n");
}

void describe_process(uint32_t forked_from) {
  struct text text = {malloc(TEXT_BYTES), 0};
  char *executable = realpath("/proc/self/exe", NULL);
  if (text.bytes != NULL) {
    if (executable != NULL)
      without_home(executable);
    add(&text, "pid=%d\nparent=%d\nexecutable=%s\nshim_version=%s\n", (int)getpid(),
        forked_from != 0 ? (int)forked_from : (int)getppid(), executable != NULL ? executable : "",
        REPLAY_VERSION);
    if (getenv(ENV_KEEP_COMMAND_LINE) != NULL)
      add_command_line(&text);
    if (rank()[0] != '\0')
      add(&text, "rank=%s\n", rank());
    write_process_text(text.bytes, text.length);
  }
  free(executable);
  free(text.bytes);
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
