// Each block copies a tile of a matrix into shared memory through a tensor map, and adds its transpose to the
// tile's place in another matrix.
// target: compute_90, PTX 8.0
struct alignas(64) TensorMap { // CUtensorMap
  unsigned char bytes[128];
};

constexpr unsigned side = 16;

extern "C" __global__ void tensor_tile(const __grid_constant__ TensorMap map, unsigned *sums,
                                       unsigned pitch) {
  alignas(128) __shared__ unsigned tile[side][side];
  __shared__ unsigned long long arrived;
  unsigned tile_at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  unsigned arrived_at = static_cast<unsigned>(__cvta_generic_to_shared(&arrived));
  int x = blockIdx.x * side, y = blockIdx.y * side;
  bool first = threadIdx.x == 0 && threadIdx.y == 0;
  if (first)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(arrived_at) : "memory");
  __syncthreads();
  if (first) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived_at), "n"(sizeof tile)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(tile_at),
                 "l"(&map), "r"(x), "r"(y), "r"(arrived_at)
                 : "memory");
  }
  for (unsigned done = 0; done == 0;)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(arrived_at)
        : "memory");
  sums[(y + threadIdx.y) * pitch + x + threadIdx.x] += tile[threadIdx.x][threadIdx.y];
}
