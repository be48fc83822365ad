// covers: Arithmetic, shifts, comparisons and bit intrinsics of every integer type, against the same C++ on
// the host.
#include "../check.cuh"

template <class T> __host__ __device__ void operations(T a, T b, T c, T *out) {
  using U = std::make_unsigned_t<T>;
  const int bits = sizeof(T) * 8;
  out[0] = (T)(U)((U)a + (U)b);
  out[1] = (T)(U)((U)a - (U)c);
  out[2] = (T)((unsigned long long)a * (unsigned long long)b + (unsigned long long)c);
  T divisor = b == 0 || b == (T)-1 ? (T)3 : b;
  out[3] = (T)(a / divisor);
  out[4] = (T)(a % divisor);
  out[5] = (T)((U)a << ((U)b % bits));
  out[6] = (T)(a >> ((U)b % bits));
  out[7] = (T)((a & b) | (~a & c));
  out[8] = a < b ? a : b;
  out[9] = a > c ? a : c;
  out[10] = (T)(a == b) + (T)(a <= c) * 2;
  out[11] = (T)-a;
}

template <class T> __global__ void run(const T *a, const T *b, const T *c, T *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    operations(a[i], b[i], c[i], out + 12 * i);
}

template <class T> void test(const char *name) {
  const int count = 2000;
  auto a = random_values<T>(count, 1), b = random_values<T>(count, 2), c = random_values<T>(count, 3);
  T corners[] = {0, 1, (T)-1, (T)((T)1 << (sizeof(T) * 8 - 1)), (T) ~((T)1 << (sizeof(T) * 8 - 1))};
  for (int i = 0; i < 125; i++)
    a[i] = corners[i % 5], b[i] = corners[i / 5 % 5], c[i] = corners[i / 25];
  Buffer<T> x(a), y(b), z(c), out(12 * count);
  run<<<(count + 95) / 96, 96>>>(x.data, y.data, z.data, out.data, count);
  std::vector<T> expected(12 * count);
  for (int i = 0; i < count; i++)
    operations(a[i], b[i], c[i], &expected[12 * i]);
  equal(name, out.host(), expected);
}

__global__ void intrinsics(const unsigned *a, const unsigned long long *b, unsigned *out,
                           unsigned long long *wide, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  unsigned x = a[i], y = a[(i + 1) % count];
  unsigned *o = out + 12 * i;
  o[0] = __popc(x), o[1] = __clz(x), o[2] = __ffs(x), o[3] = __brev(x);
  o[4] = __byte_perm(x, y, 0x3175);
  o[5] = __umulhi(x, y), o[6] = (unsigned)__mulhi((int)x, (int)y);
  o[7] = __funnelshift_l(x, y, y % 32), o[8] = __funnelshift_r(x, y, x % 32);
  o[9] = __usad(x, y, 5), o[10] = (unsigned)__sad((int)x, (int)y, 7), o[11] = __uhadd(x, y);
  unsigned long long v = b[i], w = b[(i + 1) % count];
  unsigned long long *p = wide + 4 * i;
  p[0] = __popcll(v) + 100 * __clzll(v), p[1] = __brevll(v), p[2] = __umul64hi(v, w),
  p[3] = (unsigned long long)__mul64hi((long long)v, (long long)w);
}

int main() {
  test<int8_t>("int8"), test<uint8_t>("uint8"), test<int16_t>("int16"), test<uint16_t>("uint16");
  test<int32_t>("int32"), test<uint32_t>("uint32"), test<int64_t>("int64"), test<uint64_t>("uint64");

  const int count = 500;
  auto a = random_values<unsigned>(count);
  auto b = random_values<unsigned long long>(count, 2);
  a[0] = 0, a[1] = 1, a[2] = 0x80000000, b[0] = 0, b[1] = 1ull << 63;
  Buffer<unsigned> x(a), out(12 * count);
  Buffer<unsigned long long> y(b), wide(4 * count);
  intrinsics<<<4, 128>>>(x, y, out, wide, count);
  std::vector<unsigned> expected(12 * count);
  std::vector<unsigned long long> longs(4 * count);
  auto reverse = [](unsigned long long v, int bits) {
    unsigned long long r = 0;
    for (int k = 0; k < bits; k++)
      r |= (v >> k & 1) << (bits - 1 - k);
    return r;
  };
  for (int i = 0; i < count; i++) {
    unsigned u = a[i], v = a[(i + 1) % count];
    unsigned *o = &expected[12 * i];
    o[0] = __builtin_popcount(u), o[1] = u ? __builtin_clz(u) : 32, o[2] = __builtin_ffs((int)u),
    o[3] = (unsigned)reverse(u, 32);
    uint64_t pair = (uint64_t)v << 32 | u;
    o[4] = (pair >> 40 & 255) | (pair >> 56 & 255) << 8 | (pair >> 8 & 255) << 16 | (pair >> 24 & 255) << 24;
    o[5] = (unsigned)((uint64_t)u * v >> 32), o[6] = (unsigned)((int64_t)(int)u * (int)v >> 32);
    o[7] = (unsigned)(pair << v % 32 >> 32), o[8] = (unsigned)(pair >> u % 32);
    o[9] = (u > v ? u - v : v - u) + 5;
    o[10] = (unsigned)std::llabs((long long)(int)u - (int)v) + 7, o[11] = (unsigned)(((uint64_t)u + v) >> 1);
    unsigned long long s = b[i], t = b[(i + 1) % count];
    unsigned long long *p = &longs[4 * i];
    p[0] = __builtin_popcountll(s) + 100 * (s ? __builtin_clzll(s) : 64), p[1] = reverse(s, 64);
    p[2] = (unsigned long long)((unsigned __int128)s * t >> 64),
    p[3] = (unsigned long long)((__int128)(long long)s * (long long)t >> 64);
  }
  equal("intrinsics", out.host(), expected);
  equal("wide", wide.host(), longs);
  return ok();
}
