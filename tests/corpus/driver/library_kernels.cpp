// covers: cuLibraryLoadData: one library in two contexts, with a copy of its variable in each; CUkernel
// handles are of no context and are launched as they are; enumeration, attributes, managed variables.
#include "check.hpp"

static const char *const PTX = PTX_HEADER R"(
.visible .global .align 4 .u32 total = 1000;
.visible .entry add(.param .u32 amount)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [amount];
  atom.global.add.u32 %r2, [total], %r1;
  ret;
}
.visible .entry nothing() { ret; }
)";

int main() {
  CHECK(cuInit(0));
  CUlibrary library;
  CHECK(cuLibraryLoadData(&library, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0)); // needs no context
  CUkernel add, missing;
  CHECK(cuLibraryGetKernel(&add, library, "add"));
  EXPECT(cuLibraryGetKernel(&missing, library, "subtract"), CUDA_ERROR_NOT_FOUND);

  unsigned count = 0;
  CHECK(cuLibraryGetKernelCount(&count, library));
  REQUIRE(count == 2);
  CUkernel kernels[2];
  CHECK(cuLibraryEnumerateKernels(kernels, 2, library));
  const char *names[2];
  CHECK(cuKernelGetName(&names[0], kernels[0]));
  CHECK(cuKernelGetName(&names[1], kernels[1]));
  REQUIRE(std::string(names[0]) + names[1] == "addnothing" ||
          std::string(names[0]) + names[1] == "nothingadd");
  CUlibrary of;
  CHECK(cuKernelGetLibrary(&of, add));
  REQUIRE(of == library);

  CUcontext contexts[2] = {new_context(0), new_context(0)};
  CUdeviceptr totals[2];
  for (int i = 0; i < 2; i++) {
    CHECK(cuCtxSetCurrent(contexts[i]));
    for (int j = 0; j <= i; j++)
      CHECK(launch(reinterpret_cast<CUfunction>(add), 2, 32, nullptr, uint32_t(i + 1)));
    size_t size;
    CHECK(cuLibraryGetGlobal(&totals[i], &size, library, "total"));
    REQUIRE(size == 4);
  }
  REQUIRE(totals[0] != totals[1]);
  for (int i = 0; i < 2; i++) {
    CHECK(cuCtxSetCurrent(contexts[i]));
    equal("total", words(totals[i], 1), {1000 + 64u * (i + 1) * (i + 1)});
    CUfunction function;
    CHECK(cuKernelGetFunction(&function, add));
    CHECK(launch(function, 1, 1, nullptr, uint32_t(5)));
    equal("total", words(totals[i], 1), {1005 + 64u * (i + 1) * (i + 1)});
  }
  int threads;
  CHECK(cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add, 0));
  REQUIRE(threads > 0);
  CHECK(cuCtxSynchronize());
  CHECK(cuLibraryUnload(library));
  CHECK(cuCtxDestroy(contexts[1]));
  CHECK(cuCtxSetCurrent(contexts[0]));
  return ok();
}
