#include "module.hpp"

#include "entry/entry.hpp"
#include "function.hpp"
#include "image/image.hpp"
#include "image/jit_options.hpp"
#include "memory/allocations.hpp"
#include "reference.hpp"
#include "stream/scheduler.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace emulator::driver {
namespace {

template <typename ReadTexts> LoadedImage load(const JitOptions &options, ReadTexts &&read_texts) {
  require_options(options);
  JitLog log(options);
  try {
    std::vector<PtxText> texts = read_texts(log.errors);
    unsigned most = value_of(options, CU_JIT_MAX_REGISTERS);
    if (most == 0)
      most = register_limit(texts);
    return {parsed(std::move(texts), log.errors), most};
  } catch (const Error &) {
    if (!log.errors.empty())
      tell("module not loaded: " + log.errors);
    throw;
  }
}

} // namespace

std::shared_ptr<const Module> parsed(std::vector<PtxText> texts, std::string &log) {
  LoadProblem problem;
  auto module = Module::parse(std::move(texts), log, problem);
  if (module)
    return module;
  log = "PTX: " + log;
  fail(problem == LoadProblem::unknown_version ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION : CUDA_ERROR_INVALID_PTX);
}

LoadedImage load_image(const void *image, const JitOptions &options) {
  return load(options,
              [&](std::string &log) { return texts_of_image(image, settings().compute_capability, log); });
}

LoadedImage load_file(const char *path, const JitOptions &options) {
  require(path != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::ifstream file(path, std::ios::binary);
  require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  require(!file.bad(), CUDA_ERROR_FILE_NOT_FOUND);
  return load(options, [&](std::string &log) {
    return texts_of_image(bytes.data(), bytes.size(), settings().compute_capability, log);
  });
}

std::shared_ptr<LoadedModule> place(Context &context, const std::shared_ptr<const Module> &module,
                                    ManagedMemory *managed) {
  auto loaded = std::make_shared<LoadedModule>();
  loaded->context = &context;
  // A library's managed variables live once, whatever contexts it is used in: what the program has written
  // there must survive the initial values that placing writes again.
  std::vector<std::pair<std::shared_ptr<Allocation>, std::vector<uint8_t>>> kept;
  bool out_of_memory = false;
  auto place_global = [&](const GlobalInfo &global) -> uint64_t {
    uint64_t bytes = std::max<uint64_t>(global.size_bytes, 1);
    if (global.is_managed && managed) {
      auto &shared = (*managed)[global.name];
      // It may have gone with the context that placed it.
      if (shared && allocations().find(shared->base) == shared) {
        auto *contents = reinterpret_cast<const uint8_t *>(shared->base);
        kept.emplace_back(shared, std::vector<uint8_t>(contents, contents + shared->bytes));
        std::memset(reinterpret_cast<void *>(shared->base), 0, shared->bytes);
        return shared->base;
      }
    }
    try {
      auto allocation =
          allocate_device(context, bytes, global.is_managed ? MemoryKind::managed : MemoryKind::global, 0,
                          std::max<uint64_t>(global.alignment_bytes, allocation_alignment));
      std::memset(reinterpret_cast<void *>(allocation->base), 0,
                  bytes); // whatever fresh memory is filled with
      if (global.is_managed && managed)
        (*managed)[global.name] = allocation;
      else
        loaded->globals.push_back(allocation);
      return allocation->base;
    } catch (const Error &) {
      out_of_memory = true;
      return 0;
    }
  };
  std::string log;
  loaded->instance = Instance::create(module, place_global, log);
  for (const auto &[allocation, contents] : kept)
    std::memcpy(reinterpret_cast<void *>(allocation->base), contents.data(), contents.size());
  if (!loaded->instance) {
    tell("module not loaded: " + log);
    unload(*loaded);
    // What is left are initial values that name something undefined.
    fail(out_of_memory ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_PTX);
  }
  driver().modules.add(loaded);
  return loaded;
}

void unload(LoadedModule &module) {
  forget_references(module);
  for (const auto &[name, function] : module.functions)
    driver().functions.remove(function.get());
  module.functions.clear();
  for (const auto &allocation : module.globals)
    release(allocation);
  module.globals.clear();
  driver().modules.remove(&module);
}

std::shared_ptr<Function> LoadedModule::function(const std::string &name) {
  auto &slot = functions[name];
  if (!slot) {
    const KernelInfo *info = instance->kernel(name);
    if (!info) {
      functions.erase(name);
      fail(CUDA_ERROR_NOT_FOUND);
    }
    slot = std::make_shared<Function>();
    slot->module = this;
    slot->info = info;
    slot->name = name;
    driver().functions.add(slot);
  }
  return slot;
}

} // namespace emulator::driver

