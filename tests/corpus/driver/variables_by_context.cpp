// covers: Variables that no call asks for, of a library used in two contexts and of one image loaded in both;
// a context that is created and destroyed in between, calls on what it held, and a managed variable that all
// contexts share.
#include "check.hpp"

static const char *const PTX = PTX_HEADER R"(
.visible .global .align 4 .u32 hidden = 100;
.visible .global .attribute(.managed) .align 4 .u32 shared_by_all = 1;
.visible .entry step(.param .u64 out, .param .u32 amount)
{
  .reg .b32 %r<6>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [amount];
  ld.global.u32 %r2, [hidden];
  add.u32 %r2, %r2, %r1;
  st.global.u32 [hidden], %r2;
  st.global.u32 [%rd1], %r2;
  ld.global.u32 %r3, [shared_by_all];
  add.u32 %r3, %r3, 1;
  st.global.u32 [shared_by_all], %r3;
  ret;
}
)";

int main() {
  CHECK(cuInit(0));
  CUlibrary library;
  CHECK(cuLibraryLoadData(&library, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel step;
  CHECK(cuLibraryGetKernel(&step, library, "step"));
  Primary primary;
  CUcontext contexts[2] = {primary.context, new_context(primary.device)};
  CUmodule modules[2];
  CUfunction functions[2];
  for (int i = 0; i < 2; i++) {
    CHECK(cuCtxSetCurrent(contexts[i]));
    modules[i] = load(PTX);
    functions[i] = function(modules[i], "step");
  }
  Words out(8);
  for (uint32_t round = 1; round <= 3; round++)
    for (uint32_t i = 0; i < 2; i++) {
      CHECK(cuCtxSetCurrent(contexts[i]));
      CHECK(launch(reinterpret_cast<CUfunction>(step), 1, 1, nullptr, out.address + 8 * i, i + 1));
      CHECK(launch(functions[i], 1, 1, nullptr, out.address + 8 * i + 4, 10 * (i + 1)));
      CHECK(cuCtxSynchronize());
      equal("out", words(out.address + 8 * i, 2), {100 + round * (i + 1), 100 + round * 10 * (i + 1)});
    }
  CUdeviceptr managed;
  size_t bytes;
  CHECK(cuLibraryGetManaged(&managed, &bytes, library, "shared_by_all"));
  REQUIRE(*reinterpret_cast<uint32_t *>(managed) == 7);

  // A kernel of a library runs in the context of its stream, whatever is current.
  CUcontext third = new_context(primary.device);
  CUstream theirs;
  CHECK(cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
  CHECK(cuCtxSetCurrent(contexts[0]));
  CHECK(launch(reinterpret_cast<CUfunction>(step), 1, 1, theirs, out.address + 24, uint32_t(1000)));
  CHECK(cuStreamSynchronize(theirs));
  equal("in the stream's context", words(out.address + 24, 1), {1100});
  CHECK(cuCtxDestroy(third));
  CHECK(cuCtxSetCurrent(contexts[0]));

  CUcontext passing = new_context(primary.device);
  CHECK(launch(reinterpret_cast<CUfunction>(step), 1, 1, nullptr, out.address + 16, uint32_t(50)));
  CHECK(cuCtxSynchronize());
  CUstream gone;
  CHECK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
  CHECK(cuCtxDestroy(passing));
  CHECK(cuCtxSetCurrent(contexts[0]));
  REQUIRE(cuStreamSynchronize(gone) != CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(passing) != CUDA_SUCCESS);
  CHECK(launch(reinterpret_cast<CUfunction>(step), 1, 1, nullptr, out.address + 20, uint32_t(5)));
  equal("afterwards", words(out.address + 16, 2), {150, 108});
  CHECK(cuCtxDestroy(contexts[1]));
  CHECK(cuCtxSetCurrent(contexts[0]));
  CHECK(cuLibraryUnload(library));
  CHECK(cuModuleUnload(modules[0]));
  return ok();
}
