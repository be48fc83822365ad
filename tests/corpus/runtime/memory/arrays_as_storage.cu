// covers: cudaMallocArray as storage: copies to and from it, between arrays, and what it says of itself.
#include "../check.cuh"

int main() {
  const int width = 50, height = 30;
  const size_t row = width * sizeof(float);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t first, second;
  CHECK(cudaMallocArray(&first, &format, width, height));
  CHECK(cudaMallocArray(&second, &format, width, height));
  cudaChannelFormatDesc told;
  cudaExtent extent;
  unsigned flags = 1;
  CHECK(cudaArrayGetInfo(&told, &extent, &flags, first));
  REQUIRE(told.x == 32 && told.y == 0 && told.f == cudaChannelFormatKindFloat);
  REQUIRE(extent.width == width && extent.height == height && extent.depth == 0 && flags == 0);

  auto values = random_values<float>(width * height);
  Buffer<float> data(values);
  CHECK(cudaMemcpy2DToArray(first, 0, 0, values.data(), row, row, height, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2DToArray(second, 0, 0, data, row, row, height, cudaMemcpyDeviceToDevice));
  CHECK(cudaMemcpy2DArrayToArray(second, 8 * sizeof(float), 5, first, 2 * sizeof(float), 1,
                                 20 * sizeof(float), 10, cudaMemcpyDeviceToDevice));
  auto expected = values;
  for (int y = 0; y < 10; y++)
    for (int x = 0; x < 20; x++)
      expected[(y + 5) * width + x + 8] = values[(y + 1) * width + x + 2];
  std::vector<float> got(width * height);
  CHECK(cudaMemcpy2DFromArray(got.data(), row, second, 0, 0, row, height, cudaMemcpyDeviceToHost));
  equal("whole", got, expected);

  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  std::vector<float> part(6 * 4);
  CHECK(cudaMemcpy2DFromArrayAsync(part.data(), 6 * sizeof(float), second, 7 * sizeof(float), 9,
                                   6 * sizeof(float), 4, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (int i = 0; i < 24; i++)
    REQUIRE(part[i] == expected[(9 + i / 6) * width + 7 + i % 6]);
  EXPECT(cudaMemcpy2DToArray(first, 0, height - 1, data, row, row, 2, cudaMemcpyDeviceToDevice),
         cudaErrorInvalidValue);
  EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeArray(first));
  CHECK(cudaFreeArray(second));
  return ok();
}
