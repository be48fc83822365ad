// What every program of this folder uses: calls that must succeed, buffers, and comparing with a reference.
#pragma once

#include "../checks.hpp"

#include <cmath>

#define CHECK(call) ANSWER_MUST_BE(call, cudaSuccess, cudaGetErrorName)
#define EXPECT(call, error) ANSWER_MUST_BE(call, error, cudaGetErrorName)

// Device memory of `size` elements.
template <class T> struct Buffer {
  T *data = nullptr;
  size_t size = 0;

  explicit Buffer(size_t count) : size(count) { CHECK(cudaMalloc(&data, count * sizeof(T))); }
  explicit Buffer(const std::vector<T> &values) : Buffer(values.size()) {
    CHECK(cudaMemcpy(data, values.data(), size * sizeof(T), cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer &) = delete;
  ~Buffer() { cudaFree(data); }

  operator T *() const { return data; }
  std::vector<T> host() const {
    std::vector<T> values(size);
    CHECK(cudaMemcpy(values.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  void fill(int byte) { CHECK(cudaMemset(data, byte, size * sizeof(T))); }
};

inline uint64_t mixed(uint64_t bits) {
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

// The same values in every run: integers of the whole range, floating point in [-1, 1).
template <class T> std::vector<T> random_values(size_t count, unsigned seed = 1) {
  uint64_t state = seed;
  std::vector<T> values(count);
  for (T &value : values) {
    uint64_t bits = mixed(state += 0x9e3779b97f4a7c15);
    if constexpr (std::is_floating_point_v<T>)
      value = static_cast<T>(static_cast<double>(bits >> 11) * 0x1p-52 - 1);
    else
      value = static_cast<T>(bits >> 16);
  }
  return values;
}

// Differs by at most `tolerance`, relative to the larger of 1 and the expected value.
template <class T>
void close(const char *what, const std::vector<T> &got, const std::vector<T> &expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); i++) {
    double difference = std::fabs(double(got[i]) - double(expected[i]));
    if (!(difference <= tolerance * std::fmax(1, std::fabs(double(expected[i]))))) {
      std::printf("%s[%zu]: %.17g, not %.17g\n", what, i, double(got[i]), double(expected[i]));
      std::exit(1);
    }
  }
}

// The last line of main: the kernels must have left no error either.
inline int ok() {
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaGetLastError());
  std::puts("ok");
  return 0;
}
