// Kernels of which one launch goes wrong because of what is in memory.

extern "C" __global__ void fill(float *values, unsigned count, float value) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] = value;
}

// Of zeros it makes NaN.
extern "C" __global__ void normalise(const float *values, float *shares, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    shares[i] = values[i] / values[0];
}

// Takes as long as rounds[0] says.
extern "C" __global__ void work(float *values, unsigned count, const unsigned *rounds) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    for (unsigned round = 0; round < rounds[0]; round++)
      values[i] = values[i] * 0.5f + 1.0f;
}

// Writes out of bounds where an index is wrong.
extern "C" __global__ void scatter(float *values, const unsigned long long *places, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[places[i]] = 1.0f;
}

// Waits until the flag is set, which the host has done before all launches but one.
extern "C" __global__ void wait(unsigned *flag, float *values) {
  while (atomicAdd(flag, 0u) == 0u) {
  }
  values[threadIdx.x] += 1.0f;
}
