// covers: Every way to launch one kernel: an array of parameters, an `extra` buffer, cuLaunchKernelEx with
// each attribute a launch may have, a cooperative launch, the per-thread twins, a CUkernel as it is, a
// function of a kernel and of a module found through another one; attributes of functions and limits set
// before and between.
#include "check.hpp"

// Each launch leaves `mark` and the dynamic shared memory it has in its own place; no call asks for
// `launches`.
static const char *const PTX = PTX_HEADER R"(
.extern .shared .align 4 .b8 dynamic[];
.visible .global .align 4 .u32 launches;
.visible .entry leave(.param .u64 out, .param .u32 place, .param .align 8 .b8 mark[12])
{
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p, %r1, 0;
  @%p ret;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r2, [place]; ld.param.u32 %r3, [mark+8];
  mov.u32 %r4, %dynamic_smem_size;
  atom.global.add.u32 %r5, [launches], 1;
  mad.lo.u32 %r6, %r5, 1000000, %r4;
  add.u32 %r6, %r6, %r3;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r6;
  ret;
}
)";

struct Mark {
  uint64_t unused;
  uint32_t value;
};

struct alignas(8) Packed { // as the driver lays the parameters out
  CUdeviceptr out;
  uint32_t place, padding;
  uint32_t mark[3];
};

template <class Function> static Function *entry_point(const char *name, cuuint64_t flags) {
  void *found = nullptr;
  CUdriverProcAddressQueryResult status;
  CHECK(cuGetProcAddress(name, &found, 12000, flags, &status));
  return reinterpret_cast<Function *>(found);
}

int main() {
  CHECK(cuInit(0));
  CUlibrary library;
  CHECK(cuLibraryLoadData(&library, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0)); // no context is current
  CUkernel kernel;
  CHECK(cuLibraryGetKernel(&kernel, library, "leave"));
  Primary primary;
  CUmodule module = load(PTX);
  CUfunction plain = function(module, "leave"), of_kernel, of_module;
  CHECK(cuKernelGetFunction(&of_kernel, kernel));
  CUmodule found;
  CHECK(cuFuncGetModule(&found, plain));
  REQUIRE(found == module);
  of_module = function(found, "leave");
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  CHECK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 2 << 20));
  CHECK(cuFuncSetAttribute(plain, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60 << 10));
  CHECK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 56 << 10, kernel,
                             primary.device));
  CHECK(cuFuncSetAttribute(plain, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));

  const unsigned forms = 16;
  Words out(std::vector<uint32_t>(forms, 0));
  std::vector<uint32_t> expected;
  unsigned in_module = 0, in_library = 0;
  auto expect = [&](unsigned &count, uint32_t shared, uint32_t mark) {
    expected.push_back(1000000 * count++ + shared + mark);
  };
  CUstream stream;
  CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  CUevent event, completed;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&completed, CU_EVENT_DISABLE_TIMING));

  uint32_t place = 0;
  Mark mark{0, 11};
  void *values[] = {&out.address, &place, &mark};
  auto next = [&](uint32_t value) {
    place = uint32_t(expected.size());
    mark.value = value;
  };

  next(1);
  CHECK(cuLaunchKernel(plain, 1, 1, 1, 32, 1, 1, 60 << 10, stream, values, nullptr));
  expect(in_module, 60 << 10, 1);
  next(2);
  Packed packed{out.address, place, 0, {0, 0, 2}};
  size_t size = sizeof packed - 4;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(plain, 1, 1, 1, 32, 1, 1, 128, stream, nullptr, extra));
  expect(in_module, 128, 2);
  next(3);
  CHECK(cuLaunchCooperativeKernel(plain, 1, 1, 1, 32, 1, 1, 256, stream, values));
  expect(in_module, 256, 3);
  next(4);
  CHECK(cuLaunchKernel(of_module, 1, 1, 1, 32, 1, 1, 16, stream, values, nullptr));
  expect(in_module, 16, 4);
  CHECK(cuStreamSynchronize(stream));

  // The twins that take the thread's own default stream for stream 0.
  using Launch = decltype(cuLaunchKernel);
  using Cooperative = decltype(cuLaunchCooperativeKernel);
  using LaunchEx = decltype(cuLaunchKernelEx);
  auto per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  next(5);
  CHECK(entry_point<Launch>("cuLaunchKernel", per_thread)(plain, 1, 1, 1, 32, 1, 1, 32, nullptr, values,
                                                          nullptr));
  expect(in_module, 32, 5);
  CHECK(cuCtxSynchronize());
  next(6);
  CHECK(entry_point<Cooperative>("cuLaunchCooperativeKernel", per_thread)(plain, 1, 1, 1, 32, 1, 1, 48,
                                                                          nullptr, values));
  expect(in_module, 48, 6);
  CHECK(cuCtxSynchronize());

  CUlaunchAttribute attributes[8] = {};
  unsigned count = 0;
  auto add = [&](CUlaunchAttributeID id) -> CUlaunchAttributeValue & {
    attributes[count].id = id;
    return attributes[count++].value;
  };
  auto &window = add(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW).accessPolicyWindow;
  window.base_ptr = reinterpret_cast<void *>(out.address);
  window.num_bytes = forms * 4;
  window.hitRatio = 0.5f;
  window.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
  window.missProp = CU_ACCESS_PROPERTY_STREAMING;
  add(CU_LAUNCH_ATTRIBUTE_PRIORITY).priority = 0;
  add(CU_LAUNCH_ATTRIBUTE_IGNORE);
  add(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).programmaticStreamSerializationAllowed = 1;
  add(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT).launchCompletionEvent.event = completed;
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = 512;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  next(7);
  CHECK(cuLaunchKernelEx(&config, plain, values, nullptr));
  expect(in_module, 512, 7);
  // A programmatic event: another stream goes on when every block has begun.
  count = 0;
  auto &programmatic = add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT).programmaticEvent;
  programmatic = {};
  programmatic.event = event;
  programmatic.triggerAtBlockStart = 1;
  config.numAttrs = count;
  next(8);
  CHECK(cuLaunchKernelEx(&config, plain, values, nullptr));
  expect(in_module, 512, 8);
  CUstream second;
  CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamWaitEvent(second, event, 0));
  CHECK(cuStreamWaitEvent(second, completed, 0));
  CHECK(cuStreamSynchronize(stream));
  count = 0;
  add(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
  config.numAttrs = count;
  config.hStream = nullptr;
  next(9);
  CHECK(entry_point<LaunchEx>("cuLaunchKernelEx", per_thread)(&config, plain, values, nullptr));
  expect(in_module, 512, 9);
  CHECK(cuCtxSynchronize());

  // In the window: limits and attributes that change between launches.
  CHECK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
  CHECK(cuFuncSetAttribute(plain, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 80 << 10));
  next(10);
  CHECK(cuLaunchKernel(plain, 1, 1, 1, 32, 1, 1, 80 << 10, second, values, nullptr));
  expect(in_module, 80 << 10, 10);
  next(11);
  CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 56 << 10, second, values,
                       nullptr));
  expect(in_library, 56 << 10, 11);
  next(12);
  CHECK(cuLaunchKernel(of_kernel, 1, 1, 1, 32, 1, 1, 8, second, values, nullptr));
  expect(in_library, 8, 12);
  CHECK(cuStreamSynchronize(second));
  expected.resize(forms, 0);
  equal("out", words(out.address, forms), expected);
  CHECK(cuEventDestroy(event));
  CHECK(cuEventDestroy(completed));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuStreamDestroy(second));
  CHECK(cuLibraryUnload(library));
  CHECK(cuModuleUnload(module));
  return ok();
}
