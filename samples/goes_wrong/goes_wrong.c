// A program of which one launch goes wrong in the way that its argument names: what `replay capture --when`
// finds. usage: goes_wrong WAY [LAUNCHES [WRONG [SEED]]]    WRONG: which of them; SEED: other launches come
// in between, drawn by it
#include "../common/driver.h"

#include <signal.h>

enum { COUNT = 1024, THREADS = 128, BLOCKS = COUNT / THREADS };

static CUmodule module;
static CUdeviceptr values, others, scratch;
static unsigned launched, wrong;
static uint32_t seed;

static CUfunction find(const char *name) {
  CUfunction function;
  CHECK(cuModuleGetFunction(&function, module, name));
  return function;
}

static void launch_now(CUfunction function, void **parameters) {
  CHECK(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL));
  launched++;
}

// n: which of the launches that may go wrong.
static void launch(CUfunction function, void **parameters, unsigned n) {
  static CUfunction fill;
  if (seed != 0 && fill == NULL)
    fill = find("fill");
  for (unsigned more = seed != 0 ? next_random(&seed) % 4 : 0; more > 0; more--) {
    float value = (float)more;
    uint32_t count = 1 + next_random(&seed) % COUNT;
    launch_now(fill, (void *[]){&scratch, &count, &value});
  }
  if (n == wrong) {
    printf("launch %u goes wrong\n", launched + 1);
    fflush(stdout);
  }
  launch_now(function, parameters);
}

// The wrong launch divides by what the one before has left: zero.
static void make_nan(unsigned launches) {
  CUfunction fill = find("fill"), normalise = find("normalise");
  uint32_t count = COUNT;
  for (unsigned n = 1; n <= launches; n++) {
    float value = n + 1 == wrong ? 0.0f : (float)n;
    void *filled[] = {&values, &count, &value}, *normalised[] = {&values, &others, &count};
    if ((n + wrong) % 2 == 1)
      launch(fill, filled, n);
    else
      launch(normalise, normalised, n);
  }
}

static void be_slow(unsigned launches) {
  CUfunction work = find("work");
  uint32_t count = COUNT;
  for (unsigned n = 1; n <= launches; n++) {
    void *parameters[] = {&values, &count, &others};
    CHECK(cuMemsetD32(others, n % 500 == wrong ? 200 : 4, 1));
    launch(work, parameters, n);
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
    if (n == wrong)
      places[500] = (uint64_t)1 << 40;
    CHECK(cuMemcpyHtoD(on_device, places, sizeof places));
    void *parameters[] = {&values, &on_device, &count};
    launch(scatter, parameters, n);
    CHECK(cuCtxSynchronize());
  }
}

// Two streams with nothing between them; the host waits for neither.
static void fail_beside_others(unsigned launches) {
  CUfunction work = find("work"), scatter = find("scatter");
  static uint64_t places[2][COUNT];
  CUdeviceptr right, outside;
  CUstream streams[2];
  uint32_t count = COUNT;
  for (uint64_t i = 0; i < COUNT; i++)
    places[0][i] = places[1][i] = i;
  places[1][500] = (uint64_t)1 << 40;
  CHECK(cuMemAlloc(&right, sizeof places[0]));
  CHECK(cuMemAlloc(&outside, sizeof places[1]));
  CHECK(cuMemcpyHtoD(right, places[0], sizeof places[0]));
  CHECK(cuMemcpyHtoD(outside, places[1], sizeof places[1]));
  CHECK(cuMemsetD32(others, 100, 1));
  for (int n = 0; n < 2; n++)
    CHECK(cuStreamCreate(&streams[n], CU_STREAM_NON_BLOCKING));
  for (unsigned n = 1; n <= launches; n++) {
    void *worked[] = {&values, &count, &others};
    void *scattered[] = {&scratch, n == wrong ? &outside : &right, &count};
    if (n == wrong) {
      printf("launch %u goes wrong\n", 2 * n);
      fflush(stdout);
    }
    CUresult begun = cuLaunchKernel(work, BLOCKS, 1, 1, THREADS, 1, 1, 0, streams[0], worked, NULL);
    if (begun == CUDA_SUCCESS)
      begun = cuLaunchKernel(scatter, BLOCKS, 1, 1, THREADS, 1, 1, 0, streams[1], scattered, NULL);
    CHECK(begun);
  }
}

static void wait_for_ever(unsigned launches) {
  CUfunction wait = find("wait");
  for (unsigned n = 1; n <= launches; n++) {
    void *parameters[] = {&others, &values};
    CHECK(cuMemsetD32(others, n != wrong, 1));
    launch(wait, parameters, n);
    CHECK(cuCtxSynchronize());
  }
}

static void crash(unsigned launches) {
  CUfunction fill = find("fill");
  uint32_t count = COUNT;
  for (unsigned n = 1; n <= launches; n++) {
    float value = (float)n;
    void *parameters[] = {&values, &count, &value};
    launch(fill, parameters, n);
    if (n == wrong)
      raise(SIGSEGV);
  }
}

static const struct {
  const char *name, *meaning;
  unsigned launches, wrong;
  void (*run)(unsigned launches);
} ways[] = {
    {"nan", "launch 137 makes NaN of what launch 136 has written", 1000, 137, make_nan},
    {"slow", "launch 250 of each 500 takes 50 times as long", 500, 250, be_slow},
    {"fault", "launch 57 writes out of bounds", 100, 57, write_outside},
    {"streams", "the second launch of pair 30 writes out of bounds, beside another stream", 100, 30,
     fail_beside_others},
    {"deadlock", "launch 33 never ends", 100, 33, wait_for_ever},
    {"crash", "the program crashes after launch 21", 100, 21, crash},
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
    CHECK(cuMemAlloc(&scratch, COUNT * sizeof(float)));
    CHECK(cuMemsetD32(values, 0x3f800000, COUNT));
    CHECK(cuMemsetD32(others, 0, COUNT));
    wrong = argument_count > 3 ? parse_count(arguments[3]) : ways[way].wrong;
    seed = argument_count > 4 ? parse_count(arguments[4]) : 0;
    ways[way].run(argument_count > 2 ? parse_count(arguments[2]) : ways[way].launches);
    CHECK(cuCtxSynchronize());
    return EXIT_SUCCESS;
  }
  fprintf(stderr, "usage: goes_wrong WAY [LAUNCHES [WRONG [SEED]]]\n");
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
    fprintf(stderr, "  %-9s %s\n", ways[way].name, ways[way].meaning);
  return 2;
}
