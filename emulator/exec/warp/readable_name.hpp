#pragma once

#include <string>

namespace emulator {

// "scale<float>(float*) [_Z5scaleIfEvPT_]", or the name as it is where it is not mangled or does not tell
// more.
std::string readable_name(const std::string &name);

} // namespace emulator
