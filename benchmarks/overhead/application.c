// Times launches like those of vector_add (three pointers and a count), copies to the device, and calls of a
// function that is never swapped in; each thread for itself, the least of its batches.
// usage: application KERNEL THREADS BATCHES CALLS_PER_BATCH COPIES WORK [RANGES]
//   COPIES   1: copies are called, too
//   WORK     rounds of arithmetic before each launch; 0: none
//   RANGES   NVTX ranges around all launches; -1: one around each
// prints, of the slowest thread: launch_ns wall_launch_ns copy_ns never_ns    (CPU time, but for
// wall_launch_ns), then resident_bytes of the process at most
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KINDS = 4, MAX_THREADS = 64 };

static int (*version)(int *), (*alloc)(uint64_t *, uint64_t);
static int (*get)(uint64_t *, uint64_t, const char *);
static int (*copy)(uint64_t, const void *, uint64_t, uint64_t);
static int (*launch)(uint64_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uint64_t,
                     void **, void **);
static const char *kernel;
static int batches, calls, copies, work, ranges;
static int (*push)(const char *), (*pop)(void);
static pthread_barrier_t all_are_ready;
static double least[MAX_THREADS][KINDS];

static double now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

static void keep_least(double *place, double value) {
  if (*place == 0 || value < *place)
    *place = value;
}

static uint64_t arithmetic(uint64_t value) {
  for (int n = 0; n < work; n++)
    value = value * 6364136223846793005u + 1442695040888963407u;
  return value;
}

// What the NVTX headers do in a program, as far as ranges need it (nvtx3/nvtxDetail/nvtxTypes.h).
enum { CORE = 1, PUSH = 9, POP = 11, CORE_FUNCTIONS = 16 };
static void (*functions[CORE_FUNCTIONS])(void);
static void (**slots[CORE_FUNCTIONS + 1])(void);

static int module_table(int module, void (****table)(void), unsigned *size) {
  *table = slots, *size = module == CORE ? CORE_FUNCTIONS : 0;
  return module == CORE;
}

static const void *export_table(uint32_t which) {
  static const struct {
    size_t bytes;
    int (*module_table)(int, void (****)(void), unsigned *);
  } callbacks = {sizeof callbacks, module_table};
  return which == 1 ? &callbacks : NULL;
}

static void find_nvtx(void) {
  for (int n = 0; n < CORE_FUNCTIONS; n++)
    slots[n] = &functions[n];
  const char *path = getenv("NVTX_INJECTION64_PATH");
  void *tool = path != NULL ? dlopen(path, RTLD_NOW) : NULL;
  int (*inject)(const void *(*)(uint32_t)) = tool != NULL ? dlsym(tool, "InitializeInjectionNvtx2") : NULL;
  if (inject == NULL || !inject(export_table))
    exit(1);
  memcpy(&push, &functions[PUSH], sizeof push), memcpy(&pop, &functions[POP], sizeof pop);
}

static void *run(void *place) {
  double *found = place;
  uint64_t function, a, b, c, n = 1024;
  static const char host[64];
  volatile uint64_t sink = 0;
  int number;
  get(&function, 1, kernel);
  alloc(&a, 4096), alloc(&b, 4096), alloc(&c, 4096);
  void *values[] = {&a, &b, &c, &n};
  for (int batch = -1; batch < batches; batch++) { // the first is warm-up
    pthread_barrier_wait(&all_are_ready);
    for (int range = 0; range < ranges; range++)
      push("layers.0.attention");
    double wall = now_ns(CLOCK_MONOTONIC), start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int call = 0; call < calls; call++) {
      if (work > 0)
        sink = arithmetic(sink);
      if (ranges < 0)
        push("layers.0.attention");
      launch(function, 1, 1, 1, 256, 1, 1, 0, 0, values, NULL);
      if (ranges < 0)
        pop();
    }
    double launched = now_ns(CLOCK_THREAD_CPUTIME_ID), wall_end = now_ns(CLOCK_MONOTONIC);
    for (int range = 0; range < ranges; range++)
      pop();
    for (int call = 0; copies && call < calls; call++)
      copy(a, host, sizeof host, 0);
    double copied = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int call = 0; call < calls; call++)
      version(&number);
    double end = now_ns(CLOCK_THREAD_CPUTIME_ID);
    if (batch < 0)
      continue;
    keep_least(&found[0], (launched - start) / calls);
    keep_least(&found[1], (wall_end - wall) / calls);
    keep_least(&found[2], (copied - launched) / calls);
    keep_least(&found[3], (end - copied) / calls);
  }
  return NULL;
}

int main(int count, char **words) {
  pthread_t started[MAX_THREADS];
  int threads = atoi(words[2]);
  kernel = words[1], batches = atoi(words[3]), calls = atoi(words[4]), copies = atoi(words[5]);
  work = atoi(words[6]), ranges = count > 7 ? atoi(words[7]) : 0;
  if (ranges != 0)
    find_nvtx();
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL)
    return fprintf(stderr, "%s\n", dlerror()), 1;
  int (*init)(unsigned) = dlsym(driver, "cuInit");
  version = dlsym(driver, "cuDriverGetVersion"), get = dlsym(driver, "cuModuleGetFunction");
  alloc = dlsym(driver, "cuMemAlloc_v2"), launch = dlsym(driver, "cuLaunchKernel");
  copy = dlsym(driver, "cuMemcpyHtoDAsync_v2");
  init(0);
  for (int other = 0; other < 200; other++) { // a process has more memory than one launch uses
    uint64_t unused;
    alloc(&unused, 4096);
  }
  pthread_barrier_init(&all_are_ready, NULL, threads);
  for (int n = 1; n < threads; n++)
    pthread_create(&started[n], NULL, run, least[n]);
  run(least[0]);
  for (int n = 1; n < threads; n++)
    pthread_join(started[n], NULL);
  for (int kind = 0; kind < KINDS; kind++) {
    double slowest = 0;
    for (int n = 0; n < threads; n++)
      slowest = least[n][kind] > slowest ? least[n][kind] : slowest;
    printf("%f ", slowest);
  }
  FILE *status = fopen("/proc/self/status", "r"); // getrusage would count the program before exec, too
  for (char line[256]; status != NULL && fgets(line, sizeof line, status) != NULL;)
    if (strncmp(line, "VmHWM:", 6) == 0)
      printf("%ld\n", atol(line + 6) * 1024);
  return 0;
}
