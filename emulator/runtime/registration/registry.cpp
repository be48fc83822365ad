#include "registry.hpp"

#include "core/driver.hpp"
#include "core/error.hpp"

#include <algorithm>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

namespace emulator::runtime {
namespace {

// Registration comes before main, from any library that is loaded, and may come on any thread.
struct Registry {
  std::shared_mutex mutex;
  std::vector<std::unique_ptr<FatBinary>> binaries;
  std::unordered_map<const void *, std::unique_ptr<Kernel>> kernels;
  std::unordered_map<const void *, std::unique_ptr<Variable>> variables;
  std::unordered_map<CUkernel, const void *> host_functions;
  std::unordered_set<CUkernel> loaded_kernels;
};

// Never destroyed: programs unregister in handlers of atexit.
Registry &registry() {
  static auto *only = new Registry;
  return *only;
}

} // namespace

CUlibrary FatBinary::library() {
  std::lock_guard<std::mutex> guard(mutex_);
  if (!library_) {
    // The wrapper and what it points to are parts of the program's file, so the driver need not copy them.
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *yes = reinterpret_cast<void *>(uintptr_t{1});
    require(driver.call_cuLibraryLoadData(&library_, wrapper, nullptr, nullptr, 0, &option, &yes, 1));
  }
  return library_;
}

CUkernel Kernel::handle() {
  if (CUkernel known = handle_.load(std::memory_order_acquire))
    return known;
  CUkernel found = nullptr;
  CUresult result = driver.call_cuLibraryGetKernel(&found, binary->library(), name.c_str());
  require(result != CUDA_ERROR_NOT_FOUND, cudaErrorInvalidDeviceFunction);
  require(result);
  {
    std::unique_lock<std::shared_mutex> guard(registry().mutex);
    registry().host_functions[found] = host;
  }
  handle_.store(found, std::memory_order_release);
  return found;
}

FatBinary *register_fat_binary(const void *wrapper) {
  std::unique_lock<std::shared_mutex> guard(registry().mutex);
  registry().binaries.push_back(std::make_unique<FatBinary>(wrapper));
  return registry().binaries.back().get();
}

void register_kernel(FatBinary *binary, const void *host, const char *name) {
  auto kernel = std::make_unique<Kernel>();
  kernel->binary = binary;
  kernel->host = host;
  kernel->name = name;
  std::unique_lock<std::shared_mutex> guard(registry().mutex);
  // An instance of a template can be in several objects and share one host address: the first one serves.
  registry().kernels.emplace(host, std::move(kernel));
}

void register_variable(FatBinary *binary, const void *host, const char *name, size_t size_bytes,
                       void **managed) {
  auto variable = std::make_unique<Variable>(Variable{binary, host, name, size_bytes, managed});
  std::unique_lock<std::shared_mutex> guard(registry().mutex);
  auto [slot, added] = registry().variables.emplace(host, std::move(variable));
  if (added && managed)
    binary->managed.push_back(slot->second.get());
}

void unregister(FatBinary *binary) {
  CUlibrary library = nullptr;
  std::unique_ptr<FatBinary> owned;
  {
    std::unique_lock<std::shared_mutex> guard(registry().mutex);
    auto found = std::find_if(registry().binaries.begin(), registry().binaries.end(),
                              [&](const auto &each) { return each.get() == binary; });
    if (found == registry().binaries.end())
      return;
    owned = std::move(*found);
    registry().binaries.erase(found);
    auto forget = [&](auto &objects) {
      for (auto each = objects.begin(); each != objects.end();)
        each = each->second->binary == binary ? objects.erase(each) : std::next(each);
    };
    auto &handles = registry().host_functions;
    for (auto each = handles.begin(); each != handles.end();) {
      auto kernel = registry().kernels.find(each->second);
      bool ends = kernel != registry().kernels.end() && kernel->second->binary == binary;
      each = ends ? handles.erase(each) : std::next(each);
    }
    forget(registry().kernels);
    forget(registry().variables);
    library = owned->library_;
  }
  if (library)
    driver.call_cuLibraryUnload(library); // a driver that is gone by now took the library with it
}

void place_managed_variables(FatBinary &binary) {
  for (Variable *variable : binary.managed) {
    CUdeviceptr address = 0;
    size_t size_bytes = 0;
    require(driver.call_cuLibraryGetManaged(&address, &size_bytes, binary.library(), variable->name.c_str()));
    *variable->managed_pointer = reinterpret_cast<void *>(address);
  }
  binary.managed_placed = true;
}

void place_managed_variables_again() {
  std::vector<FatBinary *> placed;
  {
    std::shared_lock<std::shared_mutex> guard(registry().mutex);
    for (const auto &binary : registry().binaries)
      if (binary->managed_placed)
        placed.push_back(binary.get());
  }
  for (FatBinary *binary : placed)
    place_managed_variables(*binary);
}

CUkernel kernel_of(const void *function) {
  Kernel *kernel = nullptr;
  {
    std::shared_lock<std::shared_mutex> guard(registry().mutex);
    auto found = registry().kernels.find(function);
    if (found == registry().kernels.end()) {
      auto handle = static_cast<CUkernel>(const_cast<void *>(function));
      require(registry().loaded_kernels.count(handle) || registry().host_functions.count(handle),
              cudaErrorInvalidDeviceFunction);
      return handle;
    }
    kernel = found->second.get();
  }
  return kernel->handle();
}

const void *host_function_of(CUkernel kernel) {
  std::shared_lock<std::shared_mutex> guard(registry().mutex);
  auto found = registry().host_functions.find(kernel);
  return found != registry().host_functions.end() ? found->second : kernel;
}

Place place_of_symbol(const void *symbol) {
  Variable *variable = nullptr;
  {
    std::shared_lock<std::shared_mutex> guard(registry().mutex);
    auto found = registry().variables.find(symbol);
    require(found != registry().variables.end(), cudaErrorInvalidSymbol);
    variable = found->second.get();
  }
  Place place{};
  auto get = [&](auto &function) {
    return function(&place.address, &place.size_bytes, variable->binary->library(), variable->name.c_str());
  };
  CUresult result =
      variable->managed_pointer ? get(driver.call_cuLibraryGetManaged) : get(driver.call_cuLibraryGetGlobal);
  require(result != CUDA_ERROR_NOT_FOUND, cudaErrorInvalidSymbol);
  require(result);
  return place;
}

void note_kernel(CUkernel kernel) {
  std::unique_lock<std::shared_mutex> guard(registry().mutex);
  registry().loaded_kernels.insert(kernel);
}

} // namespace emulator::runtime
