#include "ptx/syntax/module.hpp"

namespace emulator::ptx {

std::string place_of(const Module &module, const SourceLine &line) {
  std::string ptx = "PTX line " + std::to_string(line.ptx_line);
  if (line.text >= module.texts.size())
    return ptx;
  const Text &text = module.texts[line.text];
  if (module.texts.size() > 1 && !text.name.empty())
    ptx += " of " + text.name;
  auto named = [&](uint32_t file, uint32_t number) {
    auto found = text.files.find(file);
    return found == text.files.end() ? std::string()
                                     : std::string(found->second) + ":" + std::to_string(number);
  };
  std::string source = line.file ? named(line.file, line.line) : "";
  if (source.empty())
    return ptx;
  std::string inlined = line.inlined_at_file ? named(line.inlined_at_file, line.inlined_at_line) : "";
  return source + (inlined.empty() ? "" : ", inlined at " + inlined) + " (" + ptx + ")";
}

} // namespace emulator::ptx
