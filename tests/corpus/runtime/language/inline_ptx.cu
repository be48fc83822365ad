// covers: asm statements: operands of every kind, predicates, scopes with registers and labels.
#include "../check.cuh"

__device__ unsigned add_with_carry(unsigned a, unsigned b, unsigned c, unsigned d, unsigned &high) {
  unsigned low;
  asm("{\n\t"
      "add.cc.u32 %0, %2, %4;\n\t"
      "addc.u32 %1, %3, %5;\n\t"
      "}"
      : "=r"(low), "=r"(high)
      : "r"(a), "r"(b), "r"(c), "r"(d));
  return low;
}

// Steps until 1 of the sequence of Collatz: a loop with a label of its own in each copy.
__device__ int collatz(unsigned long long n) {
  int steps = 0;
  asm volatile("{\n\t"
               ".reg .pred odd, done;\n\t"
               ".reg .b64 bit;\n\t"
               "AGAIN%=:\n\t"
               "setp.eq.u64 done, %1, 1;\n\t"
               "@done bra END%=;\n\t"
               "and.b64 bit, %1, 1;\n\t"
               "setp.ne.u64 odd, bit, 0;\n\t"
               "@odd mad.lo.u64 %1, %1, 3, 1;\n\t"
               "@!odd shr.u64 %1, %1, 1;\n\t"
               "add.s32 %0, %0, 1;\n\t"
               "bra AGAIN%=;\n\t"
               "END%=:\n\t"
               "}"
               : "+r"(steps), "+l"(n));
  return steps;
}

__global__ void kernel(const unsigned *in, unsigned *out, float *floats, double *doubles, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  unsigned a = in[4 * i], b = in[4 * i + 1], c = in[4 * i + 2], d = in[4 * i + 3], *mine = out + 8 * i;
  mine[0] = add_with_carry(a, b, c, d, mine[1]);
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(mine[2]) : "r"(a), "r"(b), "r"(c)); // a ? b : c
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(mine[3]) : "r"(a), "n"(5), "n"(11));
  asm("bfi.b32 %0, %1, %2, 8, 12;" : "=r"(mine[4]) : "r"(a), "r"(b));
  unsigned short low;
  asm("cvt.u16.u32 %0, %1;" : "=h"(low) : "r"(c));
  mine[5] = low;
  mine[6] = collatz(i + 1);
  asm volatile("st.global.u32 [%0], %1;" ::"l"(mine + 7), "r"(d) : "memory");
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(floats[i]) : "f"((float)i), "f"(0.1f), "f"(-1.5f));
  asm("{ .reg .f64 t; mul.rn.f64 t, %1, %1; add.rz.f64 %0, t, 0d3FF0000000000000; }"
      : "=d"(doubles[i])
      : "d"(i * 0.1));
}

__global__ void special(unsigned *out) {
  unsigned lane, threads, block, blocks, lower;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%ntid.x;" : "=r"(threads));
  asm("mov.u32 %0, %%ctaid.y;" : "=r"(block));
  asm("mov.u32 %0, %%nctaid.y;" : "=r"(blocks));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
  unsigned *mine = out + 5 * (blockIdx.y * blockDim.x + threadIdx.x);
  mine[0] = lane, mine[1] = threads, mine[2] = block, mine[3] = blocks, mine[4] = lower;
}

int main() {
  const int count = 300;
  auto v = random_values<unsigned>(4 * count);
  Buffer<unsigned> in(v), out(8 * count), registers(5 * 3 * 48);
  Buffer<float> floats(count);
  Buffer<double> doubles(count);
  kernel<<<3, 128>>>(in, out, floats, doubles, count);
  std::vector<unsigned> expected, expected_registers;
  std::vector<float> expected_floats;
  auto got = doubles.host();
  for (int i = 0; i < count; i++) {
    unsigned a = v[4 * i], b = v[4 * i + 1], c = v[4 * i + 2], d = v[4 * i + 3], steps = 0;
    uint64_t sum = (a | (uint64_t)b << 32) + (c | (uint64_t)d << 32);
    for (unsigned n = i + 1; n != 1; steps++)
      n = n % 2 ? 3 * n + 1 : n / 2;
    for (unsigned word : {(unsigned)sum, (unsigned)(sum >> 32), (a & b) | (~a & c), a >> 5 & 2047,
                          (b & ~0xfff00u) | (a & 4095) << 8, c & 65535, steps, d})
      expected.push_back(word);
    expected_floats.push_back(std::fma((float)i, 0.1f, -1.5f));
    double square = (i * 0.1) * (i * 0.1);
    REQUIRE(got[i] == square + 1 || got[i] == std::nextafter(square + 1, 0));
  }
  equal("words", out.host(), expected);
  equal("floats", floats.host(), expected_floats);
  special<<<dim3(1, 3), 48>>>(registers);
  for (unsigned i = 0; i < 3 * 48; i++) {
    unsigned lane = i % 48 % 32;
    for (unsigned word : {lane, 48u, i / 48, 3u, (1u << lane) - 1})
      expected_registers.push_back(word);
  }
  equal("special registers", registers.host(), expected_registers);
  return ok();
}
