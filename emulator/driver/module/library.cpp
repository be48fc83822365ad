// Libraries: images loaded once for every context. A context gets its own module at the first use there.
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "function.hpp"
#include "image/jit_options.hpp"
#include "memory/allocations.hpp"
#include "module.hpp"
#include "stream/scheduler.hpp"

#include <algorithm>

namespace emulator::driver {

std::shared_ptr<Kernel> Library::kernel(const std::string &name) {
  const auto &names = module->kernel_names();
  require(std::find(names.begin(), names.end(), name) != names.end(), CUDA_ERROR_NOT_FOUND);
  auto &slot = kernels[name];
  if (!slot) {
    slot = std::make_shared<Kernel>();
    slot->library = this;
    slot->name = name;
    driver().kernels.add(slot);
  }
  return slot;
}

LoadedModule &Library::in(Context &context) {
  auto &slot = modules[&context];
  if (!slot) {
    try {
      slot = place(context, module, &managed);
      slot->max_registers = max_registers;
    } catch (const Error &) {
      modules.erase(&context);
      throw;
    }
    slot->from_library = true;
  }
  return *slot;
}

std::shared_ptr<Function> function_of_kernel(Context &context, Kernel &kernel) {
  LoadedModule &module = kernel.library->in(context);
  bool first = module.functions.count(kernel.name) == 0;
  auto function = module.function(kernel.name);
  if (first) // attributes set through the kernel before this context used it
    for (const auto &[key, value] : kernel.attributes)
      if (key.first == context.device.ordinal)
        set_attribute(*function, context.device, static_cast<CUfunction_attribute>(key.second), value);
  return function;
}

} // namespace emulator::driver

using namespace emulator::driver;

