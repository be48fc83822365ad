#include "tile_ir.hpp"

#include "entry/entry.hpp"
#include "entry/log.hpp"

#include <cctype>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

namespace emulator::driver {
namespace {

constexpr std::string_view magic{"\x7fTileIR\0", 8};
constexpr size_t tile_ir_header_bytes = 12, most_names = 4096, most_name_bytes = 4096, most_depth = 8;
constexpr uint64_t most_alignment = 4096;
enum Section : uint8_t { section_end = 0, section_strings = 1, section_functions = 2, section_types = 5 };
constexpr uint8_t last_section = 6, section_is_aligned = 0x80;
enum FunctionFlag : uint8_t { function_is_entry = 2, function_has_hints = 4 };
enum Type : uint64_t { type_pointer = 12, type_tile = 13, type_function = 16 };

struct Damaged {
  const char *why;
};

using Bytes = std::string_view; // of char: other traits than those of characters are not in every library

struct Reader {
  Bytes data;
  size_t at = 0;

  Bytes take(uint64_t bytes) {
    if (bytes > data.size() - at)
      throw Damaged{"it is cut short"};
    Bytes taken = data.substr(at, bytes);
    at += bytes;
    return taken;
  }
  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }
  // Seven bits a byte, the lowest first.
  uint64_t number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      uint8_t next = byte();
      value |= shift < 64 ? uint64_t{next & 0x7fu} << shift : 0;
      if (next < 0x80)
        return value;
    }
    throw Damaged{"a number of more than 64 bits"};
  }
  void align(uint64_t alignment) { take((alignment - at % alignment) % alignment); }
};

std::map<uint8_t, Bytes> sections_of(Bytes data) {
  std::map<uint8_t, Bytes> found;
  Reader reader{data, tile_ir_header_bytes};
  for (uint8_t header = reader.byte(); (header & ~section_is_aligned) != section_end;
       header = reader.byte()) {
    uint8_t section = header & static_cast<uint8_t>(~section_is_aligned);
    uint64_t bytes = reader.number();
    if (header & section_is_aligned) {
      uint64_t alignment = reader.number();
      if (alignment == 0 || alignment > most_alignment || (alignment & (alignment - 1)))
        throw Damaged{"a section has an impossible alignment"};
      reader.align(alignment);
    }
    if (section > last_section || !found.emplace(section, reader.take(bytes)).second)
      throw Damaged{"a section of an unknown type, or two of one"};
  }
  return found;
}

// Items by number: their offsets come before their bytes.
struct Table {
  Bytes offsets, items;

  explicit Table(Bytes section) {
    if (section.empty())
      return;
    Reader reader{section};
    uint64_t count = reader.number();
    reader.align(sizeof(uint32_t));
    if (count > section.size() / sizeof(uint32_t))
      throw Damaged{"a table is cut short"};
    offsets = reader.take(count * sizeof(uint32_t));
    items = section.substr(reader.at);
  }
  uint32_t offset(uint64_t number) const {
    uint32_t value;
    std::memcpy(&value, offsets.data() + number * sizeof value, sizeof value);
    return value;
  }
  Bytes operator[](uint64_t number) const {
    uint64_t count = offsets.size() / sizeof(uint32_t);
    if (number >= count)
      throw Damaged{"a table has no such item"};
    size_t begin = offset(number), end = number + 1 < count ? offset(number + 1) : items.size();
    if (begin > end || end > items.size())
      throw Damaged{"a table points past its end"};
    return items.substr(begin, end - begin);
  }
};

