// covers: Gravitation of all on all, tiles of bodies in shared memory, three steps of leap frog.
#include "../check.cuh"

__global__ void step(const float4 *in, float4 *out, float4 *velocity, int count, float dt) {
  extern __shared__ float4 tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 me = i < count ? in[i] : make_float4(0, 0, 0, 0);
  float ax = 0, ay = 0, az = 0;
  for (int start = 0; start < count; start += blockDim.x) {
    tile[threadIdx.x] = start + threadIdx.x < count ? in[start + threadIdx.x] : make_float4(0, 0, 0, 0);
    __syncthreads();
    for (int k = 0; k < blockDim.x; k++) {
      float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-2f),
            pull = tile[k].w * inverse * inverse * inverse;
      ax += dx * pull, ay += dy * pull, az += dz * pull;
    }
    __syncthreads();
  }
  if (i >= count)
    return;
  float4 v = velocity[i];
  v.x += ax * dt, v.y += ay * dt, v.z += az * dt;
  velocity[i] = v;
  out[i] = make_float4(me.x + v.x * dt, me.y + v.y * dt, me.z + v.z * dt, me.w);
}

int main() {
  const int count = 300;
  const double dt = 0.01;
  auto values = random_values<float>(4 * count);
  for (int i = 0; i < count; i++)
    values[4 * i + 3] = 1.0f / count;
  std::vector<double> x(values.begin(), values.end()), v(4 * count);
  Buffer<float> a(values), b(4 * count), velocity(4 * count);
  velocity.fill(0);
  for (int round = 0; round < 3; round++) {
    step<<<5, 64, 64 * sizeof(float4)>>>((float4 *)(round % 2 ? b : a).data,
                                         (float4 *)(round % 2 ? a : b).data, (float4 *)velocity.data, count,
                                         (float)dt);
    std::vector<double> next = x;
    for (int i = 0; i < count; i++) {
      double pull[3] = {};
      for (int k = 0; k < count; k++) {
        double d[3], square = 1e-2f;
        for (int c = 0; c < 3; c++)
          d[c] = x[4 * k + c] - x[4 * i + c], square += d[c] * d[c];
        for (int c = 0; c < 3; c++)
          pull[c] += d[c] * x[4 * k + 3] / (square * std::sqrt(square));
      }
      for (int c = 0; c < 3; c++)
        v[4 * i + c] += pull[c] * dt, next[4 * i + c] += v[4 * i + c] * dt;
    }
    x = next;
  }
  std::vector<float> expected(x.begin(), x.end());
  close("positions", b.host(), expected, 1e-5);
  return ok();
}
