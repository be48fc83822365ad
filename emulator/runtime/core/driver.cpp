#include "driver.hpp"

#include "error.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <mutex>

namespace emulator::runtime {
namespace {

PFN_cuGetProcAddress_v12000 look_up() {
  static std::mutex mutex;
  static std::atomic<PFN_cuGetProcAddress_v12000> found{nullptr};
  if (auto function = found.load(std::memory_order_acquire))
    return function;
  std::lock_guard<std::mutex> guard(mutex);
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return nullptr;
  auto function = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  found.store(function, std::memory_order_release);
  return function;
}

} // namespace

Driver driver;

void *find_driver_function(const char *name, int version, DefaultStream stream) {
  auto function = look_up();
  if (!function)
    return nullptr;
  // The twins came with CUDA 7: asked for an earlier version, the driver would give the function without one.
  if (stream == DefaultStream::per_thread)
    version = std::max(version, 7000);
  void *address = nullptr;
  cuuint64_t flags = stream == DefaultStream::per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                         : CU_GET_PROC_ADDRESS_DEFAULT;
  if (function(name, &address, version, flags, nullptr) != CUDA_SUCCESS)
    return nullptr;
  return address;
}

int driver_version() {
  int version = 0;
  if (!look_up() || driver.call_cuDriverGetVersion(&version) != CUDA_SUCCESS)
    return 0;
  return version;
}

cudaError_t start_driver() {
  static std::atomic<bool> started{false};
  if (started.load(std::memory_order_acquire))
    return cudaSuccess;
  // A driver of an older major version cannot serve; an older minor one can ("minor version compatibility").
  if (driver_version() / 1000 < runtime_version / 1000)
    return cudaErrorInsufficientDriver;
  cudaError_t error = Result(driver.call_cuInit(0)).code;
  if (error == cudaSuccess)
    started.store(true, std::memory_order_release);
  return error;
}

} // namespace emulator::runtime
