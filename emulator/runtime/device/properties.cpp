// cudaGetDeviceProperties, filled from the driver's attributes, and the choice of a device by properties.
#include "core/entry.hpp"

#include <cstring>
#include <type_traits>

using namespace emulator::runtime;

namespace {

// An attribute that an older driver does not know leaves its field at zero.
template <typename Field> void fill(Field &field, CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  if (driver.call_cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS)
    field = static_cast<std::make_unsigned_t<Field>>(static_cast<unsigned>(value));
}

cudaDeviceProp properties_of(CUdevice device) {
  cudaDeviceProp properties{};
  require(driver.call_cuDeviceGetName(properties.name, sizeof properties.name, device));
  CUuuid uuid{};
  require(driver.call_cuDeviceGetUuid(&uuid, device));
  std::memcpy(&properties.uuid, &uuid, sizeof uuid);
  // The LUID is Windows's name of an adapter: zero on Linux.
  require(driver.call_cuDeviceTotalMem(&properties.totalGlobalMem, device));
#define PROPERTY(field, attribute) fill(properties.field, CU_DEVICE_ATTRIBUTE_##attribute, device);
#if CUDART_VERSION >= 13000
#define PROPERTY_12(field, attribute)
#define PROPERTY_13(field, attribute) PROPERTY(field, attribute)
#else
#define PROPERTY_12(field, attribute) PROPERTY(field, attribute)
#define PROPERTY_13(field, attribute)
#endif
#include "properties.inc"
  return properties;
}

// How well a device meets what was asked, as cudaChooseDevice counts it here: the compute capability must be
// enough, then the fields that were given.
int score(const cudaDeviceProp &wanted, const cudaDeviceProp &offered) {
  int points = 0;
  auto count = [&points](bool given, bool met) { points += given ? (met ? 1 : -1) : 0; };
  count(wanted.major > 0,
        offered.major > wanted.major || (offered.major == wanted.major && offered.minor >= wanted.minor));
  count(wanted.totalGlobalMem > 0, offered.totalGlobalMem >= wanted.totalGlobalMem);
  count(wanted.multiProcessorCount > 0, offered.multiProcessorCount >= wanted.multiProcessorCount);
  count(wanted.sharedMemPerBlock > 0, offered.sharedMemPerBlock >= wanted.sharedMemPerBlock);
  count(wanted.name[0] != 0, std::strncmp(wanted.name, offered.name, sizeof wanted.name) == 0);
  return points;
}

} // namespace

// In CUDA 12 the header renames this to cudaGetDeviceProperties_v2.
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp *prop, int device) {
  return enter(Needs::driver, [&] {
    require(prop != nullptr, cudaErrorInvalidValue);
    *prop = properties_of(device_of(device));
  });
}

#if CUDART_VERSION < 13000
// The first version, for programs compiled before CUDA 12, whose structure ended where the newer fields
// begin.
#undef cudaGetDeviceProperties
RUNTIME_EXPORT cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp *prop, int device) {
  return enter(Needs::driver, [&] {
    require(prop != nullptr, cudaErrorInvalidValue);
    cudaDeviceProp properties = properties_of(device_of(device));
    std::memcpy(static_cast<void *>(prop), &properties, offsetof(cudaDeviceProp, hostRegisterSupported));
  });
}
#endif

cudaError_t CUDARTAPI cudaChooseDevice(int *device, const cudaDeviceProp *prop) {
  return enter(Needs::driver, [&] {
    require(device != nullptr && prop != nullptr, cudaErrorInvalidValue);
    int devices = 0;
    require(driver.call_cuDeviceGetCount(&devices));
    int best = 0, best_score = -100;
    for (int each = 0; each < devices; ++each)
      if (int points = score(*prop, properties_of(device_of(each))); points > best_score) {
        best = each;
        best_score = points;
      }
    *device = best;
  });
}

// The runtime's attributes are the driver's with the same numbers.
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device) {
  return enter(Needs::driver, [&] {
    return driver.call_cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attr), device_of(device));
  });
}
