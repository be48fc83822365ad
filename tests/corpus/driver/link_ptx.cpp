// covers: cuLink with two PTX texts: a function and a variable of one used by the other, the log, the image
// that comes out, and what linking refuses.
#include "check.hpp"

// `factor` and `scale` come from the other text.
static const char *const KERNEL = PTX_HEADER R"(
.extern .func (.param .b32 result) scale(.param .b32 value);
.extern .global .align 4 .u32 factor;
.visible .entry scale_all(.param .u64 x)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  {
    .param .b32 value; .param .b32 result;
    st.param.b32 [value], %r2;
    call.uni (result), scale, (value);
    ld.param.b32 %r2, [result];
  }
  ld.global.u32 %r3, [factor];
  add.u32 %r2, %r2, %r3;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

static const char *const FUNCTION = PTX_HEADER R"(
.visible .global .align 4 .u32 factor = 11;
.visible .func (.param .b32 result) scale(.param .b32 value)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [value];
  ld.global.u32 %r2, [factor];
  mul.lo.u32 %r3, %r1, %r2;
  st.param.b32 [result], %r3;
  ret;
}
)";

static CUresult add(CUlinkState state, const char *text, const char *name) {
  return cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char *>(text), std::strlen(text) + 1, name, 0,
                       nullptr, nullptr);
}

int main() {
  Primary primary;
  char log[4096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(uintptr_t(sizeof log))};
  CUlinkState state;
  CHECK(cuLinkCreate(2, options, values, &state));
  CHECK(add(state, KERNEL, "kernel.ptx"));
  CHECK(add(state, FUNCTION, "function.ptx"));
  void *image;
  size_t size;
  CHECK(cuLinkComplete(state, &image, &size));
  REQUIRE(size > 0);
  CUmodule module;
  CHECK(cuModuleLoadData(&module, image)); // the image lives as long as the link state
  CHECK(cuLinkDestroy(state));

  Words x(counting(96));
  CHECK(launch(function(module, "scale_all"), 1, 96, nullptr, x.address));
  equal("scaled", words(x.address, 96), axpb(counting(96), 11, 11));
  CUdeviceptr factor;
  CHECK(cuModuleGetGlobal(&factor, nullptr, module, "factor"));
  CHECK(cuMemsetD32(factor, 2, 1));
  CHECK(launch(function(module, "scale_all"), 1, 96, nullptr, x.address));
  equal("scaled again", words(x.address, 96), axpb(axpb(counting(96), 11, 11), 2, 2));

  values[1] = reinterpret_cast<void *>(uintptr_t(sizeof log)); // where the length of the log was left
  CHECK(cuLinkCreate(2, options, values, &state));
  CHECK(add(state, KERNEL, "kernel.ptx"));
  REQUIRE(cuLinkComplete(state, &image, &size) != CUDA_SUCCESS);
  REQUIRE(std::strstr(log, "scale") || std::strstr(log, "factor"));
  CHECK(cuLinkDestroy(state));
  return ok();
}
