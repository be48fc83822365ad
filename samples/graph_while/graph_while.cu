// The number of steps of the Collatz sequence, one step for each round of a loop that a graph makes: a kernel
// decides whether there is another one.
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);

extern "C" __global__ void collatz(unsigned *values, unsigned *steps, unsigned count, unsigned *left) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count || values[i] <= 1)
    return;
  values[i] = values[i] % 2 ? 3 * values[i] + 1 : values[i] / 2;
  steps[i]++;
  atomicOr(left, values[i] > 1);
}

extern "C" __global__ void decide(unsigned long long handle, unsigned *left, unsigned *rounds) {
  *rounds += 1;
  cudaGraphSetConditional(handle, *left);
}
