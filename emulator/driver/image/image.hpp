// Module images as the driver is handed them: PTX text, a fat binary, its wrapper, or what cuLinkComplete
// gave. What is taken from them are PTX texts; machine code cannot be run here.
#pragma once

#include "core/settings.hpp"
#include "entry/entry.hpp"
#include "exec/module/module.hpp"

#include <string>

namespace emulator::driver {

// The PTX texts for a device of this capability: one, or those of a program built with -rdc=true, which have
// to be linked. Throws the error the driver returns, with `log` saying why. `image` comes from a program in
// this process and has no length: sizes inside it are checked against each other, and against what can be
// read there.
std::vector<PtxText> texts_of_image(const void *image, const setting::capability &device, std::string &log);

// The same for bytes with a known length (files, linker input).
std::vector<PtxText> texts_of_image(const void *image, size_t bytes, const setting::capability &device,
                                    std::string &log);

// Several texts as one image, which texts_of_image takes apart again: a line that says how many there are,
// then before each text a line with its length and name. A single text is its own image.
std::string joined(const std::vector<PtxText> &texts);

// The linker's CU_JIT_MAX_REGISTERS travels as a comment at the end of each text. 0: there is none.
void note_register_limit(std::vector<PtxText> &texts, unsigned most);
unsigned register_limit(const std::vector<PtxText> &texts);

} // namespace emulator::driver
