#include "exec/copies/tensor_copies.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"
#include "exec/copies/asynchronous.hpp"
#include "exec/copies/deferred.hpp"
#include "exec/copies/extra_operands.hpp"
#include "exec/copies/mbarrier.hpp"
#include "exec/interface/tensor_map.hpp"

namespace emulator::tensor_copies {

namespace {

constexpr uint32_t shared_alignment = 128; // PTX ISA: of the box in shared memory
constexpr uint32_t map_alignment = 64;
constexpr uint32_t gathered_rows = 4;
// CUtensorMapSwizzle: 128 bytes in units of 16, and from there on of those that `atomicity` numbers.
constexpr uint8_t swizzle_of_128_bytes = 3, atomicities = 4;
constexpr uint8_t swizzle_with_flip = 5;     // in which order its halves come is not documented
constexpr uint64_t most_box_bytes = 1 << 20; // more than any shared memory

// CUtensorMapDataType in turn; `none`: formats that change their width on the way.
constexpr ptx::Type types[] = {ptx::Type::u8,  ptx::Type::u16,  ptx::Type::u32,  ptx::Type::s32,
                               ptx::Type::u64, ptx::Type::s64,  ptx::Type::f16,  ptx::Type::f32,
                               ptx::Type::f64, ptx::Type::bf16, ptx::Type::f32,  ptx::Type::f32,
                               ptx::Type::f32, ptx::Type::none, ptx::Type::none, ptx::Type::none};

// FLOAT32_FTZ, TFLOAT32, TFLOAT32_FTZ: subnormal numbers become zero, numbers are rounded to the nearest tf32
// (PTX ISA, tensor formats). Others stay as they are.
void convert(uint8_t type, std::vector<uint8_t> &contents) {
  constexpr uint8_t first = 10, last = 12;
  if (type < first || type > last)
    return;
  bool flushes = type != first + 1, rounds = type != first;
  for (size_t at = 0; at < contents.size(); at += 4) {
    uint32_t bits;
    std::memcpy(&bits, &contents[at], 4);
    uint32_t exponent = bits >> 23 & 0xff;
    if (flushes && exponent == 0)
      bits &= 0x80000000;
    if (rounds && exponent != 0xff)
      bits = (bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff};
    std::memcpy(&contents[at], &bits, 4);
  }
}

[[noreturn]] void refuse(Warp &w, const Instruction *i, uint32_t lane, const std::string &why) {
  fail(w, i, LaunchStatus::illegal_instruction, why, lane);
}

// One copy of one thread.
struct Box {
  TensorMap map;
  Shape shape = Shape::tile;
  ptx::Type type = ptx::Type::none;
  uint32_t element_bytes = 0;
  uint32_t count[5] = {1, 1, 1, 1,
                       1}; // elements along each dimension; of other shapes than tiles: rows in [1]
  int64_t first[5] = {0, 0, 0, 0, 0};
  uint32_t distance[3] = {0, 0, 0};

