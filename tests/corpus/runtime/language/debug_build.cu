// covers: code that is not optimised, with a debugger's information: locals in memory, calls of everything.
// options: -G
#include <algorithm>

#include "../check.cuh"

struct Complex {
  float re, im;
  __device__ Complex(float re = 0, float im = 0) : re(re), im(im) {}
  __device__ Complex operator+(const Complex &other) const { return {re + other.re, im + other.im}; }
  __device__ Complex operator*(const Complex &o) const {
    return {re * o.re - im * o.im, re * o.im + im * o.re};
  }
};

template <int N> __device__ void insertion_sort(int (&values)[N]) {
  for (int i = 1; i < N; i++) {
    int value = values[i], k = i;
    while (k > 0 && values[k - 1] > value) {
      values[k] = values[k - 1];
      k--;
    }
    values[k] = value;
  }
}

__global__ void powers(const int *in, Complex *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    Complex base((float)in[2 * i], (float)in[2 * i + 1]), result(1, 0), powers[3];
    for (int k = 0; k < 3; k++)
      powers[k] = result = result * base;
    out[i] = powers[0] + powers[1] + powers[2];
  }
}

__global__ void medians(const int *in, int *out) {
  __shared__ int tile[64 + 8];
  int local[9], i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = threadIdx.x; k < 72; k += blockDim.x)
    tile[k] = in[blockIdx.x * blockDim.x + k];
  __syncthreads();
  for (int k = 0; k < 9; k++)
    local[k] = tile[threadIdx.x + k];
  insertion_sort(local);
  switch (i % 4) {
  case 0:
    out[i] = local[4];
    break;
  case 1:
    out[i] = local[0];
    break;
  case 2:
    out[i] = local[8];
    break;
  default:
    out[i] = local[8] - local[0];
  }
}

int main() {
  const int count = 64 * 5;
  auto values = random_values<int>(2 * count);
  for (int &value : values)
    value %= 30; // whole numbers that a float holds exactly
  Buffer<int> in(values), out(count);
  Buffer<float> sums(2 * count);
  powers<<<5, 64>>>(in, (Complex *)sums.data, count);
  std::vector<float> expected;
  for (int i = 0; i < count; i++) {
    int a = values[2 * i], b = values[2 * i + 1];
    int re = a, im = b, sum_re = 0, sum_im = 0;
    for (int k = 0; k < 3; k++) {
      sum_re += re, sum_im += im;
      int next = re * a - im * b;
      im = re * b + im * a, re = next;
    }
    expected.push_back((float)sum_re), expected.push_back((float)sum_im);
  }
  equal("powers", sums.host(), expected);

  medians<<<5, 64>>>(in, out);
  std::vector<int> order(count);
  for (int i = 0; i < count; i++) {
    std::vector<int> part(values.begin() + i, values.begin() + i + 9);
    std::sort(part.begin(), part.end());
    order[i] = i % 4 == 0 ? part[4] : i % 4 == 1 ? part[0] : i % 4 == 2 ? part[8] : part[8] - part[0];
  }
  equal("medians", out.host(), order);
  return ok();
}
