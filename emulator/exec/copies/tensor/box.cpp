#include "exec/copies/tensor/box.hpp"

#include <cstring>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"
#include "exec/block/pending.hpp"
#include "exec/copies/extra_operands.hpp"

namespace emulator::tensor_copies {

namespace {

constexpr uint32_t map_alignment = 64;
constexpr uint64_t most_box_bytes = 1 << 20; // more than any shared memory

// CUtensorMapDataType in turn: a unit of elements that are not interleaved.
struct Unit {
  ptx::Type type;
  uint32_t elements = 1, bytes = 0, pitch = 0; // 0: those of the type
};
constexpr Unit units[] = {{ptx::Type::u8},
                          {ptx::Type::u16},
                          {ptx::Type::u32},
                          {ptx::Type::s32},
                          {ptx::Type::u64},
                          {ptx::Type::s64},
                          {ptx::Type::f16},
                          {ptx::Type::f32},
                          {ptx::Type::f64},
                          {ptx::Type::bf16},
                          {ptx::Type::f32},
                          {ptx::Type::f32},
                          {ptx::Type::f32},
                          {ptx::Type::none, 2, 1, 1},
                          {ptx::Type::none, 16, 8, 16},
                          {ptx::Type::none, 16, 12, 16}};
constexpr uint32_t elements_of_padded_box = 128;

[[noreturn]] void refuse(Warp &w, const Instruction *i, uint32_t lane, const std::string &why) {
  fail(w, i, LaunchStatus::illegal_instruction, why, lane);
}

TensorMap map_of(Warp &w, const Instruction *i, uint32_t lane) {
  uint64_t at = operand<uint64_t>(w, i, Place::map, lane);
  // Parameters are aligned among each other.
  uint64_t parameters = reinterpret_cast<uint64_t>(w.parameters);
  bool parameter = at >= parameters && at - parameters < w.launch->parameter_bytes;
  if ((parameter ? at - parameters : at) % map_alignment != 0)
    misaligned(w, i, lane, at, map_alignment);
  check_access(w, i, lane, at, sizeof(TensorMap), false);
  TensorMap map;
  const PendingOperations *pending = w.block->pending;
  const void *seen = pending ? pending->map_as_seen(at) : reinterpret_cast<const void *>(at);
  std::memcpy(static_cast<void *>(&map), seen, sizeof map);
  return map;
}

// Whether a copy of this shape is one through this map.
void check_kind(Warp &w, const Instruction *i, uint32_t lane, const TensorMap &m, Shape shape) {
  uint64_t wanted = shape == Shape::pixels                             ? TensorMap::im2col
                    : shape == Shape::wide || shape == Shape::wide_128 ? TensorMap::im2col_wide
                                                                       : TensorMap::tiled;
  auto name = [](uint64_t kind) {
    return std::string(kind == TensorMap::im2col        ? "im2col"
                       : kind == TensorMap::im2col_wide ? "wide im2col"
                                                        : "tiles");
  };
  if (m.magic != TensorMap::tiled && m.magic != TensorMap::im2col && m.magic != TensorMap::im2col_wide)
    refuse(w, i, lane, "what lies at the address of the tensor map is none that this driver made");
  if (m.magic != wanted)
    refuse(w, i, lane, "a copy of " + name(wanted) + " through a tensor map for " + name(m.magic));
  if (wanted == TensorMap::im2col_wide && (m.wide == TensorMap::wide_128) != (shape == Shape::wide_128))
    refuse(w, i, lane,
           "a copy of the mode im2col::w through a tensor map for im2col::w::128, or the reverse");
  uint32_t rank = static_cast<uint32_t>(i->immediate & 0xff);
  if (m.rank != rank)
    refuse(w, i, lane, "a tensor map of " + std::to_string(m.rank) + " dimensions");
  if (m.interleave != 0 && (m.interleave > 2 || rank < 3 || (shape != Shape::tile && shape != Shape::pixels)))
    refuse(w, i, lane, "an interleaved tensor map in a mode that has no interleaving");
}

// The unit, and what the map says of dimension 0 counted in it.
void set_units(Warp &w, const Instruction *i, uint32_t lane, Box &box) {
  TensorMap &m = box.map;
  if (m.type >= std::size(units))
    refuse(w, i, lane, "a tensor map of an unknown data type");
  const Unit &unit = units[m.type];
  box.type = unit.type;
  if (box.interleaved()) {
    box.unit_bytes = box.unit_pitch = m.interleave == 2 ? 32 : 16;
    return;
  }
  box.unit_bytes = unit.bytes ? unit.bytes : ptx::size_bytes(unit.type);
  box.unit_pitch = unit.pitch ? unit.pitch : box.unit_bytes;
  uint32_t together = box.padded() ? elements_of_padded_box : unit.elements;
  if (box.first[0] % together != 0)
    refuse(w, i, lane,
           "a box that begins at element " + std::to_string(box.first[0]) + ": it must be a multiple of " +
               std::to_string(together));
  if (box.padded() && m.box[0] != elements_of_padded_box)
    refuse(w, i, lane, "a box of padded elements that has not 128 of them in a row");
  box.first[0] /= unit.elements;
  m.box[0] = static_cast<uint16_t>(m.box[0] / unit.elements);
  m.last_index[0] = static_cast<uint32_t>((uint64_t{m.last_index[0]} + 1) / unit.elements - 1);
}

void count_units(Warp &w, const Instruction *i, uint32_t lane, Box &box) {
  const TensorMap &m = box.map;
  bool along_dimensions = box.shape == Shape::tile || box.shape == Shape::rows;
  for (uint32_t d = 0; d < m.rank; ++d) {
    // Dimension 0 has a stride only where it is a spatial one.
    uint32_t stride = d == 0 && !box.interleaved() ? 1 : m.element_stride[d];
    uint32_t extent = !along_dimensions && d > 1 ? 1 : m.box[d],
             most = !along_dimensions && d == 1 ? 1024 : 256;
    if (extent == 0 || extent > most || stride == 0)
      refuse(w, i, lane, "a tensor map without a box");
    box.count[d] = along_dimensions ? (extent + stride - 1) / stride : extent;
  }
  if (box.interleaved() && box.shape == Shape::pixels)
    box.count[0] = 1; // a slice is what a pixel has
  if (box.interleaved() && box.shape == Shape::tile && box.count[m.rank - 2u] != 1)
    refuse(w, i, lane, "a box of several slices of channels, which is not documented");
  if (box.shape == Shape::rows) {
    if (box.count[1] != 1)
      refuse(w, i, lane, "a gather or scatter of rows through a tensor map whose box has more than one row");
    box.count[1] = gathered_rows;
  }
  constexpr uint32_t most_halo = 511, most_halo_of_128 = 31, most_shift = 31;
  if (box.shape == Shape::wide || box.shape == Shape::wide_128) {
    bool fixed = box.shape == Shape::wide_128;
    if (box.distance[0] > (fixed ? most_halo_of_128 : most_halo) || box.distance[1] > most_shift)
      refuse(w, i, lane,
             "a halo of " + std::to_string(box.distance[0]) + " pixels at the offset " +
                 std::to_string(box.distance[1]));
    box.count[1] = fixed ? pixels_of_wide_128 + pixels_of_wide_128 / pixels_before_halo * box.distance[0]
                         : box.count[1] + box.distance[0];
    if (box.first[1] > int64_t{m.last_index[1]} + m.upper[0])
      refuse(w, i, lane, "a copy that begins on the right of the bounding box");
  }
}

void lay_out(Warp &w, const Instruction *i, uint32_t lane, Box &box) {
  const TensorMap &m = box.map;
  static constexpr uint32_t spans[] = {0, 32, 64, 128, 128, 128, 128};
  if (m.swizzle >= std::size(spans))
    refuse(w, i, lane, "a swizzle of the tensor map that this driver has not");
  const uint32_t span = spans[m.swizzle], row = box.count[0] * box.unit_pitch;
  if (row % 16 != 0)
    refuse(w, i, lane, "a box whose rows are no multiples of 16 bytes");
  if (span != 0 && (box.interleaved() ? row % span != 0 && box.shape == Shape::tile : row > span))
    refuse(w, i, lane, "a box whose rows do not fit its swizzle");
  box.row_pitch = box.interleaved() ? row : std::max(row, span);
  uint64_t bytes = box.row_pitch;
  for (uint32_t d = 1; d < 5; ++d)
    bytes *= box.count[d]; // at most 2^45
  if (bytes > most_box_bytes)
    refuse(w, i, lane, "a box of " + std::to_string(bytes) + " bytes, more than shared memory has");
}

} // namespace

Box box_of(Warp &w, const Instruction *i, uint32_t lane) {
  Box box;
  box.map = map_of(w, i, lane);
  box.shape = static_cast<Shape>(i->immediate >> 16 & 0xff);
  check_kind(w, i, lane, box.map, box.shape);
  for (uint32_t d = 0; d < (box.shape == Shape::rows ? 1 + gathered_rows : box.map.rank); ++d)
    box.first[d] = operand<int32_t>(w, i, coordinate + d, lane);
  for (uint32_t d = 0; d < 3; ++d)
    if (has(w, i, distance + d))
      box.distance[d] = operand<uint16_t>(w, i, distance + d, lane);
  set_units(w, i, lane, box);
  count_units(w, i, lane, box);
  lay_out(w, i, lane, box);
  return box;
}

uint64_t swizzled(uint64_t offset, uint8_t swizzle) {
  uint64_t row = offset >> 7;
  switch (swizzle) {
  case 1:
    return offset ^ (row & 1) << 4;
  case 2:
    return offset ^ (row & 3) << 4;
  case 3:
    return offset ^ (row & 7) << 4;
  case 4:
    return offset ^ (row & 3) << 5;
  case TensorMap::swizzle_with_flip:
    return offset ^ (row & 3) << 5 ^ (row & 1) << 3;
  case 6:
    return offset ^ (row & 1) << 6;
  default:
    return offset;
  }
}

} // namespace emulator::tensor_copies
