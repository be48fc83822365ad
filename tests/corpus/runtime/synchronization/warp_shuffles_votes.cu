// covers: every warp shuffle with widths, votes, matches, reductions and the mask of active threads.
// architecture: 80
#include <algorithm>

#include "../check.cuh"

const unsigned ALL = 0xffffffff;

template <class T> __global__ void shuffle(const T *in, T *out) {
  int lane = threadIdx.x;
  T value = in[lane];
  out[0 * 32 + lane] = __shfl_sync(ALL, value, (lane * 7 + 3) & 31);
  out[1 * 32 + lane] = __shfl_sync(ALL, value, lane + 5, 8);
  out[2 * 32 + lane] = __shfl_up_sync(ALL, value, 3);
  out[3 * 32 + lane] = __shfl_up_sync(ALL, value, 2, 16);
  out[4 * 32 + lane] = __shfl_down_sync(ALL, value, 6);
  out[5 * 32 + lane] = __shfl_down_sync(ALL, value, 1, 4);
  out[6 * 32 + lane] = __shfl_xor_sync(ALL, value, 21);
  out[7 * 32 + lane] = __shfl_xor_sync(ALL, value, 9, 8);
}

// Lane that lane `i` reads in shuffle `kind`; out of its segment: its own.
static int source(int kind, int i) {
  switch (kind) {
  case 0:
    return (i * 7 + 3) & 31;
  case 1:
    return i / 8 * 8 + (i + 5) % 8;
  case 2:
    return i >= 3 ? i - 3 : i;
  case 3:
    return i % 16 >= 2 ? i - 2 : i;
  case 4:
    return i + 6 < 32 ? i + 6 : i;
  case 5:
    return i % 4 + 1 < 4 ? i + 1 : i;
  case 6:
    return i ^ 21;
  // A lane of a later segment is not read, one of an earlier segment is.
  default:
    return (i ^ 9) <= (i | 7) ? i ^ 9 : i;
  }
}

template <class T> void check_shuffles() {
  auto values = random_values<T>(32);
  Buffer<T> in(values), out(8 * 32);
  shuffle<<<1, 32>>>(in.data, out.data);
  std::vector<T> expected(8 * 32);
  for (int kind = 0; kind < 8; kind++)
    for (int i = 0; i < 32; i++)
      expected[kind * 32 + i] = values[source(kind, i)];
  equal("shuffle", out.host(), expected);
}

__global__ void vote(const int *in, unsigned *out) {
  int lane = threadIdx.x, value = in[lane];
  unsigned *mine = out + 16 * lane;
  mine[0] = __ballot_sync(ALL, value & 1);
  mine[1] = __any_sync(ALL, value == in[9]);
  mine[2] = __all_sync(ALL, value > -10);
  mine[3] = __all_sync(ALL, value > 0);
  mine[4] = __match_any_sync(ALL, value % 5);
  int same;
  mine[5] = __match_all_sync(ALL, value / 100000, &same);
  mine[6] = same;
  mine[7] = __match_all_sync(ALL, value, &same);
  mine[8] = same;
  mine[9] = __reduce_add_sync(ALL, value);
  mine[10] = __reduce_min_sync(ALL, (unsigned)value);
  mine[11] = __reduce_max_sync(ALL, -value);
  mine[12] = __reduce_and_sync(ALL, (unsigned)value | 4);
  mine[13] = __reduce_or_sync(ALL, (unsigned)value);
  mine[14] = __reduce_xor_sync(ALL, (unsigned)value);
  mine[15] = 0;
  if (lane % 3 == 0) { // a part of the warp, which names itself
    unsigned part = __activemask();
    mine[15] = __reduce_add_sync(part, value) ^ __ballot_sync(part, value & 1) ^ part;
  }
}

__device__ __noinline__ unsigned of_tile(unsigned tile, unsigned value) {
  unsigned sum = value;
  sum += __shfl_xor_sync(tile, sum, 1);
  sum += __shfl_xor_sync(tile, sum, 2);
  return sum + 100000 * __popc(__ballot_sync(tile, value & 1));
}

// Tiles of four: lanes that run together name different lanes, and some wait for lanes that come later.
__global__ void tiles(const int *in, unsigned *out) {
  int lane = threadIdx.x;
  unsigned tile = 15u << (lane & ~3), result;
  if (lane % 8 < 6)
    result = of_tile(tile, in[lane]);
  else
    result = of_tile(tile, in[lane] + 1);
  out[lane] = result;
}

int main() {
  check_shuffles<int>(), check_shuffles<unsigned>(), check_shuffles<float>();
  check_shuffles<double>(), check_shuffles<long long>();

  auto values = random_values<int>(32);
  unsigned odd = 0, sum = 0, low = ~0u, highest = 0x80000000, every = ~0u, some = 0, either = 0, part = 0;
  unsigned part_sum = 0, part_odd = 0;
  for (int i = 0; i < 32; i++) {
    values[i] = abs(values[i] % 1000);
    unsigned v = values[i];
    odd |= (v & 1) << i, sum += v, low = std::min(low, v), every &= v | 4, some |= v, either ^= v;
    highest = std::max((int)highest, -values[i]);
    if (i % 3 == 0)
      part |= 1u << i, part_sum += v, part_odd |= (v & 1) << i;
  }
  std::vector<unsigned> expected;
  for (int i = 0; i < 32; i++) {
    unsigned like = 0;
    for (int k = 0; k < 32; k++)
      like |= unsigned(values[k] % 5 == values[i] % 5) << k;
    for (unsigned word : {odd, 1u, 1u, unsigned(low > 0), like, ALL, 1u, 0u, 0u, sum, low, highest, every,
                          some, either, i % 3 == 0 ? part_sum ^ part_odd ^ part : 0u})
      expected.push_back(word);
  }
  Buffer<int> in(values);
  Buffer<unsigned> out(16 * 32);
  vote<<<1, 32>>>(in, out);
  equal("vote", out.host(), expected);

  Buffer<unsigned> sums(32);
  tiles<<<1, 32>>>(in, sums);
  std::vector<unsigned> expected_sums(32);
  for (int i = 0; i < 32; i++)
    for (int k = i & ~3; k < (i | 3) + 1; k++) {
      unsigned v = values[k] + (k % 8 >= 6);
      expected_sums[i] += v + 100000 * (v & 1);
    }
  equal("tiles", sums.host(), expected_sums);
  return ok();
}
