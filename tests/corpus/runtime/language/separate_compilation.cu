// covers: two sources linked by -rdc=true: device functions, variables and kernels of one used by the other.
// options: -rdc=true
// also: separate_part.cu
#include "../check.cuh"

extern __device__ int shared_counter;
extern __constant__ float weights[4];
__device__ float weighted(const float *values);
__device__ int (*operation(int which))(int, int);
__global__ void count_up(int times);
void launch_count_up(int times); // a host function of the other source, which launches its own kernel

__device__ int defined_here(int value) { return value * 2 + 1; }
static __device__ int same_name = 7; // another variable than that of the other source

__global__ void use(const float *in, float *out, int *numbers, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  out[i] = weighted(in + 4 * i) + weights[i % 4];
  numbers[i] = operation(i % 3)(i, same_name);
}

int main() {
  const int count = 100;
  auto values = random_values<float>(4 * count);
  const float w[4] = {0.5f, 2, -1, 0.25f};
  CHECK(cudaMemcpyToSymbol(weights, w, sizeof(w)));
  Buffer<float> in(values), out(count);
  Buffer<int> numbers(count);
  use<<<2, 64>>>(in, out, numbers, count);
  std::vector<float> sums(count);
  std::vector<int> expected(count);
  for (int i = 0; i < count; i++) {
    float sum = 0;
    for (int k = 0; k < 4; k++)
      sum = std::fma(values[4 * i + k], w[k], sum);
    sums[i] = sum + w[i % 4];
    expected[i] = i % 3 == 0 ? i + 7 : i % 3 == 1 ? i * 7 : (i - 7) * 2 + 1;
  }
  equal("weighted", out.host(), sums);
  equal("numbers", numbers.host(), expected);

  count_up<<<2, 32>>>(3);
  launch_count_up(5);
  int counted = 0;
  CHECK(cudaMemcpyFromSymbol(&counted, shared_counter, sizeof(counted)));
  REQUIRE(counted == 1000 + 64 * 3 + 5 * 1001);
  return ok();
}
