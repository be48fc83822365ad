// Times launches like those of vector_add (three pointers and a count), and calls of a function that is never
// swapped in. usage: application KERNEL BATCHES CALLS_PER_BATCH     prints: launch_ns never_ns wall_launch_ns
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

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **words) {
  int batches = atoi(words[2]), calls = atoi(words[3]);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL)
    return fprintf(stderr, "%s\n", dlerror()), 1;
  int (*init)(unsigned) = dlsym(driver, "cuInit");
  int (*version)(int *) = dlsym(driver, "cuDriverGetVersion");
  int (*get)(uint64_t *, uint64_t, const char *) = dlsym(driver, "cuModuleGetFunction");
  int (*alloc)(uint64_t *, uint64_t) = dlsym(driver, "cuMemAlloc_v2");
  int (*launch)(uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uint64_t,
                void **, void **) = dlsym(driver, "cuLaunchKernel");
  uint64_t function, a, b, c, n = 1024;
  int number;
  init(0);
  get(&function, 1, words[1]);
  alloc(&a, 4096), alloc(&b, 4096), alloc(&c, 4096);
  for (int other = 0; other < 200; other++) { // a process has more memory than one launch uses
    uint64_t unused;
    alloc(&unused, 4096);
  }
  void *values[] = {&a, &b, &c, &n};
  double *launch_ns = calloc(batches, sizeof *launch_ns), *never_ns = calloc(batches, sizeof *never_ns);
  double *wall_ns = calloc(batches, sizeof *wall_ns);
  for (int batch = -1; batch < batches; batch++) { // the first is warm-up
    double wall = now_ns(CLOCK_MONOTONIC), start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int call = 0; call < calls; call++)
      launch(function, 1, 1, 1, 256, 1, 1, 0, 0, values, NULL);
    double middle = now_ns(CLOCK_THREAD_CPUTIME_ID), wall_end = now_ns(CLOCK_MONOTONIC);
    for (int call = 0; call < calls; call++)
      version(&number);
    if (batch >= 0) {
      launch_ns[batch] = (middle - start) / calls;
      never_ns[batch] = (now_ns(CLOCK_THREAD_CPUTIME_ID) - middle) / calls;
      wall_ns[batch] = (wall_end - wall) / calls;
    }
  }
  qsort(launch_ns, batches, sizeof *launch_ns, by_size);
  qsort(never_ns, batches, sizeof *never_ns, by_size);
  qsort(wall_ns, batches, sizeof *wall_ns, by_size);
  printf("%f %f %f\n", launch_ns[batches / 2], never_ns[batches / 2], wall_ns[batches / 2]);
  return 0;
}
