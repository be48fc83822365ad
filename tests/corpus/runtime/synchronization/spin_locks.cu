// covers: locks that threads spin on, in a warp and between blocks; tickets; a flag between blocks.
#include "../check.cuh"

__device__ int lock_word, next_ticket, now_served;

// Every thread of every warp takes the same lock: lanes that wait must let the holder go on.
__global__ void by_exchange(volatile int *account, int times) {
  for (int k = 0; k < times; k++) {
    bool done = false;
    while (!done)
      if (atomicCAS(&lock_word, 0, 1) == 0) {
        __threadfence();
        int value = account[0];
        account[1] = account[1] ^ value * 31;
        account[0] = value + 1;
        __threadfence();
        atomicExch(&lock_word, 0);
        done = true;
      }
  }
}

// The plain form, which needs independent scheduling of a warp's threads.
__global__ void plain(volatile int *account) {
  while (atomicCAS(&lock_word, 0, 1) != 0)
    __nanosleep(20);
  __threadfence();
  account[0] = account[0] + 1;
  __threadfence();
  atomicExch(&lock_word, 0);
}

// First come, first served, one thread of each block.
__global__ void by_ticket(volatile int *order) {
  if (threadIdx.x != 0)
    return;
  int ticket = atomicAdd(&next_ticket, 1);
  while (atomicAdd(&now_served, 0) != ticket)
    ;
  __threadfence();
  order[ticket] = order[ticket] + ticket + 1;
  __threadfence();
  atomicAdd(&now_served, 1);
}

// Block 1 writes, block 0 waits for its flag.
__global__ void message(volatile int *data, volatile int *flag, int *got) {
  if (blockIdx.x == 1) {
    data[threadIdx.x] = threadIdx.x * 7 + 1;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
      *flag = 1;
  } else {
    while (*flag == 0)
      ;
    __threadfence();
    got[threadIdx.x] = data[threadIdx.x];
  }
}

int main() {
  const int blocks = 3, threads = 64, times = 4;
  Buffer<int> account(2), order(blocks), data(threads), flag(1), got(threads);
  account.fill(0), order.fill(0), flag.fill(0);
  by_exchange<<<blocks, threads>>>(account, times);
  int mixed = 0;
  for (int k = 0; k < blocks * threads * times; k++)
    mixed ^= k * 31;
  equal("account", account.host(), {blocks * threads * times, mixed});
  plain<<<2, 48>>>(account);
  REQUIRE(account.host()[0] == blocks * threads * times + 2 * 48);

  by_ticket<<<blocks, 32>>>(order);
  equal("order", order.host(), {1, 2, 3});

  message<<<2, threads>>>(data, flag, got);
  std::vector<int> expected;
  for (int i = 0; i < threads; i++)
    expected.push_back(i * 7 + 1);
  equal("message", got.host(), expected);
  return ok();
}