void skip_attribute(Reader &reader, size_t depth) {
  if (depth > most_depth)
    throw Damaged{"attributes are nested too deeply"};
  switch (reader.byte()) {
  case 1: // an integer: its type, its value
    reader.number();
    [[fallthrough]];
  case 4: // a type, a string
  case 5:
    reader.number();
    return;
  case 3:
    reader.byte();
    return;
  case 6: // an array
    for (uint64_t left = reader.number(); left > 0; --left)
      skip_attribute(reader, depth + 1);
    return;
  case 10: // dictionaries
  case 11:
    for (uint64_t left = reader.number(); left > 0; --left) {
      reader.number();
      skip_attribute(reader, depth + 1);
    }
    return;
  default:
    throw Damaged{"an entry has an attribute of an unknown kind"};
  }
}

// Bits of a parameter: a tile without dimensions.
unsigned parameter_bits(const Table &types, uint64_t number) {
  static const std::map<uint64_t, unsigned> bits{{0, 8},  {1, 8},  {2, 16}, {3, 32},           {4, 64},
                                                 {5, 16}, {6, 16}, {7, 32}, {8, 32},           {9, 64},
                                                 {10, 8}, {11, 8}, {18, 8}, {type_pointer, 64}};
  Reader tile{types[number]};
  if (tile.number() == type_tile) {
    Reader element{types[tile.number()]};
    auto known = bits.find(element.number());
    if (tile.number() == 0 && known != bits.end())
      return known->second;
  }
  throw Damaged{"an entry has a parameter of an unknown type"};
}

std::string declared(const Table &types, uint64_t signature, Bytes name, const std::string &version) {
  if (name.size() > most_name_bytes)
    throw Damaged{"a name is too long"};
  for (char letter : name)
    if (!std::isalnum(static_cast<uint8_t>(letter)) && letter != '_' && letter != '$')
      throw Damaged{"the name of an entry is none that PTX could have"};
  Reader type{types[signature]};
  if (type.number() != type_function)
    throw Damaged{"the type of an entry is no function"};
  std::string text = ".visible .entry " + std::string(name) + "(";
  uint64_t count = type.number();
  if (count > most_names)
    throw Damaged{"an entry has too many parameters"};
  for (uint64_t n = 0; n < count; ++n)
    text += std::string(n ? ", " : "") + ".param .b" + std::to_string(parameter_bits(types, type.number())) +
            " parameter" + std::to_string(n);
  return text + ") { tileir." + version + "; ret; }\n";
}

} // namespace

bool is_tile_ir(const uint8_t *image, size_t bytes) {
  return bytes >= tile_ir_header_bytes && std::memcmp(image, magic.data(), magic.size()) == 0;
}

std::string ptx_of_tile_ir(const uint8_t *image, size_t bytes, int sm, std::string &log) {
  try {
    auto sections = sections_of({reinterpret_cast<const char *>(image), bytes});
    Table strings{sections[section_strings]}, types{sections[section_types]};
    unsigned version = image[8] * 100u + image[9]; // 1305
    std::string name = "v" + std::to_string(image[8]) + "_" + std::to_string(image[9]);
    std::string text = ".version 8.0\n.target sm_" + std::to_string(sm) + "\n.address_size 64\n";
    Reader functions{sections[section_functions]};
    uint64_t left = functions.data.empty() ? 0 : functions.number();
    if (left > most_names)
      throw Damaged{"it has too many functions"};
    for (; left > 0; --left) {
      uint64_t function = functions.number(), signature = functions.number();
      uint8_t flags = functions.byte();
      functions.number(); // debug information
      bool late = version >= 1305;
      if ((flags & function_is_entry) && (late || (flags & function_has_hints)))
        skip_attribute(functions, 0);
      if (late)
        skip_attribute(functions, 0);
      functions.take(functions.number());
      if (flags & function_is_entry)
        text += declared(types, signature, strings[function], name);
    }
    tell("Tile IR is loaded for capture alone: no CPU runs it, nor the cubin that tileiras makes of it; "
         "replay "
         "it on a GPU");
    return text;
  } catch (const Damaged &damaged) {
    log = std::string("Tile IR: ") + damaged.why;
    fail(CUDA_ERROR_INVALID_IMAGE);
  }
}

} // namespace emulator::driver