using namespace emulator::driver;

static void finish_load(Call &call, CUmodule *module, const LoadedImage &image) {
  auto placed = place(*call.context, image.program, nullptr);
  placed->max_registers = image.max_registers;
  *module = handle_of<CUmodule>(placed.get());
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                                    CUjit_option *options, void **optionValues) {
  return enter("cuModuleLoadDataEx", Needs::healthy, [&](Call &call) {
    require(module != nullptr && image != nullptr, CUDA_ERROR_INVALID_VALUE);
    finish_load(call, module, load_image(image, {numOptions, options, optionValues}));
  });
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
  return enter("cuModuleLoadData", Needs::healthy, [&](Call &call) {
    require(module != nullptr && image != nullptr, CUDA_ERROR_INVALID_VALUE);
    finish_load(call, module, load_image(image, {}));
  });
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
  return enter("cuModuleLoadFatBinary", Needs::healthy, [&](Call &call) {
    require(module != nullptr && fatCubin != nullptr, CUDA_ERROR_INVALID_VALUE);
    finish_load(call, module, load_image(fatCubin, {}));
  });
}

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *fname) {
  return enter("cuModuleLoad", Needs::healthy, [&](Call &call) {
    require(module != nullptr, CUDA_ERROR_INVALID_VALUE);
    finish_load(call, module, load_file(fname, {}));
  });
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod) {
  return enter("cuModuleUnload", Needs::healthy, [&](Call &call) {
    auto module = driver().modules.get(hmod);
    require(!module->from_library, CUDA_ERROR_INVALID_HANDLE); // cuLibraryUnload ends those
    drain(call.lock, *module->context);
    require(driver().modules.find(hmod) == module, CUDA_ERROR_INVALID_HANDLE); // another thread was faster
    unload(*module);
  });
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  return enter("cuModuleGetLoadingMode", Needs::initialised, [&](Call &) {
    require(mode != nullptr, CUDA_ERROR_INVALID_VALUE);
    *mode = CU_MODULE_LAZY_LOADING; // kernels are decoded at their first use
  });
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
  return enter("cuModuleGetFunction", Needs::healthy, [&](Call &) {
    require(hfunc != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
    *hfunc = handle_of<CUfunction>(driver().modules.get(hmod)->function(name).get());
  });
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *count, CUmodule mod) {
  return enter("cuModuleGetFunctionCount", Needs::healthy, [&](Call &) {
    require(count != nullptr, CUDA_ERROR_INVALID_VALUE);
    *count = static_cast<unsigned>(driver().modules.get(mod)->instance->module().kernel_names().size());
  });
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod) {
  return enter("cuModuleEnumerateFunctions", Needs::healthy, [&](Call &) {
    require(functions != nullptr && numFunctions > 0, CUDA_ERROR_INVALID_VALUE);
    auto module = driver().modules.get(mod);
    const auto &names = module->instance->module().kernel_names();
    for (unsigned i = 0; i < numFunctions && i < names.size(); ++i)
      functions[i] = handle_of<CUfunction>(module->function(names[i]).get());
  });
}

namespace emulator::driver {

// Address and size of a variable; NOT_FOUND when there is none.
static GlobalInfo global_of(const LoadedModule &module, const char *name, uint64_t &address) {
  for (const auto &global : module.instance->module().globals())
    if (global.name == name && global.opaque == OpaqueKind::none) {
      address = module.instance->global_address(name);
      return global;
    }
  fail(CUDA_ERROR_NOT_FOUND);
}

} // namespace emulator::driver

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name) {
  return enter("cuModuleGetGlobal_v2", Needs::healthy, [&](Call &) {
    require(name != nullptr && (dptr || bytes), CUDA_ERROR_INVALID_VALUE);
    uint64_t address = 0;
    auto global = global_of(*driver().modules.get(hmod), name, address);
    if (dptr)
      *dptr = address;
    if (bytes)
      *bytes = global.size_bytes;
  });
}
