// Adds one to each number. With a wrong address it faults, which is what one of the ways to end asks for.
extern "C" __global__ void count_up(unsigned *values, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] += 1;
}
