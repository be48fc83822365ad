// A library that is preloaded beside the shim and wraps atoi with dlsym(RTLD_NEXT, ..): what
// it finds must be the next one after itself, whoever replaces dlsym.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int calls;

int atoi(const char *text) {
  int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "atoi");
  calls++;
  return next == atoi || next == NULL ? -1 : next(text);
}

// Asked by the test program: where RTLD_NEXT leads from here for a function of the driver, and for its own
// atoi.
int next_calls(void) { return calls; }
const char *next_home(const char *symbol) {
  static char path[4096];
  Dl_info info;
  void *found = dlsym(RTLD_NEXT, symbol);
  if (found == NULL || !dladdr(found, &info))
    return "nowhere";
  const char *slash = strrchr(info.dli_fname, '/');
  strncpy(path, slash ? slash + 1 : info.dli_fname, sizeof path - 1);
  return path;
}
