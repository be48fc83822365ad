// What the programs of both folders use: answers and values that must be as expected.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

// The answer of a call must be this one; `name_of` gives the text of an error.
#define ANSWER_MUST_BE(call, expected, name_of)                                                              \
  do {                                                                                                       \
    auto answer_ = (call);                                                                                   \
    if (answer_ != (expected)) {                                                                             \
      std::printf("line %d: %s: %s, not %s\n", __LINE__, #call, name_of(answer_), #expected);                \
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
