// Modules (one context), libraries (every context) and the kernels of libraries.
#pragma once

#include "device/driver.hpp"
#include "exec/module/module.hpp"

#include <map>
#include <string>

namespace emulator::driver {

struct Allocation;
struct JitOptions;

// Throw the driver's error, with `log` or the caller's log buffers saying why.
std::shared_ptr<const Module> parsed(std::vector<PtxText> texts, std::string &log);
struct LoadedImage {
  std::shared_ptr<const Module> program;
  unsigned max_registers = 0; // CU_JIT_MAX_REGISTERS, of this load or of the linker; 0: none
};
LoadedImage load_image(const void *image, const JitOptions &options);
LoadedImage load_file(const char *path, const JitOptions &options);

// A program placed in the memory of one context.
struct LoadedModule : std::enable_shared_from_this<LoadedModule> {
  Context *context = nullptr;
  std::unique_ptr<Instance> instance;
  std::vector<std::shared_ptr<Allocation>> globals;
  std::map<std::string, std::shared_ptr<Function>> functions; // those that were asked for
  bool from_library = false;
  unsigned max_registers = 0; // as LoadedImage's

  // CUDA_ERROR_NOT_FOUND when there is no such kernel.
  std::shared_ptr<Function> function(const std::string &name);
};

// `managed` maps names to memory that exists already (a library's, shared by its contexts); new ones are
// added.
using ManagedMemory = std::map<std::string, std::shared_ptr<Allocation>>;
std::shared_ptr<LoadedModule> place(Context &context, const std::shared_ptr<const Module> &module,
                                    ManagedMemory *managed);
void unload(LoadedModule &module);

struct Library : std::enable_shared_from_this<Library> {
  std::shared_ptr<const Module> module;
  std::map<const Context *, std::shared_ptr<LoadedModule>> modules; // made at the first use in a context
  std::map<std::string, std::shared_ptr<Kernel>> kernels;
  ManagedMemory managed;
  unsigned max_registers = 0; // as LoadedImage's

  std::shared_ptr<Kernel> kernel(const std::string &name);
  LoadedModule &in(Context &context);
};

struct Kernel {
  Library *library = nullptr;
  std::string name;
  std::map<std::pair<int, int>, int> attributes; // (device, attribute) -> value set through the kernel
};

} // namespace emulator::driver
