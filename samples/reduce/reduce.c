// The sum of an array, twice: by shuffles and shared memory in two launches, and by one atomic addition per
// block. The inputs are whole numbers small enough for every order of addition to give the same float.
#include "../common/driver.h"

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 2);
  unsigned count = 200003, blocks = 64;
  const unsigned threads = 256;

  CUdevice device = open_device();
  CUmodule module = load_module("reduce.ptx");
  CUfunction reduce_blocks, reduce_atomic;
  CHECK(cuModuleGetFunction(&reduce_blocks, module, "reduce_blocks"));
  CHECK(cuModuleGetFunction(&reduce_atomic, module, "reduce_atomic"));

  float *input, *results; // pinned, so that the copies are asynchronous
  CHECK(cuMemAllocHost((void **)&input, count * sizeof(float)));
  CHECK(cuMemAllocHost((void **)&results, 2 * sizeof(float)));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr device_input, partial, totals;
  CHECK(cuMemAlloc(&device_input, count * sizeof(float)));
  CHECK(cuMemAlloc(&partial, blocks * sizeof(float)));
  CHECK(cuMemAlloc(&totals, 2 * sizeof(float)));
  CUdeviceptr second_total = totals + sizeof(float);

  uint32_t random = 2;
  for (unsigned launch = 1; launch <= options.launches; launch++) {
    double expected = 0.0;
    for (unsigned i = 0; i < count; i++) {
      input[i] = (float)(next_random(&random) % 64);
      expected += input[i];
    }
    CHECK(cuMemcpyHtoDAsync(device_input, input, count * sizeof(float), stream));
    CHECK(cuMemsetD32Async(totals, 0, 2, stream));
    void *first[] = {&device_input, &partial, &count};
    CHECK(cuLaunchKernel(reduce_blocks, blocks, 1, 1, threads, 1, 1, 0, stream, first, NULL));
    void *second[] = {&partial, &totals, &blocks};
    CHECK(cuLaunchKernel(reduce_blocks, 1, 1, 1, threads, 1, 1, 0, stream, second, NULL));
    void *atomic[] = {&device_input, &second_total, &count};
    CHECK(cuLaunchKernel(reduce_atomic, (count + threads - 1) / threads, 1, 1, threads, 1, 1,
                         threads * sizeof(float), stream, atomic, NULL));
    pause_between_launches(&options, launch);
    CHECK(cuMemcpyDtoHAsync(results, totals, 2 * sizeof(float), stream));
    CHECK(cuStreamSynchronize(stream));
    for (int way = 0; way < 2; way++) {
      if (results[way] != (float)expected) {
        fprintf(stderr, "reduce: launch %u: %s gives %.9g, expected %.9g\n", launch,
                way ? "reduce_atomic" : "reduce_blocks", results[way], expected);
        return EXIT_FAILURE;
      }
    }
  }

  CHECK(cuMemFree(device_input));
  CHECK(cuMemFree(partial));
  CHECK(cuMemFree(totals));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemFreeHost(input));
  CHECK(cuMemFreeHost(results));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u sums of %u numbers, each in two ways, all correct\n", options.launches, count);
  return EXIT_SUCCESS;
}
