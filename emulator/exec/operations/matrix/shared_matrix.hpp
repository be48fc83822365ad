// A matrix in shared memory that a descriptor of wgmma or tcgen05 names.
#pragma once

#include <algorithm>

#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

constexpr u32 chunk_bytes = 16, tile_rows = 8;

// Rows are those of A, or the columns of B; `by_rows`: the elements of a row lie side by side, 32 bytes of
// them, 64 of a B for a sparse A.
struct SharedMatrix {
  u64 start, leading, stride;   // in bytes
  u32 swizzle_bytes;            // 16: none
  u32 atom_bytes = chunk_bytes; // that a swizzle keeps together
  u64 phase = 0;                // of the pattern, in bytes
  bool absolute = false;        // `leading` is where the chunks go on that do not fit into a row of 128 bytes
  u64 base, size;               // of the block's shared memory
  bool by_rows;
  u64 distance = 0; // from shared memory to what is read of it

  // What the descriptors of both have in common.
  SharedMatrix(const Warp &holder, u64 descriptor, bool rows)
      : start((descriptor & 0x3fff) * chunk_bytes), leading((descriptor >> 16 & 0x3fff) * chunk_bytes),
        stride((descriptor >> 32 & 0x3fff) * chunk_bytes), swizzle_bytes(chunk_bytes),
        base(holder.shared_base), size(holder.shared_bytes), by_rows(rows) {}
  // wgmma: what is read is `from_memory` bytes away from shared memory.
  SharedMatrix(Warp &w, u64 descriptor, bool rows, u64 from_memory) : SharedMatrix(w, descriptor, rows) {
    distance = from_memory;
    static constexpr u32 widths[] = {16, 128, 64, 32};
    swizzle_bytes = widths[descriptor >> 62];
    phase = (descriptor >> 49 & 7) * 128;
  }

  // tcgen05: of the block of `holder`, for the thread `lane` of w; what is read is `from_memory` bytes away
  // from shared memory.
  static SharedMatrix of_tensor_core(Warp &w, const Instruction *i, u32 lane, const Warp &holder,
                                     u64 descriptor, u64 from_memory) {
    static constexpr u32 widths[] = {16, 128, 128, 0, 64, 0, 32, 0};
    SharedMatrix matrix(holder, descriptor, true);
    matrix.distance = from_memory;
    u64 mode = descriptor >> 61;
    matrix.swizzle_bytes = widths[mode];
    matrix.phase = (descriptor >> 49 & 7) * 128;
    if (mode == 1)
      matrix.atom_bytes = 2 * chunk_bytes;
    matrix.absolute = descriptor >> 52 & 1;
    if (matrix.swizzle_bytes == 0 || (descriptor >> 46 & 7) != 1 || (descriptor >> 53 & 0xff) != 0)
      fail(w, i, LaunchStatus::illegal_instruction, "a matrix descriptor with bits that are not defined",
           lane);
    if (matrix.absolute && mode != 2)
      fail(w, i, LaunchStatus::illegal_instruction,
           "a matrix descriptor with an absolute leading dimension and no swizzle of 128 bytes", lane);
    return matrix;
  }

  // Of 16 bytes: of `row` from the chunk-th on, or of a unit of rows, 16 bytes of them, in one column.
  u64 place_in_row(u32 row, u32 chunk) const {
    bool none = swizzle_bytes == chunk_bytes;
    if (u32 fitting = static_cast<u32>((128 - start % 128) / chunk_bytes); absolute && chunk >= fitting)
      return leading - start + row / tile_rows * stride + row % tile_rows * swizzle_bytes +
             (chunk - fitting) * chunk_bytes;
    return row / tile_rows * stride + row % tile_rows * swizzle_bytes +
           chunk * (none ? leading : chunk_bytes);
  }
  u64 place_in_column(u32 unit, u32 column) const {
    u32 chunks = swizzle_bytes / chunk_bytes, columns = tile_rows * chunk_bytes / atom_bytes;
    u64 of_rows = chunks == 1 ? stride : leading, of_columns = chunks == 1 ? leading : stride;
    return unit / chunks * of_rows + unit % chunks * chunk_bytes + column / columns * of_columns +
           column % columns * swizzle_bytes;
  }

