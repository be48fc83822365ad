// Two non-blocking streams that depend on each other through events alone: one stream produces a buffer, the
// other one adds it up, and the first must not overwrite the buffer before the second has read it. Launched
// with cuLaunchKernelEx.
#include "../common/driver.h"

enum { COUNT = 10007, THREADS = 128, STEPS = 300 };

static uint32_t produced(uint32_t i, uint32_t seed) {
  uint32_t value = i ^ seed;
  for (unsigned step = 0; step < STEPS; step++)
    value = value * 1664525u + 1013904223u;
  return value;
}

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 4);
  static uint32_t expected[COUNT], sums[COUNT];

  CUdevice device = open_device();
  CUmodule module = load_module("two_streams.ptx");
  CUfunction produce, consume;
  CHECK(cuModuleGetFunction(&produce, module, "produce"));
  CHECK(cuModuleGetFunction(&consume, module, "consume"));

  CUstream producer, consumer;
  CHECK(cuStreamCreate(&producer, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&consumer, CU_STREAM_NON_BLOCKING));
  CUevent began, ended, is_produced, is_consumed;
  CHECK(cuEventCreate(&began, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&ended, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&is_produced, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&is_consumed, CU_EVENT_DISABLE_TIMING));

  CUdeviceptr buffer, device_sums;
  CHECK(cuMemAlloc(&buffer, sizeof sums));
  CHECK(cuMemAlloc(&device_sums, sizeof sums));
  // On the stream that adds to them: a non-blocking stream does not wait for the default one.
  CHECK(cuMemsetD32Async(device_sums, 0, COUNT, consumer));

  const unsigned blocks = (COUNT + THREADS - 1) / THREADS;
  const CUlaunchConfig on_producer = {blocks, 1, 1, THREADS, 1, 1, 0, producer, NULL, 0};
  const CUlaunchConfig on_consumer = {blocks, 1, 1, THREADS, 1, 1, 0, consumer, NULL, 0};
  uint32_t count = COUNT, steps = STEPS;
  CHECK(cuEventRecord(began, producer));
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    uint32_t seed = launch * 2654435761u;
    void *produce_parameters[] = {&buffer, &count, &seed, &steps};
    void *consume_parameters[] = {&buffer, &device_sums, &count};
    CHECK(cuLaunchKernelEx(&on_producer, produce, produce_parameters, NULL));
    CHECK(cuEventRecord(is_produced, producer));
    CHECK(cuStreamWaitEvent(consumer, is_produced, 0));
    CHECK(cuLaunchKernelEx(&on_consumer, consume, consume_parameters, NULL));
    CHECK(cuEventRecord(is_consumed, consumer));
    CHECK(cuStreamWaitEvent(producer, is_consumed, 0));
    pause_between_launches(&options, launch);
    for (uint32_t i = 0; i < COUNT; i++)
      expected[i] += produced(COUNT - 1 - i, seed);
  }
  CHECK(cuEventRecord(ended, consumer));
  CHECK(cuEventSynchronize(ended));
  float elapsed_ms = -1.0f;
  CHECK(cuEventElapsedTime(&elapsed_ms, began, ended));
  if (!(elapsed_ms >= 0.0f))
    stop("the events say that time runs backwards");

  CHECK(cuMemcpyDtoHAsync(sums, device_sums, sizeof sums, consumer));
  CHECK(cuStreamSynchronize(consumer));
  for (uint32_t i = 0; i < COUNT; i++) {
    if (sums[i] != expected[i]) {
      fprintf(stderr, "two_streams: after %u rounds sums[%u] is %u, expected %u\n", options.launches, i,
              sums[i], expected[i]);
      return EXIT_FAILURE;
    }
  }

  CHECK(cuEventDestroy(began));
  CHECK(cuEventDestroy(ended));
  CHECK(cuEventDestroy(is_produced));
  CHECK(cuEventDestroy(is_consumed));
  CHECK(cuStreamDestroy(producer));
  CHECK(cuStreamDestroy(consumer));
  CHECK(cuMemFree(buffer));
  CHECK(cuMemFree(device_sums));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u rounds over two streams, all correct\n", options.launches);
  return EXIT_SUCCESS;
}
