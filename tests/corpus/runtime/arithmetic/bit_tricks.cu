// covers: counting, reversing, finding bits, byte permutation, funnel shifts, dot products, SIMD in a word.
#include "../check.cuh"

const int WORDS = 16;

__global__ void kernel(const unsigned *in, unsigned *out, unsigned long long *longs, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  unsigned a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2], *mine = out + WORDS * i;
  unsigned long long wide = (unsigned long long)a << 32 | b;
  mine[0] = __popc(a) + 100 * __popcll(wide);
  mine[1] = __brev(a);
  mine[2] = __clz(a >> i % 33 % 32) + 100 * __clzll(wide >> i % 64) + 10000 * __ffs(a << i % 32);
  mine[3] = __ffsll(wide << i % 64);
  mine[4] = __byte_perm(a, b, c);
  mine[5] = __funnelshift_l(a, b, c);
  mine[6] = __funnelshift_r(a, b, c);
  mine[7] = __funnelshift_lc(a, b, c % 48);
  mine[8] = __funnelshift_rc(a, b, c % 48);
  mine[9] = __dp4a((int)a, (int)b, (int)c);
  mine[10] = __dp4a(a, b, c);
  mine[11] = __dp2a_lo((int)a, (int)b, (int)c);
  mine[12] = __umulhi(a, b) ^ __mulhi((int)a, (int)b);
  mine[13] = __usad(a, b, c) ^ __sad((int)a, (int)b, c);
  mine[14] = __vadd4(a, b) ^ __vmaxu2(a, c);
  mine[15] = __uhadd(a, b) ^ __hadd((int)a, (int)b);
  longs[2 * i] = __brevll(wide);
  longs[2 * i + 1] = __umul64hi(wide, wide * 3 + c);
}

static unsigned byte(uint64_t value, int k) { return value >> 8 * k & 255; }

int main() {
  const int count = 500;
  auto v = random_values<unsigned>(3 * count);
  v[0] = 0, v[1] = 0, v[3] = ~0u, v[7] = 0x80000000;
  Buffer<unsigned> in(v), out(WORDS * count);
  Buffer<unsigned long long> longs(2 * count);
  kernel<<<4, 128>>>(in, out, longs, count);
  std::vector<unsigned> expected;
  std::vector<unsigned long long> expected_longs;
  for (int i = 0; i < count; i++) {
    unsigned a = v[3 * i], b = v[3 * i + 1], c = v[3 * i + 2], reversed = 0, picked = 0;
    uint64_t wide = (uint64_t)a << 32 | b, pair = (uint64_t)b << 32 | a, reversed_wide = 0;
    auto leading = [](uint64_t x, int bits) { return x ? __builtin_clzll(x) - (64 - bits) : bits; };
    auto first = [](uint64_t x) { return x ? __builtin_ctzll(x) + 1 : 0; };
    for (int k = 0; k < 64; k++)
      reversed_wide |= (wide >> k & 1) << (63 - k);
    for (int k = 0; k < 32; k++)
      reversed |= (a >> k & 1) << (31 - k);
    for (int k = 0; k < 4; k++) // the high bit of a selector spreads the sign only in PTX's own form
      picked |= byte(pair, c >> 4 * k & 7) << 8 * k;
    int dot = (int)c, dot2 = (int)c;
    unsigned unsigned_dot = c, sums = 0, larger = 0;
    for (int k = 0; k < 4; k++) {
      dot = (int)((unsigned)dot + (unsigned)((int8_t)byte(a, k) * (int8_t)byte(b, k)));
      unsigned_dot += byte(a, k) * byte(b, k);
      sums |= ((byte(a, k) + byte(b, k)) & 255) << 8 * k;
    }
    for (int k = 0; k < 2; k++) {
      dot2 = (int)((unsigned)dot2 + (unsigned)((int16_t)(a >> 16 * k) * (int8_t)byte(b, k)));
      unsigned x = a >> 16 * k & 65535, y = c >> 16 * k & 65535;
      larger |= (x > y ? x : y) << 16 * k;
    }
    int64_t s = (int)a, t = (int)b;
    unsigned shift = c % 48 < 32 ? c % 48 : 32;
    for (unsigned word :
         {unsigned(__builtin_popcount(a) + 100 * __builtin_popcountll(wide)), reversed,
          unsigned(leading(a >> i % 33 % 32, 32) + 100 * leading(wide >> i % 64, 64) +
                   10000 * first(a << i % 32)),
          unsigned(first(wide << i % 64)), picked, unsigned(pair << c % 32 >> 32), unsigned(pair >> c % 32),
          shift == 32 ? a : unsigned(pair << shift >> 32), unsigned(pair >> shift), unsigned(dot),
          unsigned_dot, unsigned(dot2), unsigned((uint64_t)a * b >> 32) ^ unsigned(s * t >> 32),
          (c + (a > b ? a - b : b - a)) ^ (c + unsigned(s > t ? s - t : t - s)), sums ^ larger,
          unsigned(((uint64_t)a + b) >> 1) ^ unsigned((s + t) >> 1)})
      expected.push_back(word);
    expected_longs.push_back(reversed_wide);
    expected_longs.push_back((unsigned __int128)wide * (uint64_t)(wide * 3 + c) >> 64);
  }
  equal("words", out.host(), expected);
  equal("longs", longs.host(), expected_longs);
  return ok();
}
