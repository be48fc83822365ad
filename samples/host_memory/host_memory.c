// Host memory that a kernel works on in place: memory of the application that is registered, at an address in
// the middle of a page, and pinned memory that is mapped for the device. The host writes the one before each
// launch, with no call of the driver.
#define SAMPLE_FUNCTIONS(FUNCTION)                                                                           \
  FUNCTION(cuMemHostAlloc, cuMemHostAlloc, (void **, size_t, unsigned int))                                  \
  FUNCTION(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned int))   \
  FUNCTION(cuMemHostRegister, cuMemHostRegister_v2, (void *, size_t, unsigned int))                          \
  FUNCTION(cuMemHostUnregister, cuMemHostUnregister, (void *))
#include "../common/driver.h"

enum { COUNT = 4001, THREADS = 128, OFFSET = 20, MEMHOSTALLOC_DEVICEMAP = 2, MEMHOSTREGISTER_DEVICEMAP = 2 };

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  static uint32_t expected[COUNT];

  CUdevice device = open_device();
  CUmodule module = load_module("host_memory.ptx");
  CUfunction blend;
  CHECK(cuModuleGetFunction(&blend, module, "blend"));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  uint32_t *own = allocate_host((COUNT + OFFSET) * sizeof *own), *added = own + OFFSET, *mixed;
  CHECK(cuMemHostRegister(own, (COUNT + OFFSET) * sizeof *own, MEMHOSTREGISTER_DEVICEMAP));
  CHECK(cuMemHostAlloc((void **)&mixed, COUNT * sizeof *mixed, MEMHOSTALLOC_DEVICEMAP));
  CUdeviceptr device_added, device_mixed;
  CHECK(cuMemHostGetDevicePointer(&device_added, added, 0));
  CHECK(cuMemHostGetDevicePointer(&device_mixed, mixed, 0));
  memset(mixed, 0, COUNT * sizeof *mixed);

  uint32_t count = COUNT, random = 7;
  void *parameters[] = {&device_added, &device_mixed, &count};
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    for (uint32_t i = 0; i < COUNT; i++) {
      added[i] = next_random(&random);
      expected[i] = expected[i] * 3 + added[i];
    }
    CHECK(cuLaunchKernel(blend, (COUNT + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, stream, parameters,
                         NULL));
    CHECK(cuStreamSynchronize(stream)); // before the host writes again
    pause_between_launches(&options, launch);
  }
  for (uint32_t i = 0; i < COUNT; i++) {
    if (mixed[i] != expected[i]) {
      fprintf(stderr, "host_memory: value %u is %u, expected %u\n", i, mixed[i], expected[i]);
      return EXIT_FAILURE;
    }
  }

  CHECK(cuMemHostUnregister(own));
  free(own);
  CHECK(cuMemFreeHost(mixed));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches on memory of the host, all correct\n", options.launches);
  return EXIT_SUCCESS;
}
