// covers: A 7-point stencil in three dimensions with coefficients in constant memory; planes pass through
// shared memory and registers.
#include "../check.cuh"

__constant__ float weights[4];
const int NX = 48, NY = 20, NZ = 12;

__global__ void step(const float *in, float *out) {
  __shared__ float plane[10][18];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, at = y * NX + x;
  bool inside = x > 0 && x < NX - 1 && y > 0 && y < NY - 1;
  bool there = x < NX && y < NY;
  float below = 0, here = there ? in[at] : 0, above = there ? in[at + NX * NY] : 0;
  for (int z = 1; z < NZ - 1; z++) {
    below = here, here = above, above = there ? in[at + (z + 1) * NX * NY] : 0;
    __syncthreads();
    plane[threadIdx.y + 1][threadIdx.x + 1] = here;
    if (threadIdx.x == 0 && x > 0 && there)
      plane[threadIdx.y + 1][0] = in[at - 1 + z * NX * NY];
    if (threadIdx.x == 15 && x < NX - 1 && there)
      plane[threadIdx.y + 1][17] = in[at + 1 + z * NX * NY];
    if (threadIdx.y == 0 && y > 0 && there)
      plane[0][threadIdx.x + 1] = in[at - NX + z * NX * NY];
    if (threadIdx.y == 7 && y < NY - 1 && there)
      plane[9][threadIdx.x + 1] = in[at + NX + z * NX * NY];
    __syncthreads();
    if (inside) {
      float (*p)[18] = &plane[threadIdx.y + 1];
      float flat = p[0][threadIdx.x] + p[0][threadIdx.x + 2];
      float tall = p[-1][threadIdx.x + 1] + p[1][threadIdx.x + 1];
      out[at + z * NX * NY] = fmaf(
          weights[0], here, fmaf(weights[1], flat, fmaf(weights[2], tall, weights[3] * (below + above))));
    }
  }
}

int main() {
  std::vector<float> w = {0.4f, 0.1f, 0.12f, 0.08f}, a = random_values<float>(NX * NY * NZ), b = a;
  CHECK(cudaMemcpyToSymbol(weights, w.data(), 16));
  Buffer<float> p(a), q(a);
  for (int round = 0; round < 4; round++) {
    step<<<dim3(NX / 16, (NY + 7) / 8), dim3(16, 8)>>>(round % 2 ? q : p, round % 2 ? p : q);
    for (int z = 1; z < NZ - 1; z++)
      for (int y = 1; y < NY - 1; y++)
        for (int x = 1; x < NX - 1; x++) {
          const float *v = &a[(z * NY + y) * NX + x];
          b[(z * NY + y) * NX + x] =
              std::fma(w[0], v[0],
                       std::fma(w[1], v[-1] + v[1],
                                std::fma(w[2], v[-NX] + v[NX], w[3] * (v[-NX * NY] + v[NX * NY]))));
        }
    std::swap(a, b);
  }
  equal("stencil", p.host(), a);
  return ok();
}
