// A libcuda.so.1 in front of the real one. `replay capture` puts it first on LD_LIBRARY_PATH, so the names of
// the driver are exactly where the driver's would be: in the scope of whoever loads or links it, and nowhere
// else. What is preloaded exports none of them: a preloaded name comes before a program's own, so a library
// that keeps its function pointers in variables named like the functions would have its variables replaced by
// code.
//
// The real driver is a dependency, at REAL_DRIVER beside this file: what has no wrapper is found there.
//
// The same source, with a list of all names, makes the `libcuda.so` beside the CPU driver.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct entry {
  void *function; // NULL: the loader found no shim
  const char *name;
};
// entries.S
extern struct entry stand_in_entries[], stand_in_entries_end[];
extern const char stand_in_begin[], stand_in_end[];

// interposer/driver/real.c
__attribute__((weak)) void replay_stand_in(const char *begin, const char *end, void *(*driver)(void));

static int not_found(void) { return 500; } // CUDA_ERROR_NOT_FOUND

static void *real_driver(void) {
  Dl_info here;
  char path[PATH_MAX];
  if (dladdr(stand_in_begin, &here) == 0 || here.dli_fname == NULL)
    return NULL;
  const char *slash = strrchr(here.dli_fname, '/');
  int folder_bytes = slash != NULL ? (int)(slash + 1 - here.dli_fname) : 0;
  if (snprintf(path, sizeof path, "%.*s%s", folder_bytes, here.dli_fname, REAL_DRIVER) >= (int)sizeof path)
    return NULL;
  return dlopen(path, RTLD_LAZY | RTLD_LOCAL); // loaded already: a dependency
}

// Runs before the constructors of whatever depends on this library.
__attribute__((constructor)) static void take_place(void) {
  if (replay_stand_in != NULL)
    replay_stand_in(stand_in_begin, stand_in_end, real_driver);
  void *driver = real_driver();
  for (struct entry *entry = stand_in_entries; entry < stand_in_entries_end; entry++)
    if (entry->function == NULL) {
      void *function = driver != NULL ? dlsym(driver, entry->name) : NULL;
      entry->function = function != NULL ? function : (void *)not_found;
    }
}
