// What a pointer is, and memory shared with other processes and devices.
#include "core/entry.hpp"
#include "core/same.hpp"

using namespace emulator::runtime;

cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *ptr) {
  return enter(Needs::context, [&] {
    require(attributes != nullptr, cudaErrorInvalidValue);
    unsigned memory_type = 0, is_managed = 0;
    int ordinal = 0;
    CUdeviceptr device_address = 0;
    void *host_address = nullptr;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *values[] = {&memory_type, &is_managed, &ordinal, &device_address, &host_address};
    require(driver.call_cuPointerGetAttributes(5, names, values, device_pointer(ptr)));
    *attributes = {};
    if (memory_type == 0) { // memory that the driver does not know: it is the host's own
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = cudaInvalidDeviceId;
      attributes->hostPointer = const_cast<void *>(ptr);
      return;
    }
    attributes->type = is_managed                            ? cudaMemoryTypeManaged
                       : memory_type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                             : cudaMemoryTypeHost;
    attributes->device = ordinal;
    attributes->devicePointer = reinterpret_cast<void *>(device_address);
    attributes->hostPointer = host_address;
  });
}

cudaError_t CUDARTAPI cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count) {
  return enter(Needs::context, [&]() -> Result {
    CUcontext to = primary_context(device_of(dstDevice)), from = primary_context(device_of(srcDevice));
    if (count == 0)
      return cudaSuccess;
    return driver.call_cuMemcpyPeer(device_pointer(dst), to, device_pointer(src), from, count);
  });
}

cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                          size_t count, cudaStream_t stream) {
  return enter(Needs::context, [&]() -> Result {
    CUcontext to = primary_context(device_of(dstDevice)), from = primary_context(device_of(srcDevice));
    if (count == 0)
      return cudaSuccess;
    return driver.call_cuMemcpyPeerAsync(device_pointer(dst), to, device_pointer(src), from, count, stream);
  });
}

// clang-format off
FORWARD(cudaIpcGetMemHandle, (cudaIpcMemHandle_t *handle, void *devPtr),
        cuIpcGetMemHandle, (same(handle), device_pointer(devPtr)))
FORWARD(cudaIpcOpenMemHandle, (void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags),
        cuIpcOpenMemHandle, (device_pointer(devPtr), *same(&handle), flags))
FORWARD(cudaIpcCloseMemHandle, (void *devPtr), cuIpcCloseMemHandle, (device_pointer(devPtr)))
FORWARD(cudaIpcGetEventHandle, (cudaIpcEventHandle_t *handle, cudaEvent_t event),
        cuIpcGetEventHandle, (same(handle), event))
FORWARD(cudaIpcOpenEventHandle, (cudaEvent_t *event, cudaIpcEventHandle_t handle),
        cuIpcOpenEventHandle, (event, *same(&handle)))
