// Texture and surface objects of the runtime API, through every kind of fetch that CUDA C++ has for them.
#include "check.h"

#include <cstring>
#include <vector>

__global__ void fetch(cudaTextureObject_t line, cudaTextureObject_t plane, cudaTextureObject_t box,
                      float *out) {
  out[0] = tex1D<float>(line, 2.5f);
  out[1] = tex2D<float>(plane, 3.0f, 1.5f); // halfway between two texels
  out[2] = tex3D<float>(box, 1.5f, 1.5f, 1.5f);
}

__global__ void fetch_linear(cudaTextureObject_t memory, cudaTextureObject_t pitched, float *out) {
  out[0] = tex1Dfetch<float>(memory, 5);
  out[1] = tex1Dfetch<float>(memory, 1000); // outside
  uchar4 texel = tex2D<uchar4>(pitched, 2.5f, 1.5f);
  out[2] = texel.x + 256 * texel.y + 65536 * texel.w;
}

__global__ void fetch_layers(cudaTextureObject_t layers, cudaTextureObject_t cube, cudaTextureObject_t levels,
                             float *out) {
  out[0] = tex2DLayered<float>(layers, 1.5f, 0.5f, 2);
  out[1] = texCubemap<float>(cube, 0.1f, -5.0f, 0.1f);
  out[2] = tex2DLod<float>(levels, 0.5f, 0.5f, 1.0f);
  out[3] = tex2DLod<float>(levels, 0.5f, 0.5f, 0.5f); // between two levels
  out[4] = tex2D<float>(levels, 0.5f, 0.5f);
  out[5] = tex2DGrad<float>(levels, 0.5f, 0.5f, make_float2(0.5f, 0), make_float2(0, 0.5f));
}

__global__ void gather(cudaTextureObject_t plane, float4 *out) {
  *out = tex2Dgather<float4>(plane, 2.0f, 1.0f, 0);
}

__global__ void move_plane(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  ushort2 value; // threads outside of the plane read zeros, and what they write goes nowhere
  surf2Dread(&value, from, x * 4, y, cudaBoundaryModeZero);
  if (x >= width || y >= height)
    value = make_ushort2(7, 7);
  surf2Dwrite(make_ushort2(value.y, value.x), to, x * 4, y, cudaBoundaryModeZero);
}

__global__ void move_box(cudaSurfaceObject_t box, cudaSurfaceObject_t layers, cudaSurfaceObject_t line) {
  int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
  float value = surf3Dread<float>(box, 4 * x, y, z);
  surf3Dwrite(value + 1, box, 4 * x, y, z);
  surf2DLayeredwrite(value * 2, layers, 4 * x, y, z);
  if (y == 0 && z == 0)
    surf1Dwrite(surf2DLayeredread<float>(layers, 4 * x, 0, 0, cudaBoundaryModeClamp) + 3, line, 4 * x);
}

__global__ void outside(cudaSurfaceObject_t line) { surf1Dwrite(1.0f, line, 4 * 64); }

static cudaArray_t array_of(const std::vector<float> &values, cudaExtent extent, unsigned flags = 0) {
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  OK(cudaMalloc3DArray(&array, &format, extent, flags));
  size_t rows = extent.height ? extent.height : 1, slices = extent.depth ? extent.depth : 1;
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(const_cast<float *>(values.data()), extent.width * 4, extent.width, rows);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(extent.width, rows, slices);
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  return array;
}

static cudaTextureObject_t texture_of(const cudaResourceDesc &resource, cudaTextureDesc texture) {
  cudaTextureObject_t made;
  OK(cudaCreateTextureObject(&made, &resource, &texture, nullptr));
  return made;
}

static cudaResourceDesc resource_of(cudaArray_t array) {
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return resource;
}

static cudaSurfaceObject_t surface_of(cudaArray_t array) {
  cudaResourceDesc resource = resource_of(array);
  cudaSurfaceObject_t made;
  OK(cudaCreateSurfaceObject(&made, &resource));
  return made;
}

