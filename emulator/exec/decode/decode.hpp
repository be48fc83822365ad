// A kernel of a module, with everything it calls, to a Program.
#pragma once

#include <functional>
#include <memory>
#include <tuple>

#include "exec/program/program.hpp"

namespace emulator {

// Which of its codes a kernel is decoded to.
struct CodeForm {
  bool fuse_multiply_add = false; // REPLAY_EMULATOR_FUSE
  bool stepwise = false;          // may stop after any instruction: REPLAY_EMULATOR_INTERLEAVE, a seed
  bool defer = false;             // asynchronous operations: REPLAY_EMULATOR_DEFERRED
  bool check = false;             // REPLAY_EMULATOR_CHECKS
  bool watch_numbers = false;     // the check of that name is one of them
  bool watch_undefined = false;   // init is one of them
  bool operator<(const CodeForm &other) const {
    return std::tie(fuse_multiply_add, stepwise, defer, check, watch_numbers, watch_undefined) <
           std::tie(other.fuse_multiply_add, other.stepwise, other.defer, other.check, other.watch_numbers,
                    other.watch_undefined);
  }
};

// Never fails: what cannot be decoded is named in KernelInfo::unsupported.
std::unique_ptr<Program> decode_kernel(const ptx::Module &module, const ptx::Function &kernel,
                                       const std::function<uint64_t(const ptx::Variable &)> &global_address,
                                       const CodeForm &form);

} // namespace emulator
