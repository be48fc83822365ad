// A kernel whose blocks wait for one another: launched with cuLaunchCooperativeKernel, and with
// cuLaunchKernelEx and the attributes that say the same, in turn.
#include "../common/driver.h"

enum { COUNT = 4099, THREADS = 128, BLOCKS = 4, ROUNDS = 6 };

static void relaxed(uint32_t *values, uint32_t *other) {
  for (unsigned round = 0; round < ROUNDS; round++) {
    for (unsigned i = 0; i < COUNT; i++)
      other[i] = (values[(i + COUNT - 1) % COUNT] + 2 * values[i] + values[(i + 1) % COUNT]) / 4;
    memcpy(values, other, COUNT * sizeof *values);
  }
}

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  static uint32_t expected[COUNT], scratch[COUNT], got[COUNT];

  CUdevice device = open_device();
  CUmodule module = load_module("cooperative.ptx");
  CUfunction relax;
  CHECK(cuModuleGetFunction(&relax, module, "relax"));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr values, other, arrived;
  CHECK(cuMemAlloc(&values, sizeof got));
  CHECK(cuMemAlloc(&other, sizeof got));
  CHECK(cuMemAlloc(&arrived, sizeof(uint32_t)));
  uint32_t random = 3;
  for (unsigned i = 0; i < COUNT; i++)
    expected[i] = next_random(&random) % (1u << 28);
  CHECK(cuMemcpyHtoD(values, expected, sizeof expected));
  CHECK(cuCtxSynchronize()); // such a copy may return early, and the stream does not wait for it

  CUlaunchAttribute attributes[2] = {{.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}},
                                     {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = 0}}};
  const CUlaunchConfig config = {BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, attributes, 2};
  uint32_t count = COUNT, rounds = ROUNDS;
  void *parameters[] = {&values, &other, &count, &rounds, &arrived};
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    CHECK(cuMemsetD32Async(arrived, 0, 1, stream));
    if (launch % 2 == 1)
      CHECK(cuLaunchCooperativeKernel(relax, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, parameters));
    else
      CHECK(cuLaunchKernelEx(&config, relax, parameters, NULL));
    pause_between_launches(&options, launch);
    relaxed(expected, scratch);
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(got, values, sizeof got)); // after an even number of rounds
  for (unsigned i = 0; i < COUNT; i++)
    if (got[i] != expected[i]) {
      fprintf(stderr, "cooperative: value %u is %u, expected %u\n", i, got[i], expected[i]);
      return EXIT_FAILURE;
    }

  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemFree(values));
  CHECK(cuMemFree(other));
  CHECK(cuMemFree(arrived));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches of %u rounds over %u blocks, all correct\n", options.launches, ROUNDS, BLOCKS);
  return EXIT_SUCCESS;
}
