// A mipmapped array: the host fills each of its levels, and a kernel reads all of them through one texture
// object.
#define SAMPLE_FUNCTIONS(FUNCTION)                                                                           \
  FUNCTION(cuMipmappedArrayCreate, cuMipmappedArrayCreate, (CUmipmappedArray *, const void *, unsigned int)) \
  FUNCTION(cuMipmappedArrayGetLevel, cuMipmappedArrayGetLevel, (CUarray *, CUmipmappedArray, unsigned int))  \
  FUNCTION(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, (CUmipmappedArray))
typedef struct CUmipmappedArray_st *CUmipmappedArray;
#include "../common/driver.h"

enum { SIDE = 64, LEVELS = 4, THREADS = 16 };
enum { FORMAT_FLOAT = 0x20, RESOURCE_MIPMAPPED_ARRAY = 1, ADDRESS_CLAMP = 1, NORMALIZED_COORDINATES = 2 };

typedef struct { // CUDA_ARRAY3D_DESCRIPTOR
  size_t width, height, depth;
  unsigned int format, channels, flags;
} ArrayDescription;

typedef struct { // CUDA_RESOURCE_DESC
  unsigned int type;
  CUmipmappedArray array;
  int rest[32];
} Resource;
_Static_assert(sizeof(Resource) == 144, "CUDA_RESOURCE_DESC");

typedef struct { // CUDA_TEXTURE_DESC
  unsigned int address_modes[3], filter_mode, flags, maximum_anisotropy, mipmap_filter_mode;
  float mipmap_bias, least_level, largest_level, border[4];
  int reserved[12];
} Texture;
_Static_assert(sizeof(Texture) == 104, "CUDA_TEXTURE_DESC");

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 3);
  static float levels[LEVELS][SIDE][SIDE], sums[SIDE][SIDE], expected[SIDE][SIDE];

  CUdevice device = open_device();
  CUmodule module = load_module("mipmap_levels.ptx");
  CUfunction add_levels;
  CHECK(cuModuleGetFunction(&add_levels, module, "add_levels"));
  const ArrayDescription shape = {SIDE, SIDE, 0, FORMAT_FLOAT, 1, 0};
  CUmipmappedArray array;
  CHECK(cuMipmappedArrayCreate(&array, &shape, LEVELS));
  const Resource resource = {.type = RESOURCE_MIPMAPPED_ARRAY, .array = array};
  const Texture how = {.address_modes = {ADDRESS_CLAMP, ADDRESS_CLAMP, ADDRESS_CLAMP},
                       .flags = NORMALIZED_COORDINATES,
                       .largest_level = LEVELS - 1};
  CUtexObject texture;
  CHECK(cuTexObjectCreate(&texture, &resource, &how, NULL));
  CUdeviceptr device_sums;
  CHECK(cuMemAlloc(&device_sums, sizeof sums));
  CHECK(cuMemsetD32(device_sums, 0, SIDE * SIDE));

  uint32_t side = SIDE, count = LEVELS, random = 9;
  void *parameters[] = {&texture, &device_sums, &side, &count};
  for (uint32_t launch = 1; launch <= options.launches; launch++) {
    for (uint32_t level = 0; level < LEVELS; level++) {
      uint32_t width = SIDE >> level;
      for (uint32_t y = 0; y < width; y++)
        for (uint32_t x = 0; x < width; x++)
          levels[level][y][x] = (float)(next_random(&random) & 255);
      CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .dstMemoryType = CU_MEMORYTYPE_ARRAY};
      CUarray target;
      CHECK(cuMipmappedArrayGetLevel(&target, array, level));
      copy.srcHost = levels[level];
      copy.srcPitch = SIDE * sizeof(float);
      copy.dstArray = target;
      copy.WidthInBytes = width * sizeof(float);
      copy.Height = width;
      CHECK(cuMemcpy2D(&copy));
    }
    CHECK(cuLaunchKernel(add_levels, SIDE / THREADS, SIDE / THREADS, 1, THREADS, THREADS, 1, 0, NULL,
                         parameters, NULL));
    pause_between_launches(&options, launch);
    for (uint32_t y = 0; y < SIDE; y++)
      for (uint32_t x = 0; x < SIDE; x++)
        for (uint32_t level = 0; level < LEVELS; level++)
          expected[y][x] += levels[level][y >> level][x >> level];
  }
  CHECK(cuMemcpyDtoH(sums, device_sums, sizeof sums));
  for (uint32_t y = 0; y < SIDE; y++) {
    for (uint32_t x = 0; x < SIDE; x++) {
      if (sums[y][x] != expected[y][x]) {
        fprintf(stderr, "mipmap_levels: (%u, %u) is %g, expected %g\n", x, y, sums[y][x], expected[y][x]);
        return EXIT_FAILURE;
      }
    }
  }

  CHECK(cuTexObjectDestroy(texture));
  CHECK(cuMipmappedArrayDestroy(array));
  CHECK(cuMemFree(device_sums));
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches over %u levels, all correct\n", options.launches, LEVELS);
  return EXIT_SUCCESS;
}
