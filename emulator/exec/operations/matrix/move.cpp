// ldmatrix, stmatrix, movmatrix: matrices of 8 or 16 rows of 16 bytes, each row at an address of its own.
#include "exec/operations/addressing.hpp"
#include "exec/operations/matrix/elements.hpp"
#include "exec/operations/matrix/whole_warp.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

// Lane l holds elements 2 * (l % 4) and the next of row l / 4; transposed, of column l / 4.
template <bool Transposed> u32 read_pair(const u16 (&matrix)[8][8], u32 lane) {
  u32 outer = lane / 4, inner = lane % 4 * 2;
  u16 low = Transposed ? matrix[inner][outer] : matrix[outer][inner];
  u16 high = Transposed ? matrix[inner + 1][outer] : matrix[outer][inner + 1];
  return u32{high} << 16 | low;
}
template <bool Transposed> void write_pair(u16 (&matrix)[8][8], u32 lane, u32 pair) {
  u32 outer = lane / 4, inner = lane % 4 * 2;
  (Transposed ? matrix[inner][outer] : matrix[outer][inner]) = static_cast<u16>(pair);
  (Transposed ? matrix[inner + 1][outer] : matrix[outer][inner + 1]) = static_cast<u16>(pair >> 16);
}

// The addresses of the rows: the first lanes have those of the first matrix, and so on; the others' are not
// looked at.
void find_rows(Warp &w, const Instruction *i, Addresses &at, u32 count, AccessKind kind) {
  w.active = count == lanes_per_warp ? ~u32{0} : (u32{1} << count) - 1;
  prepare(w, i, at, 16, kind);
  for (u32 l = 0; l < count; ++l)
    if (at.address[l] - w.shared_base >= w.shared_bytes && !is_remote_shared(w, at.address[l]))
      fail(w, i, LaunchStatus::illegal_address, "a row of a matrix that is not in shared memory", l);
  w.active = ~u32{0};
}

template <u32 Count, bool Transposed> const Instruction *load(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "ldmatrix"))
    return nullptr;
  Addresses at;
  find_rows(w, i, at, 8 * Count, AccessKind::load);
  const uint32_t *registers = w.program->extra.data() + i->extra;
  for (u32 m = 0; m < Count; ++m) {
    if (registers[m] == no_offset)
      continue;
    u16 matrix[8][8];
    for (u32 row = 0; row < 8; ++row)
      std::memcpy(matrix[row], reinterpret_cast<const void *>(at.address[8 * m + row]), 16);
    u32 *d = w.row<u32>(registers[m]);
    for (u32 l = 0; l < lanes_per_warp; ++l)
      d[l] = read_pair<Transposed>(matrix, l);
  }
  return i + 1;
}

template <u32 Count, bool Transposed> const Instruction *store(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "stmatrix"))
    return nullptr;
  Addresses at;
  find_rows(w, i, at, 8 * Count, AccessKind::store);
  const uint32_t *registers = w.program->extra.data() + i->extra;
  for (u32 m = 0; m < Count; ++m) {
    u16 matrix[8][8];
    const u32 *from = w.row<u32>(registers[m]);
    for (u32 l = 0; l < lanes_per_warp; ++l)
      write_pair<Transposed>(matrix, l, from[l]);
    for (u32 row = 0; row < 8; ++row)
      std::memcpy(reinterpret_cast<void *>(at.address[8 * m + row]), matrix[row], 16);
  }
  return i + 1;
}

// Of bytes, which memory may keep as 6 or 4 bits each. Lane l gets 4 that are neighbours: of row l / 4 of 8;
// or, of the columns of 16 rows, from l % 4 * 4 on, of column l / 4 and of the 8th one after it.
template <u32 Count, u32 Rows, u32 ElementBits> const Instruction *load_bytes(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "ldmatrix"))
    return nullptr;
  Addresses at;
  find_rows(w, i, at, Rows * Count, AccessKind::load);
  const uint32_t *registers = w.program->extra.data() + i->extra;
  for (u32 m = 0; m < Count; ++m) {
    u8 matrix[Rows][16];
    for (u32 row = 0; row < Rows; ++row) {
      const u8 *from = reinterpret_cast<const u8 *>(at.address[Rows * m + row]);
      if constexpr (ElementBits == 8)
        std::memcpy(matrix[row], from, 16);
      else
        unpack_padded(ElementBits, from, matrix[row]);
    }
    for (u32 half = 0; half < Rows / 8; ++half) {
      u32 to = registers[m * (Rows / 8) + half];
      for (u32 l = 0; l < lanes_per_warp && to != no_offset; ++l)
        for (u32 e = 0; e < 4; ++e)
          w.row<u8>(to)[4 * l + e] =
              Rows == 8 ? matrix[l / 4][l % 4 * 4 + e] : matrix[l % 4 * 4 + e][l / 4 + 8 * half];
    }
  }
  return i + 1;
}

