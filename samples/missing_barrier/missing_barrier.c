// Running sums by a kernel that lacks a barrier. `replay check-memory` finds it, whether the sums are right
// or not.
#include "../common/driver.h"

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 2);
  enum { blocks = 4, threads = 256, count = blocks * threads };

  CUdevice device = open_device();
  CUmodule module = load_module("missing_barrier.ptx");
  CUfunction running_sums;
  CHECK(cuModuleGetFunction(&running_sums, module, "running_sums"));
  static int input[count], output[count];
  CUdeviceptr device_input, device_output;
  CHECK(cuMemAlloc(&device_input, sizeof input));
  CHECK(cuMemAlloc(&device_output, sizeof output));

  uint32_t random = 5;
  unsigned wrong = 0;
  for (unsigned launch = 1; launch <= options.launches; launch++) {
    for (unsigned i = 0; i < count; i++)
      input[i] = (int)(next_random(&random) % 100);
    CHECK(cuMemcpyHtoD(device_input, input, sizeof input));
    void *parameters[] = {&device_input, &device_output};
    CHECK(cuLaunchKernel(running_sums, blocks, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL));
    pause_between_launches(&options, launch);
    CHECK(cuMemcpyDtoH(output, device_output, sizeof output));
    for (unsigned block = 0, sum = 0; block < blocks; block++, sum = 0)
      for (unsigned i = block * threads; i < (block + 1) * threads; i++) {
        sum += (unsigned)input[i];
        wrong += output[i] != (int)sum;
      }
  }

  CHECK(cuMemFree(device_input));
  CHECK(cuMemFree(device_output));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u times %d running sums, %u of them wrong\n", options.launches, (int)count, wrong);
  return EXIT_SUCCESS;
}
