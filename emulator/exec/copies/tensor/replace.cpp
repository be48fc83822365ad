#include <algorithm>
#include <cstring>
#include <iterator>

#include "exec/access/access.hpp"
#include "exec/block/cluster.hpp"
#include "exec/block/pending.hpp"
#include "exec/copies/extra_operands.hpp"
#include "exec/copies/tensor/copies.hpp"
#include "exec/interface/tensor_map.hpp"

namespace emulator::tensor_copies {

namespace {

constexpr uint32_t map_alignment = 64;
constexpr uint8_t swizzle_of_128_bytes = 3, atomicities = 4; // CUtensorMapSwizzle, and those that follow it

// CUtensorMapDataType by PTX's numbers, which have .f32.ftz and .f64 before .bf16.
constexpr uint8_t element_types[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12, 13, 14, 15};

} // namespace

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
    if (!holder && w.block->pending)
      w.block->pending->map_changes(at, sizeof(TensorMap));
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
