#include "ptx/syntax/declarations.hpp"

#include "ptx/syntax/expression.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace emulator::ptx {

namespace {

constexpr uint64_t largest_variable_bytes = uint64_t{1} << 40;
constexpr int deepest_initialiser = 16;
// Rows that an initial value leaves out are filled up, so a short text could ask for any amount.
constexpr uint64_t most_initialised_bytes = uint64_t{256} << 20;

void put_bits(Lexer &lexer, Variable &variable, uint64_t offset, uint64_t bits, uint32_t size) {
  if (variable.size_bytes != 0 && offset + size > variable.size_bytes)
    lexer.fail("more initial values than '" + std::string(variable.name) + "' has elements");
  if (offset + size > most_initialised_bytes)
    lexer.fail("initial values beyond the first 256 MiB of '" + std::string(variable.name) + "'");
  if (variable.bytes.size() < offset + size)
    variable.bytes.resize(offset + size);
  std::memcpy(variable.bytes.data() + offset, &bits,
              std::min<uint32_t>(size, sizeof bits)); // .b128: zero above
}

uint64_t bits_for(const Number &number, Type type) {
  if (number.kind == Number::Kind::integer || number.kind == Number::Kind::real32)
    return number.bits;
  if (size_bytes(type) == 8)
    return number.bits;
  double wide;
  std::memcpy(&wide, &number.bits, 8);
  float narrow = static_cast<float>(wide);
  uint32_t bits;
  std::memcpy(&bits, &narrow, 4);
  return bits;
}

// symbol, symbol+8, generic(symbol)+8, mask(0xff00, symbol)
AddressInitialiser parse_address(Lexer &lexer) {
  AddressInitialiser address{};
  address.mask = ~uint64_t{0};
  std::string_view name = lexer.name();
  if (name == "generic" && lexer.accept('(')) {
    name = lexer.name();
    lexer.expect(')', "after generic(...");
  } else if (name == "mask" && lexer.accept('(')) {
    address.mask = lexer.number().bits;
    lexer.expect(',', "in mask(bits, symbol)");
    name = lexer.name();
    if (name == "generic" && lexer.accept('(')) {
      name = lexer.name();
      lexer.expect(')', "after generic(...");
    }
    if (lexer.accept('+'))
      address.addend = integer_expression(lexer);
    lexer.expect(')', "after mask(...");
  }
  if (name.empty())
    lexer.fail("expected a number or a name in an initial value");
  address.symbol = name;
  if (lexer.accept('+'))
    address.addend += integer_expression(lexer);
  return address;
}

void parse_value(Lexer &lexer, Variable &variable, const std::vector<uint64_t> &extents, size_t dimension,
                 uint64_t &offset, int depth) {
  uint32_t element = size_bytes(variable.type);
  if (lexer.accept('{')) {
    if (depth > deepest_initialiser)
      lexer.fail("initial values nested deeper than " + std::to_string(deepest_initialiser));
    // A nested list may be shorter than its row: the next one starts at the next row.
    uint64_t row = element;
    for (size_t d = dimension + 1; d < extents.size(); ++d)
      row *= extents[d] ? extents[d] : 1;
    while (!lexer.accept('}')) {
      uint64_t begin = offset;
      bool nested = lexer.peek() == '{';
      parse_value(lexer, variable, extents, dimension + 1, offset, depth + 1);
      if (nested && offset < begin + row)
        offset = begin + row;
      if (!lexer.accept(',') && lexer.peek() != '}')
        lexer.fail("expected ',' or '}' in an initial value");
    }
    return;
  }
  if (at_constant(lexer)) {
    put_bits(lexer, variable, offset, bits_for(constant_expression(lexer), variable.type), element);
  } else {
    AddressInitialiser address = parse_address(lexer);
    address.offset_bytes = offset;
    address.size_bytes = element;
    put_bits(lexer, variable, offset, 0, element);
    variable.addresses.push_back(address);
  }
  offset += element;
}

uint64_t extent_product(Lexer &lexer, uint64_t bytes, uint64_t extent) {
  uint64_t product;
  if (__builtin_mul_overflow(bytes, extent, &product) || product > largest_variable_bytes)
    lexer.fail("a variable of more than 2^40 bytes");
  return product;
}

} // namespace

bool space_from_directive(std::string_view directive, Space &space) {
  if (directive == "global")
    space = Space::global;
  else if (directive == "const")
    space = Space::constant;
  else if (directive == "shared")
    space = Space::shared;
  else if (directive == "local")
    space = Space::local;
  else if (directive == "param")
    space = Space::parameter;
  else
    return false;
  return true;
}

