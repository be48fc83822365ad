// covers: What wrong calls answer, what the answers are called, and that none of them harms the context: the
// work afterwards is right.
#include "check.hpp"

int main() {
  CUdevice device;
  EXPECT(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  Primary primary;
  const char *text;
  EXPECT(cuGetErrorString(CUresult(12345), &text), CUDA_ERROR_INVALID_VALUE);
  REQUIRE(std::string(error_name(CUDA_ERROR_ILLEGAL_ADDRESS)) == "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT(cuDeviceGet(&device, 1000), CUDA_ERROR_INVALID_DEVICE);

  CUdeviceptr address;
  EXPECT(cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemAlloc(&address, size_t(1) << 50), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(cuMemAlloc(nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  Words x(counting(1000));
  EXPECT(cuMemFree(x.address + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemcpyHtoD(x.address, &x, 4001), CUDA_ERROR_INVALID_VALUE);

  CUmodule module;
  EXPECT(cuModuleLoadData(&module, PTX_HEADER ".visible .entry broken() { ret }"), CUDA_ERROR_INVALID_PTX);
  EXPECT(cuModuleLoadData(&module, "neither PTX nor anything else"), CUDA_ERROR_INVALID_IMAGE);
  EXPECT(cuModuleLoad(&module, "/no/such/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
  module = load(AXPB);
  CUfunction kernel = function(module, "axpb"), missing;
  CUdeviceptr variable;
  EXPECT(cuModuleGetFunction(&missing, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT(cuModuleGetGlobal(&variable, nullptr, module, "nothing"), CUDA_ERROR_NOT_FOUND);

  uint32_t a = 2, b = 1, count = 1000;
  void *arguments[] = {&x.address, &a, &b, &count};
  auto attempt = [&](unsigned blocks, unsigned threads, unsigned shared) {
    return cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, shared, nullptr, arguments, nullptr);
  };
  EXPECT(attempt(0, 32, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT(attempt(1, 1025, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT(attempt(1, 32, 1 << 20), CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NUM_REGS, 3), CUDA_ERROR_INVALID_VALUE);

  CUevent event;
  CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  EXPECT(cuEventQuery(event), CUDA_SUCCESS); // never recorded
  float milliseconds;
  EXPECT(cuEventElapsedTime(&milliseconds, event, event), CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventDestroy(event));
  CUstream stream;
  EXPECT(cuStreamCreate(&stream, 0x100), CUDA_ERROR_INVALID_VALUE);
  void *entry = nullptr;
  CUdriverProcAddressQueryResult found;
  EXPECT(cuGetProcAddress("cuNoSuchFunction", &entry, 12000, 0, &found), CUDA_SUCCESS);
  REQUIRE(entry == nullptr && found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);

  CHECK(attempt(8, 125, 0));
  equal("x", words(x.address, count), axpb(counting(count), a, b));
  return ok();
}
