// Which functions belong to a kernel, and which of them call which.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ptx/syntax/module.hpp"

namespace emulator {

struct Unit {
  const ptx::Function *function = nullptr;
  std::unique_ptr<ptx::Body> body;
  std::vector<uint32_t> calls; // positions of units; a call of an address may mean any but the kernel
  bool recursive = false;      // can be entered again before it returns
};

// The kernel comes first. Throws Unsupported and ptx::SyntaxError.
std::vector<Unit> find_units(const ptx::Module &module, const ptx::Function &kernel);

} // namespace emulator
