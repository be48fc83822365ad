// cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, cp.async.bulk.prefetch.tensor, tensormap.replace.
#include <algorithm>

#include "exec/block/cluster.hpp"
#include "exec/control/addresses.hpp"
#include "exec/copies/asynchronous.hpp"
#include "exec/copies/tensor/copies.hpp"
#include "exec/lowering/lowering.hpp"

namespace emulator {

using ptx::Space;
using ptx::Type;

void Lowering::copy_tensor(Opcode &opcode, bool reduces) {
  static constexpr std::pair<std::string_view, asynchronous::Operator> operators[] = {
      {"add", asynchronous::Operator::add},       {"min", asynchronous::Operator::minimum},
      {"max", asynchronous::Operator::maximum},   {"inc", asynchronous::Operator::increment},
      {"dec", asynchronous::Operator::decrement}, {"and", asynchronous::Operator::bit_and},
      {"or", asynchronous::Operator::bit_or},     {"xor", asynchronous::Operator::bit_xor},
  };
  auto op = asynchronous::Operator::replace;
  bool loads = false, stores = false, signals = false, hint = false, multicast = false, prefetches = false;
  auto shape = tensor_copies::Shape::tile;
  bool gathers = false, scatters = false, has_distance = false, pairs = false;
  uint32_t rank = 0;
  for (std::string_view m : opcode.modifiers) {
    bool found = false;
    for (const auto &[name, meaning] : operators)
      if (reduces && m == name)
        op = meaning, found = true;
    if (found || m == "bulk" || m == "tensor" || m == "tile" || m == "bulk_group")
      continue;
    if (m.size() == 2 && m[0] >= '1' && m[0] <= '5' && m[1] == 'd')
      rank = static_cast<uint32_t>(m[0] - '0');
    else if (m == "shared::cluster" || m == "shared::cta")
      (stores ? stores : loads) = true; // the first of the two spaces is the destination
    else if (m == "global")
      (loads ? loads : stores) = true;
    else if (m == "im2col" || m == "im2col_no_offs")
      shape = tensor_copies::Shape::pixels, has_distance = m == "im2col";
    else if (m == "im2col::w" || m == "im2col::w::128")
      shape = m == "im2col::w" ? tensor_copies::Shape::wide : tensor_copies::Shape::wide_128,
      has_distance = true;
    else if (m == "cta_group::1" || m == "cta_group::2")
      pairs = m == "cta_group::2";
    else if (m == "tile::gather4" || m == "tile::scatter4")
      shape = tensor_copies::Shape::rows, (m == "tile::gather4" ? gathers : scatters) = true;
    else if (m == "prefetch" || (m == "L2" && !reduces))
      prefetches = true;
    else if (m == "mbarrier::complete_tx::bytes")
      signals = true;
    else if (m == "L2::cache_hint")
      hint = true;
    else if (m == "multicast::cluster")
      multicast = true;
    else
      unsupported("(tensor maps)");
  }
  bool wide = shape == tensor_copies::Shape::wide || shape == tensor_copies::Shape::wide_128;
  bool pixels = shape == tensor_copies::Shape::pixels || wide;
  if (rank == 0 || ((gathers || scatters) && rank != 2) || (pixels && rank < 3))
    unsupported("(tensor maps)");
  if (prefetches) {
    nothing();
    return;
  }
  if (loads == stores || loads != signals || (gathers && !loads) || (scatters && (!stores || reduces)) ||
      (pixels && loads != has_distance) || (reduces && (loads || op == asynchronous::Operator::replace)) ||
      (multicast && !loads) ||
      operand_count() !=
          2u + (signals ? 1 : 0) + (has_distance ? 1 : 0) + (multicast ? 1 : 0) + (hint ? 1 : 0))
    unsupported("with " + std::to_string(operand_count()) + " operands");
  const Operand &tensor = operand(loads ? 1 : 0);
  if (tensor.kind != Kind::memory || tensor.base != Kind::vector || tensor.count != 2)
    unsupported("without coordinates");
  program_.communicates = true;
  program_.orders_blocks |= reduces;
  std::vector<uint32_t> rows(tensor_copies::places, UINT32_MAX);
  rows[tensor_copies::map] = source(element(tensor, 0), Type::u64);
  const Operand &place = element(tensor, 1);
  bool vector = place.kind == Kind::vector;
  uint32_t coordinates = shape == tensor_copies::Shape::rows ? 5 : rank;
  if ((vector ? place.count : 1) < coordinates)
    unsupported("with too few coordinates");
  for (uint32_t d = 0; d < coordinates; ++d)
    rows[tensor_copies::coordinate + d] = source(vector ? element(place, d) : place, Type::s32);
  rows[tensor_copies::shared] = generic_row(operand(loads ? 0 : 1), Space::shared);
  if (signals)
    rows[tensor_copies::signal] = generic_row(operand(2), Space::shared);
  if (has_distance) {
    const Operand &distance = operand(3);
    bool several = distance.kind == Kind::vector;
    uint32_t distances = wide ? 2 : rank - 2; // wide: the halo, and the offset
    if ((several ? distance.count : 1) < distances)
      unsupported("with too few offsets");
    for (uint32_t d = 0; d < distances; ++d)
      rows[tensor_copies::distance + d] = source(several ? element(distance, d) : distance, Type::u16);
  }
  if (multicast)
    rows[tensor_copies::blocks] = source(operand(has_distance ? 4 : 3), Type::u16);
  Lowered &lowered = emit_list(loads ? tensor_copies::load : tensor_copies::store, std::move(rows));
  lowered.instruction.is_copy = true;
  lowered.instruction.immediate = rank | static_cast<int64_t>(op) << 8 | static_cast<int64_t>(shape) << 16 |
                                  (pairs ? tensor_copies::for_pairs : 0);
  lowered.counted = 1;
  apply_guard(lowered);
}

// Where blocks copy tensors as pairs, programs (CUTLASS's) find the mbarrier of a pair's first block by
// clearing a bit of the address of their own; compilers clear those of its alignment as well.
bool Lowering::names_first_of_pair(const Opcode &opcode) {
  constexpr uint32_t alignment_bits = 15;
  if (opcode.mnemonic != "and" || !opcode.has("b32") || operand_count() != 3 ||
      operand(2).kind != Kind::integer ||
      (static_cast<uint32_t>(operand(2).value) | alignment_bits) != peer_mask)
    return false;
  bool pairs =
      std::any_of(body_.instructions.begin(), body_.instructions.end(), [](const ptx::Instruction &i) {
        return std::string_view(i.opcode).substr(0, 21) == "cp.async.bulk.tensor." &&
               std::string_view(i.opcode).find(".cta_group::2") != std::string_view::npos;
      });
  if (!pairs)
    return false;
  program_.communicates = true;
  uint32_t address = source(operand(1), Type::u32), result = destination(operand(0), Type::u32);
  Lowered &lowered = emit(control::first_of_pair);
  lowered.instruction.immediate = static_cast<uint32_t>(operand(2).value);
  refer(lowered, Field::a, address, false);
  refer(lowered, Field::destination, result, true);
  lowered.references.back().uses = true;
  lowered.counted = 1;
  apply_guard(lowered);
  finish_destinations();
  return true;
}

void Lowering::change_tensor_map(Opcode &opcode) {
  using tensor_copies::MapField;
  struct Name {
    std::string_view name;
    MapField field;
    bool ordinal;
  };
  static constexpr Name names[] = {
      {"global_address", MapField::global_address, false},
      {"rank", MapField::rank, false},
      {"box_dim", MapField::box_dim, true},
      {"global_dim", MapField::global_dim, true},
      {"global_stride", MapField::global_stride, true},
      {"element_stride", MapField::element_stride, true},
      {"interleave_layout", MapField::interleave_layout, false},
      {"swizzle_mode", MapField::swizzle_mode, false},
      {"fill_mode", MapField::fill_mode, false},
      {"elemtype", MapField::element_type, false},
      {"swizzle_atomicity", MapField::swizzle_atomicity, false},
  };
  if (opcode.remove("cp_fenceproxy")) {
    // A copy of the map, seen by whatever reads maps from then on.
    if (operand_count() != 3 || operand(2).kind != Kind::integer || operand(2).value != 128)
      unsupported("with these operands");
    uint32_t to = generic_row(operand(0), Space::global), from = generic_row(operand(1), Space::shared);
    Lowered &lowered = emit_list(asynchronous::copy_bulk,
                                 {to, from, values_.constant(128, 4), UINT32_MAX, UINT32_MAX, UINT32_MAX});
    lowered.instruction.immediate = asynchronous::at_once;
    lowered.counted = 1;
    apply_guard(lowered);
    return;
  }
  if (!opcode.remove("replace") || !opcode.remove("tile") || !opcode.remove("b1024"))
    unsupported();
  Space space = opcode.remove("shared::cta") ? Space::shared
                : opcode.remove("global")    ? Space::global
                                             : Space::generic;
  const Name *found = nullptr;
  for (const Name &each : names)
    if (opcode.remove(each.name))
      found = &each;
  if (!found || opcode.modifiers.size() != 1 || operand_count() != (found->ordinal ? 3u : 2u))
    unsupported();
  int64_t ordinal = 0;
  if (found->ordinal) {
    const Operand &number = operand(1);
    ordinal = number.value;
    if (number.kind != Kind::integer || ordinal < 0 ||
        ordinal > (found->field == MapField::global_stride ? 3 : 4))
      unsupported("of this dimension");
  }
  const Operand &value = operand(found->ordinal ? 2 : 1);
  Type type = opcode.last_type() == Type::b64 ? Type::u64 : Type::u32;
  uint32_t address = generic_row(operand(0), space), row = source(value, type);
  Lowered &lowered = emit_list(tensor_copies::replace, {address, resized(row, type, Type::u64)});
  lowered.instruction.immediate = static_cast<int64_t>(found->field) | ordinal << 8;
  lowered.counted = 1;
  apply_guard(lowered);
}

} // namespace emulator
