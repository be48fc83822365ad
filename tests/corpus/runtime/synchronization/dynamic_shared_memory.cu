// covers: extern shared memory, carved into arrays; more than 48 KiB after cudaFuncSetAttribute.
#include "../check.cuh"

// Two arrays in one: doubles first, 16-bit counts after them.
__global__ void carved(const double *in, double *sums, unsigned short *out, int count) {
  extern __shared__ double values[];
  unsigned short *ranks = (unsigned short *)(values + count);
  int i = threadIdx.x;
  values[i] = in[blockIdx.x * count + i];
  __syncthreads();
  unsigned short rank = 0;
  for (int k = 0; k < count; k++)
    rank += values[k] < values[i] || (values[k] == values[i] && k < i);
  ranks[rank] = i;
  __syncthreads();
  sums[blockIdx.x * count + i] = values[ranks[i]];
  out[blockIdx.x * count + i] = ranks[i];
}

extern __shared__ int words[];

// Turns an array round that needs `count` words at once.
__global__ void turn_round(const int *in, int *out, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    words[i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    out[i] = words[count - 1 - i];
  if (threadIdx.x == 0) {
    unsigned bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    out[count] = bytes;
  }
}

int main() {
  const int blocks = 3, count = 100;
  auto values = random_values<double>(blocks * count);
  Buffer<double> in(values), sums(values.size());
  Buffer<unsigned short> ranks(values.size());
  carved<<<blocks, count, count * (sizeof(double) + sizeof(short))>>>(in, sums, ranks, count);
  auto sorted = sums.host();
  auto order = ranks.host();
  for (int i = 0; i < blocks * count; i++) {
    REQUIRE(i % count == 0 || sorted[i - 1] <= sorted[i]);
    REQUIRE(order[i] < count && values[i / count * count + order[i]] == sorted[i]);
  }

  int usual = 0, most = 0;
  CHECK(cudaDeviceGetAttribute(&usual, cudaDevAttrMaxSharedMemoryPerBlock, 0));
  CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  REQUIRE(usual == 48 << 10 && most > usual);
  for (int bytes : {usual, most}) {
    int words = bytes / 4;
    auto input = random_values<int>(words);
    Buffer<int> from(input), to(words + 1);
    if (bytes > usual) {
      turn_round<<<1, 256, bytes>>>(from, to, words);
      EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
      CHECK(cudaFuncSetAttribute(turn_round, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
      cudaFuncAttributes attributes;
      CHECK(cudaFuncGetAttributes(&attributes, turn_round));
      REQUIRE(attributes.maxDynamicSharedSizeBytes == bytes && attributes.sharedSizeBytes == 0);
    }
    turn_round<<<1, 256, bytes>>>(from, to, words);
    CHECK(cudaGetLastError());
    std::vector<int> expected(input.rbegin(), input.rend());
    expected.push_back(bytes);
    equal("turn round", to.host(), expected);
  }
  EXPECT(cudaFuncSetAttribute(turn_round, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
         cudaErrorInvalidValue);
  cudaGetLastError();
  return ok();
}
