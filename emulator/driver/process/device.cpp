// What can be asked of a device.
#include "device/device.hpp"
#include "entry/entry.hpp"

#include <algorithm>
#include <cstdio>

using namespace emulator::driver;

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  return enter("cuDeviceGet", Needs::initialised, [&](Call &) {
    require(device != nullptr, CUDA_ERROR_INVALID_VALUE);
    *device = device_of(ordinal).ordinal;
  });
}

CUresult CUDAAPI cuDeviceGetCount(int *count) {
  return enter("cuDeviceGetCount", Needs::initialised, [&](Call &) {
    require(count != nullptr, CUDA_ERROR_INVALID_VALUE);
    *count = static_cast<int>(driver().devices.size());
  });
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev) {
  return enter("cuDeviceGetName", Needs::initialised, [&](Call &) {
    require(name != nullptr && len > 0, CUDA_ERROR_INVALID_VALUE);
    std::snprintf(name, static_cast<size_t>(len), "%s", device_of(dev).name().c_str());
  });
}

static CUresult get_uuid(const char *function, CUuuid *uuid, CUdevice dev) {
  return enter(function, Needs::initialised, [&](Call &) {
    require(uuid != nullptr, CUDA_ERROR_INVALID_VALUE);
    *uuid = device_of(dev).uuid();
  });
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
  return get_uuid("cuDeviceGetUuid", uuid, dev);
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
  return get_uuid("cuDeviceGetUuid_v2", uuid, dev);
}

CUresult CUDAAPI cuDeviceGetLuid(char *, unsigned int *, CUdevice dev) {
  return enter("cuDeviceGetLuid", Needs::initialised, [&](Call &) {
    device_of(dev);
    fail(CUDA_ERROR_NOT_SUPPORTED); // a Windows notion
  });
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
  return enter("cuDeviceTotalMem_v2", Needs::initialised, [&](Call &) {
    require(bytes != nullptr, CUDA_ERROR_INVALID_VALUE);
    *bytes = device_of(dev).total_bytes;
  });
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
  return enter("cuDeviceComputeCapability", Needs::initialised, [&](Call &) {
    require(major != nullptr && minor != nullptr, CUDA_ERROR_INVALID_VALUE);
    device_of(dev);
    *major = settings().compute_capability.major;
    *minor = settings().compute_capability.minor;
  });
}

CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev) {
  return enter("cuDeviceGetExecAffinitySupport", Needs::initialised, [&](Call &) {
    require(pi != nullptr && type >= 0 && type < CU_EXEC_AFFINITY_TYPE_MAX, CUDA_ERROR_INVALID_VALUE);
    device_of(dev);
    *pi = 0;
  });
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
  return enter("cuDeviceGetPCIBusId", Needs::initialised, [&](Call &) {
    require(pciBusId != nullptr && len > 0, CUDA_ERROR_INVALID_VALUE);
    std::snprintf(pciBusId, static_cast<size_t>(len), "%s", device_of(dev).pci_bus_id().c_str());
  });
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
  return enter("cuDeviceGetByPCIBusId", Needs::initialised, [&](Call &) {
    require(dev != nullptr && pciBusId != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::string wanted = pciBusId;
    for (const auto &device : driver().devices) {
      std::string full = device->pci_bus_id();
      // Accepted as documented: with or without the domain.
      if (wanted == full || "0000:" + wanted == full) {
        *dev = device->ordinal;
        return;
      }
    }
    fail(CUDA_ERROR_INVALID_DEVICE);
  });
}

CUresult CUDAAPI cuDeviceGetProperties(CUdevprop *prop, CUdevice dev) {
  return enter("cuDeviceGetProperties", Needs::initialised, [&](Call &) {
    require(prop != nullptr, CUDA_ERROR_INVALID_VALUE);
    device_of(dev);
    *prop = CUdevprop{};
    prop->maxThreadsPerBlock = 1024;
    prop->maxThreadsDim[0] = 1024, prop->maxThreadsDim[1] = 1024, prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 0x7fffffff, prop->maxGridSize[1] = 65535, prop->maxGridSize[2] = 65535;
    prop->sharedMemPerBlock = 49152;
    prop->totalConstantMemory = 65536;
    prop->SIMDWidth = 32;
    prop->memPitch = 0x7fffffff;
    prop->regsPerBlock = 65536;
    prop->clockRate = 1500000;
    prop->textureAlign = 512;
  });
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
  return enter("cuDeviceCanAccessPeer", Needs::initialised, [&](Call &) {
    require(canAccessPeer != nullptr, CUDA_ERROR_INVALID_VALUE);
    *canAccessPeer = &device_of(dev) != &device_of(peerDev);
  });
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                         CUdevice dstDevice) {
  return enter("cuDeviceGetP2PAttribute", Needs::initialised, [&](Call &) {
    require(value != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(&device_of(srcDevice) != &device_of(dstDevice), CUDA_ERROR_INVALID_DEVICE);
    require(attrib >= CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
                attrib <= CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED,
            CUDA_ERROR_INVALID_VALUE);
    *value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attrib == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
  });
}

#if CUDA_VERSION >= 13000
static void get_atomic_capabilities(unsigned *capabilities, const CUatomicOperation *operations,
                                    unsigned count, unsigned capability) {
  require(capabilities != nullptr && operations != nullptr && count > 0, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < count; ++i)
    require(operations[i] >= 0 && operations[i] < CU_ATOMIC_OPERATION_MAX, CUDA_ERROR_INVALID_VALUE);
  std::fill_n(capabilities, count, capability);
}

CUresult CUDAAPI cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
                                                   const CUatomicOperation *operations, unsigned int count,
                                                   CUdevice dev) {
  return enter("cuDeviceGetHostAtomicCapabilities", Needs::initialised, [&](Call &) {
    device_of(dev);
    // As CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED says: none across the link to the host.
    get_atomic_capabilities(capabilities, operations, count, 0);
  });
}

CUresult CUDAAPI cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
                                                  const CUatomicOperation *operations, unsigned int count,
                                                  CUdevice srcDevice, CUdevice dstDevice) {
  return enter("cuDeviceGetP2PAtomicCapabilities", Needs::initialised, [&](Call &) {
    require(&device_of(srcDevice) != &device_of(dstDevice), CUDA_ERROR_INVALID_DEVICE);
    // Every device reaches every other's memory as its own.
    get_atomic_capabilities(capabilities, operations, count,
                            CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED |
                                CU_ATOMIC_CAPABILITY_REDUCTION | CU_ATOMIC_CAPABILITY_SCALAR_32 |
                                CU_ATOMIC_CAPABILITY_SCALAR_64);
  });
}
#endif

CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
  return enter("cuDeviceGetAttribute", Needs::initialised, [&](Call &) {
    require(pi != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pi = attribute_of(device_of(dev), attrib);
  });
}
