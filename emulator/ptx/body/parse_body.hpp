#pragma once

#include <memory>

#include "ptx/syntax/module.hpp"

namespace emulator::ptx {

// Throws SyntaxError.
std::unique_ptr<Body> parse_body(const Module &module, const Function &function);

} // namespace emulator::ptx
