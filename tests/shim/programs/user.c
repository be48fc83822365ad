// A library that is linked with the driver. CONSTRUCTOR: it allocates when it is loaded. BY_NAME: it loads
// the driver itself instead.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef BY_NAME
static void *driver(const char *name) { return dlsym(dlopen(BY_NAME, RTLD_NOW), name); }
#define cuInit ((int (*)(unsigned))driver("cuInit"))
#define cuMemAlloc_v2 ((int (*)(uint64_t *, uint64_t))driver("cuMemAlloc_v2"))
#else
int cuInit(unsigned);
int cuMemAlloc_v2(uint64_t *, uint64_t);
int cuNoSuchFunction(void) __attribute__((weak));
#endif

int allocate(void) {
  uint64_t address;
  return cuInit(0) != 0 || cuMemAlloc_v2(&address, 4096) != 0;
}

void *address_of_init(void) { return (void *)cuInit; }

#ifdef CONSTRUCTOR
__attribute__((constructor)) static void loaded(void) { allocate(); }
#endif
