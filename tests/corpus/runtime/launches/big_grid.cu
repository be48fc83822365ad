// covers: Large grids of tiny blocks: more than 65535 in x, and indices of grids in three dimensions.
#include "../check.cuh"

__global__ void count_blocks(unsigned *count, unsigned long long *sum) {
  if (blockIdx.x % 64 == 0) {
    atomicAdd(count, 1u);
    atomicAdd(sum, (unsigned long long)blockIdx.x);
  }
}

__global__ void mark(unsigned *marks) {
  unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
           z = blockIdx.z * blockDim.z + threadIdx.z;
  unsigned width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
  marks[(z * height + y) * width + x] += x | y << 8 | z << 16;
}

int main() {
  const unsigned blocks = 100000;
  Buffer<unsigned> count(1);
  Buffer<unsigned long long> sum(1);
  count.fill(0);
  sum.fill(0);
  count_blocks<<<blocks, 1>>>(count, sum);
  unsigned long long expected_sum = 0;
  unsigned expected_count = 0;
  for (unsigned i = 0; i < blocks; i += 64) {
    expected_sum += i;
    expected_count++;
  }
  REQUIRE(count.host()[0] == expected_count);
  REQUIRE(sum.host()[0] == expected_sum);

  const dim3 grid(9, 7, 11), block(4, 3, 2);
  const unsigned width = grid.x * block.x, height = grid.y * block.y, depth = grid.z * block.z;
  Buffer<unsigned> marks(width * height * depth);
  marks.fill(0);
  mark<<<grid, block>>>(marks);
  std::vector<unsigned> expected;
  for (unsigned z = 0; z < depth; z++)
    for (unsigned y = 0; y < height; y++)
      for (unsigned x = 0; x < width; x++)
        expected.push_back(x | y << 8 | z << 16);
  equal("marks", marks.host(), expected);
  return ok();
}
