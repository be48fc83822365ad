// A kernel in one context: what a CUfunction is.
#pragma once

#include "device/driver.hpp"
#include "exec/interface/launch.hpp"

#include <string>

namespace emulator::driver {

struct Function {
  LoadedModule *module = nullptr; // outlives its functions
  const KernelInfo *info = nullptr;
  std::string name;
  int max_dynamic_shared_bytes = -1; // -1 until set: the default depends on the static size
  int carveout = -1;
  bool non_portable_cluster = false;
  uint32_t required_cluster[3] = {0, 0, 0};
  int cluster_policy = 0;

  uint32_t dynamic_shared_limit() const;
  uint32_t registers() const; // of a thread
};

// A CUfunction, or a CUkernel that was cast to one, in the current context.
std::shared_ptr<Function> function_of(Context &context, CUfunction handle);
std::shared_ptr<Function> function_of_kernel(Context &context, Kernel &kernel);

int get_attribute(const Function &function, const Device &device, CUfunction_attribute attribute);
void set_attribute(Function &function, const Device &device, CUfunction_attribute attribute, int value);
void get_parameter(const KernelInfo &info, size_t index, size_t *offset, size_t *size);

} // namespace emulator::driver
