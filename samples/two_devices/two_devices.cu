// One step of a sequence for each value.
extern "C" __global__ void advance(unsigned *values, unsigned count, unsigned salt) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    values[i] = (values[i] ^ salt) * 1664525u + i;
}
