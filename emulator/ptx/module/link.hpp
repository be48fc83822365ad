#pragma once

#include "ptx/syntax/module.hpp"

namespace emulator::ptx {

// Resolves names across the texts of a module. Throws SyntaxError.
void link(Module &module);

} // namespace emulator::ptx
