#include "exec/check/findings.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "exec/check/numbers/formats.hpp"
#include "exec/warp/readable_name.hpp"

namespace emulator {

namespace {

std::string line_of(const ptx::Module &module, const ptx::SourceLine &source) {
  if (source.text >= module.texts.size())
    return "";
  std::string_view all = module.texts[source.text].text;
  size_t begin = 0;
  for (uint32_t number = 1; number < source.ptx_line && begin < all.size(); ++number)
    begin = next_line(all, begin);
  return readable_line(all, begin);
}

Side side(const Launch &launch, uint32_t instruction, uint64_t block, uint32_t thread) {
  const ptx::SourceLine &source = launch.program->source[instruction];
  Side found;
  found.instruction = line_of(*launch.module, source);
  found.text = source.text;
  found.ptx_line = source.ptx_line;
  if (source.text < launch.module->texts.size()) {
    const auto &files = launch.module->texts[source.text].files;
    if (auto file = files.find(source.file); file != files.end()) {
      found.file = without_folders(file->second);
      found.line = source.line;
    }
  }
  const Dim3 &grid = launch.request->grid, &size = launch.request->block;
  found.block = {static_cast<uint32_t>(block % grid.x), static_cast<uint32_t>(block / grid.x % grid.y),
                 static_cast<uint32_t>(block / grid.x / grid.y)};
  found.thread = {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
  return found;
}

// Empty for a number of no bytes.
std::string hexadecimal(uint64_t value, uint32_t bytes) {
  char text[24] = "";
  if (bytes != 0)
    std::snprintf(text, sizeof text, "0x%0*llx", static_cast<int>(2 * bytes),
                  static_cast<unsigned long long>(value));
  return text;
}

// The variable that holds the offset, which becomes one in the variable.
std::string variable_at(const Program &program, uint64_t &offset) {
  const SharedVariable *found = nullptr;
  for (const SharedVariable &variable : program.shared_variables)
    if (offset >= variable.offset && (variable.bytes == 0 || offset - variable.offset < variable.bytes) &&
        (!found || variable.bytes != 0))
      found = &variable;
  if (!found)
    return "";
  offset -= found->offset;
  return found->name;
}

} // namespace

void place_sites(TouchedSites &sites, const Launch &launch) {
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> first; // instruction of each line
  const std::vector<ptx::SourceLine> &source = launch.program->source;
  for (uint32_t k = 0; k < source.size(); ++k)
    first.try_emplace({source[k].text, source[k].ptx_line}, k);
  const Dim3 &grid = launch.request->grid, &block = launch.request->block;
  for (auto &[key, site] : sites) {
    site.side = side(launch, first.at({std::get<0>(key), std::get<1>(key)}), 0, 0);
    site.grid = {grid.x, grid.y, grid.z};
    site.block = {block.x, block.y, block.z};
  }
}

void note(FoundPlaces &to, const FoundKey &key, const FoundExample &example) {
  auto [place, is_new] = to.try_emplace(key, example);
  if (!is_new) {
    uint64_t count = place->second.count + example.count;
    if (example.block < place->second.block)
      place->second = example;
    place->second.count = count;
  } else if (to.size() > most_findings) {
    // The last ones go: what is kept does not depend on which came first.
    to.erase(std::prev(to.end()));
  }
}

void add(FoundPlaces &to, const FoundPlaces &more) {
  for (const auto &[key, example] : more)
    note(to, key, example);
}

std::vector<Finding> named(const FoundPlaces &found, const Launch &launch) {
  std::vector<std::pair<const FoundExample *, Finding>> all;
  for (const auto &[key, example] : found) {
    const auto &[check, kind, first, second, same_value, one_warp] = key;
    Finding one;
    one.check = check;
    one.kind = kind;
    one.first = side(launch, first, example.first_block == UINT64_MAX ? example.block : example.first_block,
                     example.first_thread);
    one.has_two_sides = check == Check::race || (check == Check::init && first != second);
    if (one.has_two_sides)
      one.second = side(launch, second, example.block, example.second_thread);
    const std::vector<Instruction> &code = launch.program->code;
    one.asynchronous = check == Check::race && (code[first].is_copy || code[second].is_copy);
    if (example.writer_instruction != UINT32_MAX) {
      one.has_writer = true;
      one.writer = side(launch, example.writer_instruction, example.writer_block, example.writer_thread);
    }
    one.value = hexadecimal(example.values[0], example.value_bytes);
    one.new_value = hexadecimal(example.values[1], example.new_value_bytes);
    one.same_value = same_value;
    one.one_warp = one_warp;
    one.count = example.count;
    one.space = example.space;
    if (!one.space.empty()) {
      one.offset = example.offset;
      if (one.space == "shared")
        one.variable = variable_at(*launch.program, one.offset);
      else if (one.space == "global") {
        one.allocation = launch.memory->find(one.offset).base;
        one.offset -= one.allocation;
      }
      one.bytes = example.bytes;
    }
    if (check >= Check::numbers) {
      const WatchedNumbers &watched = launch.program->watched[first];
      one.result = number_text(watched.result, example.values[0]);
      for (uint32_t s = 0; s < watched.source_count; ++s)
        one.operands.push_back(number_text(watched.sources[s], example.values[s + 1]));
    }
    all.emplace_back(&example, std::move(one));
  }
  // What comes after a first NaN may come from it.
  std::stable_sort(all.begin(), all.end(), [](const auto &a, const auto &b) {
    if (a.second.check != b.second.check || a.second.check < Check::numbers)
      return a.second.check < b.second.check;
    return std::tie(a.first->block, a.first->order) < std::tie(b.first->block, b.first->order);
  });
  std::vector<Finding> findings;
  for (auto &[example, one] : all)
    findings.push_back(std::move(one));
  return findings;
}

} // namespace emulator
