// What one copy of one thread moves: a box of units. A unit is an element; sixteen of them where they are
// packed (two of four bits without gaps); a slice of channels where the tensor is interleaved.
#pragma once

#include <algorithm>
#include <iterator>

#include "exec/copies/tensor/copies.hpp"
#include "exec/interface/tensor_map.hpp"

namespace emulator::tensor_copies {

struct Box {
  TensorMap map; // dimension 0 in units
  Shape shape = Shape::tile;
  ptx::Type type = ptx::Type::none;    // none: packed
  uint32_t unit_bytes = 0;             // in global memory
  uint32_t unit_pitch = 0;             // in shared memory: more where there are gaps
  uint32_t row_pitch = 0;              // in shared memory
  uint32_t count[5] = {1, 1, 1, 1, 1}; // units along each dimension; of other shapes than tiles: rows in [1]
  int64_t first[5] = {0, 0, 0, 0, 0};
  uint32_t distance[3] = {0, 0, 0};

  bool interleaved() const { return map.interleave != 0; }
  bool padded() const { return unit_pitch != unit_bytes; }
  bool flips() const { return map.swizzle == TensorMap::swizzle_with_flip; }
  uint32_t rows() const { return count[1] * count[2] * count[3] * count[4]; }
  uint32_t row_bytes() const { return count[0] * unit_bytes; }
  uint32_t bytes() const { return row_bytes() * rows(); }
  uint32_t shared_bytes() const { return row_pitch * rows(); }
};

// Ends the kernel if the map and the operands of the lane make no box.
Box box_of(Warp &w, const Instruction *i, uint32_t lane);

// Where a byte of the box is in shared memory: in chunks, exchanged by the row of 128 bytes that they are in.
uint64_t swizzled(uint64_t offset, uint8_t swizzle);

// Calls visit(address of unit 0, first unit, inside) for each row of the box; inside: but for dimension 0.
template <typename Visit> void each_row_of_tile(const Box &box, Visit visit) {
  const TensorMap &m = box.map;
  uint32_t k[5] = {};
  for (k[4] = 0; k[4] < box.count[4]; ++k[4])
    for (k[3] = 0; k[3] < box.count[3]; ++k[3])
      for (k[2] = 0; k[2] < box.count[2]; ++k[2])
        for (k[1] = 0; k[1] < box.count[1]; ++k[1]) {
          bool inside = true;
          uint64_t row = m.address;
          for (uint32_t d = 1; d < m.rank; ++d) {
            int64_t index = box.first[d] + int64_t{k[d]} * m.element_stride[d];
            inside = inside && index >= 0 && index <= int64_t{m.last_index[d]};
            row += static_cast<uint64_t>(index) * m.stride[d - 1];
          }
          visit(row, box.first[0], inside);
        }
}

// A position in the box of positions, which the dimensions [begin, end) span.
struct Pixel {
  int64_t at[5];
  uint32_t begin, end;
  int64_t shift; // of the box along its first dimension

