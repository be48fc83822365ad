// usage: use_library WAY: how the library LIBRARY is loaded, whose allocate() is called; or it is linked.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef LINKED
int allocate(void);
void *address_of_init(void) __attribute__((weak));
#endif
#ifdef DRIVER_LINKED
int cuInit(unsigned);
int cuMemAlloc_v2(uint64_t *, uint64_t);
int cuNoSuchFunction(void) __attribute__((weak));
#endif
#ifdef OWN_FUNCTION // with a name of the driver, and another meaning
int cuInit(unsigned flags) { return 40 + (int)flags; }
#endif

int main(int count, char **words) {
#ifdef LINKED
  printf("allocate %d\n", allocate());
#else
  int deep = !strcmp(words[1], "deepbind"), lazy = !strcmp(words[1], "lazy");
  int mode = (lazy ? RTLD_LAZY : RTLD_NOW) | (!strcmp(words[1], "global") ? RTLD_GLOBAL : RTLD_LOCAL);
  void *library = dlopen(LIBRARY, mode | (deep ? RTLD_DEEPBIND : 0));
  if (library == NULL)
    return printf("%s\n", dlerror()), 1;
  int (*allocate)(void) = (int (*)(void))dlsym(library, "allocate");
  int (*finds_itself)(void *) = (int (*)(void *))dlsym(library, "finds_itself");
  printf("allocate %d\n", allocate());
  if (finds_itself != NULL)
    printf("finds itself %d %d\n", finds_itself(library), finds_itself(RTLD_DEFAULT));
#endif
#ifdef DRIVER_LINKED
  uint64_t address;
  int results[2] = {cuInit(0), cuMemAlloc_v2(&address, 4096)};
  printf("linked %d %d %d\n", results[0], results[1], cuNoSuchFunction != NULL);
#endif
#ifdef OWN_FUNCTION
  void *all = dlsym(RTLD_DEFAULT, "cuInit"), *self = dlsym(dlopen(NULL, RTLD_NOW), "cuInit");
  printf("own %d %d %d\n", cuInit(1), all == (void *)cuInit, self == (void *)cuInit);
#endif
#if defined(LINKED) && defined(DRIVER_LINKED)
  if (address_of_init != NULL)
    printf("same address %d\n", address_of_init() == (void *)cuInit);
#endif
  return 0;
}
