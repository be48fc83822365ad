// Lines of JSON that are appended to the file of a setting.
#pragma once

#include <string>

namespace emulator::driver {

// A text as JSON has it. A kernel's name comes from a PTX text and may hold anything.
std::string quoted(const std::string &text);

// Appends a line, which ends with a newline, to the file; %p in its path is the process. A file that cannot
// be written is named on stderr once, with what it is of, and changes nothing for the program.
void append_line(const std::string &what, std::string path, const std::string &line);

} // namespace emulator::driver
