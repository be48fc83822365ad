#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ptx/syntax/module.hpp"

namespace emulator::ptx {

// A text and its name, as the caller has them.
struct Source {
  std::string name;
  std::string text;
};

// Parses each text, links them, and checks the form of every body. Throws SyntaxError; what cannot be linked
// is one too.
std::unique_ptr<Module> parse_module(std::vector<Source> texts, IsProvided is_provided);

} // namespace emulator::ptx