  uint32_t row_bytes() const { return count[0] * element_bytes; }
  uint32_t bytes() const { return row_bytes() * count[1] * count[2] * count[3] * count[4]; }
};

Box box_of(Warp &w, const Instruction *i, uint32_t lane) {
  uint64_t at = operand<uint64_t>(w, i, map, lane);
  // Parameters are aligned among each other.
  uint64_t parameters = reinterpret_cast<uint64_t>(w.parameters);
  bool parameter = at >= parameters && at - parameters < w.launch->parameter_bytes;
  if ((parameter ? at - parameters : at) % map_alignment != 0)
    misaligned(w, i, lane, at, map_alignment);
  check_access(w, i, lane, at, sizeof(TensorMap), false);
  Box box;
  std::memcpy(static_cast<void *>(&box.map), reinterpret_cast<const void *>(at), sizeof box.map);
  const TensorMap &m = box.map;
  box.shape = static_cast<Shape>(i->immediate >> 16 & 0xff);
  if (m.magic != TensorMap::tiled && m.magic != TensorMap::im2col)
    refuse(w, i, lane, "what lies at the address of the tensor map is none that this driver made");
  if ((m.magic == TensorMap::im2col) != (box.shape == Shape::pixels))
    refuse(w, i, lane,
           box.shape == Shape::pixels ? "an im2col copy through a tensor map for tiles"
                                      : "a copy of a tile through a tensor map for im2col");
  uint32_t rank = static_cast<uint32_t>(i->immediate & 0xff);
  if (m.rank != rank)
    refuse(w, i, lane, "a tensor map of " + std::to_string(m.rank) + " dimensions");
  if (m.interleave != 0)
    refuse(w, i, lane, "an interleaved tensor map, which this driver has not");
  if (m.type >= std::size(types) || types[m.type] == ptx::Type::none)
    refuse(w, i, lane, "a tensor map of a data type that changes on the way, which this driver has not");
  box.type = types[m.type];
  box.element_bytes = ptx::size_bytes(box.type);
  for (uint32_t d = 0; d < (box.shape == Shape::rows ? 1 + gathered_rows : rank); ++d)
    box.first[d] = operand<int32_t>(w, i, coordinate + d, lane);
  for (uint32_t d = 0; d < rank; ++d) {
    // Dimension 0 has no stride.
    uint32_t stride = d == 0 ? 1 : m.element_stride[d];
    bool pixels = box.shape == Shape::pixels;
    uint32_t extent = pixels && d > 1 ? 1 : m.box[d], most = pixels && d == 1 ? 1024 : 256;
    if (extent == 0 || extent > most || stride == 0)
      refuse(w, i, lane, "a tensor map without a box");
    box.count[d] = pixels ? extent : (extent + stride - 1) / stride;
  }
  if (box.shape == Shape::rows) {
    if (box.count[1] != 1)
      refuse(w, i, lane, "a gather or scatter of rows through a tensor map whose box has more than one row");
    box.count[1] = gathered_rows;
  }
  for (uint32_t d = 0; d < 3; ++d)
    if (has(w, i, distance + d))
      box.distance[d] = operand<uint16_t>(w, i, distance + d, lane);
  uint64_t bytes = box.element_bytes;
  for (uint32_t count : box.count)
    bytes *= count; // at most 2^43
  if (bytes > most_box_bytes)
    refuse(w, i, lane, "a box of " + std::to_string(bytes) + " bytes, more than shared memory has");
  if (box.row_bytes() % 16 != 0)
    refuse(w, i, lane, "a box whose rows are no multiples of 16 bytes");
  static constexpr uint32_t spans[] = {0, 32, 64, 128, 128, 0, 128};
  if (m.swizzle >= std::size(spans) || m.swizzle == swizzle_with_flip)
    refuse(w, i, lane, "a swizzle of the tensor map that this driver has not");
  if (spans[m.swizzle] != 0 && box.row_bytes() != spans[m.swizzle])
    refuse(w, i, lane, "a box narrower than its swizzle, whose layout is not documented");
  return box;
}

// Where a byte of the box is in shared memory: in chunks, exchanged by the row of 128 bytes that they are in.
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
  case 6:
    return offset ^ (row & 1) << 6;
  default:
    return offset;
  }
}

// Calls visit(address, inside) for each row of the box: where its element 0 of the tensor is, unless it lies
// outside.
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
          visit(row, inside);
        }
}

// Positions run through the box of positions, the first spatial dimension fastest, and on into the next
// image. The pixel that is copied lies `distance` further.
template <typename Visit> void each_pixel(const Box &box, Visit visit) {
  const TensorMap &m = box.map;
  const uint32_t images = m.rank - 1u; // the last dimension
  int64_t position[5];
  std::copy(std::begin(box.first), std::end(box.first), position);
  for (uint32_t pixel = 0; pixel < box.count[1]; ++pixel) {
    bool inside = true;
    uint64_t row = m.address;
    for (uint32_t d = 1; d <= images; ++d) {
      int64_t index = position[d] + (d < images ? box.distance[d - 1] : 0);
      inside = inside && index >= 0 && index <= int64_t{m.last_index[d]};
      row += static_cast<uint64_t>(index) * m.stride[d - 1];
    }
    visit(row, inside);
    for (uint32_t d = 1; d <= images; ++d) {
      position[d] += m.element_stride[d];
      if (d == images || position[d] <= int64_t{m.last_index[d]} + m.upper[d - 1])
        break;
      position[d] = m.lower[d - 1];
    }
  }
}

template <typename Visit> void each_row(const Box &box, Visit visit) {
  const TensorMap &m = box.map;
  if (box.shape == Shape::tile)
    each_row_of_tile(box, visit);
  else if (box.shape == Shape::pixels)
    each_pixel(box, visit);
  else
    for (uint32_t r = 1; r <= gathered_rows; ++r)
      visit(m.address + static_cast<uint64_t>(box.first[r]) * m.stride[0],
            box.first[r] >= 0 && box.first[r] <= int64_t{m.last_index[1]});
}