  // The next one: the first dimension fastest, and on into the next image.
  void advance(const TensorMap &m) {
    for (uint32_t d = begin; d < end; ++d) {
      int64_t moved = d == begin ? shift : 0;
      at[d] += m.element_stride[d];
      if (at[d] <= int64_t{m.last_index[d]} + m.upper[d - begin] + moved)
        return;
      at[d] = m.lower[d - begin] + moved;
    }
    at[m.rank - 1] += m.element_stride[m.rank - 1];
  }
};

template <typename Visit> void visit_pixel(const Box &box, const Pixel &pixel, Visit visit) {
  const TensorMap &m = box.map;
  bool inside = true;
  uint64_t row = m.address;
  int64_t begin = pixel.at[0];
  bool wide = box.shape == Shape::wide || box.shape == Shape::wide_128;
  for (uint32_t d = 0; d < m.rank; ++d) {
    int64_t index =
        pixel.at[d] + (!wide && d >= pixel.begin && d < pixel.end ? box.distance[d - pixel.begin] : 0);
    if (d == 0) {
      begin = index;
      continue;
    }
    inside = inside && index >= 0 && index <= int64_t{m.last_index[d]};
    row += static_cast<uint64_t>(index) * m.stride[d - 1];
  }
  visit(row, begin, inside);
}

// im2col: what is copied lies `distance` further than the position.
template <typename Visit> void each_pixel(const Box &box, Visit visit) {
  uint32_t begin = box.interleaved() ? 0 : 1;
  Pixel pixel{{}, begin, begin + box.map.rank - 2u, 0};
  std::copy(std::begin(box.first), std::end(box.first), pixel.at);
  for (uint32_t n = 0; n < box.count[1]; ++n) {
    visit_pixel(box, pixel, visit);
    pixel.advance(box.map);
  }
}

constexpr uint32_t pixels_of_wide_128 = 128, pixels_before_halo = 32;

// im2col::w: along W alone; distance[0] pixels more (the halo), all moved by distance[1]. im2col::w::128: as
// many more after each 32, which come last: the first of each group, the second of each, and so on.
template <typename Visit> void each_pixel_of_width(const Box &box, Visit visit) {
  const uint32_t halo = box.distance[0];
  const int64_t shift = box.distance[1];
  Pixel pixel{{}, 1, 2, shift};
  std::copy(std::begin(box.first), std::end(box.first), pixel.at);
  pixel.at[1] += shift;
  if (box.shape == Shape::wide) {
    for (uint32_t n = 0; n < box.count[1]; ++n) {
      visit_pixel(box, pixel, visit);
      pixel.advance(box.map);
    }
    return;
  }
  constexpr uint32_t groups = pixels_of_wide_128 / pixels_before_halo;
  Pixel behind[groups];
  for (uint32_t n = 0; n < pixels_of_wide_128; ++n) {
    visit_pixel(box, pixel, visit);
    pixel.advance(box.map);
    if ((n + 1) % pixels_before_halo == 0)
      behind[n / pixels_before_halo] = pixel;
  }
  for (uint32_t n = 0; n < halo; ++n)
    for (Pixel &each : behind) {
      visit_pixel(box, each, visit);
      each.advance(box.map);
    }
}

template <typename Visit> void each_row(const Box &box, Visit visit) {
  const TensorMap &m = box.map;
  switch (box.shape) {
  case Shape::tile:
    return each_row_of_tile(box, visit);
  case Shape::pixels:
    return each_pixel(box, visit);
  case Shape::wide:
  case Shape::wide_128:
    return each_pixel_of_width(box, visit);
  case Shape::rows:
    for (uint32_t r = 1; r <= gathered_rows; ++r)
      visit(m.address + static_cast<uint64_t>(box.first[r]) * m.stride[0], box.first[0],
            box.first[r] >= 0 && box.first[r] <= int64_t{m.last_index[1]});
  }
}

// Calls visit(offset in the box's bytes, address, units, inside) for the parts of rows that lie in the tensor
// or not.
template <typename Visit> void each_part(const Box &box, Visit visit) {
  const uint32_t size = box.unit_bytes, step = box.interleaved() ? box.map.element_stride[0] : 1;
  const int64_t last = box.map.last_index[0];
  uint32_t offset = 0;
  each_row(box, [&](uint64_t row, int64_t begin, bool inside) {
    if (step > 1) {
      for (uint32_t n = 0; n < box.count[0]; ++n) {
        int64_t index = begin + int64_t{n} * step;
        bool within = inside && index >= 0 && index <= last;
        visit(offset + n * size, within ? row + static_cast<uint64_t>(index) * size : 0, 1u, within);
      }
    } else {
      const int64_t low = std::max<int64_t>(begin, 0), high = std::min(begin + box.count[0], last + 1);
      uint32_t before = inside && low < high ? static_cast<uint32_t>(low - begin) : box.count[0];
      uint32_t within = inside && low < high ? static_cast<uint32_t>(high - low) : 0;
      if (before != 0)
        visit(offset, uint64_t{0}, before, false);
      if (within != 0)
        visit(offset + before * size, row + static_cast<uint64_t>(low) * size, within, true);
      if (before + within < box.count[0])
        visit(offset + (before + within) * size, uint64_t{0}, box.count[0] - before - within, false);
    }
    offset += box.row_bytes();
  });
}

// Calls move(offset in the box's bytes, where that is in shared memory, how many bytes stay together).
template <typename Move> void each_chunk(const Box &box, uint64_t base, uint64_t address, Move move) {
  const uint32_t taken = box.padded() ? box.unit_bytes : box.flips() ? 8 : 16;
  const uint32_t pitch = box.padded() ? box.unit_pitch : taken;
  uint32_t offset = 0;
  for (uint32_t row = 0; row < box.rows(); ++row)
    for (uint32_t n = 0; n < box.row_bytes() / taken; ++n, offset += taken)
      move(offset,
           reinterpret_cast<uint8_t *>(
               base + swizzled(address - base + uint64_t{row} * box.row_pitch + n * pitch, box.map.swizzle)),
           taken);
}

} // namespace emulator::tensor_copies
