// Between a parsed body and code: instructions whose operands are values, not yet places in the register
// file.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/program/program.hpp"

namespace emulator {

// Something an instruction of this executor lacks. Ends the decoding of one kernel, nothing else.
struct Unsupported {
  std::string what;
  uint32_t ptx_line = 0;
};

enum class ValueKind : uint8_t { variable, constant, special };

struct Value {
  ValueKind kind = ValueKind::variable;
  uint32_t row_bytes = 0;      // 4: a predicate
  uint32_t offset = no_offset; // in the register file, once allocated
  bool kept = false;           // in a row of its own, for what reads and writes it after its instruction
};

// Which field of the instruction receives the value's offset.
enum class Field : uint8_t { destination, a, b, c, guard, extra, immediate_plus_one, list };

struct Reference {
  uint32_t value;
  Field field;
  bool defines;
  bool uses;
};

enum class Flow : uint8_t {
  next,   // falls through
  branch, // to `target`, and falls through when guarded
  table,  // to one of Body::tables[table]
  end,    // nothing follows: exit, trap
  leave,  // to the function's exit
};

struct Lowered {
  Instruction instruction;
  Handler known = nullptr; // Operation::known
  std::vector<Reference> references;
  Flow flow = Flow::next;
  uint32_t target = 0; // branch: position in the body
  uint32_t table = 0;
  bool accounts = false;           // its handler calls Warp::account
  bool meets_after = false;        // lanes may part here and meet at the next instruction
  bool dropped = false;            // counts, and does nothing
  bool result_is_optional = false; // its handler does without a destination
  WatchedNumbers watched;
  ShadowRule shadow;                                            // where undefined bits are followed
  uint8_t counted = 0;                                          // 1 for what PTX calls an instruction
  InstructionClass instruction_class = InstructionClass::other; // what it counts as
  std::vector<uint32_t> list; // further operands: values, or UINT32_MAX for none
  ptx::SourceLine source;
};

struct LoweredFunction {
  std::vector<Lowered> code;
  std::vector<uint32_t> start_of_position; // body position -> first of `code`; one more entry than positions
};

// All values of a program; constants and specials are shared between its functions.
class ValueTable {
public:
  std::vector<Value> values;

  uint32_t variable(uint32_t row_bytes) {
    values.push_back({ValueKind::variable, row_bytes, no_offset});
    return static_cast<uint32_t>(values.size() - 1);
  }
  uint32_t constant(uint64_t bits, uint32_t lane_bytes); // lane_bytes 0: a predicate
  uint32_t special(Special special, uint32_t lane_bytes);
  // Gives constants and special registers their places from `begin` on and enters them into the program;
  // returns where they end.
  uint32_t place_shared(Program &program, uint32_t begin);

private:
  std::unordered_map<uint64_t, uint32_t> constants_[9];
  std::vector<std::pair<uint32_t, SpecialRow>> specials_;
};

inline uint32_t row_bytes_of(ptx::Type type) {
  return type == ptx::Type::pred ? 4 : ptx::size_bytes(type) * lanes_per_warp;
}

// The basic blocks of one function.
struct BasicBlock {
  uint32_t begin = 0, end = 0;      // of LoweredFunction::code
  std::vector<uint32_t> successors; // block indices; the number of blocks stands for the exit
  int32_t post_dominator = -1;      // immediate; -1: the exit
  bool diverges = false;
};
std::vector<BasicBlock> find_blocks(const LoweredFunction &function,
                                    const std::vector<std::vector<uint32_t>> &tables);

// Drops what a block can do without; true when it did. Which values live where may have changed then.
bool simplify(LoweredFunction &function, const std::vector<BasicBlock> &blocks, const ValueTable &values);

// Which memory accesses of a basic block have their addresses in one row that does not change between them,
// and which slot (see access/access.hpp) they share; slot 0 where there is no other. One entry for each
// of its instructions.
struct SharedAddress {
  uint8_t slot = 0;
  bool begins = false;
};
std::vector<SharedAddress> shared_addresses(const LoweredFunction &function, const BasicBlock &block);

struct AllocatedRows {
  std::vector<RowRange> all;
  std::vector<RowRange> undefined; // may be read before they are written
  std::vector<RowRange> kept;      // of values that are kept
};
// Gives every variable of the function a row from `begin` on, reusing rows by liveness; returns where they
// end.
uint32_t allocate_rows(const LoweredFunction &function, const std::vector<BasicBlock> &blocks,
                       ValueTable &values, uint32_t begin, AllocatedRows &result);

} // namespace emulator
