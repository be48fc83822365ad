// Reaches the driver in the way that the first argument names, allocates, and says in which library each
// function was.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*init_function)(unsigned);
typedef int (*alloc_function)(uint64_t *, uint64_t);
typedef int (*version_function)(int *);

#ifdef DIRECT
int cuInit(unsigned);
int cuMemAlloc_v2(uint64_t *, uint64_t);
int cuDriverGetVersion(int *);
#endif

static const char *home(void *function) {
  Dl_info info;
  if (function == NULL || !dladdr(function, &info))
    return "nowhere";
  const char *slash = strrchr(info.dli_fname, '/');
  return slash ? slash + 1 : info.dli_fname;
}

int main(int count, char **words) {
  const char *way = words[1];
  void *init = NULL, *alloc = NULL, *version = NULL;
#ifdef DIRECT
  init = (void *)cuInit, alloc = (void *)cuMemAlloc_v2, version = (void *)cuDriverGetVersion;
#else
  void *handle = NULL;
  if (!strcmp(way, "local"))
    handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  else if (!strcmp(way, "global"))
    handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  else if (!strcmp(way, "deepbind"))
    handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND);
  else if (!strcmp(way, "dlmopen"))
    handle = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
  else if (!strcmp(way, "default") && dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL))
    handle = RTLD_DEFAULT;
  else if (!strcmp(way, "self") && dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL))
    handle = dlopen(NULL, RTLD_NOW);
  else if (!strcmp(way, "absent")) // nobody loads a driver
    handle = RTLD_DEFAULT;
  else if (!strcmp(way, "absent-self"))
    handle = dlopen(NULL, RTLD_NOW);
  else if (!strncmp(way, "proc", 4))
    handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!strncmp(way, "proc", 4)) {
    uint64_t flags = strtoull(words[2], NULL, 10);
    int asked = atoi(words[3]);
    void *get1 = dlsym(handle, "cuGetProcAddress"), *get2 = dlsym(handle, "cuGetProcAddress_v2");
    printf("resolvers %s %s\n", home(get1), home(get2));
    for (int n = 4; n < count; n++) {
      void *found = NULL;
      int status = 9;
      int result = !strcmp(way, "proc1")
                       ? ((int (*)(const char *, void **, int, uint64_t))get1)(words[n], &found, asked, flags)
                       : ((int (*)(const char *, void **, int, uint64_t, int *))get2)(words[n], &found, asked,
                                                                                      flags, &status);
      Dl_info info = {0};
      dladdr(found, &info);
      printf("%s %d %d %s %s\n", words[n], result, status, home(found),
             info.dli_sname ? info.dli_sname : "-");
    }
    return 0;
  }
  init = dlsym(handle, "cuInit"), alloc = dlsym(handle, "cuMemAlloc_v2"),
  version = dlsym(handle, "cuDriverGetVersion");
  const char *error = dlerror();
  if (init == NULL)
    return printf("absent: %s\n", error ? "dlerror has the reason" : "no reason"), 0;
  if (dlsym(handle, "cuNoSuchFunction") != NULL || dlerror() == NULL)
    return puts("found what is not there"), 1;
#endif
  uint64_t address = 0;
  int number = 0;
  int results[3] = {((init_function)init)(0), ((alloc_function)alloc)(&address, 4096),
                    ((version_function)version)(&number)};
  printf("cuInit %s\ncuMemAlloc_v2 %s\ncuDriverGetVersion %s\nresults %d %d %d\n", home(init), home(alloc),
         home(version), results[0], results[1], results[2]);
  return 0;
}
