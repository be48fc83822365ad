// The other half of separate_compilation.cu.
__device__ int shared_counter = 1000;
__constant__ float weights[4];

__device__ int defined_here(int value);
static __device__ int same_name = 1001;

__device__ float weighted(const float *values) {
  float sum = 0;
  for (int k = 0; k < 4; k++)
    sum = fmaf(values[k], weights[k], sum);
  return sum;
}

static __device__ int add(int a, int b) { return a + b; }
static __device__ int multiply(int a, int b) { return a * b; }
static __device__ int through_the_first(int a, int b) { return defined_here(a - b); }

__device__ int (*operation(int which))(int, int) {
  return which == 0 ? add : which == 1 ? multiply : through_the_first;
}

__global__ void count_up(int times) {
  for (int i = 0; i < times; i++)
    atomicAdd(&shared_counter, 1);
}

static __global__ void by_own_variable(int times) { atomicAdd(&shared_counter, times * same_name); }

void launch_count_up(int times) { by_own_variable<<<1, 1>>>(times); }
