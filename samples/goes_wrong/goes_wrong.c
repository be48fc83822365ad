// A program of which one launch goes wrong in the way that its argument names: what `replay capture --when`
// finds. usage: goes_wrong WAY [LAUNCHES]
#include "../common/driver.h"

#include <signal.h>

enum { COUNT = 1024, THREADS = 128, BLOCKS = COUNT / THREADS };

static CUmodule module;
static CUdeviceptr values, others;

static CUfunction find(const char *name) {
  CUfunction function;
  CHECK(cuModuleGetFunction(&function, module, name));
  return function;
}

static void launch(CUfunction function, void **parameters) {
  CHECK(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL));
}

// Launch 137 divides by what launch 136 has left: zero.
static void make_nan(unsigned launches) {
  CUfunction fill = find("fill"), normalise = find("normalise");
  uint32_t count = COUNT;
  for (unsigned n = 1; n <= launches; n++) {
    float value = n == 136 ? 0.0f : (float)n;
    void *filled[] = {&values, &count, &value}, *normalised[] = {&values, &others, &count};
    if (n % 2 == 0)
      launch(fill, filled);
    else
      launch(normalise, normalised);
  }
}

static void be_slow(unsigned launches) {
  CUfunction work = find("work");
  uint32_t count = COUNT;
  for (unsigned n = 1; n <= launches; n++) {
    void *parameters[] = {&values, &count, &others};
    CHECK(cuMemsetD32(others, n % 500 == 250 ? 200 : 4, 1));
    launch(work, parameters);
  }
}

static void write_outside(unsigned launches) {
  CUfunction scatter = find("scatter");
  static uint64_t places[COUNT];
  CUdeviceptr on_device;
  uint32_t count = COUNT;
  CHECK(cuMemAlloc(&on_device, sizeof places));
  for (unsigned n = 1; n <= launches; n++) {
    for (uint64_t i = 0; i < COUNT; i++)
      places[i] = (i + n) % COUNT;
    if (n == 57)
      places[500] = (uint64_t)1 << 40;
    CHECK(cuMemcpyHtoD(on_device, places, sizeof places));
    void *parameters[] = {&values, &on_device, &count};
    launch(scatter, parameters);
    CHECK(cuCtxSynchronize());
  }
}

static void wait_for_ever(unsigned launches) {
  CUfunction wait = find("wait");
  for (unsigned n = 1; n <= launches; n++) {
    void *parameters[] = {&others, &values};
    CHECK(cuMemsetD32(others, n != 33, 1));
    launch(wait, parameters);
    CHECK(cuCtxSynchronize());
  }
}

static void crash(unsigned launches) {
  CUfunction fill = find("fill");
  uint32_t count = COUNT;
  for (unsigned n = 1; n <= launches; n++) {
    float value = (float)n;
    void *parameters[] = {&values, &count, &value};
    launch(fill, parameters);
    if (n == 21)
      raise(SIGSEGV);
  }
}

static const struct {
  const char *name, *meaning;
  unsigned launches;
  void (*run)(unsigned launches);
} ways[] = {
    {"nan", "launch 137 makes NaN of what launch 136 has written", 1000, make_nan},
    {"slow", "launch 250 of each 500 takes 50 times as long", 500, be_slow},
    {"fault", "launch 57 writes out of bounds", 100, write_outside},
    {"deadlock", "launch 33 never ends", 100, wait_for_ever},
    {"crash", "the program crashes after launch 21", 100, crash},
};

int main(int argument_count, char **arguments) {
  for (size_t way = 0; argument_count > 1 && way < sizeof ways / sizeof *ways; way++) {
    if (strcmp(arguments[1], ways[way].name) != 0)
      continue;
    say_device(open_device());
    printf("%s\n", ways[way].meaning);
    fflush(stdout);
    module = load_module("goes_wrong.ptx");
    CHECK(cuMemAlloc(&values, COUNT * sizeof(float)));
    CHECK(cuMemAlloc(&others, COUNT * sizeof(float)));
    CHECK(cuMemsetD32(values, 0x3f800000, COUNT));
    CHECK(cuMemsetD32(others, 0, COUNT));
    ways[way].run(argument_count > 2 ? parse_count(arguments[2]) : ways[way].launches);
    CHECK(cuCtxSynchronize());
    return EXIT_SUCCESS;
  }
  fprintf(stderr, "usage: goes_wrong WAY [LAUNCHES]\n");
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
    fprintf(stderr, "  %-9s %s\n", ways[way].name, ways[way].meaning);
  return 2;
}
