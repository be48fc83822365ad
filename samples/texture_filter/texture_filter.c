// Two CUDA arrays, each with a texture object to read it and a surface object to write it. A kernel filters
// one into the other, again and again; which of the two it reads is known by handles alone.
#include "../common/driver.h"

enum { WIDTH = 101, HEIGHT = 67, THREADS = 16 };

typedef struct { // CUDA_ARRAY3D_DESCRIPTOR
  size_t width, height, depth;
  unsigned int format, channels, flags;
} ArrayDescription;

typedef struct { // CUDA_RESOURCE_DESC of an array
  unsigned int type;
  CUarray array;
  int rest[30];
  unsigned int flags;
} Resource;
_Static_assert(sizeof(Resource) == 144, "CUDA_RESOURCE_DESC");

typedef struct { // CUDA_TEXTURE_DESC
  unsigned int address_modes[3], filter_mode, flags, maximum_anisotropy, mipmap_filter_mode;
  float mipmap[3], border[4];
  int reserved[12];
} Texture;
_Static_assert(sizeof(Texture) == 104, "CUDA_TEXTURE_DESC");

enum { FORMAT_FLOAT = 0x20, SURFACE_LDST = 2, RESOURCE_ARRAY = 0, ADDRESS_CLAMP = 1, FILTER_LINEAR = 1 };

typedef float Picture[HEIGHT][WIDTH];

static float at(Picture picture, unsigned y, unsigned x) {
  return picture[y < HEIGHT ? y : HEIGHT - 1][x < WIDTH ? x : WIDTH - 1];
}

static void filter_on_host(Picture from, Picture to, unsigned step) {
  for (unsigned y = 0; y < HEIGHT; y++)
    for (unsigned x = 0; x < WIDTH; x++) {
      float mean = (at(from, y, x) + at(from, y, x + 1) + at(from, y + 1, x) + at(from, y + 1, x + 1)) / 4.0f;
      to[y][x] = (float)(((unsigned)mean + (x ^ y) * step) & 255);
    }
}

static void copy(CUarray array, Picture picture, bool to_array) {
  CUDA_MEMCPY2D description = {.WidthInBytes = WIDTH * sizeof(float), .Height = HEIGHT};
  if (to_array) {
    description.srcMemoryType = CU_MEMORYTYPE_HOST;
    description.srcHost = picture;
    description.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    description.dstArray = array;
  } else {
    description.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    description.srcArray = array;
    description.dstMemoryType = CU_MEMORYTYPE_HOST;
    description.dstHost = picture;
  }
  CHECK(cuMemcpy2D(&description));
}

int main(int argument_count, char **arguments) {
  const Options options = parse_options(argument_count, arguments, 4);
  static Picture expected[2], got;
  uint32_t random = 2463534242u;
  for (unsigned y = 0; y < HEIGHT; y++)
    for (unsigned x = 0; x < WIDTH; x++)
      expected[0][y][x] = (float)(next_random(&random) & 255);

  CUdevice device = open_device();
  CUmodule module = load_module("texture_filter.ptx");
  CUfunction filter;
  CHECK(cuModuleGetFunction(&filter, module, "filter"));

  const ArrayDescription shape = {WIDTH, HEIGHT, 0, FORMAT_FLOAT, 1, SURFACE_LDST};
  const Texture how = {.address_modes = {ADDRESS_CLAMP, ADDRESS_CLAMP, ADDRESS_CLAMP},
                       .filter_mode = FILTER_LINEAR};
  CUarray arrays[2];
  CUtexObject textures[2];
  CUsurfObject surfaces[2];
  for (unsigned n = 0; n < 2; n++) {
    CHECK(cuArray3DCreate(&arrays[n], &shape));
    const Resource resource = {.type = RESOURCE_ARRAY, .array = arrays[n]};
    CHECK(cuTexObjectCreate(&textures[n], &resource, &how, NULL));
    CHECK(cuSurfObjectCreate(&surfaces[n], &resource));
  }
  copy(arrays[0], expected[0], true);

  unsigned width = WIDTH, height = HEIGHT;
  for (unsigned launch = 1; launch <= options.launches; launch++) {
    unsigned from = (launch - 1) % 2, to = launch % 2;
    void *parameters[] = {&textures[from], &surfaces[to], &width, &height, &launch};
    CHECK(cuLaunchKernel(filter, (WIDTH + THREADS - 1) / THREADS, (HEIGHT + THREADS - 1) / THREADS, 1,
                         THREADS, THREADS, 1, 0, NULL, parameters, NULL));
    pause_between_launches(&options, launch);
    filter_on_host(expected[from], expected[to], launch);
  }
  CHECK(cuCtxSynchronize());
  copy(arrays[options.launches % 2], got, false);
  for (unsigned y = 0; y < HEIGHT; y++)
    for (unsigned x = 0; x < WIDTH; x++)
      if (got[y][x] != expected[options.launches % 2][y][x]) {
        fprintf(stderr, "texture_filter: after %u launches (%u, %u) is %g, expected %g\n", options.launches,
                x, y, got[y][x], expected[options.launches % 2][y][x]);
        return EXIT_FAILURE;
      }

  for (unsigned n = 0; n < 2; n++) {
    CHECK(cuTexObjectDestroy(textures[n]));
    CHECK(cuSurfObjectDestroy(surfaces[n]));
    CHECK(cuArrayDestroy(arrays[n]));
  }
  CHECK(cuModuleUnload(module));
  say_device(device);
  CHECK(cuDevicePrimaryCtxRelease(device));
  printf("%u launches on a picture of %u x %u, all correct\n", options.launches, WIDTH, HEIGHT);
  return EXIT_SUCCESS;
}
