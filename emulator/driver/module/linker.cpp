#include "linker.hpp"

#include "image.hpp"

#include <fstream>
#include <iterator>

using namespace emulator::driver;

namespace {

void add(Linker &linker, CUjitInputType type, const void *data, size_t bytes) {
  require(!linker.completed, CUDA_ERROR_INVALID_VALUE);
  require(type >= 0 && type < CU_JIT_NUM_INPUT_TYPES && data != nullptr && bytes > 0,
          CUDA_ERROR_INVALID_VALUE);
  std::string log;
  try {
    // Machine code is refused here with the same message as a module of machine code.
    std::string ptx = ptx_of_image(data, bytes, settings().compute_capability, log);
    if (++linker.inputs > 1) {
      log = "the linker takes one input here; PTX of several inputs is not merged";
      fail(CUDA_ERROR_NOT_SUPPORTED);
    }
    linker.ptx = std::move(ptx);
  } catch (const Error &) {
    if (!log.empty())
      tell("linker input refused: " + log);
    throw;
  }
}

} // namespace

CUresult CUDAAPI cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                                 CUlinkState *stateOut) {
  return enter("cuLinkCreate_v2", Needs::healthy, [&](Call &) {
    require(stateOut != nullptr && (numOptions == 0 || (options && optionValues)), CUDA_ERROR_INVALID_VALUE);
    *stateOut = driver().linkers.add(std::make_shared<Linker>());
  });
}

CUresult CUDAAPI cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                                  const char *, unsigned int, CUjit_option *, void **) {
  return enter("cuLinkAddData_v2", Needs::healthy,
               [&](Call &) { add(*driver().linkers.get(state), type, data, size); });
}

CUresult CUDAAPI cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int,
                                  CUjit_option *, void **) {
  return enter("cuLinkAddFile_v2", Needs::healthy, [&](Call &) {
    auto linker = driver().linkers.get(state);
    require(path != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::ifstream file(path, std::ios::binary);
    require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
    std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    add(*linker, type, bytes.data(), bytes.size());
  });
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
  return enter("cuLinkComplete", Needs::healthy, [&](Call &) {
    auto linker = driver().linkers.get(state);
    require(cubinOut != nullptr && linker->inputs == 1, CUDA_ERROR_INVALID_VALUE);
    linker->completed = true;
    // PTX stands where the real driver puts a cubin: every loader of images takes both.
    *cubinOut = linker->ptx.data();
    if (sizeOut)
      *sizeOut = linker->ptx.size() + 1; // with the NUL
  });
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state) {
  return enter("cuLinkDestroy", Needs::healthy,
               [&](Call &) { driver().linkers.remove(driver().linkers.get(state).get()); });
}
