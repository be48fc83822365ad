#include "exec/warp/readable_name.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

namespace emulator {

namespace {

// Names come from strangers, and substitutions can make a short one demangle to gigabytes.
constexpr size_t longest_demangled = 256;
constexpr int most_substitutions = 12;

constexpr size_t most_characters = 160; // of an instruction, and of a file's name

} // namespace

std::string readable_name(const std::string &name) {
  int substitutions = 0;
  for (size_t k = 0; k + 1 < name.size(); ++k)
    substitutions += (name[k] == 'S' || name[k] == 'T') &&
                     (name[k + 1] == '_' || (name[k + 1] >= '0' && name[k + 1] <= '9'));
  if (name.compare(0, 2, "_Z") != 0 || name.size() > longest_demangled || substitutions > most_substitutions)
    return name;
  int status = 0;
  char *text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string readable = text && status == 0 ? std::string(text) + " [" + name + "]" : name;
  std::free(text);
  return readable;
}

std::string readable_line(std::string_view text, size_t begin) {
  std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
  return first == std::string_view::npos
             ? ""
             : std::string(line.substr(first, std::min(last + 1 - first, most_characters)));
}

size_t next_line(std::string_view text, size_t begin) {
  return std::min(text.find('\n', begin), text.size() - 1) + 1;
}

std::string without_folders(std::string_view path) {
  std::string all; // PTX writes bytes that are no ASCII as \\ and three octal digits
  auto digit = [&](size_t at) { return at < path.size() && path[at] >= '0' && path[at] <= '7'; };
  for (size_t at = 0; at < path.size(); ++at) {
    bool octal = path[at] == '\\' && digit(at + 1) && digit(at + 2) && digit(at + 3) && path[at + 1] <= '3';
    all += octal
               ? static_cast<char>((path[at + 1] - '0') * 64 + (path[at + 2] - '0') * 8 + path[at + 3] - '0')
               : path[at];
    at += octal ? 3 : 0;
  }
  size_t slash = all.find_last_of("/\\");
  return all.substr(slash == std::string::npos ? 0 : slash + 1).substr(0, most_characters);
}

} // namespace emulator
