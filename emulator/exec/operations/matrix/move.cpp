// ldmatrix, stmatrix, movmatrix: matrices of 8 rows of 16 bytes, each row at an address of its own.
#include "exec/operations/addressing.hpp"
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

// The addresses of the rows: lanes 0 to 7 have those of the first matrix, and so on; the others' are not
// looked at.
void find_rows(Warp &w, const Instruction *i, Addresses &at, u32 matrices, AccessKind kind) {
  u32 count = 8 * matrices;
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
  find_rows(w, i, at, Count, AccessKind::load);
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
  find_rows(w, i, at, Count, AccessKind::store);
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

} // namespace

void add_matrix_moves(OperationTable &t) {
  add_moves<1, false>(t), add_moves<2, false>(t), add_moves<4, false>(t);
  add_moves<1, true>(t), add_moves<2, true>(t), add_moves<4, true>(t);
  t.add("movmatrix.trans", {transpose, ptx::Type::b32, {ptx::Type::b32}, 1});
}

} // namespace emulator::EMULATOR_ISA
