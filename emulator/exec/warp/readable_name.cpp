#include "exec/warp/readable_name.hpp"

#include <cxxabi.h>

#include <cstdlib>

namespace emulator {

namespace {

// Names come from strangers, and substitutions can make a short one demangle to gigabytes.
constexpr size_t longest_demangled = 256;
constexpr int most_substitutions = 12;

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

} // namespace emulator
