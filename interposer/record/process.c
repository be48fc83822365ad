// What the capture says about its process, its driver and its devices, and about what it did to the
// application.
#define _GNU_SOURCE
#include "record/process.h"

#include "base/privacy.h"
#include "base/state.h"
#include "driver/real.h"
#include "record/writer.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
  struct text text = {malloc(TEXT_BYTES), 0};
  if (text.bytes == NULL)
    return;
  enum { COMMAND_BYTES = 32768 };
  // A thread's stack may be small.
  char executable[PATH_MAX] = "", *words = calloc(1, COMMAND_BYTES), *command = calloc(1, COMMAND_BYTES);
  if (readlink("/proc/self/exe", executable, sizeof executable - 1) < 0)
    executable[0] = '\0';
  int descriptor = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t length = descriptor >= 0 && words != NULL ? read(descriptor, words, COMMAND_BYTES - 1) : 0;
  if (descriptor >= 0)
    close(descriptor);
  if (command != NULL && length > 0)
    private_command(command, COMMAND_BYTES, words, (size_t)length);
  without_home(executable);
  add(&text, "pid=%d\nparent=%d\nexecutable=%s\ncommand=%s\nshim_version=%s\n", (int)getpid(),
      forked_from != 0 ? (int)forked_from : (int)getppid(), executable, command != NULL ? command : "",
      REPLAY_VERSION);
  if (rank()[0] != '\0')
    add(&text, "rank=%s\n", rank());
  write_process_text(text.bytes, text.length);
  free(command);
  free(words);
  free(text.bytes);
}

static void describe_device(struct text *text, int ordinal) {
  int (*get)(int *, int) = driver_symbol("cuDeviceGet");
  int (*get_name)(char *, int, int) = driver_symbol("cuDeviceGetName");
  int (*get_attribute)(int *, int, int) = driver_symbol("cuDeviceGetAttribute");
  int (*get_uuid)(uint8_t *, int) = driver_symbol("cuDeviceGetUuid_v2");
  int (*get_memory)(size_t *, int) = driver_symbol("cuDeviceTotalMem_v2");
  int device, value = 0, minor = 0;
  char name[256] = "";
  uint8_t uuid[16];
  size_t bytes;
  if (get == NULL || get_attribute == NULL || get(&device, ordinal) != SUCCESS)
    return;
  if (get_name != NULL && get_name(name, sizeof name, device) == SUCCESS)
    add(text, "device.%d.name=%s\n", ordinal, name);
  enum { MULTIPROCESSOR_COUNT = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; // CUdevice_attribute
  if (get_attribute(&value, CAPABILITY_MAJOR, device) == SUCCESS &&
      get_attribute(&minor, CAPABILITY_MINOR, device) == SUCCESS)
    add(text, "device.%d.compute_capability=%d.%d\n", ordinal, value, minor);
  if (get_uuid != NULL && get_uuid(uuid, device) == SUCCESS) {
    add(text, "device.%d.uuid=", ordinal);
    for (int n = 0; n < 16; n++)
      add(text, n == 4 || n == 6 || n == 8 || n == 10 ? "-%02x" : "%02x", uuid[n]);
    add(text, "\n");
  }
  if (get_memory != NULL && get_memory(&bytes, device) == SUCCESS)
    add(text, "device.%d.total_memory_bytes=%zu\n", ordinal, bytes);
  if (get_attribute(&value, MULTIPROCESSOR_COUNT, device) == SUCCESS)
    add(text, "device.%d.multiprocessors=%d\n", ordinal, value);
}

void describe_driver(void) {
  struct text text = {malloc(TEXT_BYTES), 0};
  if (text.bytes == NULL)
    return;
  int (*get_version)(int *) = driver_symbol("cuDriverGetVersion");
  int (*get_count)(int *) = driver_symbol("cuDeviceGetCount");
  int version = 0, count = 0;
  if (get_version != NULL && get_version(&version) == SUCCESS)
    add(&text, "driver_version=%d\n", version);
  char *path = driver_path();
  if (path != NULL)
    without_home(path);
  add(&text, "driver_path=%s\n", path != NULL ? path : "");
  free(path);
  if (get_count != NULL && get_count(&count) == SUCCESS)
    for (int n = 0; n < count && n < MAX_DEVICES; n++)
      describe_device(&text, n);
  write_process_text(text.bytes, text.length);
  free(text.bytes);
}

void describe_perturbation(void) {
  char text[1024];
  int length = snprintf(text, sizeof text,
                        "perturbation.waits=%llu\nperturbation.wait_ns=%llu\n"
                        "perturbation.copied_bytes=%llu\nperturbation.copy_ns=%llu\n"
                        "perturbation.hashed_bytes=%llu\nperturbation.asked_ns=%llu\n"
                        "perturbation.launches_matched=%llu\nperturbation.outside_selection=%llu\n"
                        "perturbation.busy_threads=%llu\nperturbation.after_end=%llu\n"
                        "perturbation.in_stream_capture=%llu\n",
                        (unsigned long long)atomic_load(&perturbation.waits),
                        (unsigned long long)atomic_load(&perturbation.wait_ns),
                        (unsigned long long)atomic_load(&perturbation.copied_bytes),
                        (unsigned long long)atomic_load(&perturbation.copy_ns),
                        (unsigned long long)atomic_load(&perturbation.hashed_bytes),
                        (unsigned long long)atomic_load(&perturbation.asked_ns),
                        (unsigned long long)atomic_load(&perturbation.launches_matched),
                        (unsigned long long)atomic_load(&perturbation.outside_selection),
                        (unsigned long long)atomic_load(&perturbation.busy_threads),
                        (unsigned long long)atomic_load(&perturbation.after_end),
                        (unsigned long long)atomic_load(&perturbation.in_stream_capture));
  write_process_text(text, (size_t)length);
}