namespace {

// The current context, or the primary one of the device: what a library needs before a context is current.
std::shared_ptr<Context> context_for(CUdevice ordinal) {
  Device &device = device_of(ordinal);
  Context *current = current_context();
  if (current && current->alive && &current->device == &device)
    return current->shared_from_this();
  return primary_context(device);
}

void finish_load(CUlibrary *library, const LoadedImage &image) {
  auto object = std::make_shared<Library>();
  object->module = image.program;
  object->max_registers = image.max_registers;
  *library = driver().libraries.add(object);
}

void require_library_options(CUlibraryOption *options, void **values, unsigned count) {
  require(count == 0 || options != nullptr, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < count; ++i)
    require(options[i] >= 0 && options[i] < CU_LIBRARY_NUM_OPTIONS, CUDA_ERROR_INVALID_VALUE);
  (void)values; // the image is parsed at once, so it need not be preserved
}

CUresult find_global(const char *function, CUdeviceptr *address, size_t *bytes, CUlibrary handle,
                     const char *name, bool managed) {
  return enter(function, managed ? Needs::initialised : Needs::healthy, [&](Call &call) {
    require(name != nullptr && (address || bytes), CUDA_ERROR_INVALID_VALUE);
    auto library = driver().libraries.get(handle);
    const auto &globals = library->module->globals();
    auto found = std::find_if(globals.begin(), globals.end(), [&](const emulator::GlobalInfo &global) {
      return global.name == name && (!managed || global.is_managed);
    });
    require(found != globals.end(), CUDA_ERROR_NOT_FOUND);
    auto context = call.context ? call.context->shared_from_this() : context_for(0);
    LoadedModule &module = library->in(*context);
    if (address)
      *address = module.instance->global_address(name);
    if (bytes)
      *bytes = found->size_bytes;
  });
}

} // namespace

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                                   void **jitOptionsValues, unsigned int numJitOptions,
                                   CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                   unsigned int numLibraryOptions) {
  return enter("cuLibraryLoadData", Needs::initialised, [&](Call &) {
    require(library != nullptr && code != nullptr, CUDA_ERROR_INVALID_VALUE);
    require_library_options(libraryOptions, libraryOptionValues, numLibraryOptions);
    finish_load(library, load_image(code, {numJitOptions, jitOptions, jitOptionsValues}));
  });
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                                       void **jitOptionsValues, unsigned int numJitOptions,
                                       CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                       unsigned int numLibraryOptions) {
  return enter("cuLibraryLoadFromFile", Needs::initialised, [&](Call &) {
    require(library != nullptr && fileName != nullptr, CUDA_ERROR_INVALID_VALUE);
    require_library_options(libraryOptions, libraryOptionValues, numLibraryOptions);
    finish_load(library, load_file(fileName, {numJitOptions, jitOptions, jitOptionsValues}));
  });
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library) {
  return enter("cuLibraryUnload", Needs::initialised, [&](Call &call) {
    auto object = driver().libraries.get(library);
    driver().libraries.remove(object.get());
    for (const auto &[name, kernel] : object->kernels)
      driver().kernels.remove(kernel.get()); // first: nothing may be placed any more while this waits
    auto modules = std::move(object->modules);
    for (const auto &[context, module] : modules) {
      drain(call.lock, *module->context);
      unload(*module);
    }
    for (const auto &[name, allocation] : object->managed)
      if (allocations().find(allocation->base) == allocation) // its context may have ended first
        release(allocation);
  });
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
  return enter("cuLibraryGetKernel", Needs::initialised, [&](Call &) {
    require(pKernel != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pKernel = handle_of<CUkernel>(driver().libraries.get(library)->kernel(name).get());
  });
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib) {
  return enter("cuLibraryGetKernelCount", Needs::initialised, [&](Call &) {
    require(count != nullptr, CUDA_ERROR_INVALID_VALUE);
    *count = static_cast<unsigned>(driver().libraries.get(lib)->module->kernel_names().size());
  });
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib) {
  return enter("cuLibraryEnumerateKernels", Needs::initialised, [&](Call &) {
    require(kernels != nullptr && numKernels > 0, CUDA_ERROR_INVALID_VALUE);
    auto library = driver().libraries.get(lib);
    const auto &names = library->module->kernel_names();
    for (unsigned i = 0; i < numKernels && i < names.size(); ++i)
      kernels[i] = handle_of<CUkernel>(library->kernel(names[i]).get());
  });
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
  return enter("cuLibraryGetModule", Needs::healthy, [&](Call &call) {
    require(pMod != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pMod = handle_of<CUmodule>(&driver().libraries.get(library)->in(*call.context));
  });
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
  return find_global("cuLibraryGetGlobal", dptr, bytes, library, name, false);
}

CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name) {
  return find_global("cuLibraryGetManaged", dptr, bytes, library, name, true);
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel) {
  return enter("cuKernelGetFunction", Needs::healthy, [&](Call &call) {
    require(pFunc != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pFunc = handle_of<CUfunction>(function_of_kernel(*call.context, *driver().kernels.get(kernel)).get());
  });
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel) {
  return enter("cuKernelGetLibrary", Needs::initialised, [&](Call &) {
    require(pLib != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pLib = handle_of<CUlibrary>(driver().kernels.get(kernel)->library);
  });
}

CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel hfunc) {
  return enter("cuKernelGetName", Needs::initialised, [&](Call &) {
    require(name != nullptr, CUDA_ERROR_INVALID_VALUE);
    *name = driver().kernels.get(hfunc)->name.c_str();
  });
}

CUresult CUDAAPI cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  return enter("cuKernelGetAttribute", Needs::initialised, [&](Call &) {
    require(pi != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto object = driver().kernels.get(kernel);
    *pi = get_attribute(*function_of_kernel(*context_for(dev), *object), device_of(dev), attrib);
  });
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  return enter("cuKernelSetAttribute", Needs::initialised, [&](Call &) {
    auto object = driver().kernels.get(kernel);
    Device &device = device_of(dev);
    set_attribute(*function_of_kernel(*context_for(dev), *object), device, attrib, val);
    object->attributes[{device.ordinal, attrib}] = val;
    for (const auto &[context, module] : object->library->modules)
      if (&context->device == &device && module->functions.count(object->name))
        set_attribute(*module->functions[object->name], device, attrib, val);
  });
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice dev) {
  return enter("cuKernelSetCacheConfig", Needs::initialised, [&](Call &) {
    driver().kernels.get(kernel);
    device_of(dev); // a hint without effect
  });
}

// The layout of a kernel's parameters, in whatever context there is.
static const emulator::KernelInfo &layout_of(CUkernel kernel) {
  auto object = driver().kernels.get(kernel);
  Context *current = current_context();
  auto context = context_for(current && current->alive ? current->device.ordinal : 0);
  return *function_of_kernel(*context, *object)->info;
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                                      size_t *paramSize) {
  return enter("cuKernelGetParamInfo", Needs::initialised,
               [&](Call &) { get_parameter(layout_of(kernel), paramIndex, paramOffset, paramSize); });
}

CUresult CUDAAPI cuKernelGetParamCount(CUkernel kernel, size_t *paramCount) {
  return enter("cuKernelGetParamCount", Needs::initialised, [&](Call &) {
    require(paramCount != nullptr, CUDA_ERROR_INVALID_VALUE);
    *paramCount = layout_of(kernel).parameters.size();
  });
}
