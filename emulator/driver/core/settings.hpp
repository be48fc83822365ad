// Settings are read from the environment once, at the first driver call. A value that cannot be understood
// makes cuInit fail with a line that names it: a test that runs with a misspelt setting proves nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <regex>
#include <string>

namespace emulator::driver {

namespace setting {
using integer = uint64_t;
using real = double;
using flag = bool;
using text = std::string;
struct capability {
  int major = 9;
  int minor = 0;
  int sm() const { return major * 10 + minor; }
};
using pattern = std::optional<std::regex>;
struct pattern_factor {
  pattern kernel;
  double factor = 1.0;
};
struct checks {
  uint32_t bits = 0;   // bit_of(Check)
  bool memory = false; // what is freed twice, or never
};
// function name -> (number of the call, from 1 -> error)
using failures = std::map<std::string, std::map<uint64_t, int>>;
} // namespace setting

struct Settings {
#define KNOB(member, type, variable, fallback, help) setting::type member{};
#include "settings.inc"
#undef KNOB
  std::string problem; // empty, or what is wrong with which variable
};

// Reads the environment; never throws for a bad value (see Settings::problem).
Settings read_settings();

// The process's settings, read at the first use.
const Settings &settings();

} // namespace emulator::driver