  // The row of the pattern, whose bits begin at 128 bytes, chooses among the atoms of a row.
  u64 swizzled(u64 address) const {
    return address ^ ((address - phase) / (128 / atom_bytes) & (swizzle_bytes - atom_bytes));
  }

  // Counts what an instruction reads: rows of chunks, or units of rows column by column. Of 128
  // bytes that follow each other, in pieces that the swizzle keeps together, those in the same four banks
  // take turns.
  void count_rows(Warp &w, u32 first, u32 rows, u32 chunks) const {
    count(w, rows, chunks, [&](u32 row, u32 chunk) { return place_in_row(first + row, chunk); });
  }
  void count_columns(Warp &w, u32 first, u32 units, u32 columns) const {
    count(w, columns, units, [&](u32 column, u32 unit) { return place_in_column(first + unit, column); });
  }

  // Calls look(address) for the 16 bytes of each of these.
  template <typename Look> void for_each_chunk(u32 first, u32 lines, u32 pieces, Look look) const {
    for (u32 line = 0; line < lines; ++line)
      for (u32 piece = 0; piece < pieces; ++piece)
        look(base + swizzled(start + (by_rows ? place_in_row(first + line, piece)
                                              : place_in_column(first + line, piece))));
  }

  const void *find(const Warp &w, const Instruction *i, u64 place, u32 lane = 0) const {
    u64 address = swizzled(start + place);
    if (address + chunk_bytes > size)
      fail(w, i, LaunchStatus::illegal_address,
           "a matrix descriptor that reaches " + std::to_string(address + chunk_bytes) +
               " bytes into shared memory, where the block has " + std::to_string(size) + " bytes",
           lane);
    return reinterpret_cast<const void *>(base + distance + address);
  }

  // 8 rows of 16 bytes, from an element on, as a register of all lanes holds them.
  void read_tile(Warp &w, const Instruction *i, u32 row, u32 column, u32 element_bytes, u32 *lanes) const {
    u32 chunk = column * element_bytes / chunk_bytes;
    if (by_rows && chunk * chunk_bytes >= swizzle_bytes && swizzle_bytes != chunk_bytes)
      fail(w, i, LaunchStatus::illegal_instruction,
           "rows of a matrix that are longer than its swizzle, whose layout is not documented", 0);
    for (u32 k = 0; by_rows && k < tile_rows; ++k)
      std::memcpy(lanes + 4 * k, find(w, i, place_in_row(row + k, chunk)), chunk_bytes);
    u16 *halves = reinterpret_cast<u16 *>(lanes);
    for (u32 k = 0; !by_rows && k < tile_rows; ++k) {
      u16 of_column[tile_rows];
      std::memcpy(of_column, find(w, i, place_in_column(row / tile_rows, column + k)), chunk_bytes);
      for (u32 r = 0; r < tile_rows; ++r)
        halves[r * tile_rows + k] = of_column[r];
    }
  }

private:
  template <typename Place>
  void count([[maybe_unused]] Warp &w, [[maybe_unused]] u32 lines, [[maybe_unused]] u32 pieces,
             [[maybe_unused]] Place place) const {
#ifndef EMULATOR_UNCOUNTED
    w.counters->descriptors.bytes += u64{lines} * pieces * chunk_bytes;
    u32 together = atom_bytes / chunk_bytes, at_once = tile_rows / together;
    for (u32 piece = 0; piece < pieces; piece += together)
      for (u32 line = 0; line < lines; line += at_once) {
        u8 in_banks[tile_rows] = {};
        for (u32 k = 0; k < tile_rows; ++k)
          if (line + k / together < lines && piece + k % together < pieces) {
            u64 address = start + place(line + k / together, piece + k % together);
            ++in_banks[swizzled(address) / chunk_bytes % tile_rows];
          }
        w.counters->descriptors.wavefronts += *std::max_element(in_banks, in_banks + tile_rows);
      }
#endif
  }
};

} // namespace

} // namespace emulator::EMULATOR_ISA
