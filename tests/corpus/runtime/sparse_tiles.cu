// covers: products with sparse matrices by inline PTX: a kernel compresses rows with two non-zeros of four
// and makes their metadata, another multiplies with mma.sp of halves, in both selections, and of bytes.
// architecture: 80
// relocation: proven
#include <cuda_fp16.h>

#include "check.cuh"

const int M = 16, N = 8, K = 64; // of halves two steps of 32, of bytes one of 64

// A row a thread: the two of each four that are not zero, and four bits that say where they were.
template <class T> __global__ void compress(const T *dense, T *held, unsigned char *where) {
  int row = threadIdx.x;
  for (int chunk = 0; chunk < K / 4; chunk++) {
    int found = 0, places[2] = {2, 3};
    for (int e = 0; e < 4 && found < 2; e++)
      if (float(dense[row * K + 4 * chunk + e]) != 0)
        places[found++] = e;
    if (found == 1) // the other one may be any that comes after or before it
      places[1] = places[0] == 3 ? (places[0] = 2, 3) : 3;
    for (int i = 0; i < 2; i++)
      held[row * K / 2 + 2 * chunk + i] = dense[row * K + 4 * chunk + places[i]];
    where[row * K / 4 + chunk] = places[0] | places[1] << 2;
  }
}

template <class T> __device__ unsigned word(const T *from) {
  return *reinterpret_cast<const unsigned *>(from);
}

__global__ void halves(const half *held, const unsigned char *where, const half *columns, float *out) {
  int group = threadIdx.x / 4, place = threadIdx.x % 4;
  float d[4] = {};
  for (int step = 0; step < K; step += 32) {
    unsigned a[4], b[4], metadata = 0;
    for (int r = 0; r < 4; r++) {
      a[r] = word(held + (group + r % 2 * 8) * K / 2 + step / 2 + r / 2 * 8 + 2 * place);
      b[r] = word(columns + group * K + step + 8 * r + 2 * place);
    }
    // Of 16 columns the row of the group, and the 8th below; the first two threads of four have the first
    // step's metadata, the others the second's.
    for (int n = 0; n < 8; n++)
      metadata |= where[(group + n / 4 * 8) * K / 4 + step / 4 + place % 2 * 4 + n % 4] << 4 * n;
    if (place / 2 != step / 32)
      metadata = 0xeeeeeeee;
    if (step == 0)
      asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, "
          "%6, %7}, "
          "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
            "r"(metadata));
    else
      asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, "
          "%6, %7}, "
          "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 1;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
            "r"(metadata));
  }
  for (int i = 0; i < 4; i++)
    out[(group + i / 2 * 8) * N + 2 * place + i % 2] = d[i];
}

__global__ void bytes(const signed char *held, const unsigned char *where, const signed char *columns,
                      int *out) {
  int group = threadIdx.x / 4, place = threadIdx.x % 4;
  int d[4] = {};
  unsigned a[4], b[4], metadata = 0;
  for (int r = 0; r < 4; r++) {
    a[r] = word(held + (group + r % 2 * 8) * K / 2 + r / 2 * 16 + 4 * place);
    b[r] = word(columns + group * K + 16 * r + 4 * place);
  }
  // A word has 32 columns of one row: thread 0 those of the group, 1 of the 8th below, 2 and 3 the other
  // columns.
  for (int n = 0; n < 8; n++)
    metadata |= where[(group + place % 2 * 8) * K / 4 + place / 2 * 8 + n] << 4 * n;
  asm("mma.sp.sync.aligned.m16n8k64.row.col.satfinite.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9, %10, "
      "%11}, {%0, %1, %2, %3}, %12, 0;"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
        "r"(metadata));
  for (int i = 0; i < 4; i++)
    out[(group + i / 2 * 8) * N + 2 * place + i % 2] = d[i];
}

// Small integers, of which every sum is exact.
template <class T, class Sum, class Kernel> void check(const char *what, Kernel kernel) {
  std::vector<T> dense(M * K), columns(N * K);
  std::vector<Sum> expected(M * N);
  for (int at = 0; at < M * K; at += 4) {
    uint64_t bits = mixed(at + sizeof(T));
    int first = bits % 4, second = (first + 1 + bits / 4 % 3) % 4;
    for (int e = 0; e < 4; e++)
      dense[at + e] = T(e == first || e == second ? int(bits >> (8 + 4 * e) & 7) - 3 : 0);
  }
  for (int at = 0; at < N * K; at++)
    columns[at] = T(int(mixed(1000 + at) % 15) - 7);
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++)
      for (int k = 0; k < K; k++)
        expected[m * N + n] += Sum(float(dense[m * K + k]) * float(columns[n * K + k]));
  Buffer<T> a(dense), b(columns), held(M * K / 2);
  Buffer<unsigned char> where(M * K / 4);
  Buffer<Sum> out(M * N);
  compress<<<1, M>>>(a.data, held.data, where.data);
  kernel<<<1, 32>>>(held.data, where.data, b.data, out.data);
  CHECK(cudaDeviceSynchronize());
  close(what, out.host(), expected, 0);
}

int main() {
  check<half, float>("halves", halves);
  check<signed char, int>("bytes", bytes);
  std::puts("ok");
}
