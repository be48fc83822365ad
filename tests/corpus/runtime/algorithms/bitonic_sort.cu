// covers: Bitonic sort of keys with values: large strides in global memory, small ones in shared memory.
#include <algorithm>

#include "../check.cuh"

const int BLOCK = 512;

__device__ void order(unsigned &a, unsigned &b, unsigned &va, unsigned &vb, bool up) {
  if ((a > b) == up) {
    unsigned t = a;
    a = b, b = t, t = va, va = vb, vb = t;
  }
}

__global__ void global_step(unsigned *keys, unsigned *values, int size, int stride) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, i = 2 * t - (t & (stride - 1));
  order(keys[i], keys[i + stride], values[i], values[i + stride], (i & size) == 0);
}

__global__ void shared_steps(unsigned *keys, unsigned *values, int first, int last) {
  __shared__ unsigned k[BLOCK * 2], v[BLOCK * 2];
  int base = blockIdx.x * BLOCK * 2, t = threadIdx.x;
  k[t] = keys[base + t], k[t + BLOCK] = keys[base + t + BLOCK], v[t] = values[base + t],
  v[t + BLOCK] = values[base + t + BLOCK];
  for (int size = first; size <= last; size *= 2)
    for (int stride = min(size / 2, BLOCK); stride; stride /= 2) {
      __syncthreads();
      int i = 2 * t - (t & (stride - 1));
      order(k[i], k[i + stride], v[i], v[i + stride], ((base + i) & size) == 0);
    }
  __syncthreads();
  keys[base + t] = k[t], keys[base + t + BLOCK] = k[t + BLOCK], values[base + t] = v[t],
              values[base + t + BLOCK] = v[t + BLOCK];
}

int main() {
  const int count = 1 << 14;
  auto keys = random_values<unsigned>(count);
  std::vector<unsigned> values(count);
  for (int i = 0; i < count; i++)
    keys[i] = keys[i] << 14 | i, values[i] = i;
  Buffer<unsigned> k(keys), v(values);
  shared_steps<<<count / BLOCK / 2, BLOCK>>>(k, v, 2, BLOCK * 2);
  for (int size = BLOCK * 4; size <= count; size *= 2) {
    for (int stride = size / 2; stride > BLOCK; stride /= 2)
      global_step<<<count / BLOCK / 2, BLOCK>>>(k, v, size, stride);
    shared_steps<<<count / BLOCK / 2, BLOCK>>>(k, v, size, size);
  }
  std::sort(values.begin(), values.end(), [&](unsigned a, unsigned b) { return keys[a] < keys[b]; });
  std::sort(keys.begin(), keys.end());
  equal("keys", k.host(), keys), equal("values", v.host(), values);
  return ok();
}
