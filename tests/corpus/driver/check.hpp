// What every program of this folder uses: calls that must succeed, a context, kernels from PTX text, device
// memory.
#pragma once

#include "../checks.hpp"

#include <cuda.h>

#include <numeric>
#include <string>
#include <vector>

inline const char *error_name(CUresult error) {
  const char *name = nullptr;
  return cuGetErrorName(error, &name) == CUDA_SUCCESS ? name : "an unknown error";
}

#define CHECK(call) ANSWER_MUST_BE(call, CUDA_SUCCESS, error_name)
#define EXPECT(call, error) ANSWER_MUST_BE(call, error, error_name)

#define PTX_HEADER ".version 8.0\n.target sm_80\n.address_size 64\n"

// axpb(x, a, b, n): x[i] = a * x[i] + b for i < n, in 32-bit integers.
inline const char *const AXPB = PTX_HEADER R"(
.visible .entry axpb(.param .u64 x, .param .u32 a, .param .u32 b, .param .u32 n)
{
  .reg .pred %out; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; ld.param.u32 %r3, [n];
  mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x;
  mad.lo.u32 %r4, %r4, %r5, %r6;
  setp.ge.u32 %out, %r4, %r3;
  @%out ret;
  mul.wide.u32 %rd2, %r4, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r7, [%rd3];
  mad.lo.u32 %r7, %r7, %r1, %r2;
  st.global.u32 [%rd3], %r7;
  ret;
}
)";

// The primary context of the first device, current in this thread until the end.
struct Primary {
  CUdevice device = 0;
  CUcontext context = nullptr;

  Primary() {
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
  }
  Primary(const Primary &) = delete;
  ~Primary() { cuDevicePrimaryCtxRelease(device); }
};

inline CUcontext new_context(CUdevice device) {
  CUcontext context = nullptr;
#if CUDA_VERSION >= 13000
  CHECK(cuCtxCreate(&context, nullptr, 0, device));
#else
  CHECK(cuCtxCreate(&context, 0, device));
#endif
  return context;
}

inline CUmodule load(const char *ptx) {
  CUmodule module = nullptr;
  CHECK(cuModuleLoadData(&module, ptx));
  return module;
}

inline CUfunction function(CUmodule module, const char *name) {
  CUfunction found = nullptr;
  CHECK(cuModuleGetFunction(&found, module, name));
  return found;
}

// One dimension of blocks and threads. The arguments have the types of the kernel's parameters.
template <class... Arguments>
CUresult launch(CUfunction kernel, unsigned blocks, unsigned threads, CUstream stream,
                Arguments... arguments) {
  void *pointers[] = {&arguments..., nullptr};
  return cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, nullptr);
}

// Device memory of `count` 32-bit words, copied from and to the host with synchronous copies.
struct Words {
  CUdeviceptr address = 0;
  size_t count;

  explicit Words(size_t count_) : count(count_) { CHECK(cuMemAlloc(&address, count * 4)); }
  explicit Words(const std::vector<uint32_t> &values) : Words(values.size()) {
    CHECK(cuMemcpyHtoD(address, values.data(), count * 4));
  }
  Words(const Words &) = delete;
  ~Words() { cuMemFree(address); }
};

inline std::vector<uint32_t> words(CUdeviceptr address, size_t count) {
  std::vector<uint32_t> values(count);
  CHECK(cuMemcpyDtoH(values.data(), address, count * 4));
  return values;
}

inline std::vector<uint32_t> counting(size_t count, uint32_t first = 0) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

// What axpb makes of `values`.
inline std::vector<uint32_t> axpb(std::vector<uint32_t> values, uint32_t a, uint32_t b) {
  for (uint32_t &value : values)
    value = a * value + b;
  return values;
}

// The last line of main: what was launched must have left no error either.
inline int ok() {
  CHECK(cuCtxSynchronize());
  std::puts("ok");
  return 0;
}
