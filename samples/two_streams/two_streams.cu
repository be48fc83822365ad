// A few hundred steps of a linear congruential generator per element: long enough for a consumer that does
// not wait to read what is not there yet.
extern "C" __global__ void produce(unsigned *buffer, unsigned count, unsigned seed, unsigned steps) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  unsigned value = i ^ seed;
  for (unsigned step = 0; step < steps; step++)
    value = value * 1664525u + 1013904223u;
  buffer[i] = value;
}

extern "C" __global__ void consume(const unsigned *buffer, unsigned *sums, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    sums[i] += buffer[count - 1 - i];
}
