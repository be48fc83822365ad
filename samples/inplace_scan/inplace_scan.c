// A kernel that overwrites its input, launched again and again on the same array: a replay of one launch that
// starts from the memory of any other moment gives other numbers. Parameters are passed as one `extra`
// buffer.
#include "../common/driver.h"

enum { COUNT = 30011, THREADS = 256 };

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 5);
  static uint32_t expected[COUNT], values[COUNT];

  CUdevice device = open_device();
  CUmodule module = load_module("inplace_scan.ptx");
  CUfunction inplace_scan;
  CHECK(cuModuleGetFunction(&inplace_scan, module, "inplace_scan"));

  uint32_t random = 4;
  for (unsigned i = 0; i < COUNT; i++)
    expected[i] = next_random(&random);
  CUdeviceptr device_values;
  CHECK(cuMemAlloc(&device_values, sizeof expected));
  CHECK(cuMemcpyHtoD(device_values, expected, sizeof expected));

  for (unsigned launch = 1; launch <= options.launches; launch++) {
    struct {
      CUdeviceptr values;
      uint32_t count;
    } parameters = {device_values, COUNT};
    size_t parameter_bytes = 12; // where the last parameter ends; the struct is padded to 16
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &parameter_bytes, CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(inplace_scan, (COUNT + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, NULL, NULL,
                         extra));
    pause_between_launches(&options, launch);
    // Modulo 2^32, as on the device.
    for (unsigned i = 0; i < COUNT; i++)
      if (i % THREADS != 0)
        expected[i] += expected[i - 1];
  }

  CHECK(cuMemcpyDtoH(values, device_values, sizeof values));
  for (unsigned i = 0; i < COUNT; i++) {
    if (values[i] != expected[i]) {
      fprintf(stderr, "inplace_scan: after %u launches values[%u] is %u, expected %u\n", options.launches, i,
              values[i], expected[i]);
      return EXIT_FAILURE;
    }
  }
  CHECK(cuMemFree(device_values));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u scans in place of %u numbers, all correct\n", options.launches, COUNT);
  return EXIT_SUCCESS;
}
