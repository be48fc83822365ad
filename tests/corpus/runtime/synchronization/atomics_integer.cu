// covers: Every integer atomic on global and shared memory, in 32 and 64 bits; what each returns is checked
// where that is defined.
#include "../check.cuh"

struct Results {
  int add, sub, least, most;
  unsigned all, any, odd, up, down, exchanged, swapped, most_unsigned;
  unsigned long long add_wide, most_wide, any_wide, swapped_wide;
  long long least_wide;
};

__global__ void run(Results *r, unsigned *tickets, int *of_blocks, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  int v = (i * 7919) % 10007 - 5000;
  atomicAdd(&r->add, v), atomicSub(&r->sub, v);
  atomicMin(&r->least, v), atomicMax(&r->most, v), atomicMax(&r->most_unsigned, (unsigned)v);
  atomicAnd(&r->all, ~(1u << (i % 13))), atomicOr(&r->any, 1u << (i % 29)), atomicXor(&r->odd, (unsigned)i);
  tickets[i] = atomicInc(&r->up, 99);
  atomicDec(&r->down, 76);
  atomicExch(&r->exchanged, 5u);
  for (unsigned seen = r->swapped, old;; seen = old)
    if ((old = atomicCAS(&r->swapped, seen, seen * 3 + 1)) == seen)
      break;
  atomicAdd(&r->add_wide, 0x100000000ull + i), atomicMax(&r->most_wide, (unsigned long long)i << 33);
  atomicMin(&r->least_wide, -(long long)i * 0x200000000ll), atomicOr(&r->any_wide, 1ull << (i % 61));
  atomicCAS(&r->swapped_wide, (unsigned long long)i, (unsigned long long)i + 1);
  atomicAdd_system(&r->add, 1), atomicAdd_block(&of_blocks[blockIdx.x], 1);
}

__global__ void shared(int *out) {
  __shared__ int sum, most;
  __shared__ unsigned long long wide;
  if (threadIdx.x == 0)
    sum = 0, most = -1, wide = 0;
  __syncthreads();
  atomicAdd(&sum, (int)threadIdx.x), atomicMax(&most, (int)(threadIdx.x * 37 % 101)),
      atomicXor(&wide, 1ull << threadIdx.x % 64);
  __syncthreads();
  if (threadIdx.x == 0)
    out[blockIdx.x] = sum + most + (int)(wide >> 32 != 0);
}

int main() {
  const int count = 5000;
  Results r = {};
  r.all = ~0u, r.down = 1000, r.least = 1 << 30, r.most = -(1 << 30), r.swapped = 1;
  Results e = r;
  Buffer<Results> device(std::vector<Results>{r});
  const int blocks = (count + 127) / 128;
  Buffer<unsigned> tickets(count);
  Buffer<int> of_blocks(std::vector<int>(blocks, 0));
  run<<<blocks, 128>>>(device, tickets, of_blocks, count);
  Results got = device.host()[0];
  for (int i = 0; i < count; i++) {
    int v = (i * 7919) % 10007 - 5000;
    e.add += v + 1, e.sub -= v;
    e.least = std::min(e.least, v), e.most = std::max(e.most, v),
    e.most_unsigned = std::max(e.most_unsigned, (unsigned)v);
    e.all &= ~(1u << (i % 13)), e.any |= 1u << (i % 29), e.odd ^= (unsigned)i;
    e.up = e.up >= 99 ? 0 : e.up + 1;
    e.down = e.down == 0 || e.down > 76 ? 76 : e.down - 1;
    e.swapped = e.swapped * 3 + 1;
    e.add_wide += 0x100000000ull + i, e.most_wide = std::max(e.most_wide, (unsigned long long)i << 33);
    e.least_wide = std::min(e.least_wide, -(long long)i * 0x200000000ll), e.any_wide |= 1ull << (i % 61);
  }
  e.exchanged = 5;
  REQUIRE(got.swapped_wide >= 1 && got.swapped_wide <= (unsigned)count); // depends on the order of threads
  e.swapped_wide = got.swapped_wide;
  equal("results", &got, &e, 1);
  std::vector<int> counted(blocks, 128);
  counted.back() = count - 128 * (blocks - 1);
  equal("of_blocks", of_blocks.host(), counted);
  std::vector<int> seen(100);
  for (unsigned ticket : tickets.host())
    seen.at(ticket)++;
  equal("tickets", seen, std::vector<int>(100, count / 100));

  Buffer<int> out(4);
  shared<<<4, 96>>>(out);
  int most = 0;
  for (int i = 0; i < 96; i++)
    most = std::max(most, i * 37 % 101);
  equal("shared", out.host(), std::vector<int>(4, 95 * 96 / 2 + most + 1));
  return ok();
}
