// covers: A module from PTX text: its functions, its variables, launches with an array of pointers and with a
// packed buffer, dynamic shared memory, unloading.
#include "check.hpp"

static const char *const PTX = PTX_HEADER R"(
.visible .global .align 4 .u32 calls = 5;
.visible .const .align 4 .u32 factors[4] = {2, 3, 5, 7};
.extern .shared .align 4 .b8 scratch[];

// y[i] = factors[i % 4] * x[n - 1 - i]: one block, n threads, n words of dynamic shared memory.
.visible .entry reverse(.param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .pred %first; .reg .b32 %r<10>; .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd3, %r2, 4;
  add.u64 %rd4, %rd1, %rd3;
  ld.global.u32 %r3, [%rd4];
  mov.u32 %r4, scratch;
  mad.lo.u32 %r5, %r2, 4, %r4;
  st.shared.u32 [%r5], %r3;
  bar.sync 0;
  sub.u32 %r6, %r1, %r2;
  mad.lo.u32 %r5, %r6, 4, %r4;
  ld.shared.u32 %r3, [%r5+-4];
  and.b32 %r6, %r2, 3;
  mul.wide.u32 %rd5, %r6, 4;
  mov.u64 %rd6, factors;
  add.u64 %rd6, %rd6, %rd5;
  ld.const.u32 %r7, [%rd6];
  mul.lo.u32 %r3, %r3, %r7;
  add.u64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r3;
  setp.eq.u32 %first, %r2, 0;
  @%first atom.global.add.u32 %r8, [calls], 1;
  ret;
}
)";

int main() {
  Primary primary;
  CUmodule module = load(PTX);
  CUfunction reverse = function(module, "reverse");
  CUfunction missing;
  EXPECT(cuModuleGetFunction(&missing, module, "forward"), CUDA_ERROR_NOT_FOUND);

  const unsigned count = 64;
  auto values = counting(count, 100);
  Words x(values), y(count);
  void *pointers[] = {&x.address, &y.address, const_cast<unsigned *>(&count)};
  CHECK(cuLaunchKernel(reverse, 1, 1, 1, count, 1, 1, count * 4, nullptr, pointers, nullptr));
  const uint32_t factors[] = {2, 3, 5, 7};
  std::vector<uint32_t> expected(count);
  for (unsigned i = 0; i < count; i++)
    expected[i] = factors[i % 4] * values[count - 1 - i];
  equal("reversed", words(y.address, count), expected);

  CUdeviceptr address;
  size_t size;
  CHECK(cuModuleGetGlobal(&address, &size, module, "calls"));
  REQUIRE(size == 4 && words(address, 1)[0] == 6);
  CHECK(cuModuleGetGlobal(&address, &size, module, "factors"));
  REQUIRE(size == sizeof factors);
  const uint32_t ones[] = {1, 1, 1, 1};
  CHECK(cuMemcpyHtoD(address, ones, sizeof ones));

  struct {
    CUdeviceptr x, y;
    uint32_t n;
  } packed = {y.address, x.address, count};
  size_t packed_bytes = 20;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                   CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(reverse, 1, 1, 1, count, 1, 1, count * 4, nullptr, nullptr, extra));
  equal("and back", words(x.address, count), {expected.rbegin(), expected.rend()});

  int constant_bytes, threads;
  CHECK(cuFuncGetAttribute(&constant_bytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, reverse));
  CHECK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, reverse));
  REQUIRE(constant_bytes >= 16 && threads >= 64);
  CHECK(cuModuleUnload(module));
  return ok();
}
