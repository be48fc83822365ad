// A tiled matrix product in pitched memory. The kernel comes from a CUlibrary and is launched as the CUkernel
// that it is; the factor alpha is a __constant__ of the module, set anew before each launch.
#include "../common/driver.h"

enum { ROWS = 150, INNER = 130, COLUMNS = 170, TILE = 16 };

typedef struct {
  CUdeviceptr address;
  size_t pitch_bytes;
} Matrix;

static Matrix allocate(size_t rows, size_t columns) {
  Matrix matrix;
  CHECK(cuMemAllocPitch(&matrix.address, &matrix.pitch_bytes, columns * sizeof(float), rows, sizeof(float)));
  return matrix;
}

static void upload(Matrix matrix, const float *values, size_t rows, size_t columns) {
  const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                              .srcHost = values,
                              .srcPitch = columns * sizeof(float),
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = matrix.address,
                              .dstPitch = matrix.pitch_bytes,
                              .WidthInBytes = columns * sizeof(float),
                              .Height = rows};
  CHECK(cuMemcpy2D(&copy));
}

static void download(float *values, Matrix matrix, size_t rows, size_t columns) {
  const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = matrix.address,
                              .srcPitch = matrix.pitch_bytes,
                              .dstMemoryType = CU_MEMORYTYPE_HOST,
                              .dstHost = values,
                              .dstPitch = columns * sizeof(float),
                              .WidthInBytes = columns * sizeof(float),
                              .Height = rows};
  CHECK(cuMemcpy2D(&copy));
}

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 2);
  static float a[ROWS * INNER], b[INNER * COLUMNS], c[ROWS * COLUMNS];

  CUdevice device = open_device();
  CUlibrary library;
  char *ptx = read_beside_program("matmul_tiled.ptx");
  CHECK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
  free(ptx);
  CUkernel matmul_tiled;
  CHECK(cuLibraryGetKernel(&matmul_tiled, library, "matmul_tiled"));
  CUdeviceptr alpha_address;
  size_t alpha_bytes;
  CHECK(cuLibraryGetGlobal(&alpha_address, &alpha_bytes, library, "alpha"));
  if (alpha_bytes != sizeof(float))
    stop("the constant alpha has an unexpected size");

  Matrix device_a = allocate(ROWS, INNER), device_b = allocate(INNER, COLUMNS),
         device_c = allocate(ROWS, COLUMNS);
  unsigned rows = ROWS, inner = INNER, columns = COLUMNS;
  unsigned a_pitch = (unsigned)(device_a.pitch_bytes / sizeof(float));
  unsigned b_pitch = (unsigned)(device_b.pitch_bytes / sizeof(float));
  unsigned c_pitch = (unsigned)(device_c.pitch_bytes / sizeof(float));

  uint32_t random = 3;
  for (unsigned launch = 1; launch <= options.launches; launch++) {
    // Small whole numbers: every product and sum is exact, in any order.
    for (unsigned i = 0; i < ROWS * INNER; i++)
      a[i] = (float)(next_random(&random) % 17) - 8.0f;
    for (unsigned i = 0; i < INNER * COLUMNS; i++)
      b[i] = (float)(next_random(&random) % 17) - 8.0f;
    const float alpha = (float)(launch + 1);
    upload(device_a, a, ROWS, INNER);
    upload(device_b, b, INNER, COLUMNS);
    CHECK(cuMemcpyHtoD(alpha_address, &alpha, sizeof alpha));
    void *parameters[] = {&device_a.address, &device_b.address, &device_c.address, &rows,   &inner,
                          &columns,          &a_pitch,          &b_pitch,          &c_pitch};
    CHECK(cuLaunchKernel((CUfunction)matmul_tiled, (COLUMNS + TILE - 1) / TILE, (ROWS + TILE - 1) / TILE, 1,
                         TILE, TILE, 1, 0, NULL, parameters, NULL));
    pause_between_launches(&options, launch);
    download(c, device_c, ROWS, COLUMNS);
    for (unsigned row = 0; row < ROWS; row++) {
      for (unsigned column = 0; column < COLUMNS; column++) {
        float expected = 0.0f;
        for (unsigned k = 0; k < INNER; k++)
          expected += a[row * INNER + k] * b[k * COLUMNS + column];
        expected *= alpha;
        if (c[row * COLUMNS + column] != expected) {
          fprintf(stderr, "matmul_tiled: launch %u: c[%u][%u] is %.9g, expected %.9g\n", launch, row, column,
                  c[row * COLUMNS + column], expected);
          return EXIT_FAILURE;
        }
      }
    }
  }

  CHECK(cuMemFree(device_a.address));
  CHECK(cuMemFree(device_b.address));
  CHECK(cuMemFree(device_c.address));
  CHECK(cuLibraryUnload(library));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u products of %ux%u and %ux%u matrices, all correct\n", options.launches, ROWS, INNER, INNER,
         COLUMNS);
  return EXIT_SUCCESS;
}
