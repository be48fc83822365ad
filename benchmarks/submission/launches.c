// Launches a kernel that does nothing, with three addresses and a count, as often as asked, in a loop.
// usage: launches PTX LAUNCHES ROUNDS     prints the least ns per launch of the rounds: thread CPU time, wall
// time
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

#define MUST(call)                                                                                           \
  do {                                                                                                       \
    int code = (call);                                                                                       \
    if (code != 0)                                                                                           \
      return fprintf(stderr, "%s: CUresult %d\n", #call, code), 1;                                           \
  } while (0)

int main(int count, char **words) {
  if (count != 4)
    return fprintf(stderr, "usage: %s PTX LAUNCHES ROUNDS\n", words[0]), 2;
  int launches = atoi(words[2]), rounds = atoi(words[3]);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL)
    return fprintf(stderr, "%s\n", dlerror()), 1;
  int (*init)(unsigned) = dlsym(driver, "cuInit");
  int (*create)(void **, unsigned, int) = dlsym(driver, "cuCtxCreate_v2");
  int (*load)(void **, const char *) = dlsym(driver, "cuModuleLoad");
  int (*get)(void **, void *, const char *) = dlsym(driver, "cuModuleGetFunction");
  int (*alloc)(uint64_t *, size_t) = dlsym(driver, "cuMemAlloc_v2");
  int (*wait)(void) = dlsym(driver, "cuCtxSynchronize");
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                void **) = dlsym(driver, "cuLaunchKernel");
  void *context, *module, *function;
  uint64_t a, b, c;
  unsigned n = 1024;
  MUST(init(0));
  MUST(create(&context, 0, 0));
  MUST(load(&module, words[1]));
  MUST(get(&function, module, "noop"));
  MUST(alloc(&a, 4096));
  MUST(alloc(&b, 4096));
  MUST(alloc(&c, 4096));
  void *values[] = {&a, &b, &c, &n};
  double least_cpu_ns = 1e18, least_wall_ns = 1e18;
  for (int round = 0; round < rounds; round++) {
    double wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int number = 0; number < launches; number++)
      MUST(launch(function, 1, 1, 1, 32, 1, 1, 0, NULL, values, NULL));
    MUST(wait());
    cpu = (now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) / launches;
    wall = (now_ns(CLOCK_MONOTONIC) - wall) / launches;
    least_cpu_ns = cpu < least_cpu_ns ? cpu : least_cpu_ns;
    least_wall_ns = wall < least_wall_ns ? wall : least_wall_ns;
  }
  printf("%f %f\n", least_cpu_ns, least_wall_ns);
  return 0;
}
