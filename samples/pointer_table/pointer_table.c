// Memory that no parameter names: a device array holds the addresses of the rows, and the output's address is
// a field of a struct passed by value. One row starts in the middle of its allocation.
#include "../common/driver.h"

enum { ROWS = 6, COUNT = 5003, THREADS = 128, ROW_INSIDE_ALLOCATION = 4 };

typedef struct {
  uint32_t count;
  CUdeviceptr data;
  float scale;
} View;

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  static float rows[ROWS][COUNT], output[COUNT];

  CUdevice device = open_device();
  CUmodule module = load_module("pointer_table.ptx");
  CUfunction pointer_table;
  CHECK(cuModuleGetFunction(&pointer_table, module, "pointer_table"));

  CUdeviceptr allocations[ROWS], row_addresses[ROWS], table, device_output;
  for (unsigned row = 0; row < ROWS; row++) {
    size_t offset_bytes = row == ROW_INSIDE_ALLOCATION ? 4096 : 0;
    CHECK(cuMemAlloc(&allocations[row], sizeof rows[row] + offset_bytes));
    row_addresses[row] = allocations[row] + offset_bytes;
  }
  CHECK(cuMemAlloc(&table, sizeof row_addresses));
  CHECK(cuMemAlloc(&device_output, sizeof output));
  CHECK(cuMemcpyHtoD(table, row_addresses, sizeof row_addresses));

  uint32_t random = 5;
  for (unsigned launch = 1; launch <= options.launches; launch++) {
    for (unsigned row = 0; row < ROWS; row++) {
      for (unsigned i = 0; i < COUNT; i++)
        rows[row][i] = (float)(next_random(&random) % 1024);
      CHECK(cuMemcpyHtoD(row_addresses[row], rows[row], sizeof rows[row]));
    }
    View view = {COUNT, device_output, (float)launch};
    uint32_t row_count = ROWS;
    void *parameters[] = {&table, &row_count, &view};
    CHECK(cuLaunchKernel(pointer_table, (COUNT + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, NULL,
                         parameters, NULL));
    pause_between_launches(&options, launch);
    CHECK(cuMemcpyDtoH(output, device_output, sizeof output));
    for (unsigned i = 0; i < COUNT; i++) {
      float expected = 0.0f;
      for (unsigned row = 0; row < ROWS; row++)
        expected += rows[row][i];
      expected *= view.scale;
      if (output[i] != expected) {
        fprintf(stderr, "pointer_table: launch %u: output[%u] is %.9g, expected %.9g\n", launch, i, output[i],
                expected);
        return EXIT_FAILURE;
      }
    }
  }

  for (unsigned row = 0; row < ROWS; row++)
    CHECK(cuMemFree(allocations[row]));
  CHECK(cuMemFree(table));
  CHECK(cuMemFree(device_output));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u sums over %u rows behind a table of pointers, all correct\n", options.launches, ROWS);
  return EXIT_SUCCESS;
}