// Calls visit(offset in the box, address, elements, inside) for the parts of rows that lie in the tensor or
// not.
template <typename Visit> void each_part(const Box &box, Visit visit) {
  const int64_t begin = box.first[0], end = begin + box.count[0];
  const int64_t low = std::max<int64_t>(begin, 0), high = std::min(end, int64_t{box.map.last_index[0]} + 1);
  uint32_t offset = 0;
  each_row(box, [&](uint64_t row, bool inside) {
    if (!inside || low >= high) {
      visit(offset, uint64_t{0}, box.count[0], false);
    } else {
      uint32_t before = static_cast<uint32_t>(low - begin), size = box.element_bytes;
      uint32_t within = static_cast<uint32_t>(high - low);
      if (before != 0)
        visit(offset, uint64_t{0}, before, false);
      visit(offset + before * size, row + static_cast<uint64_t>(low) * size, within, true);
      if (before + within < box.count[0])
        visit(offset + (before + within) * size, uint64_t{0}, box.count[0] - before - within, false);
    }
    offset += box.row_bytes();
  });
}

uint64_t shared_base_of(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, const Box &box,
                        bool write) {
  const Block *holder = w.block->cluster->block_at(address, 1);
  if (!holder)
    refuse(w, i, lane, "a copy of a tensor to or from what is not shared memory");
  uint64_t base = holder->warps[0].shared_base;
  if ((address - base) % shared_alignment != 0)
    misaligned(w, i, lane, address - base, shared_alignment);
  check_access(w, i, lane, address, box.bytes(), write);
  return base;
}

// Between the box in its own order and shared memory.
template <typename Move> void each_chunk(const Box &box, uint64_t base, uint64_t address, Move move) {
  for (uint32_t offset = 0; offset < box.bytes(); offset += 16)
    move(offset, reinterpret_cast<uint8_t *>(base + swizzled(address - base + offset, box.map.swizzle)));
}

} // namespace

const Instruction *load(Warp &w, const Instruction *i) {
  PendingOperations *pending = w.block->pending;
  Cluster &cluster = *w.block->cluster;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    Box box = box_of(w, i, lane);
    Deliveries to(w, i, blocks, lane, operand<uint64_t>(w, i, shared, lane),
                  operand<uint64_t>(w, i, signal, lane));
    count_bulk(w.counters->bulk_loads, box.bytes() * static_cast<uint64_t>(to.end() - to.begin()));
    auto take = [=, &w](std::vector<uint8_t> &contents) {
      contents.resize(box.bytes());
      each_part(box, [&](uint32_t offset, uint64_t address, uint32_t elements, bool inside) {
        uint32_t bytes = elements * box.element_bytes;
        if (!inside) {
          if (box.map.fill != 0)
            refuse(w, i, lane, "elements outside of the tensor as NaN: which one is not documented");
          return; // zeros
        }
        check_access(w, i, lane, address, bytes, false);
        count_global_range(w, address, address + bytes, bytes, false);
        std::memcpy(contents.data() + offset, reinterpret_cast<const void *>(address), bytes);
      });
      convert(box.map.type, contents);
    };
    auto deliver = [=, &w, &cluster](const uint8_t *contents) {
      for (const Delivery &each : to) {
        uint64_t base = shared_base_of(w, i, lane, each.to, box, true);
        uint64_t fenced = cluster.fenced_distance(each.to);
        each_chunk(box, base, each.to, [&](uint32_t offset, uint8_t *at) {
          std::memcpy(at, contents + offset, 16);
          if (fenced)
            std::memcpy(at + fenced, contents + offset, 16);
        });
        mbarrier::complete_bytes(w, i, lane, each.mbarrier, box.bytes());
      }
    };
    if (pending) {
      defer(w, *pending, lane, Track::signalled, to.signals(), take, deliver);
    } else {
      std::vector<uint8_t> contents;
      take(contents);
      deliver(contents.data());
    }
  }
  return i + 1;
}

