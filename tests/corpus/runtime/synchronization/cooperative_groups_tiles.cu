// covers: cooperative_groups.h: tiles of several sizes: shuffles, votes, reductions, scans; coalesced groups.
// architecture: 80
#include <algorithm>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "../check.cuh"

namespace cg = cooperative_groups;

// Sums of tiles of `Size` threads by hand and by cg::reduce; ranks, running sums and a vote.
template <int Size>
__global__ void tiles(const int *in, int *by_hand, int *reduced, int *scanned, unsigned *votes) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<Size> tile = cg::tiled_partition<Size>(block);
  int i = blockIdx.x * blockDim.x + block.thread_rank();
  int sum = in[i];
  for (int distance = tile.size() / 2; distance > 0; distance /= 2)
    sum += tile.shfl_down(sum, distance);
  by_hand[i] = tile.shfl(sum, 0);
  reduced[i] = cg::reduce(tile, in[i], cg::plus<int>());
  scanned[i] = cg::inclusive_scan(tile, in[i]);
  votes[i] = tile.ballot(in[i] > 0) | (tile.meta_group_rank() << Size % 32);
}

// Threads that take the branch find each other: ranks among them, and one atomic for all of them.
__global__ void coalesced(const int *in, int *kept, int *count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (in[i] <= 0)
    return;
  cg::coalesced_group active = cg::coalesced_threads();
  int base = 0;
  if (active.thread_rank() == 0)
    base = atomicAdd(count, active.size());
  kept[active.shfl(base, 0) + active.thread_rank()] = in[i];
}

// Tiles of a partition by value: how many threads of the warp hold this thread's value.
__global__ void labelled(const int *in, int *sizes) {
  cg::coalesced_group active = cg::coalesced_threads();
  cg::coalesced_group same = cg::labeled_partition(active, in[threadIdx.x] & 3);
  sizes[threadIdx.x] = same.size();
}

template <int Size> void check(const std::vector<int> &values) {
  size_t count = values.size();
  Buffer<int> in(values), by_hand(count), reduced(count), scanned(count);
  Buffer<unsigned> votes(count);
  tiles<Size><<<count / 128, 128>>>(in, by_hand, reduced, scanned, votes);
  std::vector<int> sums(count), running(count);
  std::vector<unsigned> ballots(count);
  for (size_t first = 0; first < count; first += Size) {
    int sum = 0;
    unsigned ballot = 0;
    for (int k = 0; k < Size; k++) {
      running[first + k] = sum += values[first + k];
      ballot |= unsigned(values[first + k] > 0) << k;
    }
    for (int k = 0; k < Size; k++) {
      sums[first + k] = sum;
      ballots[first + k] = ballot | unsigned(first % 128 / Size) << Size % 32;
    }
  }
  equal("by hand", by_hand.host(), sums);
  equal("reduced", reduced.host(), sums);
  equal("scanned", scanned.host(), running);
  equal("votes", votes.host(), ballots);
}

int main() {
  auto values = random_values<int>(1024);
  for (int &value : values)
    value %= 1000;
  check<4>(values), check<8>(values), check<16>(values), check<32>(values);

  Buffer<int> in(values), kept(values.size()), count(1), sizes(32);
  count.fill(0);
  coalesced<<<8, 128>>>(in, kept, count);
  std::vector<int> positive, found = kept.host();
  for (int value : values)
    if (value > 0)
      positive.push_back(value);
  REQUIRE(count.host()[0] == (int)positive.size());
  found.resize(positive.size());
  std::sort(positive.begin(), positive.end()), std::sort(found.begin(), found.end());
  equal("kept", found, positive);

  labelled<<<1, 32>>>(in, sizes);
  std::vector<int> expected(32);
  for (int i = 0; i < 32; i++)
    for (int k = 0; k < 32; k++)
      expected[i] += (values[i] & 3) == (values[k] & 3);
  equal("labelled", sizes.host(), expected);
  return ok();
}
