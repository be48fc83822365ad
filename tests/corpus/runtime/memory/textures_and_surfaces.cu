// covers: texture and surface objects over arrays, layers, mipmaps and linear memory; handles in a device
// array.
#include "../check.cuh"

__global__ void scale(cudaTextureObject_t from, cudaSurfaceObject_t to, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < width && y < height)
    surf2Dwrite(2 * tex2D<float>(from, x + 0.5f, y + 0.5f), to, x * sizeof(float), y);
}

__global__ void gather(const cudaTextureObject_t *layered, cudaTextureObject_t line, float *out, int width) {
  int x = threadIdx.x, layer = blockIdx.x;
  out[layer * width + x] =
      tex2DLayered<float>(layered[1], x + 0.5f, 1.5f, layer) + tex1Dfetch<float>(line, x);
}

__global__ void level(cudaTextureObject_t levels, float *out, int width) {
  int x = threadIdx.x;
  out[x] = tex2DLod<float>(levels, (x + 0.5f) / width, 0.25f, 1.0f);
}

static cudaTextureObject_t texture(const cudaResourceDesc &resource, bool normalized = false) {
  cudaTextureDesc how = {};
  how.normalizedCoords = normalized;
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  how.maxMipmapLevelClamp = 8;
  cudaTextureObject_t object;
  CHECK(cudaCreateTextureObject(&object, &resource, &how, nullptr));
  return object;
}

static cudaResourceDesc over(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return resource;
}

int main() {
  const int width = 48, height = 20, layers = 3;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  auto values = random_values<float>(width * height * layers);
  cudaArray_t source, target, stack;
  CHECK(cudaMallocArray(&source, &format, width, height));
  CHECK(cudaMallocArray(&target, &format, width, height, cudaArraySurfaceLoadStore));
  size_t row = width * sizeof(float);
  CHECK(cudaMemcpy2DToArray(source, 0, 0, values.data(), row, row, height, cudaMemcpyHostToDevice));
  cudaResourceDesc drawn = over(target);
  cudaSurfaceObject_t surface;
  CHECK(cudaCreateSurfaceObject(&surface, &drawn));
  scale<<<dim3(2, height), 32>>>(texture(over(source)), surface, width, height);
  std::vector<float> got(width * height), expected(width * height);
  CHECK(cudaMemcpy2DFromArray(got.data(), row, target, 0, 0, row, height, cudaMemcpyDeviceToHost));
  for (int i = 0; i < width * height; i++)
    expected[i] = 2 * values[i];
  equal("scaled", got, expected);

  cudaExtent extent = make_cudaExtent(width, height, layers);
  CHECK(cudaMalloc3DArray(&stack, &format, extent, cudaArrayLayered));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(values.data(), row, width, height);
  copy.dstArray = stack;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  Buffer<float> line(std::vector<float>(values.begin(), values.begin() + width)), out(width * layers);
  cudaResourceDesc linear = {};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear = {(float *)line, format, row};
  std::vector<cudaTextureObject_t> handles = {texture(over(source)), texture(over(stack))};
  Buffer<cudaTextureObject_t> kept(handles);
  gather<<<layers, width>>>(kept, texture(linear), out, width);
  expected.resize(width * layers);
  for (int i = 0; i < width * layers; i++)
    expected[i] = values[(i / width * height + 1) * width + i % width] + values[i % width];
  equal("gathered", out.host(), expected);

  cudaMipmappedArray_t mipmap;
  CHECK(cudaMallocMipmappedArray(&mipmap, &format, make_cudaExtent(width, height, 0), 2));
  cudaArray_t second;
  CHECK(cudaGetMipmappedArrayLevel(&second, mipmap, 1));
  CHECK(
      cudaMemcpy2DToArray(second, 0, 0, values.data(), row / 2, row / 2, height / 2, cudaMemcpyHostToDevice));
  cudaResourceDesc levels = {};
  levels.resType = cudaResourceTypeMipmappedArray;
  levels.res.mipmap.mipmap = mipmap;
  Buffer<float> small(width / 2);
  level<<<1, width / 2>>>(texture(levels, true), small, width / 2);
  expected.assign(values.begin() + 2 * width / 2, values.begin() + 3 * width / 2);
  equal("second level", small.host(), expected);
  return ok();
}
