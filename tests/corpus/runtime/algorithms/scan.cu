// covers: Exclusive prefix sum in three launches: blocks (work-efficient, in shared memory), the blocks'
// sums, adding them.
#include "../check.cuh"

const int WIDTH = 512;

__global__ void scan_blocks(const unsigned *in, unsigned *out, unsigned *sums, int count) {
  __shared__ unsigned tree[WIDTH];
  int i = blockIdx.x * WIDTH + threadIdx.x;
  tree[threadIdx.x] = i < count ? in[i] : 0;
  for (int step = 1; step < WIDTH; step *= 2) {
    __syncthreads();
    int at = (threadIdx.x + 1) * step * 2 - 1;
    if (at < WIDTH)
      tree[at] += tree[at - step];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    if (sums)
      sums[blockIdx.x] = tree[WIDTH - 1];
    tree[WIDTH - 1] = 0;
  }
  for (int step = WIDTH / 2; step; step /= 2) {
    __syncthreads();
    int at = (threadIdx.x + 1) * step * 2 - 1;
    if (at < WIDTH) {
      unsigned left = tree[at - step];
      tree[at - step] = tree[at];
      tree[at] += left;
    }
  }
  __syncthreads();
  if (i < count)
    out[i] = tree[threadIdx.x];
}

__global__ void add(unsigned *out, const unsigned *sums, int count) {
  int i = blockIdx.x * WIDTH + threadIdx.x;
  if (i < count)
    out[i] += sums[blockIdx.x];
}

int main() {
  const int count = 70001, blocks = (count + WIDTH - 1) / WIDTH;
  auto values = random_values<unsigned>(count);
  Buffer<unsigned> in(values), out(count), sums(blocks);
  scan_blocks<<<blocks, WIDTH>>>(in, out, sums, count);
  scan_blocks<<<1, WIDTH>>>(sums, sums, nullptr, blocks);
  add<<<blocks, WIDTH>>>(out, sums, count);
  std::vector<unsigned> expected(count);
  for (int i = 1; i < count; i++)
    expected[i] = expected[i - 1] + values[i - 1];
  equal("scan", out.host(), expected);
  return ok();
}
