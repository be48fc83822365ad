// c = a + b, the smallest complete driver API program. Takes its functions with dlsym.
#define DRIVER_LOOKUP_BY_DLSYM
#include "../common/driver.h"

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  unsigned count = 262147; // not a multiple of the block: the last block is partly empty
  const unsigned threads = 256;
  const size_t bytes = count * sizeof(float);

  CUdevice device = open_device();
  CUmodule module = load_module("vector_add.ptx");
  CUfunction vector_add;
  CHECK(cuModuleGetFunction(&vector_add, module, "vector_add"));

  float *a = allocate_host(bytes), *b = allocate_host(bytes), *c = allocate_host(bytes);
  CUdeviceptr device_a, device_b, device_c;
  CHECK(cuMemAlloc(&device_a, bytes));
  CHECK(cuMemAlloc(&device_b, bytes));
  CHECK(cuMemAlloc(&device_c, bytes));

  uint32_t random = 1;
  for (unsigned launch = 1; launch <= options.launches; launch++) {
    // New inputs each time, so that a replay that starts from another launch's memory gives other outputs.
    for (unsigned i = 0; i < count; i++) {
      a[i] = (float)next_random(&random) / 65536.0f;
      b[i] = (float)next_random(&random) / 16777216.0f;
    }
    CHECK(cuMemcpyHtoD(device_a, a, bytes));
    CHECK(cuMemcpyHtoD(device_b, b, bytes));
    CHECK(cuMemsetD32(device_c, 0xffffffffu, count));
    void *parameters[] = {&device_a, &device_b, &device_c, &count};
    CHECK(cuLaunchKernel(vector_add, (count + threads - 1) / threads, 1, 1, threads, 1, 1, 0, NULL,
                         parameters, NULL));
    pause_between_launches(&options, launch);
    CHECK(cuMemcpyDtoH(c, device_c, bytes));
    for (unsigned i = 0; i < count; i++) {
      float expected = a[i] + b[i];
      if (c[i] != expected) {
        fprintf(stderr, "vector_add: launch %u: c[%u] is %.9g, expected %.9g\n", launch, i, c[i], expected);
        return EXIT_FAILURE;
      }
    }
  }

  CHECK(cuMemFree(device_a));
  CHECK(cuMemFree(device_b));
  CHECK(cuMemFree(device_c));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches of %u additions, all correct\n", options.launches, count);
  free(a);
  free(b);
  free(c);
  return EXIT_SUCCESS;
}
