// covers: one program as PTX of each architecture: __CUDA_ARCH__, what it chooses, attributes reported.
// architecture: 75 80 86 90 100 120
// environment: REPLAY_EMULATOR_COMPUTE_CAPABILITY=12.0
#include "../check.cuh"

__global__ void compiled_for(int *architecture) {
#ifdef __CUDA_ARCH__
  *architecture = __CUDA_ARCH__;
#endif
}

// The newest way the target has; the results are the same.
__global__ void warp_sums(const int *in, int *sums) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, sum = in[i];
#if __CUDA_ARCH__ >= 800
  sum = __reduce_add_sync(0xffffffff, sum);
#else
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffff, sum, distance);
#endif
  if (threadIdx.x % 32 == 0)
    sums[i / 32] = sum;
}

// Shared memory, 64-bit products, double and single precision, and calls of the mathematical functions.
__global__ void mixed(const int *in, unsigned long long *products, double *roots, float *logarithms) {
  __shared__ int reversed[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  reversed[blockDim.x - 1 - threadIdx.x] = in[i];
  __syncthreads();
  int other = reversed[threadIdx.x];
  products[i] = (unsigned long long)(unsigned)in[i] * (unsigned)other / (threadIdx.x + 1u);
  roots[i] = sqrt((double)(unsigned)in[i]) / 3;
  logarithms[i] = log2f((float)(1u << i % 32));
}

int main() {
  const int count = 256;
  auto values = random_values<int>(count);
  Buffer<int> in(values), sums(count / 32), architecture(1);
  Buffer<unsigned long long> products(count);
  Buffer<double> roots(count);
  Buffer<float> logarithms(count);
  compiled_for<<<1, 1>>>(architecture);
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, compiled_for));
  REQUIRE(architecture.host()[0] == attributes.ptxVersion * 10);
  int major = 0, minor = 0;
  CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  REQUIRE(attributes.binaryVersion == major * 10 + minor);

  warp_sums<<<4, 64>>>(in, sums);
  mixed<<<4, 64>>>(in, products, roots, logarithms);
  std::vector<int> expected(count / 32);
  std::vector<unsigned long long> expected_products;
  std::vector<double> expected_roots;
  std::vector<float> expected_logarithms;
  for (int i = 0; i < count; i++) {
    unsigned value = values[i], other = values[i / 64 * 64 + 63 - i % 64];
    expected[i / 32] = int(unsigned(expected[i / 32]) + value);
    expected_products.push_back((unsigned long long)value * other / (i % 64 + 1u));
    expected_roots.push_back(std::sqrt((double)value) / 3);
    expected_logarithms.push_back(i % 32);
  }
  equal("sums", sums.host(), expected);
  equal("products", products.host(), expected_products);
  equal("roots", roots.host(), expected_roots);
  equal("logarithms", logarithms.host(), expected_logarithms);
  return ok();
}
