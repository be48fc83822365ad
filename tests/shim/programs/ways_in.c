// usage: ways_in WAY: gets at the driver in that way, starts it and allocates with it, and prints what it
// answered. Ends with 0 when all of it worked.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *(*find_function)(void *, const char *);

#ifdef LINKED
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuMemAlloc_v2(uint64_t *, uint64_t), cuMemFree_v2(uint64_t);
#define FUNCTION(name) name
#else
#define FUNCTION(name) ((int (*)())find(driver, #name))
#endif

static int work(const char *who, void *driver, find_function find) {
  void *context = NULL;
  uint64_t memory = 0;
  (void)driver, (void)find;
  int started = FUNCTION(cuInit)(0), retained = FUNCTION(cuDevicePrimaryCtxRetain)(&context, 0);
  int set = FUNCTION(cuCtxSetCurrent)(context);
  int allocated = FUNCTION(cuMemAlloc_v2)(&memory, (uint64_t)4096), freed = FUNCTION(cuMemFree_v2)(memory);
  printf("%s: %d %d %d %d %d\n", who, started, retained, set, allocated, freed);
  fflush(stdout);
  return started || retained || set || allocated || freed;
}

#ifndef LINKED
static int open_and_work(const char *who, const char *way) {
  int deep = strcmp(way, "deepbind") == 0, apart = strcmp(way, "dlmopen") == 0;
  void *driver = apart ? dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW)
                       : dlopen("libcuda.so.1", RTLD_LAZY | (deep ? RTLD_DEEPBIND : 0));
  if (driver == NULL)
    return puts("no driver"), 2;
  find_function find = dlsym;
  if (strcmp(way, "dlvsym") == 0) {
    // The driver gives its functions no version, so none is found by one; the lookup itself has one.
    printf("by version: %d\n", dlvsym(driver, "cuInit", "VERSION_1") != NULL);
    find = (find_function)dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5");
    if (find == NULL)
      find = (find_function)dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.17"); // aarch64
  }
  int result = work(who, driver, find);
  if (strcmp(way, "again") == 0)
    printf("closed %d\n", dlclose(driver));
  return result;
}
#endif

static int in_child(int (*body)(const char *, const char *), const char *way) {
  int status = 0;
  fflush(stdout);
  if (fork() == 0)
    _exit(body("child", way));
  wait(&status);
  printf("child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return status != 0;
}

int main(int count, char **words) {
  const char *way = count > 1 ? words[1] : "";
#ifdef LINKED
  (void)in_child;
  return work(way, NULL, NULL);
#else
  if (strcmp(way, "child") == 0) // the driver is a stranger to the parent
    return in_child(open_and_work, way);
  int result = open_and_work("first", way);
  if (strcmp(way, "again") == 0)
    result |= open_and_work("second", way) | open_and_work("third", way);
  if (strcmp(way, "fork") == 0) // a child of a process that has started it
    result |= in_child(open_and_work, way);
  return result;
#endif
}
