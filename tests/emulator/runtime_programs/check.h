// What the programs of this folder check with: a failed check says where and ends the program with status 1.
#pragma once
#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                                     \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (0)

#define ERROR_IS(call, expected)                                                                             \
  do {                                                                                                       \
    cudaError_t error_ = (call);                                                                             \
    if (error_ != (expected)) {                                                                              \
      std::printf("%s:%d: %s gave %s, not %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(error_),        \
                  cudaGetErrorName(expected));                                                               \
      std::exit(1);                                                                                          \
    }                                                                                                        \
  } while (0)

#define OK(call) ERROR_IS(call, cudaSuccess)
