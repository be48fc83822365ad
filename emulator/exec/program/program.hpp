// A decoded instruction, and the Program that a kernel with everything it calls becomes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/interface/launch.hpp"
#include "exec/program/matrix.hpp"
#include "exec/program/shadow_form.hpp"
#include "exec/program/tensor_form.hpp"
#include "exec/sampling/sample.hpp"
#include "ptx/syntax/module.hpp"

namespace emulator {

struct Warp;
struct Instruction;

// Executes one instruction for the active lanes and answers which one follows; nullptr when the group of
// lanes stops for now (it has then put itself into one of the warp's lists).
using Handler = const Instruction *(*)(Warp &, const Instruction *);

constexpr uint32_t no_offset = UINT32_MAX;
constexpr uint32_t lanes_per_warp = 32;

enum class Rounding : uint8_t { nearest, down, up, zero };

// Operands are byte offsets into the warp's register file: a row of 32 lanes, or one u32 for a predicate.
struct Instruction {
  Handler handler = nullptr;
  Handler follow =
      nullptr; // of the next instruction, or control::stop: see follow() in operations/shapes.hpp
  uint32_t destination = no_offset;
  uint32_t a = no_offset, b = no_offset, c = no_offset;
  int64_t immediate = 0;     // address offset, index into Program::callees or ::tables, barrier options
  uint8_t slot = 0;          // memory accesses: where the lanes' addresses are kept, from 1; 0: nowhere
  uint8_t known_slot = 0;    // the same, for all but the first of those that share them
  uint8_t extra_count = 0;   // vector loads and stores: elements
  uint8_t element_bytes = 0; // memory accesses
  ptx::Space space = ptx::Space::generic;
  bool wide_address = false; // address in a row of u64, not u32
  bool guard_negated = false;
  Rounding rounding = Rounding::nearest;
  Handler inner = nullptr; // what `guarded` calls, or one of several in one where they must go one by one
  const Instruction *target = nullptr; // branch target; during decoding an index
  const Instruction *join = nullptr;   // where the two sides of a branch meet again, or nullptr
  uint32_t guard = no_offset;          // predicate
  uint32_t account = 0;                // index into Program::accounts, where count is not 0
  uint32_t site = 0;                   // memory access: index into the worker's cached ranges
  uint32_t extra = 0;                  // first of further operands in Program::extra
  uint16_t count = 0;           // PTX instructions since the last control instruction, this one included
  bool is_warp_barrier = false; // bar.warp: lanes may wait for each other at different ones
  bool of_system = false;       // an atomic operation that the host must see as one
  bool is_carried_on = false; // a sum of products: the next instructions add to it, and nothing else reads it
  uint8_t order = 0;          // of a load, store, atomic operation or fence: bits of Order
  uint8_t lane_bytes = 0;     // of a store: of each lane in the rows that it stores; else 0
  bool is_aligned = false;    // a barrier that a warp has to reach together
  bool is_copy = false;       // an asynchronous one: what it reads and writes, it does later
};

// A strong operation or a fence: whether it releases, and whether its scope is no more than the block (PTX
// ISA, memory consistency model).
enum Order : uint8_t { is_strong = 1, releases = 2, among_block = 4 };

// How the bits of a lane are read; f16 and all after it are floating point.
enum class NumberType : uint8_t {
  byte,
  s16,
  u16,
  s32,
  u32,
  s64,
  u64,
  f16,
  bf16,
  f32,
  f64,
  f16x2,
  bf16x2,
  f32x2,
};

// Of an instruction whose result is looked at (exec/check/numbers.hpp).
struct WatchedNumbers {
  static constexpr uint32_t most_sources = 4;
  Handler handler = nullptr; // its own
  Handler follow = nullptr;  // what it goes on with, as Instruction::follow is of others
  bool is_watched = false, is_product = false;
  uint8_t overwritten = 0;  // bit n: source n may be where the result is
  bool subtracts = false;   // a sum or difference of two, or of a product and a third
  uint8_t source_count = 0; // of a product three, of which each has its type
  NumberType result = NumberType::u32;
  NumberType sources[most_sources] = {};
};

// What Instruction::immediate of a barrier says.
enum class BarrierKind : uint8_t { sync, arrive, reduce_and, reduce_or, reduce_popc };

struct ConstantRow {
  uint32_t offset;
  uint32_t lane_bytes; // 0: a predicate
  uint64_t bits;
};

// A special register that some instruction reads as a row.
enum class Special : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  dynamic_smem_size,
  total_smem_size,
  envreg0,
  envreg1,
  envreg2,
  one,        // the fourth component of a vector of extents
  parameters, // address of the kernel's parameters
  clock,
  clock_hi,
  clock64,
  globaltimer,
  globaltimer_lo,
  globaltimer_hi,
};

struct SpecialRow {
  uint32_t offset;
  uint32_t lane_bytes;
  Special special;
};

