// What every program of this folder uses: calls that must succeed, buffers, and comparing with a reference.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    cudaError_t status_ = (call);                                                                            \
    if (status_ != cudaSuccess) {                                                                            \
      std::printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(status_));                        \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (0)

// The answer must be this error.
#define EXPECT(call, error)                                                                                  \
  do {                                                                                                       \
    cudaError_t status_ = (call);                                                                            \
    if (status_ != (error)) {                                                                                \
      std::printf("line %d: %s: %s, not %s\n", __LINE__, #call, cudaGetErrorName(status_), #error);          \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (0)

#define REQUIRE(condition)                                                                                   \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      std::printf("line %d: not so: %s\n", __LINE__, #condition);                                            \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (0)

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

// The same values in every run: integers of the whole range, floating point in [-1, 1).
template <class T> std::vector<T> random_values(size_t count, unsigned seed = 1) {
  std::mt19937_64 generator(seed);
  std::vector<T> values(count);
  for (T &value : values) {
    uint64_t bits = generator();
    if constexpr (std::is_floating_point_v<T>)
      value = static_cast<T>(static_cast<double>(bits >> 11) * 0x1p-52 - 1);
    else
      value = static_cast<T>(bits >> 16);
  }
  return values;
}

template <class T> void equal(const char *what, const T *got, const T *expected, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (std::memcmp(&got[i], &expected[i], sizeof(T)) != 0) {
      if constexpr (std::is_floating_point_v<T>)
        std::printf("%s[%zu]: %.17g, not %.17g\n", what, i, double(got[i]), double(expected[i]));
      else if constexpr (std::is_integral_v<T>)
        std::printf("%s[%zu]: %lld, not %lld\n", what, i, (long long)got[i], (long long)expected[i]);
      else
        std::printf("%s[%zu] differs\n", what, i);
      std::exit(1);
    }
}

template <class T> void equal(const char *what, const std::vector<T> &got, const std::vector<T> &expected) {
  if (got.size() != expected.size()) {
    std::printf("%s: %zu elements, not %zu\n", what, got.size(), expected.size());
    std::exit(1);
  }
  equal(what, got.data(), expected.data(), got.size());
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

// The last line of main: what the kernels left behind must be no error either.
inline int ok() {
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaGetLastError());
  std::puts("ok");
  return 0;
}
