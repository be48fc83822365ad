// Kinds of memory: a managed table that the host rewrites before each launch with no call of the driver; sums
// in memory of a pool that is freed and allocated again in stream order, at addresses that come back; and one
// piece of physical memory at two addresses, written through one and read through the other.
#include "../common/driver.h"

enum { COUNT = 5003, THREADS = 128 };

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 4);
  static uint32_t sums[COUNT], expected[COUNT];

  CUdevice device = open_device();
  CUmodule module = load_module("memory_kinds.ptx");
  CUfunction accumulate;
  CHECK(cuModuleGetFunction(&accumulate, module, "accumulate"));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  CUdeviceptr managed, written, read;
  CHECK(cuMemAllocManaged(&managed, sizeof sums, 1)); // CU_MEM_ATTACH_GLOBAL
  uint32_t *table = (uint32_t *)(uintptr_t)managed;

  const CUmemAllocationProp property = {1, 0, {1, device}, NULL, {0}}; // pinned, on the device
  const CUmemAccessDesc access = {{1, device}, 3};                     // to be read and written
  size_t granule;
  CHECK(cuMemGetAllocationGranularity(&granule, &property, 0));
  CUmemGenericAllocationHandle physical;
  CHECK(cuMemCreate(&physical, granule, &property, 0));
  CHECK(cuMemAddressReserve(&written, granule, 0, 0, 0));
  CHECK(cuMemAddressReserve(&read, granule, 0, 0, 0));
  CHECK(cuMemMap(written, granule, 0, physical, 0));
  CHECK(cuMemMap(read, granule, 0, physical, 0));
  CHECK(cuMemSetAccess(written, granule, &access, 1));
  CHECK(cuMemSetAccess(read, granule, &access, 1));
  CHECK(cuMemRelease(physical));
  CHECK(cuMemsetD32Async(written, 0, COUNT, stream));

  const unsigned blocks = (COUNT + THREADS - 1) / THREADS;
  uint32_t count = COUNT;
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    for (uint32_t i = 0; i < COUNT; i++) {
      table[i] = i * launch;
      expected[i] += 2 * table[i];
    }
    CUdeviceptr middle;
    CHECK(cuMemAllocAsync(&middle, sizeof sums, stream));
    void *first[] = {&managed, &read, &middle, &count};
    void *second[] = {&managed, &middle, &written, &count};
    CHECK(cuLaunchKernel(accumulate, blocks, 1, 1, THREADS, 1, 1, 0, stream, first, NULL));
    CHECK(cuLaunchKernel(accumulate, blocks, 1, 1, THREADS, 1, 1, 0, stream, second, NULL));
    CHECK(cuMemFreeAsync(middle, stream));
    CHECK(cuStreamSynchronize(stream)); // before the host writes the table again
    pause_between_launches(&options, launch);
  }
  CHECK(cuMemcpyDtoH(sums, read, sizeof sums));
  for (uint32_t i = 0; i < COUNT; i++) {
    if (sums[i] != expected[i]) {
      fprintf(stderr, "memory_kinds: after %u rounds sums[%u] is %u, expected %u\n", options.launches, i,
              sums[i], expected[i]);
      return EXIT_FAILURE;
    }
  }
  CHECK(cuMemUnmap(written, granule));
  CHECK(cuMemUnmap(read, granule));
  CHECK(cuMemAddressFree(written, granule));
  CHECK(cuMemAddressFree(read, granule));
  CHECK(cuMemFree(managed));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u rounds over a table of the host, all correct\n", options.launches);
  return EXIT_SUCCESS;
}
