// Source of kernels.ptx; `nvcc -ptx -arch=compute_80`. Also compiled by the tests where nvcc is installed.
struct Mixed {
  char tag;
  double scale;
  float *target;
  int indices[3];
};
struct alignas(16) Vector {
  float x[4];
};

__device__ float table[37] = {1, 2, 3};
__device__ int counter;
__managed__ int flag = 5;
__constant__ short coefficients[9];

extern "C" __global__ void plain(const float *a, float *b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    b[i] = a[i] + table[i % 37] + coefficients[i % 9];
}

__global__ void __launch_bounds__(256) structs(char c, Mixed m, Vector v, short t) {
  __shared__ float staged[64];
  staged[threadIdx.x & 63] = v.x[t & 3];
  __syncthreads();
  m.target[m.indices[1]] = staged[c & 63] + m.scale;
  atomicAdd(&counter, 1);
  flag = 3;
}

template <typename T, int N> __global__ void generic(T *x) { x[threadIdx.x] += N; }
template __global__ void generic<double, 4>(double *);

__global__ void nothing() { counter = 3; }
