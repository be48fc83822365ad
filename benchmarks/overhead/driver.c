// A libcuda.so.1 whose functions do nothing: what is left of a call's time is the call and the shim.
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuInit(unsigned flags) { return 0; }
EXPORT int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
EXPORT int cuCtxGetCurrent(uint64_t *context) { return *context = 1, 0; }
EXPORT int cuModuleGetFunction(uint64_t *function, uint64_t module, const char *name) {
  return *function = 0x1000 + (uint64_t)name[0] * 64, 0;
}
EXPORT int cuFuncGetParamInfo(uint64_t function, uint64_t index, uint64_t *offset, uint64_t *size) {
  if (index >= 4)
    return 1;
  *offset = index * 8;
  *size = 8;
  return 0;
}
EXPORT int cuMemAlloc_v2(uint64_t *address, uint64_t bytes) {
  return *address = (uint64_t)(uintptr_t)calloc(1, bytes), 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, uint64_t bytes, uint64_t stream) { return 0; }
EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, uint64_t bytes) { return 0; }
EXPORT int cuStreamQuery(uint64_t stream) { return 0; }
EXPORT int cuCtxSynchronize(void) { return 0; }
EXPORT int cuLaunchKernel(uint64_t function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by,
                          uint32_t bz, uint32_t shared, uint64_t stream, void **values, void **extra) {
  return 0;
}
// What `capture --when` asks for.
EXPORT int cuEventCreate(uint64_t *event, unsigned flags) { return *event = 0x5000, 0; }
EXPORT int cuEventRecord(uint64_t event, uint64_t stream) { return 0; }
EXPORT int cuEventQuery(uint64_t event) { return 0; }
EXPORT int cuEventDestroy_v2(uint64_t event) { return 0; }
EXPORT int cuEventElapsedTime(float *milliseconds, uint64_t from, uint64_t to) {
  return *milliseconds = 0.01f, 0;
}
EXPORT int cuMemHostRegister_v2(void *memory, uint64_t bytes, unsigned flags) { return 0; }
EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned flags) {
  return *address = (uint64_t)(uintptr_t)memory, 0;
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, uint64_t bytes, uint64_t stream) { return 0; }
EXPORT int cuStreamWriteValue32_v2(uint64_t stream, uint64_t address, uint32_t value, unsigned flags) {
  return *(volatile uint32_t *)(uintptr_t)address = value, 0;
}
