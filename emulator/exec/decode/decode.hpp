// A kernel of a module, with everything it calls, to a Program.
#pragma once

#include <functional>
#include <memory>

#include "exec/program/program.hpp"

namespace emulator {

struct DecodeOptions {
  bool fuse_multiply_add = false;
  bool defer = false; // asynchronous operations
};

// Never fails: what cannot be decoded is named in KernelInfo::unsupported.
std::unique_ptr<Program> decode_kernel(const ptx::Module &module, const ptx::Function &kernel,
                                       const std::function<uint64_t(const ptx::Variable &)> &global_address,
                                       DecodeOptions options = {});

} // namespace emulator
