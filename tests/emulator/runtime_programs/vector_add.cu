// A kernel, its variables of each kind, and launches that fail.
#include "check.h"

#include <vector>

__constant__ float scale = 2.0f;
__device__ int counter;
__managed__ int managed_count = 5;

template <typename T> __global__ void add(const T *a, const T *b, T *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    c[i] = a[i] + scale * b[i];
    atomicAdd(&counter, 1);
    if (i == 0)
      managed_count += 37;
  }
}

int main() {
  const int n = 5000;
  const size_t bytes = n * sizeof(float);
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) {
    a[i] = i;
    b[i] = 2 * i;
  }
  CHECK(managed_count == 5);
  float *x, *y, *z;
  OK(cudaMalloc(&x, bytes));
  OK(cudaMalloc(&y, bytes));
  OK(cudaMalloc(&z, bytes));
  OK(cudaMemcpy(x, a.data(), bytes, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(y, b.data(), bytes, cudaMemcpyHostToDevice));
  float three = 3;
  OK(cudaMemcpyToSymbol(scale, &three, sizeof three));
  add<<<(n + 255) / 256, 256>>>(x, y, z, n);
  OK(cudaGetLastError());
  OK(cudaMemcpy(c.data(), z, bytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i)
    CHECK(c[i] == a[i] + 3 * b[i]);
  int count = 0;
  OK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
  CHECK(count == n);
  CHECK(managed_count == 42);
  size_t size = 0;
  OK(cudaGetSymbolSize(&size, scale));
  CHECK(size == sizeof(float));
  ERROR_IS(cudaGetSymbolSize(&size, (const void *)&count), cudaErrorInvalidSymbol);
  ERROR_IS(cudaMemcpyToSymbol(scale, &three, 1, 4), cudaErrorInvalidValue);
  ERROR_IS(cudaMemcpyToSymbol(scale, &three, 4, 0, cudaMemcpyDeviceToHost), cudaErrorInvalidMemcpyDirection);
  cudaGetLastError();

  // The error of a launch is remembered, and forgotten once it was asked for.
  add<<<1, 4096>>>(x, y, z, n);
  ERROR_IS(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  OK(cudaDeviceSynchronize());
  ERROR_IS(cudaGetLastError(), cudaErrorInvalidConfiguration);
  OK(cudaGetLastError());

  // An error that the context keeps stays until the device is reset; then everything works again.
  add<<<1, 64>>>((float *)8, y, z, n);
  OK(cudaGetLastError());
  ERROR_IS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  ERROR_IS(cudaGetLastError(), cudaErrorIllegalAddress);
  ERROR_IS(cudaMalloc(&x, bytes), cudaErrorIllegalAddress);
  OK(cudaDeviceReset());
  OK(cudaGetLastError());
  OK(cudaMalloc(&x, bytes));
  OK(cudaMalloc(&y, bytes));
  OK(cudaMalloc(&z, bytes));
  OK(cudaMemcpy(x, a.data(), bytes, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(y, b.data(), bytes, cudaMemcpyHostToDevice));
  add<<<1, 64>>>(x, y, z, n);
  OK(cudaMemcpy(c.data(), z, 64 * sizeof(float), cudaMemcpyDeviceToHost));
  // The variables are those of a context that has just begun.
  CHECK(c[10] == a[10] + 2 * b[10]);
  OK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
  CHECK(count == 64);
  // Managed ones too, where the host finds them.
  OK(cudaDeviceSynchronize());
  CHECK(managed_count == 42);
  std::puts("ok");
}
