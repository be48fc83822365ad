// Libraries that a program loads itself.
#include "core/entry.hpp"
#include "core/same.hpp"
#include "registry.hpp"

using namespace emulator::runtime;

// clang-format off
FORWARD(cudaLibraryLoadData,
        (cudaLibrary_t *library, const void *code, cudaJitOption *jitOptions, void **jitOptionsValues,
         unsigned int numJitOptions, cudaLibraryOption *libraryOptions, void **libraryOptionValues,
         unsigned int numLibraryOptions),
        cuLibraryLoadData,
        (library, code, same(jitOptions), jitOptionsValues, numJitOptions, same(libraryOptions), libraryOptionValues,
         numLibraryOptions))
FORWARD(cudaLibraryLoadFromFile,
        (cudaLibrary_t *library, const char *fileName, cudaJitOption *jitOptions, void **jitOptionsValues,
         unsigned int numJitOptions, cudaLibraryOption *libraryOptions, void **libraryOptionValues,
         unsigned int numLibraryOptions),
        cuLibraryLoadFromFile,
        (library, fileName, same(jitOptions), jitOptionsValues, numJitOptions, same(libraryOptions),
         libraryOptionValues, numLibraryOptions))
FORWARD(cudaLibraryUnload, (cudaLibrary_t library), cuLibraryUnload, (library))
FORWARD(cudaLibraryGetGlobal, (void **dptr, size_t *bytes, cudaLibrary_t library, const char *name),
        cuLibraryGetGlobal, (device_pointer(dptr), bytes, library, name))
FORWARD(cudaLibraryGetManaged, (void **dptr, size_t *bytes, cudaLibrary_t library, const char *name),
        cuLibraryGetManaged, (device_pointer(dptr), bytes, library, name))
FORWARD(cudaLibraryGetUnifiedFunction, (void **fptr, cudaLibrary_t library, const char *symbol),
        cuLibraryGetUnifiedFunction, (fptr, library, symbol))
FORWARD(cudaLibraryGetKernelCount, (unsigned int *count, cudaLibrary_t lib), cuLibraryGetKernelCount, (count, lib))
// clang-format on

cudaError_t CUDARTAPI cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name) {
  return enter(Needs::context, [&] {
    require(driver.call_cuLibraryGetKernel(pKernel, library, name));
    note_kernel(*pKernel);
  });
}

cudaError_t CUDARTAPI cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned int numKernels,
                                                  cudaLibrary_t lib) {
  return enter(Needs::context, [&] {
    unsigned count = 0;
    require(driver.call_cuLibraryGetKernelCount(&count, lib));
    require(driver.call_cuLibraryEnumerateKernels(kernels, numKernels, lib));
    for (unsigned i = 0; i < numKernels && i < count; ++i)
      note_kernel(kernels[i]);
  });
}
