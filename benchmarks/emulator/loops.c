// The same kernels as plain loops, for benchmarks/emulator.py: what the processor does without an
// interpreter.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void fma_chain(float *out, float a, float b, int rounds, int threads) {
  for (int i = 0; i < threads; ++i) {
    float x = (float)i;
    for (int k = 0; k < 64 * rounds; ++k)
      x = fmaf(x, a, b);
    out[i] = x;
  }
}

void saxpy(float a, const float *x, float *y, int n) {
  for (int i = 0; i < n; ++i)
    y[i] = fmaf(a, x[i], y[i]);
}

void gather(const float *x, const int *order, float *y, int n) {
  for (int i = 0; i < n; ++i)
    y[i] = x[order[i]];
}

// Tiles as in the kernel, one after the other.
static void product(const float *a, const float *b, float *c, int n, int tile) {
  float left[32][32], right[32][32], sum[32][32];
  for (int row = 0; row < n; row += tile)
    for (int column = 0; column < n; column += tile) {
      for (int y = 0; y < tile; ++y)
        for (int x = 0; x < tile; ++x)
          sum[y][x] = 0;
      for (int at = 0; at < n; at += tile) {
        for (int y = 0; y < tile; ++y)
          for (int x = 0; x < tile; ++x) {
            left[y][x] = a[(row + y) * n + at + x];
            right[y][x] = b[(at + y) * n + column + x];
          }
        for (int y = 0; y < tile; ++y)
          for (int x = 0; x < tile; ++x)
            for (int k = 0; k < tile; ++k)
              sum[y][x] = fmaf(left[y][k], right[k][x], sum[y][x]);
      }
      for (int y = 0; y < tile; ++y)
        for (int x = 0; x < tile; ++x)
          c[(row + y) * n + column + x] = sum[y][x];
    }
}
void matmul16(const float *a, const float *b, float *c, int n) { product(a, b, c, n, 16); }
void matmul32(const float *a, const float *b, float *c, int n) { product(a, b, c, n, 32); }

// Rows of a by columns of b, both adjacent; halves come as floats.
#define ADJACENT_PRODUCT(name, type, sum_type)                                                               \
  void name(const type *a, const type *b, sum_type *c, int n) {                                              \
    for (int row = 0; row < n; ++row)                                                                        \
      for (int column = 0; column < n; ++column) {                                                           \
        sum_type sum = 0;                                                                                    \
        for (int k = 0; k < n; ++k)                                                                          \
          sum += a[row * n + k] * b[column * n + k];                                                         \
        c[row * n + column] = sum;                                                                           \
      }                                                                                                      \
  }
ADJACENT_PRODUCT(matmul_half, float, float)
ADJACENT_PRODUCT(matmul_bytes, signed char, int)

// One head after the other, rows of 64 numbers.
void attention(const float *q, const float *k, const float *v, float *out, float scale, int heads,
               int length) {
  enum { width = 64 };
  float *p = malloc(sizeof(float) * (size_t)length);
  for (int head = 0; head < heads; ++head, q += length * width, k += length * width, v += length * width)
    for (int row = 0; row < length; ++row, out += width) {
      float most = -INFINITY, weight = 0, total[width] = {0};
      for (int key = 0; key < length; ++key) {
        float sum = 0;
        for (int d = 0; d < width; ++d)
          sum += q[row * width + d] * k[key * width + d];
        p[key] = sum * scale;
        most = fmaxf(most, p[key]);
      }
      for (int key = 0; key < length; ++key) {
        float one = expf(p[key] - most);
        weight += one;
        for (int d = 0; d < width; ++d)
          total[d] += one * v[key * width + d];
      }
      for (int d = 0; d < width; ++d)
        out[d] = total[d] / weight;
    }
  free(p);
}

// What any reader of a text has to do at least: look at each character once.
int64_t count_words(const char *text, int64_t bytes) {
  int64_t words = 0;
  int inside = 0;
  for (int64_t i = 0; i < bytes; ++i) {
    char c = text[i];
    int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                 c == '%' || c == '.';
    words += letter && !inside;
    inside = letter;
  }
  return words;
}

void divergent(const int *order, float *y, int n, int threads) {
  for (int i = 0; i < threads; ++i) {
    unsigned value = (unsigned)order[i];
    int steps = 0;
    for (; value != 1 && steps < n; ++steps)
      value = value & 1 ? value * 3 + 1 : value >> 1;
    y[i] = (float)steps;
  }
}

void histogram(const unsigned char *bytes, unsigned *bins, int n) {
  for (int i = 0; i < n; ++i)
    ++bins[bytes[i]];
}

// As the kernel: each value is summed over its 32 neighbours by each of them.
void reduce(const float *x, float *y, int n) {
  float sum = 0;
  for (int i = 0; i < n; i += 32) {
    float v[32], w[32];
    for (int l = 0; l < 32; ++l)
      v[l] = x[i + l];
    for (int d = 16; d > 0; d >>= 1) {
      for (int l = 0; l < 32; ++l)
        w[l] = v[l] + v[l ^ d];
      for (int l = 0; l < 32; ++l)
        v[l] = w[l];
    }
    sum += v[0];
  }
  *y = sum;
}

void lattice(const float *x, float *y, int steps, int blocks) {
  float value[257], next[256];
  for (int b = 0; b < blocks; ++b) {
    for (int t = 0; t < 256; ++t)
      value[t] = x[b * 256 + t];
    value[256] = 0;
    for (int k = steps; k > 0; --k) {
      for (int t = 0; t < k; ++t)
        next[t] = 0.5f * value[t + 1] + 0.49f * value[t];
      for (int t = 0; t < k; ++t)
        value[t] = next[t];
    }
    for (int t = 0; t < 256; ++t)
      y[b * 256 + t] = value[t];
  }
}

void atomics(unsigned *bins, int n, int threads) {
  for (int i = 0; i < threads; ++i)
    for (int k = 0; k < n; ++k) {
      ++bins[i % 64];
      unsigned *most = &bins[64 + (i + k) % 256];
      *most = *most > (unsigned)i ? *most : (unsigned)i;
    }
}
