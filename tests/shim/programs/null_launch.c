// Launches a kernel, then the function 0, as a program does that has lost its handle. Says what each launch
// answered.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = dlsym(driver, "cuInit");
  int (*get_function)(uint64_t *, uint64_t, const char *) = dlsym(driver, "cuModuleGetFunction");
  int (*launch)(uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uint64_t,
                void **, void **) = dlsym(driver, "cuLaunchKernel");
  uint64_t kernel = 0;
  init(0);
  get_function(&kernel, 0x77, "spin");
  void *none[4] = {NULL};
  printf("%d\n", launch(kernel, 1, 1, 1, 1, 1, 1, 0, 0, none, NULL));
  printf("%d\n", launch(0, 1, 1, 1, 1, 1, 1, 0, 0, none, NULL));
  return 0;
}
