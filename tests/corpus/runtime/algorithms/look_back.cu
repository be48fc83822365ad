// covers: Prefix sum in one launch by decoupled look-back: blocks wait on the flags of the blocks before
// them.
#include "../check.cuh"

const int BLOCK = 128;
enum { NOTHING, SUM, PREFIX };

__global__ void scan(const unsigned *in, unsigned *out, volatile unsigned *sums, volatile unsigned *prefixes,
                     volatile int *flags, unsigned *tickets) {
  __shared__ unsigned values[BLOCK], before;
  __shared__ unsigned block;
  if (threadIdx.x == 0)
    block = atomicAdd(tickets, 1); // blocks number themselves in the order in which they start
  __syncthreads();
  int i = block * BLOCK + threadIdx.x;
  values[threadIdx.x] = in[i];
  for (int step = 1; step < BLOCK; step *= 2) {
    __syncthreads();
    unsigned left = threadIdx.x >= step ? values[threadIdx.x - step] : 0;
    __syncthreads();
    values[threadIdx.x] += left;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned sum = values[BLOCK - 1], total = 0;
    sums[block] = sum;
    __threadfence();
    flags[block] = SUM;
    for (int look = (int)block - 1; look >= 0; look--) {
      int flag;
      while ((flag = flags[look]) == NOTHING) {
      }
      __threadfence();
      total += flag == PREFIX ? prefixes[look] : sums[look];
      if (flag == PREFIX)
        break;
    }
    prefixes[block] = total + sum;
    __threadfence();
    flags[block] = PREFIX;
    before = total;
  }
  __syncthreads();
  out[i] = values[threadIdx.x] + before;
}

int main() {
  const int blocks = 200, count = blocks * BLOCK;
  auto values = random_values<unsigned>(count);
  Buffer<unsigned> in(values), out(count), sums(blocks), prefixes(blocks), tickets(1);
  Buffer<int> flags(blocks);
  flags.fill(0), tickets.fill(0);
  scan<<<blocks, BLOCK>>>(in, out, sums, prefixes, flags, tickets);
  for (int i = 1; i < count; i++)
    values[i] += values[i - 1];
  equal("scan", out.host(), values);
  return ok();
}
