// Programs whose kernels reach memory in different ways. usage: memory CASE
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *driver;
static int failures;

#define CALL(symbol, ...)                                                                                    \
  do {                                                                                                       \
    int (*entry_)() = dlsym(driver, symbol);                                                                 \
    failures += entry_ == NULL || entry_(__VA_ARGS__) != 0;                                                  \
  } while (0)

static uint64_t kernel(const char *name) {
  uint64_t handle = 0;
  CALL("cuModuleGetFunction", &handle, (uint64_t)0x77, name);
  return handle;
}

static uint64_t memory(uint64_t bytes) {
  uint64_t address = 0;
  CALL("cuMemAlloc_v2", &address, bytes);
  return address;
}

static void launch(uint64_t function, void **values) {
  CALL("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, (uint64_t)0, values, (void **)NULL);
}

static void store(uint64_t to, const void *from, uint64_t bytes) { CALL("cuMemcpyHtoD_v2", to, from, bytes); }

static void say(const char *name, uint64_t address) {
  fprintf(stderr, "%s %llx\n", name, (unsigned long long)address);
}

static void *sleep_in_driver(void *unused) {
  uint64_t zero = 0;
  launch(kernel("sleeps"), (void *[]){&zero, &zero, &zero, &zero});
  return NULL;
}

int main(int count, char **words) {
  const char *what = words[1];
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  CALL("cuInit", 0);
  uint64_t increment = kernel("increment");
  uint32_t one = 1, two = 2;
  uint64_t data = memory(4096), other = memory(4096);
  say("data", data), say("other", other);
  uint32_t numbers[1024];
  for (int n = 0; n < 1024; n++)
    numbers[n] = (uint32_t)n + 1;
  store(data, numbers, sizeof numbers);
  if (!strcmp(what, "argument")) {
    uint64_t middle = data + 400; // into the middle of the allocation
    launch(increment, (void *[]){&middle, &one});
  } else if (!strcmp(what, "struct")) {
    uint64_t by_value[3] = {7, data, 9};
    launch(kernel("by_struct"), (void *[]){by_value, &one});
  } else if (!strcmp(what, "table")) { // pointers in memory, set before the window opens
    uint64_t table = memory(64), deep = memory(256), pointers[2] = {data, deep};
    say("table", table), say("deep", deep);
    store(table, pointers, sizeof pointers);
    launch(kernel("through_table"), (void *[]){&table, &two});
  } else if (!strcmp(what, "late-table")) { // filled inside the window: null at the first launch
    uint64_t table = memory(64), zero = 0, pointers[1] = {data};
    uint32_t none = 0;
    say("table", table);
    launch(kernel("through_table"), (void *[]){&table, &none});
    store(table, pointers, sizeof pointers);
    launch(kernel("through_table"), (void *[]){&table, &one});
  } else if (!strcmp(what, "freed")) { // touched, then freed inside the window
    launch(increment, (void *[]){&data, &one});
    CALL("cuMemFree_v2", data);
    data = memory(8192);
    say("again", data);
    launch(increment, (void *[]){&data, &one});
  } else if (!strcmp(what, "global")) { // no parameter, but a module variable
    uint64_t size;
    CALL("cuModuleGetGlobal_v2", (uint64_t *)NULL, &size, (uint64_t)0x77, "counters");
    launch(kernel("count"), NULL);
  } else if (!strcmp(what, "unnamed")) { // a module variable that no call asks for
    uint64_t module = 0, function = 0;
    CALL("cuModuleLoadData", &module,
         ".version 7.0\n.target sm_70\n.address_size 64\n.global .u32 counters[8];\n"
         ".global .u32 absent;\n.visible .entry count() { ret; }\n");
    CALL("cuModuleGetFunction", &function, module, "count");
    launch(function, NULL);
    launch(function, NULL);
  } else if (!strcmp(what, "host")) {
    void *pinned = NULL;
    CALL("cuMemHostAlloc", &pinned, (uint64_t)4096, 0);
    ((uint32_t *)pinned)[0] = 41;
    say("pinned", (uint64_t)pinned);
    launch(increment, (void *[]){&pinned, &one});
  } else if (!strcmp(what, "managed")) {
    uint64_t managed;
    CALL("cuMemAllocManaged", &managed, (uint64_t)4096, 1);
    say("managed", managed);
    launch(increment, (void *[]){&managed, &one});
  } else if (!strcmp(what, "large")) {
    uint64_t large = memory(20 << 20);
    say("large", large);
    CALL("cuMemsetD8_v2", large + 12, 7, (uint64_t)(18 << 20));
    launch(increment, (void *[]){&large, &one});
  } else if (!strcmp(what, "capture")) { // no copying while a stream is being captured
    CALL("cuStreamBeginCapture_v2", (uint64_t)5, 0);
    launch(increment, (void *[]){&data, &one});
    uint64_t graph;
    CALL("cuStreamEndCapture", (uint64_t)5, &graph);
    launch(increment, (void *[]){&data, &one});
  } else if (!strcmp(what, "captured")) { // launches into the stream that is being captured, and beside it
    void *both[] = {&data, &one};
    CALL("cuStreamBeginCapture_v2", (uint64_t)5, 0);
    CALL("cuLaunchKernel", increment, 1, 1, 1, 1, 1, 1, 0, (uint64_t)5, both, (void **)NULL);
    CALL("cuMemsetD8Async", data, 1, (uint64_t)16, (uint64_t)5);
    uint64_t allocated = 0, graph;
    CALL("cuMemAllocAsync", &allocated, (uint64_t)4096, (uint64_t)5);
    CALL("cuStreamEndCapture", (uint64_t)5, &graph);
    launch(increment, both);
  } else if (!strcmp(what, "unlisted")) {
    CALL("cuMulticastUnbind", 1, 0, 0, 0);
    launch(increment, (void *[]){&data, &one});
    CALL("cuMulticastUnbind", 1, 0, 0, 0);
    CALL("cuMulticastUnbind", 1, 0, 0, 0);
  } else if (!strcmp(what, "names")) {
    launch(kernel("_Z9incrementIfEvPT_i"), (void *[]){&data, &one});
    launch(kernel("nothing"), NULL);
    launch(kernel("plain"), (void *[]){&data, &data, &data, &data});
  } else if (!strcmp(what, "many")) {
    uint64_t plain = kernel("plain");
    for (int n = 0; n < 10; n++) {
      launch(plain, (void *[]){&data, &other, &data, &data});
      launch(increment, (void *[]){&data, &one});
    }
  } else if (!strcmp(what, "busy")) { // another thread is inside the driver for longer than anyone waits
    pthread_t other_thread;
    pthread_create(&other_thread, NULL, sleep_in_driver, NULL);
    usleep(100000);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    launch(increment, (void *[]){&data, &one});
    clock_gettime(CLOCK_MONOTONIC, &end);
    say("milliseconds", (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000);
    pthread_join(other_thread, NULL);
  } else if (!strcmp(what, "pinned-round-trip")) { // the second copy sends what the first has not brought yet
    void *pinned = NULL;
    CALL("cuMemHostAlloc", &pinned, (uint64_t)4096, 0);
    say("pinned", (uint64_t)pinned);
    CALL("cuMemcpyDtoHAsync_v2", pinned, data, (uint64_t)4096, (uint64_t)0);
    CALL("cuMemcpyHtoDAsync_v2", data, pinned, (uint64_t)4096, (uint64_t)0);
    launch(increment, (void *[]){&other, &one});
  } else if (!strcmp(what, "waiting")) { // work in a stream waits for what this thread does after the launch
    volatile int *device_waits = dlsym(driver, "fake_device_waits");
    *device_waits = 1;
    launch(increment, (void *[]){&data, &one});
    launch(increment, (void *[]){&other, &one});
    *device_waits = 0;
    CALL("cuCtxSynchronize");
  } else if (!strcmp(what, "unknown")) { // handles that no recorded call gave
    launch(0x1234560, (void *[]){&data, &one});
  }
  printf("failures %d\n", failures);
  return 0;
}