static std::vector<float> counted(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(i);
  return values;
}

static void textures() {
  cudaTextureDesc linear{}, clamped{};
  linear.filterMode = cudaFilterModeLinear;
  for (auto &mode : linear.addressMode)
    mode = cudaAddressModeClamp;
  clamped = linear;
  clamped.filterMode = cudaFilterModePoint;

  cudaArray_t line = array_of(counted(8), make_cudaExtent(8, 0, 0));
  cudaArray_t plane = array_of(counted(15), make_cudaExtent(5, 3, 0), cudaArrayTextureGather);
  cudaArray_t box = array_of(counted(27), make_cudaExtent(3, 3, 3));
  float *out, host[8];
  OK(cudaMalloc(&out, sizeof host));
  cudaTextureObject_t of_plane = texture_of(resource_of(plane), linear);
  fetch<<<1, 1>>>(texture_of(resource_of(line), linear), of_plane, texture_of(resource_of(box), clamped),
                  out);
  OK(cudaMemcpy(host, out, 12, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 2 && host[1] == 7.5f && host[2] == 13);
  float4 four;
  gather<<<1, 1>>>(of_plane, reinterpret_cast<float4 *>(out));
  OK(cudaMemcpy(&four, out, 16, cudaMemcpyDeviceToHost));
  CHECK(four.x == 6 && four.y == 7 && four.z == 2 && four.w == 1);

  cudaResourceDesc given;
  cudaTextureDesc described;
  cudaResourceViewDesc view;
  OK(cudaGetTextureObjectResourceDesc(&given, of_plane));
  OK(cudaGetTextureObjectTextureDesc(&described, of_plane));
  CHECK(given.resType == cudaResourceTypeArray && given.res.array.array == plane);
  CHECK(described.filterMode == cudaFilterModeLinear && described.readMode == cudaReadModeElementType);
  CHECK(described.addressMode[1] == cudaAddressModeClamp && described.normalizedCoords == 0);
  ERROR_IS(cudaGetTextureObjectResourceViewDesc(&view, of_plane), cudaErrorInvalidValue);
  OK(cudaDestroyTextureObject(of_plane));
  ERROR_IS(cudaGetTextureObjectResourceDesc(&given, of_plane), cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);

  float *memory;
  OK(cudaMalloc(&memory, 400));
  OK(cudaMemcpy(memory, counted(100).data(), 400, cudaMemcpyHostToDevice));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = memory;
  resource.res.linear.desc = cudaCreateChannelDesc<float>();
  resource.res.linear.sizeInBytes = 400;
  cudaTextureObject_t of_memory = texture_of(resource, clamped);
  uchar4 *pitched;
  size_t pitch;
  OK(cudaMallocPitch(&pitched, &pitch, 4 * sizeof(uchar4), 3));
  uchar4 texel{1, 2, 3, 4};
  OK(cudaMemset2D(pitched, pitch, 0, 16, 3));
  OK(cudaMemcpy(reinterpret_cast<char *>(pitched) + pitch + 8, &texel, 4, cudaMemcpyHostToDevice));
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = pitched;
  resource.res.pitch2D.desc = cudaCreateChannelDesc<uchar4>();
  resource.res.pitch2D.width = 4;
  resource.res.pitch2D.height = 3;
  resource.res.pitch2D.pitchInBytes = pitch;
  fetch_linear<<<1, 1>>>(of_memory, texture_of(resource, clamped), out);
  OK(cudaMemcpy(host, out, 12, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 5 && host[1] == 0 && host[2] == 1 + 256 * 2 + 65536 * 4);
}

static void layers() {
  cudaTextureDesc plain{}, mixed{};
  plain.addressMode[0] = plain.addressMode[1] = plain.addressMode[2] = cudaAddressModeClamp;
  mixed = plain;
  mixed.normalizedCoords = 1;
  mixed.mipmapFilterMode = cudaFilterModeLinear;
  mixed.maxMipmapLevelClamp = 10;
  cudaArray_t layered = array_of(counted(24), make_cudaExtent(4, 2, 3), cudaArrayLayered);
  cudaArray_t cube = array_of(counted(24), make_cudaExtent(2, 2, 6), cudaArrayCubemap);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t levels;
  OK(cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(4, 4, 0), 3));
  for (unsigned level = 0; level < 3; ++level) {
    cudaArray_t each;
    OK(cudaGetMipmappedArrayLevel(&each, levels, level));
    size_t n = 4 >> level;
    std::vector<float> values(n * n, 10.0f * static_cast<float>(level + 1));
    OK(cudaMemcpy2DToArray(each, 0, 0, values.data(), n * 4, n * 4, n, cudaMemcpyHostToDevice));
  }
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = levels;
  float *out, host[6];
  OK(cudaMalloc(&out, sizeof host));
  fetch_layers<<<1, 1>>>(texture_of(resource_of(layered), plain), texture_of(resource_of(cube), mixed),
                         texture_of(resource, mixed), out);
  OK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(host[0] == 17 && host[1] >= 12 && host[1] < 16);
  CHECK(host[2] == 20 && host[3] == 15 && host[4] == 10 && host[5] == 20);
}

static void surfaces() {
  const int width = 20, height = 5;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<ushort2>();
  cudaArray_t from, to;
  OK(cudaMallocArray(&from, &format, width, height, cudaArraySurfaceLoadStore));
  OK(cudaMallocArray(&to, &format, width, height, cudaArraySurfaceLoadStore));
  std::vector<ushort2> values(width * height), got(width * height);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = make_ushort2(i, 1000 + i);
  OK(cudaMemcpy2DToArray(from, 0, 0, values.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  move_plane<<<dim3(2, 1), dim3(16, 8)>>>(surface_of(from), surface_of(to), width, height);
  OK(cudaMemcpy2DFromArray(got.data(), width * 4, to, 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < values.size(); ++i)
    CHECK(got[i].x == values[i].y && got[i].y == values[i].x);

  cudaArray_t box = array_of(counted(24), make_cudaExtent(4, 3, 2), cudaArraySurfaceLoadStore);
  cudaArray_t layered =
      array_of(counted(24), make_cudaExtent(4, 3, 2), cudaArraySurfaceLoadStore | cudaArrayLayered);
  cudaArray_t line = array_of(counted(64), make_cudaExtent(64, 0, 0), cudaArraySurfaceLoadStore);
  cudaSurfaceObject_t of_line = surface_of(line);
  move_box<<<1, dim3(4, 3, 2)>>>(surface_of(box), surface_of(layered), of_line);
  float host[24];
  auto read = [&](cudaArray_t array) {
    cudaMemcpy3DParms copy{};
    copy.srcArray = array;
    copy.dstPtr = make_cudaPitchedPtr(host, 16, 4, 3);
    copy.extent = make_cudaExtent(4, 3, 2);
    copy.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3D(&copy));
  };
  read(box);
  for (int i = 0; i < 24; ++i)
    CHECK(host[i] == i + 1);
  read(layered);
  for (int i = 0; i < 24; ++i)
    CHECK(host[i] == 2 * i);
  OK(cudaMemcpyFromArray(host, line, 0, 0, 20, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 5; ++i)
    CHECK(host[i] == (i < 4 ? 2 * i + 3 : 4));
  cudaResourceDesc given;
  OK(cudaGetSurfaceObjectResourceDesc(&given, of_line));
  CHECK(given.res.array.array == line);
  cudaSurfaceObject_t refused;
  given.resType = cudaResourceTypeLinear;
  given.res.linear.desc = cudaCreateChannelDesc<float>();
  ERROR_IS(cudaCreateSurfaceObject(&refused, &given), cudaErrorInvalidValue);
  cudaGetLastError();
  outside<<<1, 1>>>(of_line);
  ERROR_IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

int main() {
  textures();
  layers();
  surfaces(); // leaves an error in the context
  std::puts("ok");
}
