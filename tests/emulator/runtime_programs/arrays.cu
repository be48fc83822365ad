// CUDA arrays as places to copy to and from.
#include "check.h"

#include <vector>

int main() {
  const size_t width = 12, height = 5;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float2>();
  cudaArray_t array, other;
  OK(cudaMallocArray(&array, &format, width, height));
  cudaChannelFormatDesc got;
  cudaExtent extent;
  unsigned flags;
  OK(cudaArrayGetInfo(&got, &extent, &flags, array));
  CHECK(got.x == 32 && got.y == 32 && got.z == 0 && got.f == cudaChannelFormatKindFloat);
  CHECK(extent.width == width && extent.height == height && extent.depth == 0 && flags == 0);

  const size_t row = width * sizeof(float2);
  std::vector<float2> in(width * height), out(width * height, float2{-1, -1});
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = {static_cast<float>(i), static_cast<float>(1000 + i)};
  OK(cudaMemcpy2DToArray(array, 0, 0, in.data(), row, row, height, cudaMemcpyHostToDevice));
  OK(cudaMallocArray(&other, &format, width, height));
  OK(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, row, height, cudaMemcpyDeviceToDevice));
  float2 *device;
  size_t pitch;
  OK(cudaMallocPitch(&device, &pitch, row, height));
  OK(cudaMemcpy2DFromArrayAsync(device, pitch, other, 0, 0, row, height, cudaMemcpyDeviceToDevice, 0));
  OK(cudaMemcpy2D(out.data(), row, device, pitch, row, height, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < in.size(); ++i)
    CHECK(out[i].x == in[i].x && out[i].y == in[i].y);

  // One dimension that runs from the middle of a row over whole rows into the middle of another.
  std::vector<float2> line(30, float2{7, 8});
  const size_t first = 9, count = line.size();
  OK(cudaMemcpyToArray(array, first * sizeof(float2), 1, line.data(), count * sizeof(float2),
                       cudaMemcpyHostToDevice));
  OK(cudaMemcpyFromArray(out.data(), array, 0, 0, in.size() * sizeof(float2), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < in.size(); ++i) {
    bool inside = i >= width + first && i < width + first + count;
    CHECK(out[i].x == (inside ? 7 : in[i].x));
  }

  // Three dimensions count in elements of the array.
  cudaArray_t box;
  OK(cudaMalloc3DArray(&box, &format, make_cudaExtent(width, 5, 3)));
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(in.data(), row, width, height);
  copy.dstArray = box;
  copy.dstPos = make_cudaPos(2, 1, 2);
  copy.extent = make_cudaExtent(width - 2, 4, 1);
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  cudaMemcpy3DParms back{};
  back.srcArray = box;
  back.srcPos = make_cudaPos(2, 1, 2);
  back.dstPtr = make_cudaPitchedPtr(out.data(), row, width, height);
  back.extent = copy.extent;
  back.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3D(&back));
  for (size_t y = 0; y < 4; ++y)
    for (size_t x = 0; x < width - 2; ++x)
      CHECK(out[y * width + x].y == in[y * width + x].y);

  format = cudaCreateChannelDesc(32, 16, 0, 0, cudaChannelFormatKindFloat);
  ERROR_IS(cudaMallocArray(&array, &format, 4, 4), cudaErrorInvalidChannelDescriptor);
  OK(cudaFreeArray(box));
  OK(cudaFreeArray(other));
  OK(cudaFreeArray(nullptr));
  std::puts("ok");
}
