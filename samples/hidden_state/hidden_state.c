// State that only the kernels know: variables of the module, one of them a pointer into another, that no call
// of the host asks for. Each launch depends on all launches before it.
#include "../common/driver.h"

enum { COUNT = 509, THREADS = 128 };

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 4);
  static uint32_t states[COUNT], numbers[COUNT];
  static const uint32_t weights[] = {1, 3, 5, 7};
  uint32_t largest = 0, busiest = 0, found[2];

  CUdevice device = open_device();
  CUmodule module = load_module("hidden_state.ptx");
  CUfunction draw, account;
  CHECK(cuModuleGetFunction(&draw, module, "draw"));
  CHECK(cuModuleGetFunction(&account, module, "account"));
  CUdeviceptr device_numbers, device_found;
  CHECK(cuMemAlloc(&device_numbers, sizeof numbers));
  CHECK(cuMemAlloc(&device_found, sizeof found));

  uint32_t count = COUNT;
  void *draw_parameters[] = {&device_numbers, &count};
  void *account_parameters[] = {&device_numbers, &count, &device_found};
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    CHECK(cuLaunchKernel(draw, (COUNT + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, NULL, draw_parameters,
                         NULL));
    CHECK(cuLaunchKernel(account, 1, 1, 1, 1, 1, 1, 0, NULL, account_parameters, NULL));
    pause_between_launches(&options, launch);
    CHECK(cuMemcpyDtoH(numbers, device_numbers, sizeof numbers));
    CHECK(cuMemcpyDtoH(found, device_found, sizeof found));
    for (uint32_t i = 0; i < COUNT; i++) {
      states[i] = (states[i] == 0 ? i * 2654435761u + 1 : states[i]) * 1664525u + 1013904223u;
      uint32_t expected = (states[i] >> 8) * weights[i & 3] + launch - 1;
      if (numbers[i] != expected) {
        fprintf(stderr, "hidden_state: launch %u: numbers[%u] is %u, expected %u\n", launch, i, numbers[i],
                expected);
        return EXIT_FAILURE;
      }
      if (expected > largest) {
        largest = expected;
        busiest = i;
      }
    }
    if (found[0] != largest || found[1] != busiest) {
      fprintf(stderr, "hidden_state: launch %u: the largest is %u of generator %u, expected %u of %u\n",
              launch, found[0], found[1], largest, busiest);
      return EXIT_FAILURE;
    }
  }

  CHECK(cuMemFree(device_numbers));
  CHECK(cuMemFree(device_found));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u rounds of %u generators inside the module, all correct\n", options.launches, COUNT);
  return EXIT_SUCCESS;
}