// 16 rows and 8 columns of bytes, stored column by column: of lane l those of two columns, from l % 4 * 2 on,
// in row l / 4 and then in the 8th row below.
template <u32 Count> const Instruction *store_bytes(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "stmatrix"))
    return nullptr;
  Addresses at;
  find_rows(w, i, at, 8 * Count, AccessKind::store);
  const uint32_t *registers = w.program->extra.data() + i->extra;
  for (u32 m = 0; m < Count; ++m) {
    u8 columns[8][16];
    const u8 *from = w.row<u8>(registers[m]);
    for (u32 l = 0; l < lanes_per_warp; ++l)
      for (u32 e = 0; e < 4; ++e)
        columns[l % 4 * 2 + e % 2][l / 4 + e / 2 * 8] = from[4 * l + e];
    for (u32 column = 0; column < 8; ++column)
      std::memcpy(reinterpret_cast<void *>(at.address[8 * m + column]), columns[column], 16);
  }
  return i + 1;
}

const Instruction *transpose(Warp &w, const Instruction *i) {
  if (!has_whole_warp(w, i, "movmatrix"))
    return nullptr;
  u16 matrix[8][8];
  const u32 *from = w.row<u32>(i->a);
  u32 *d = w.row<u32>(i->destination);
  for (u32 l = 0; l < lanes_per_warp; ++l)
    write_pair<false>(matrix, l, from[l]);
  for (u32 l = 0; l < lanes_per_warp; ++l)
    d[l] = read_pair<true>(matrix, l);
  return i + 1;
}

template <u32 Count, bool Transposed> void add_moves(OperationTable &t) {
  std::string form = ".x" + std::to_string(Count) + (Transposed ? ".trans" : "");
  t.add("ldmatrix" + form, {load<Count, Transposed>, ptx::Type::none, {}, 0});
  t.add("stmatrix" + form, {store<Count, Transposed>, ptx::Type::none, {}, 0});
}

template <u32 Count, u32 Rows> void add_byte_loads(OperationTable &t) {
  std::string form = "ldmatrix.x" + std::to_string(Count) + ".m" + std::to_string(Rows) + "n16";
  if constexpr (Rows == 16)
    t.add(form + ".8", {load_bytes<Count, Rows, 8>, ptx::Type::none, {}, 0});
  t.add(form + ".6", {load_bytes<Count, Rows, 6>, ptx::Type::none, {}, 0});
  t.add(form + ".4", {load_bytes<Count, Rows, 4>, ptx::Type::none, {}, 0});
}

} // namespace

void add_matrix_moves(OperationTable &t) {
  add_byte_loads<1, 16>(t), add_byte_loads<2, 16>(t);
  add_byte_loads<1, 8>(t), add_byte_loads<2, 8>(t), add_byte_loads<4, 8>(t);
  t.add("stmatrix.x1.m16n8", {store_bytes<1>, ptx::Type::none, {}, 0});
  t.add("stmatrix.x2.m16n8", {store_bytes<2>, ptx::Type::none, {}, 0});
  t.add("stmatrix.x4.m16n8", {store_bytes<4>, ptx::Type::none, {}, 0});
  add_moves<1, false>(t), add_moves<2, false>(t), add_moves<4, false>(t);
  add_moves<1, true>(t), add_moves<2, true>(t), add_moves<4, true>(t);
  t.add("movmatrix.trans", {transpose, ptx::Type::b32, {ptx::Type::b32}, 1});
}

} // namespace emulator::EMULATOR_ISA
