#pragma once

#include <string>
#include <string_view>

namespace emulator {

// "scale<float>(float*) [_Z5scaleIfEvPT_]", or the name as it is where it is not mangled or does not tell
// more.
std::string readable_name(const std::string &name);

// The part of the text from `begin` to the end of its line, without what is blank around it. The first 160
// characters.
std::string readable_line(std::string_view text, size_t begin);
// Where the next line begins; of the last one, the end of the text.
size_t next_line(std::string_view text, size_t begin);
// A path without its folders: their names may be those of people. The first 160 characters.
std::string without_folders(std::string_view path);

} // namespace emulator