namespace {

// What the variables of one declaration share.
struct Declaration {
  Variable variable;
  uint32_t vector_length = 1;
};

Declaration parse_type(Lexer &lexer, Space space, const Variable &qualified) {
  Declaration declaration{qualified, 1};
  Variable &variable = declaration.variable;
  variable.space = space;
  uint32_t &vector_length = declaration.vector_length;
  bool type_seen = false;
  for (std::string_view word = lexer.directive(); !word.empty(); word = lexer.directive()) {
    Space pointed_to;
    if (word == "align") {
      uint64_t alignment = lexer.number().bits;
      if (alignment == 0 || alignment > most_alignment || (alignment & (alignment - 1)))
        lexer.fail("an alignment must be a power of two up to " + std::to_string(most_alignment));
      if (!type_seen || !variable.is_managed)
        variable.alignment_bytes = static_cast<uint32_t>(alignment);
    } else if (word == "ptr") {
      // What a pointer parameter points to: a promise to the optimiser, of no use here.
      while (!(word = lexer.directive()).empty())
        if (word == "align")
          lexer.number();
      break;
    } else if (word == "attribute") {
      lexer.expect('(', "after .attribute");
      do {
        std::string_view attribute = lexer.directive();
        if (attribute == "managed")
          variable.is_managed = true;
        else if (lexer.accept('('))
          lexer.skip_parentheses();
      } while (lexer.accept(','));
      lexer.expect(')', "after .attribute(...");
    } else if (word == "v2" || word == "v4" || word == "v8") {
      vector_length = static_cast<uint32_t>(word[1] - '0');
    } else if (word == "texref" || word == "samplerref" || word == "surfref") {
      variable.type = Type::u64;
      variable.opaque = word == "texref"       ? Opaque::texture
                        : word == "samplerref" ? Opaque::sampler
                                               : Opaque::surface;
      type_seen = true;
    } else if (word == "const" || space_from_directive(word, pointed_to)) {
      continue;
    } else {
      variable.type = type_from_name(word);
      if (variable.type == Type::pred)
        lexer.fail("predicates live in registers only");
      if (variable.type == Type::none)
        lexer.fail("unknown type '." + std::string(word) + "'");
      type_seen = true;
    }
  }
  if (!type_seen)
    lexer.fail("expected a type in a declaration");
  return declaration;
}

// A name with its extents and its initial value.
Variable parse_declarator(Lexer &lexer, const Declaration &declaration) {
  Variable variable = declaration.variable;
  uint32_t vector_length = declaration.vector_length;
  variable.line = lexer.line();
  variable.name = lexer.name();
  if (variable.name.empty())
    lexer.fail("expected a name in a declaration");
  uint32_t element = size_bytes(variable.type) * vector_length;
  if (variable.alignment_bytes <= 1)
    variable.alignment_bytes = std::max(element, 1u);
  std::vector<uint64_t> extents;
  bool open = false;
  variable.size_bytes = element;
  while (lexer.accept('[')) {
    if (lexer.accept(']')) {
      if (!extents.empty())
        lexer.fail("only the first extent of an array may be left out");
      open = true;
      extents.push_back(0);
      continue;
    }
    extents.push_back(lexer.number().bits);
    lexer.expect(']', "after the length of an array");
    variable.size_bytes = extent_product(lexer, variable.size_bytes, extents.back());
  }
  if (vector_length > 1)
    extents.push_back(vector_length);
  uint64_t declared = variable.size_bytes;
  if (open && declared == 0)
    lexer.fail("an array of elements without a size");
  if (open)
    variable.size_bytes = 0;
  if (variable.opaque != Opaque::none && lexer.accept('=')) {
    // { addr_mode_0 = wrap, ... }: what cuTexRefSet... says instead.
    lexer.expect('{', "in the initial value of an opaque variable");
    lexer.block();
  } else if (lexer.accept('=')) {
    uint64_t offset = 0;
    parse_value(lexer, variable, extents, 0, offset, 0);
    if (open)
      variable.size_bytes = (variable.bytes.size() + declared - 1) / declared * declared;
  }
  return variable;
}

} // namespace

Variable parse_variable(Lexer &lexer, Space space, const Variable &qualified) {
  return parse_declarator(lexer, parse_type(lexer, space, qualified));
}

void parse_variable_list(Lexer &lexer, Space space, const Variable &qualified, std::deque<Variable> &into) {
  Declaration declaration = parse_type(lexer, space, qualified);
  do
    into.push_back(parse_declarator(lexer, declaration));
  while (lexer.accept(','));
  lexer.expect(';', "after a declaration");
}

void parse_file(Lexer &lexer, Text &text) {
  auto index = static_cast<uint32_t>(lexer.number().bits);
  text.files[index] = lexer.string();
  while (lexer.accept(','))
    lexer.number();
}

// "1 12 3" and then ", function_name LABEL+4, inlined_at 1 33 7", in either order.
void parse_location(Lexer &lexer, SourceLine &location) {
  location.file = static_cast<uint32_t>(lexer.number().bits);
  location.line = static_cast<uint32_t>(lexer.number().bits);
  lexer.number();
  location.inlined_at_file = location.inlined_at_line = 0;
  while (lexer.accept(',')) {
    std::string_view word = lexer.name();
    if (word == "function_name") {
      lexer.name();
      if (lexer.accept('+'))
        lexer.number();
    } else if (word == "inlined_at") {
      location.inlined_at_file = static_cast<uint32_t>(lexer.number().bits);
      location.inlined_at_line = static_cast<uint32_t>(lexer.number().bits);
      lexer.number();
    } else {
      lexer.fail("expected function_name or inlined_at in .loc");
    }
  }
}

uint32_t parse_pragma(Lexer &lexer) {
  constexpr std::string_view key = "used_bytes_mask";
  uint32_t used_bytes = UINT32_MAX;
  do {
    std::string_view text = lexer.string();
    if (text.substr(0, key.size()) != key)
      continue;
    // A mask that cannot be read says nothing, as an unknown string does.
    text.remove_prefix(std::min(text.find_first_not_of(' ', key.size()), text.size()));
    int base = text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X" ? 16 : 10;
    text.remove_prefix(base == 16 ? 2 : 0);
    uint32_t mask = 0;
    auto read = std::from_chars(text.data(), text.data() + text.size(), mask, base);
    if (read.ec == std::errc{} && mask != 0)
      used_bytes = mask;
  } while (lexer.accept(','));
  lexer.expect(';', "after .pragma");
  return used_bytes;
}

} // namespace emulator::ptx
