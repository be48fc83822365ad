// A library that keeps the driver's functions in variables of their names, as programs with a loader of their
// own do.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

int (*cuInit)(unsigned);
int (*cuMemAlloc_v2)(uint64_t *, uint64_t);
int (*cuDriverGetVersion)(int *);

int allocate(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  uint64_t address;
  int version;
  cuInit = (int (*)(unsigned))dlsym(driver, "cuInit");
  cuMemAlloc_v2 = (int (*)(uint64_t *, uint64_t))dlsym(driver, "cuMemAlloc_v2");
  cuDriverGetVersion = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
  return cuInit(0) != 0 || cuMemAlloc_v2(&address, 4096) != 0 || cuDriverGetVersion(&version) != 0;
}

// Whether a variable is found, and not a function of the driver.
int finds_itself(void *handle) { return dlsym(handle, "cuInit") == (void *)&cuInit; }