// The bytes of one parameter, at an offset in the local memory of the function's frame.
struct ParameterBytes {
  uint32_t offset;
  uint32_t size_bytes;
};

struct RowRange {
  uint32_t offset;
  uint32_t row_bytes; // 4: a predicate
};

struct FunctionCode {
  const ptx::Function *function = nullptr;
  uint32_t first_instruction = 0;
  uint32_t local_bytes = 0; // of one frame, which keeps the next one aligned
  std::vector<ParameterBytes> returns;
  std::vector<ParameterBytes> parameters;
  bool recursive = false;     // can be entered again before it returns
  std::vector<RowRange> rows; // what a recursive call saves
};

enum class CalleeKind : uint8_t {
  function,
  indirect,
  vprintf,
  malloc,
  free,
  assertfail,
  parameter_buffer,
  launch,
  last_error,
  peek_error,
  no_operation
};

struct Callee {
  CalleeKind kind = CalleeKind::function;
  uint32_t function = 0; // index into Program::functions
  uint32_t caller = 0;
  bool save_rows = false;              // the caller may be entered again
  std::vector<ParameterBytes> returns; // in the caller's frame
  std::vector<ParameterBytes> arguments;
};

// What a texture or surface instruction does, beside its operands (textures/textures.hpp).
enum class Boundary : uint8_t { trap, clamp, zero };
enum class LevelKind : uint8_t { none, given, gradients };
enum class ImageQuery : uint8_t {
  width,
  height,
  depth,
  channel_data_type,
  channel_order,
  normalised_coordinates,
  array_size,
  levels,
  samples,
  memory_layout,
  filter_mode,
  force_unnormalised,
  address_mode_0,
  address_mode_1,
  address_mode_2,
};
struct ImageForm {
  Geometry geometry = Geometry::one;
  LevelKind level = LevelKind::none;
  Boundary boundary = Boundary::trap;
  ImageQuery query = ImageQuery::width;
  bool integers = false;  // coordinates
  bool formatted = false; // suld.p, sust.p, sured.p: the coordinate counts texels
  bool of_surface = false;
  uint8_t channel = 0;   // of a gather
  uint8_t elements = 4;  // of the result, or of what is stored
  uint8_t reduction = 0; // asynchronous::Operator
  ptx::Type type = ptx::Type::b32;
  ptx::Opaque opaque = ptx::Opaque::none; // istypep
};

// What the instructions of one `account` count as.
struct Account {
  uint16_t of_class[instruction_classes] = {};
};

struct SharedVariable {
  std::string name;
  uint32_t offset; // in the block's shared memory
  uint64_t bytes;  // 0: to the end
};

struct Program {
  KernelInfo info;
  std::vector<Instruction> code;       // never resized after decoding: instructions point at each other
  std::vector<ptx::SourceLine> source; // beside `code`
  std::vector<WatchedNumbers> watched; // likewise, where numbers are looked at; else empty
  std::vector<ShadowForm> shadows;     // likewise, where undefined bits are followed
  std::vector<ShadowOperand> shadow_operands;
  std::vector<uint32_t> extra;   // further operand offsets
  std::vector<Account> accounts; // [0] is empty
  std::vector<std::vector<const Instruction *>> tables;
  std::vector<Callee> callees;
  std::vector<ImageForm> images;
  std::vector<MatrixForm> matrices;
  std::vector<TensorMoveForm> tensor_moves;
  std::vector<TensorProductForm> tensor_products;
  std::vector<TensorCopyForm> tensor_copies;
  std::vector<FunctionCode> functions; // [0] is the kernel
  std::vector<ConstantRow> constants;
  std::vector<SpecialRow> specials;
  std::vector<RowRange> undefined_rows; // may be read before they are written: zeroed for each warp
  std::vector<RowRange> product_rows;   // registers of deferred wgmma and tcgen05.ld: nothing else is in them
  uint32_t register_bytes = 0;
  uint32_t sites = 0;
  uint32_t shared_bytes = 0;     // static
  uint32_t local_bytes = 0;      // per thread: all frames, and what alloca takes from
  uint32_t frame_bytes = 0;      // of the frames alone
  uint32_t local_alignment = 16; // of a thread's local memory
  uint32_t recursion_bytes = 0;  // of these, what is there for calls whose depth nobody knows
  std::vector<std::pair<uint64_t, uint64_t>> constant_ranges; // address and bytes of .const variables
  bool communicates = false;     // atomics, fences, volatile: some lanes may wait for others
  bool orders_blocks = false;    // these on memory that blocks share: blocks must run in one order
  bool has_side_effects = false; // printf, malloc: likewise
  bool uses_clock = false;
  std::vector<SharedVariable> shared_variables;
  bool has_asynchronous = false; // copies or mbarriers
  std::string unfollowed;        // the first instruction whose order exec/check does not follow
};

} // namespace emulator
