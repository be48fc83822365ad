// Thread block clusters: cuLaunchKernelEx with a cluster dimension, and blocks that read the shared memory of
// the others of their cluster. Needs compute capability 9.0.
#include "../common/driver.h"

enum { THREADS = 64, CLUSTER = 4, BLOCKS = 5 * CLUSTER, COUNT = BLOCKS * THREADS - 17 };

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  static uint32_t values[COUNT], sums[BLOCKS], expected[BLOCKS];

  CUdevice device = open_device();
  CUmodule module = load_module("cluster_sum.ptx");
  CUfunction cluster_sum;
  CHECK(cuModuleGetFunction(&cluster_sum, module, "cluster_sum"));
  CUdeviceptr device_values, device_sums;
  CHECK(cuMemAlloc(&device_values, sizeof values));
  CHECK(cuMemAlloc(&device_sums, sizeof sums));
  CHECK(cuMemsetD32(device_sums, 0, BLOCKS));

  CUlaunchAttribute attributes[] = {
      {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.cluster = {CLUSTER, 1, 1}}},
      {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, .value = {.cluster_scheduling = 1}},
  };
  const CUlaunchConfig config = {BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, attributes, 2};
  uint32_t count = COUNT, random = 11;
  void *parameters[] = {&device_values, &device_sums, &count};
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    uint32_t parts[BLOCKS / CLUSTER] = {0};
    for (uint32_t i = 0; i < COUNT; i++) {
      values[i] = next_random(&random) % 1000;
      parts[i / (THREADS * CLUSTER)] += values[i];
    }
    CHECK(cuMemcpyHtoD(device_values, values, sizeof values));
    CHECK(cuLaunchKernelEx(&config, cluster_sum, parameters, NULL));
    pause_between_launches(&options, launch);
    for (uint32_t block = 0; block < BLOCKS; block++)
      expected[block] += (block % CLUSTER + 1) * parts[block / CLUSTER];
  }
  CHECK(cuMemcpyDtoH(sums, device_sums, sizeof sums));
  for (uint32_t block = 0; block < BLOCKS; block++) {
    if (sums[block] != expected[block]) {
      fprintf(stderr, "cluster_sum: sum %u is %u, expected %u\n", block, sums[block], expected[block]);
      return EXIT_FAILURE;
    }
  }

  CHECK(cuMemFree(device_values));
  CHECK(cuMemFree(device_sums));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches of %u clusters, all correct\n", options.launches, BLOCKS / CLUSTER);
  return EXIT_SUCCESS;
}
