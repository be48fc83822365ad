// Tensor maps: a kernel copies tiles of a matrix into shared memory through one, which is its parameter and
// the only thing that names the matrix. Needs compute capability 9.0.
#define SAMPLE_FUNCTIONS(FUNCTION)                                                                           \
  FUNCTION(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled,                                                   \
           (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,             \
            const uint32_t *, int, int, int, int))
#include "../common/driver.h"

enum { SIDE = 16, WIDTH = 6 * SIDE, HEIGHT = 4 * SIDE, TENSOR_MAP_DATA_TYPE_UINT32 = 2 };

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  static uint32_t matrix[HEIGHT][WIDTH], sums[HEIGHT][WIDTH], expected[HEIGHT][WIDTH];

  CUdevice device = open_device();
  CUmodule module = load_module("tensor_tile.ptx");
  CUfunction tensor_tile;
  CHECK(cuModuleGetFunction(&tensor_tile, module, "tensor_tile"));
  CUdeviceptr device_matrix, device_sums;
  CHECK(cuMemAlloc(&device_matrix, sizeof matrix));
  CHECK(cuMemAlloc(&device_sums, sizeof sums));
  CHECK(cuMemsetD32(device_sums, 0, WIDTH * HEIGHT));

  _Alignas(64) unsigned char map[128]; // CUtensorMap
  const uint64_t size[] = {WIDTH, HEIGHT}, row_bytes[] = {sizeof matrix[0]};
  const uint32_t box[] = {SIDE, SIDE}, every[] = {1, 1};
  CHECK(cuTensorMapEncodeTiled(map, TENSOR_MAP_DATA_TYPE_UINT32, 2, (void *)(uintptr_t)device_matrix, size,
                               row_bytes, box, every, 0, 0, 0, 0));

  uint32_t pitch = WIDTH, random = 5;
  void *parameters[] = {map, &device_sums, &pitch};
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    for (uint32_t y = 0; y < HEIGHT; y++)
      for (uint32_t x = 0; x < WIDTH; x++)
        matrix[y][x] = next_random(&random);
    CHECK(cuMemcpyHtoD(device_matrix, matrix, sizeof matrix));
    CHECK(cuLaunchKernel(tensor_tile, WIDTH / SIDE, HEIGHT / SIDE, 1, SIDE, SIDE, 1, 0, NULL, parameters,
                         NULL));
    pause_between_launches(&options, launch);
    for (uint32_t y = 0; y < HEIGHT; y++)
      for (uint32_t x = 0; x < WIDTH; x++)
        expected[y][x] += matrix[y / SIDE * SIDE + x % SIDE][x / SIDE * SIDE + y % SIDE];
  }
  CHECK(cuMemcpyDtoH(sums, device_sums, sizeof sums));
  for (uint32_t y = 0; y < HEIGHT; y++) {
    for (uint32_t x = 0; x < WIDTH; x++) {
      if (sums[y][x] != expected[y][x]) {
        fprintf(stderr, "tensor_tile: (%u, %u) is %u, expected %u\n", x, y, sums[y][x], expected[y][x]);
        return EXIT_FAILURE;
      }
    }
  }

  CHECK(cuMemFree(device_matrix));
  CHECK(cuMemFree(device_sums));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches over %u tiles, all correct\n", options.launches, WIDTH / SIDE * HEIGHT / SIDE);
  return EXIT_SUCCESS;
}
