// covers: cudaMallocPitch, cudaMalloc3D and their copies and fills: rows, boxes and positions inside them.
#include "../check.cuh"

__global__ void number(char *data, size_t pitch, int width, int height) {
  for (int y = threadIdx.y; y < height; y += blockDim.y)
    for (int x = threadIdx.x; x < width; x += blockDim.x)
      reinterpret_cast<int *>(data + y * pitch)[x] = y * 1000 + x;
}

int main() {
  const int width = 37, height = 21, depth = 5;
  char *plane = nullptr;
  size_t pitch = 0;
  CHECK(cudaMallocPitch(&plane, &pitch, width * sizeof(int), height));
  REQUIRE(pitch >= width * sizeof(int) && pitch % 32 == 0);
  number<<<1, dim3(16, 8)>>>(plane, pitch, width, height);
  CHECK(cudaMemset2D(plane + 3 * pitch + 5 * sizeof(int), pitch, 0xff, 4 * sizeof(int), 2));
  std::vector<int> got(40 * height, 9), expected(40 * height, 9);
  CHECK(cudaMemcpy2D(got.data(), 40 * sizeof(int), plane, pitch, width * sizeof(int), height,
                     cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      expected[y * 40 + x] = y >= 3 && y < 5 && x >= 5 && x < 9 ? -1 : y * 1000 + x;
  equal("rows", got, expected);
  EXPECT(cudaMemcpy2D(got.data(), 8, plane, pitch, 12, 2, cudaMemcpyDeviceToHost),
         cudaErrorInvalidPitchValue);
  EXPECT(cudaGetLastError(), cudaErrorInvalidPitchValue);

  const cudaExtent extent = make_cudaExtent(width * sizeof(int), height, depth);
  cudaPitchedPtr box = {}, other = {};
  CHECK(cudaMalloc3D(&box, extent));
  CHECK(cudaMalloc3D(&other, extent));
  REQUIRE(box.pitch >= extent.width && box.ysize >= height);
  auto values = random_values<int>(width * height * depth);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(values.data(), width * sizeof(int), width, height);
  copy.dstPtr = box;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  CHECK(cudaMemset3D(other, 0, extent));
  cudaMemcpy3DParms part = {};
  part.srcPtr = box;
  part.srcPos = make_cudaPos(4 * sizeof(int), 2, 1);
  part.dstPtr = other;
  part.dstPos = make_cudaPos(1 * sizeof(int), 3, 2);
  part.extent = make_cudaExtent(20 * sizeof(int), 11, 3);
  part.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaMemcpy3DAsync(&part, cudaStreamLegacy));
  std::vector<int> volume(values.size(), 1), expected_volume(values.size());
  cudaMemcpy3DParms back = {};
  back.srcPtr = other;
  back.dstPtr = make_cudaPitchedPtr(volume.data(), width * sizeof(int), width, height);
  back.extent = extent;
  back.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3D(&back));
  for (int z = 0; z < 3; z++)
    for (int y = 0; y < 11; y++)
      for (int x = 0; x < 20; x++)
        expected_volume[((z + 2) * height + y + 3) * width + x + 1] =
            values[((z + 1) * height + y + 2) * width + x + 4];
  equal("volume", volume, expected_volume);
  for (void *memory : {static_cast<void *>(plane), box.ptr, other.ptr})
    CHECK(cudaFree(memory));
  return ok();
}
