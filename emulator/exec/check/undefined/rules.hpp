// How operations hand on bits that nothing has written, by their names in the operation table.
#pragma once

#include <string_view>

#include "exec/program/shadow_form.hpp"

namespace emulator {

ShadowRule shadow_rule(std::string_view form);

} // namespace emulator
