// Module images as the driver is handed them: PTX text, a fat binary, or its wrapper. What is taken from them
// is one PTX text; machine code cannot be run here.
#pragma once

#include "core/entry.hpp"
#include "core/settings.hpp"

#include <string>

namespace emulator::driver {

// The PTX text for a device of this capability. Throws the error the driver returns, with `log` saying why.
// `image` comes from a program in this process and has no length: sizes inside it are checked against each
// other, but a pointer to something else is the caller's fault, as it is on the real driver.
std::string ptx_of_image(const void *image, const setting::capability &device, std::string &log);

// The same for bytes with a known length (files, linker input).
std::string ptx_of_image(const void *image, size_t bytes, const setting::capability &device,
                         std::string &log);

} // namespace emulator::driver
