// covers: Structures and built-in vector types in memory, by value and as kernel parameters.
#include "../check.cuh"

struct Particle {
  float3 position;
  short kind;
  double2 charge;
  unsigned char tag[3];
};

__global__ void mix(const float4 *a, float4 *b, int count, float4 scale) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  float4 v = a[i];
  b[i] = make_float4(v.w * scale.x, v.z * scale.y, v.y * scale.z, v.x * scale.w);
}

__global__ void bytes(const uchar4 *a, short2 *b, ulonglong2 *c, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  uchar4 v = a[i];
  b[i] = make_short2(v.x - v.y, v.z - v.w);
  c[i] = make_ulonglong2(v.x * 0x100000001ull, ~(unsigned long long)v.w);
}

__global__ void move(Particle *particles, Particle step, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  Particle p = particles[i];
  p.position.x += step.position.x;
  p.position.z -= step.position.z;
  p.charge.y = p.charge.x + step.charge.y;
  p.kind = (short)(p.kind ^ step.kind);
  p.tag[2] = p.tag[0] + step.tag[1];
  particles[i] = p;
}

int main() {
  const int count = 1000;
  auto values = random_values<float>(4 * count);
  Buffer<float> a(values), b(4 * count);
  float4 scale = make_float4(1, 2, 4, -8);
  mix<<<8, 128>>>((float4 *)a.data, (float4 *)b.data, count, scale);
  std::vector<float> expected(4 * count);
  for (int i = 0; i < count; i++) {
    expected[4 * i] = values[4 * i + 3];
    expected[4 * i + 1] = values[4 * i + 2] * 2;
    expected[4 * i + 2] = values[4 * i + 1] * 4;
    expected[4 * i + 3] = values[4 * i] * -8;
  }
  equal("float4", b.host(), expected);

  auto small = random_values<uint8_t>(4 * count, 2);
  Buffer<uint8_t> c(small);
  Buffer<int16_t> d(2 * count);
  Buffer<uint64_t> e(2 * count);
  bytes<<<8, 128>>>((uchar4 *)c.data, (short2 *)d.data, (ulonglong2 *)e.data, count);
  std::vector<int16_t> shorts(2 * count);
  std::vector<uint64_t> longs(2 * count);
  for (int i = 0; i < count; i++) {
    shorts[2 * i] = small[4 * i] - small[4 * i + 1];
    shorts[2 * i + 1] = small[4 * i + 2] - small[4 * i + 3];
    longs[2 * i] = small[4 * i] * 0x100000001ull;
    longs[2 * i + 1] = ~(uint64_t)small[4 * i + 3];
  }
  equal("short2", d.host(), shorts);
  equal("ulonglong2", e.host(), longs);

  std::vector<Particle> particles(count), moved(count);
  Particle step = {{0.5f, 0, 0.25f}, 0x55, {0, 3}, {1, 2, 3}};
  for (int i = 0; i < count; i++) {
    particles[i] = {{i * 0.5f, 1, 2}, (short)i, {i * 1.0, 0}, {(unsigned char)i, 7, 9}};
    moved[i] = {{i * 0.5f + 0.5f, 1, 1.75f},
                (short)(i ^ 0x55),
                {i * 1.0, i + 3.0},
                {(unsigned char)i, 7, (unsigned char)(i + 2)}};
  }
  Buffer<Particle> f(particles);
  move<<<8, 128>>>(f, step, count);
  auto got = f.host();
  for (int i = 0; i < count; i++) {
    REQUIRE(got[i].position.x == moved[i].position.x && got[i].position.z == moved[i].position.z);
    REQUIRE(got[i].charge.y == moved[i].charge.y && got[i].kind == moved[i].kind);
    REQUIRE(std::memcmp(got[i].tag, moved[i].tag, 3) == 0);
  }
  return ok();
}
