#include "linker.hpp"
#include "entry/entry.hpp"

#include "image/image.hpp"
#include "module.hpp"

#include <fstream>
#include <iterator>

using namespace emulator::driver;

namespace {

constexpr size_t most_linked_bytes = size_t{1} << 30;

// Inputs that are no PTX are refused by what they hold, with the same words as a module of that kind; the
// type only says more where it is known to be something else.
void add(Linker &linker, CUjitInputType type, const void *data, size_t bytes, const std::string &name,
         const JitOptions &own_options) {
  require(!linker.completed, CUDA_ERROR_INVALID_VALUE);
  require(type >= 0 && type < CU_JIT_NUM_INPUT_TYPES && data != nullptr && bytes > 0,
          CUDA_ERROR_INVALID_VALUE);
  require_options(own_options);
  JitLog log(linker.options, linker.first_options());
  std::string shown = name.empty() ? "input " + std::to_string(linker.texts.size() + 1) : name;
  try {
    if (type == CU_JIT_INPUT_NVVM) {
      log.errors = "NVVM and LTO IR cannot be compiled here; give the linker PTX";
      fail(CUDA_ERROR_NOT_SUPPORTED);
    }
    // Nothing of it is needed: the executor has a device runtime of its own (exec/module/device_runtime.hpp).
    if (type == CU_JIT_INPUT_LIBRARY && name.find("cudadevrt") != std::string::npos)
      return;
    if (type == CU_JIT_INPUT_OBJECT || type == CU_JIT_INPUT_LIBRARY) {
      log.errors = "host objects and libraries are not taken apart here; give the linker the PTX or the fat "
                   "binaries that they hold (nvcc -ptx, nvcc -fatbin)";
      fail(CUDA_ERROR_NOT_SUPPORTED);
    }
    size_t held = bytes;
    for (const emulator::PtxText &text : linker.texts)
      held += text.text.size();
    require(held <= most_linked_bytes, CUDA_ERROR_OUT_OF_MEMORY);
    for (emulator::PtxText &text : texts_of_image(data, bytes, settings().compute_capability, log.errors)) {
      if (text.name.empty())
        text.name = shown;
      std::string why;
      emulator::LoadProblem problem = emulator::Module::check({"", text.text}, why);
      if (problem != emulator::LoadProblem::none) {
        log.errors = why;
        fail(problem == emulator::LoadProblem::unknown_version ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                                               : CUDA_ERROR_INVALID_PTX);
      }
      linker.texts.push_back(std::move(text));
    }
  } catch (const Error &) {
    if (!log.errors.empty()) {
      log.errors = shown + ": " + log.errors;
      tell("linker input refused: " + log.errors);
    }
    throw;
  }
}

} // namespace

CUresult CUDAAPI cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                                 CUlinkState *stateOut) {
  return enter("cuLinkCreate_v2", Needs::healthy, [&](Call &) {
    require(stateOut != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto linker = std::make_shared<Linker>();
    linker->options = {numOptions, options, optionValues};
    require_options(linker->options);
    linker->first_values.assign(optionValues, optionValues + numOptions);
    *stateOut = driver().linkers.add(linker);
  });
}

CUresult CUDAAPI cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                                  const char *name, unsigned int numOptions, CUjit_option *options,
                                  void **optionValues) {
  return enter("cuLinkAddData_v2", Needs::healthy, [&](Call &) {
    add(*driver().linkers.get(state), type, data, size, name ? name : "",
        {numOptions, options, optionValues});
  });
}

CUresult CUDAAPI cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                                  unsigned int numOptions, CUjit_option *options, void **optionValues) {
  return enter("cuLinkAddFile_v2", Needs::healthy, [&](Call &) {
    auto linker = driver().linkers.get(state);
    require(path != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::ifstream file(path, std::ios::binary);
    require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
    std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    add(*linker, type, bytes.data(), bytes.size(), path, {numOptions, options, optionValues});
  });
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
  return enter("cuLinkComplete", Needs::healthy, [&](Call &) {
    auto linker = driver().linkers.get(state);
    require(cubinOut != nullptr && !linker->texts.empty(), CUDA_ERROR_INVALID_VALUE);
    if (!linker->completed) {
      JitLog log(linker->options, linker->first_options());
      try {
        parsed(linker->texts, log.errors);
      } catch (const Error &) {
        tell("not linked: " + log.errors);
        throw;
      }
      log.information = "linked " + std::to_string(linker->texts.size()) + " PTX texts";
      if (unsigned most = value_of(linker->first_options(), CU_JIT_MAX_REGISTERS))
        note_register_limit(linker->texts, most);
      linker->image = joined(linker->texts);
      linker->completed = true;
    }
    // PTX is where the real driver puts a cubin: every loader of images takes both.
    *cubinOut = linker->image.data();
    if (sizeOut)
      *sizeOut = linker->image.size() + 1; // with the NUL
  });
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state) {
  return enter("cuLinkDestroy", Needs::healthy,
               [&](Call &) { driver().linkers.remove(driver().linkers.get(state).get()); });
}