const Instruction *store(Warp &w, const Instruction *i) {
  auto op = static_cast<asynchronous::Operator>(i->immediate >> 8 & 0xff);
  PendingOperations *pending = w.block->pending;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    Box box = box_of(w, i, lane);
    if (op != asynchronous::Operator::replace && box.element_bytes < 4)
      refuse(w, i, lane, "a reduction of elements of less than 32 bits, which this driver has not");
    uint64_t from = operand<uint64_t>(w, i, shared, lane);
    uint64_t base = shared_base_of(w, i, lane, from, box, false);
    count_bulk(w.counters->bulk_stores, box.bytes());
    uint64_t distance = w.block->cluster->distance_to_fenced(from, box.bytes());
    auto take = [=](std::vector<uint8_t> &contents) {
      contents.resize(box.bytes());
      each_chunk(box, base, from, [&](uint32_t offset, const uint8_t *at) {
        std::memcpy(contents.data() + offset, at + distance, 16);
      });
      convert(box.map.type, contents);
    };
    auto deliver = [=, &w](const uint8_t *contents) {
      each_part(box, [&](uint32_t offset, uint64_t address, uint32_t elements, bool inside) {
        if (!inside)
          return; // goes nowhere
        uint32_t bytes = elements * box.element_bytes;
        check_access(w, i, lane, address, bytes, true);
        count_global_range(w, address, address + bytes, bytes, true);
        if (op == asynchronous::Operator::replace)
          std::memcpy(reinterpret_cast<void *>(address), contents + offset, bytes);
        else
          for (uint32_t b = 0; b < bytes; b += box.element_bytes)
            asynchronous::combine_element(op, box.type, address + b, contents + offset + b);
      });
    };
    if (pending) {
      defer(w, *pending, lane, Track::bulk, {}, take, deliver);
    } else {
      std::vector<uint8_t> contents;
      take(contents);
      deliver(contents.data());
    }
  }
  return i + 1;
}

// CUtensorMapDataType by PTX's numbers, which have .f32.ftz and .f64 before .bf16.
static constexpr uint8_t element_types[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12};

const Instruction *replace(Warp &w, const Instruction *i) {
  auto field = static_cast<MapField>(i->immediate & 0xff);
  uint32_t d = static_cast<uint32_t>(i->immediate >> 8);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t at = operand<uint64_t>(w, i, 0, lane), value = operand<uint64_t>(w, i, 1, lane);
    const Block *holder = w.block->cluster->block_at(at, 1);
    if ((holder ? at - holder->warps[0].shared_base : at) % map_alignment != 0)
      misaligned(w, i, lane, at, map_alignment);
    check_access(w, i, lane, at, sizeof(TensorMap), true);
    TensorMap map;
    std::memcpy(static_cast<void *>(&map), reinterpret_cast<const void *>(at), sizeof map);
    // Kernels make maps, too: of zeros, field by field.
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(at);
    if (std::all_of(bytes, bytes + sizeof map, [](uint8_t byte) { return byte == 0; }))
      map.magic = TensorMap::tiled;
    if (map.magic != TensorMap::tiled)
      continue; // a field of what is no tensor map: the ISA leaves it open, and a copy through it is refused
    switch (field) {
    case MapField::global_address:
      map.address = value;
      break;
    case MapField::rank: // of five dimensions: 4
      map.rank = static_cast<uint8_t>(std::min<uint64_t>(value, 4) + 1);
      break;
    case MapField::box_dim:
      map.box[d] = static_cast<uint16_t>(value);
      break;
    case MapField::global_dim:
      map.last_index[d] = static_cast<uint32_t>(value - 1);
      break;
    case MapField::global_stride:
      map.stride[d] = value;
      break;
    case MapField::element_stride:
      map.element_stride[d] = static_cast<uint8_t>(value);
      break;
    case MapField::interleave_layout:
      map.interleave = static_cast<uint8_t>(value);
      break;
    case MapField::swizzle_mode:
      map.swizzle = static_cast<uint8_t>(value);
      if (value == swizzle_of_128_bytes)
        map.swizzle = static_cast<uint8_t>(value + map.atomicity);
      break;
    case MapField::swizzle_atomicity:
      map.atomicity = static_cast<uint8_t>(value % atomicities);
      if (map.swizzle >= swizzle_of_128_bytes)
        map.swizzle = static_cast<uint8_t>(swizzle_of_128_bytes + map.atomicity);
      break;
    case MapField::fill_mode:
      map.fill = static_cast<uint8_t>(value);
      break;
    case MapField::element_type:
      map.type = value < std::size(element_types) ? element_types[value] : UINT8_MAX;
      break;
    }
    std::memcpy(reinterpret_cast<void *>(at), &map, sizeof map);
  }
  return i + 1;
}

} // namespace emulator::tensor_copies
