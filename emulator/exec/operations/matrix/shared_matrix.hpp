// A matrix in shared memory that a descriptor of wgmma names.
#pragma once

#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

constexpr u32 chunk_bytes = 16, tile_rows = 8;

// Rows are those of A, or the columns of B; `by_rows`: the elements of a row lie side by side, 32 bytes of
// them, 64 of a B for a sparse A.
struct SharedMatrix {
  u64 start, leading, stride; // in bytes
  u32 swizzle_bytes;          // 16: none
  bool by_rows;
  u64 distance; // from shared memory to what is read of it

  SharedMatrix(Warp &w, const Instruction *i, u64 descriptor, bool rows, u64 from_memory)
      : by_rows(rows), distance(from_memory) {
    static constexpr u32 widths[] = {16, 128, 64, 32};
    start = (descriptor & 0x3fff) * chunk_bytes;
    leading = (descriptor >> 16 & 0x3fff) * chunk_bytes;
    stride = (descriptor >> 32 & 0x3fff) * chunk_bytes;
    swizzle_bytes = widths[descriptor >> 62];
    if (descriptor >> 49 & 7)
      fail(w, i, LaunchStatus::illegal_instruction,
           "a matrix descriptor with a base offset, which this driver has not", 0);
  }

  // Of 16 bytes: of `row` from the chunk-th on, or of 8 rows from `row` on in one column.
  u64 place_in_row(Warp &w, const Instruction *i, u32 row, u32 chunk) const {
    if (chunk * chunk_bytes >= swizzle_bytes && swizzle_bytes != chunk_bytes)
      fail(w, i, LaunchStatus::illegal_instruction,
           "rows of a matrix that are longer than its swizzle, whose layout is not documented", 0);
    bool none = swizzle_bytes == chunk_bytes;
    return row / tile_rows * stride + row % tile_rows * swizzle_bytes +
           chunk * (none ? leading : chunk_bytes);
  }
  u64 place_in_column(u32 row, u32 column) const {
    u32 chunks = swizzle_bytes / chunk_bytes, chunk = row / tile_rows;
    u64 of_rows = chunks == 1 ? stride : leading, of_columns = chunks == 1 ? leading : stride;
    return chunk / chunks * of_rows + chunk % chunks * chunk_bytes + column / tile_rows * of_columns +
           column % tile_rows * swizzle_bytes;
  }

  const void *find(Warp &w, const Instruction *i, u64 place) const {
    u64 address = start + place;
    address ^= address >> 3 & (swizzle_bytes - chunk_bytes);
    if (address + chunk_bytes > w.shared_bytes)
      fail(w, i, LaunchStatus::illegal_address,
           "a matrix descriptor that reaches " + std::to_string(address + chunk_bytes) +
               " bytes into shared memory, where the block has " + std::to_string(w.shared_bytes) + " bytes",
           0);
    return reinterpret_cast<const void *>(w.shared_base + distance + address);
  }

  // 8 rows of 16 bytes, from an element on, as a register of all lanes holds them.
  void read_tile(Warp &w, const Instruction *i, u32 row, u32 column, u32 element_bytes, u32 *lanes) const {
    for (u32 k = 0; by_rows && k < tile_rows; ++k)
      std::memcpy(lanes + 4 * k,
                  find(w, i, place_in_row(w, i, row + k, column * element_bytes / chunk_bytes)), chunk_bytes);
    u16 *halves = reinterpret_cast<u16 *>(lanes);
    for (u32 k = 0; !by_rows && k < tile_rows; ++k) {
      u16 of_column[tile_rows];
      std::memcpy(of_column, find(w, i, place_in_column(row, column + k)), chunk_bytes);
      for (u32 r = 0; r < tile_rows; ++r)
        halves[r * tile_rows + k] = of_column[r];
    }
  }
};

} // namespace

} // namespace emulator::EMULATOR_ISA
