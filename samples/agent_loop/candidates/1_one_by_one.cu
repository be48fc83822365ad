#define THREADS 256

// Each thread adds up all numbers before its own.
extern "C" __global__ void inplace_scan(unsigned *values, unsigned count) {
  __shared__ unsigned numbers[THREADS];
  unsigned i = blockIdx.x * THREADS + threadIdx.x, sum = 0;
  numbers[threadIdx.x] = i < count ? values[i] : 0;
  __syncthreads();
  for (unsigned other = 0; other <= threadIdx.x; other++)
    sum += numbers[other];
  if (i < count)
    values[i] = sum;
}
