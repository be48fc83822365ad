// What a PTX text says, before any of it is given a meaning. Names and opcodes are views into the text,
// which the Module owns; bodies are parsed on first use, so a large module is cheap until it is run.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/syntax/types.hpp"

namespace emulator::ptx {

// A syntax error: "line N, column M: ...", after the text's name if it has one.
struct SyntaxError : std::runtime_error {
  using std::runtime_error::runtime_error;
  bool is_unknown_version = false; // a PTX version later than what this driver knows
};

// An address in an initialiser: `size_bytes` bytes at `offset_bytes` receive symbol + addend.
struct AddressInitialiser {
  uint64_t offset_bytes;
  uint32_t size_bytes;
  std::string_view symbol;
  int64_t addend;
  uint64_t mask = ~uint64_t{0}; // mask(0xff00, symbol): these bits, shifted down to bit 0
};

// Who may see a name of module scope (PTX ISA, "Linking Directives").
enum class Linkage : uint8_t { internal, visible, weak, common, external };

// .texref, .samplerref, .surfref.
enum class Opaque : uint8_t { none, texture, sampler, surface };

constexpr uint32_t most_alignment = 4096;

struct Variable {
  std::string_view name;
  uint32_t text = 0; // index into Module::texts
  Linkage linkage = Linkage::internal;
  bool is_replaced = false; // another text's definition of this name was chosen
  Space space = Space::global;
  Type type = Type::b8;
  uint32_t alignment_bytes = 1;
  uint64_t size_bytes = 0; // 0 for an array whose length the launch decides
  bool is_extern = false;
  bool is_managed = false;
  bool is_register = false; // a .reg parameter of a function
  Opaque opaque = Opaque::none;
  uint32_t line = 0;
  std::vector<uint8_t> bytes; // initial value; shorter than size_bytes when the rest is zero
  std::vector<AddressInitialiser> addresses;
};

struct Function;

// A name that stands for an address: exactly one of the two is set.
struct Symbol {
  Variable *variable = nullptr;
  Function *function = nullptr;
};

struct Operand {
  enum class Kind : uint8_t {
    none,
    reg,       // index: register
    integer,   // value
    real32,    // value: bits of a float
    real64,    // value: bits of a double
    symbol,    // index: symbol, value: addend
    label,     // index: label reference
    special,   // index: name of a special register
    memory,    // base says what index means (reg, symbol or integer); value: offset
               // base vector: [a, b, c], the parts in a row from `index` on, `count` of them
    vector,    // index: first element, count: elements
    pair,      // p|q: as vector with two elements
    arguments, // (a, b): as vector
    sink,      // _
  };
  Kind kind = Kind::none;
  Kind base = Kind::none;
  bool negated = false;
  uint32_t index = 0;
  uint32_t count = 0;
  int64_t value = 0;
};

struct SourceLine {
  uint32_t ptx_line = 0;
  uint32_t file = 0; // of .file, 0 when there is no .loc
  uint32_t line = 0;
  uint32_t inlined_at_file = 0; // 0: the code is in the function itself
  uint32_t inlined_at_line = 0;
  uint32_t text = 0; // index into Module::texts
};

struct Instruction {
  std::string_view opcode; // "ld.global.nc.f32", without white space and comments inside
  int32_t guard = -1;      // register, -1 when unconditional
  bool guard_negated = false;
  uint32_t first_operand = 0;
  uint32_t operand_count = 0;
  uint32_t used_bytes = UINT32_MAX; // of a load: bit b says that byte b is used (.pragma "used_bytes_mask")
  SourceLine source;
};

struct LabelReference {
  std::string_view name;
  uint32_t scope;
  uint32_t position = UINT32_MAX; // index of the instruction that follows the label, or of a target list
  bool is_table = false;          // names a .branchtargets list: position indexes Body::tables
};

struct Body {
  std::vector<Type> registers;
  std::vector<Instruction> instructions;
  std::vector<Operand> operands; // elements of vectors come in a row
  std::vector<Symbol> symbols;
  std::vector<std::string_view> names; // of special registers
  std::deque<std::string> joined;      // names and opcodes that the text does not have in one piece
  std::vector<LabelReference> labels;
  std::vector<std::vector<uint32_t>> tables; // .branchtargets: label references
  std::deque<Variable> variables;            // .local, .shared, .param, .global inside the body
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool is_extern = false;  // declared here, defined nowhere in this text
  uint32_t text_index = 0; // into Module::texts
  Linkage linkage = Linkage::internal;
  bool is_replaced = false; // another text's definition of this name was chosen
  std::deque<Variable> returns;
  std::deque<Variable> parameters;
  uint32_t max_threads = 0;
  uint32_t required_block[3] = {0, 0, 0};
  uint32_t required_cluster[3] = {0, 0, 0};
  uint32_t line = 0;
  std::string_view text; // between the braces
  uint32_t text_line = 0;
};

struct Named {
  Symbol symbol;
  Linkage linkage = Linkage::internal;
};
using Names = std::unordered_map<std::string_view, Named>;

// One translation unit.
struct Text {
  std::string name; // for messages; may be empty
  std::string text;
  uint32_t version = 0; // 84 for .version 8.4
  uint32_t target_sm = 0;
  std::unordered_map<uint32_t, std::string_view> files;
  Names names; // once linked, what each name of this text means in the whole module
};

// Whether a name that no text defines may be used all the same, because whoever runs the module has it.
using IsProvided = std::function<bool(std::string_view name, bool is_function)>;

struct Module {
  std::deque<Text> texts;
  std::deque<Variable> variables;
  std::deque<Function> functions;
  IsProvided is_provided;
  Names names; // by which the host asks: what is visible, and internal names that no other text has
};

// "saxpy.cu:12 (PTX line 88)", with the place where the code was inlined if it was; "PTX line 88" without
// .loc.
std::string place_of(const Module &module, const SourceLine &line);

} // namespace emulator::ptx
