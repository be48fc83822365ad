// tcgen05.cp and .shift.
#include <cstring>

#include "exec/block/cluster.hpp"
#include "exec/block/issue.hpp"
#include "exec/copies/extra_operands.hpp"
#include "exec/operations/matrix/elements.hpp"
#include "exec/operations/matrix/shared_matrix.hpp"
#include "exec/tensor_memory/tensor_memory.hpp"

namespace emulator::tensor_memory {

namespace {

using EMULATOR_ISA::chunk_bytes;
using EMULATOR_ISA::SharedMatrix;

// The blocks whose tensor memory an instruction reaches.
std::vector<Block *> blocks_of(Warp &w, const Instruction *i, uint32_t lane, bool pair) {
  if (!pair)
    return {w.block};
  Block *peer = w.block->cluster->peer_of(*w.block);
  if (!peer)
    fail(w, i, LaunchStatus::illegal_instruction,
         "tcgen05 with cta_group::2 by a block that has no other to form a pair with", lane);
  return {w.block, peer};
}

// 16 elements of 6 or 4 bits, then room, become bytes: 6 bits at the low end, 4 bits from bit 2 on, where the
// instructions of matrices have them.
void decompress(const uint8_t *from, uint32_t bits, uint8_t *to) {
  uint8_t codes[16];
  EMULATOR_ISA::unpack_padded(bits, from, codes);
  for (uint32_t e = 0; e < 16; ++e)
    to[e] = static_cast<uint8_t>(bits == 4 ? codes[e] << 2 : codes[e]);
}

} // namespace

const Instruction *copy(Warp &w, const Instruction *i) {
  const TensorCopyForm &form = w.program->tensor_copies[static_cast<size_t>(i->immediate)];
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t thread = first_lane(lanes);
    TensorAddress at(operand<uint32_t>(w, i, 0, thread) + static_cast<uint32_t>(form.address_offset));
    uint64_t descriptor = operand<uint64_t>(w, i, 1, thread);
    auto perform = [=, &w, &form](Block &block, uint64_t distance) {
      TensorMemory &memory = block.tensor();
      SharedMatrix matrix = SharedMatrix::of_tensor_core(w, i, thread, block.warps[0], descriptor, distance);
      for (uint32_t row = 0; row < form.rows; ++row) {
        uint8_t bytes[2 * chunk_bytes];
        for (uint32_t chunk = 0; chunk < form.row_bytes / chunk_bytes; ++chunk) {
          auto *from =
              static_cast<const uint8_t *>(matrix.find(w, i, matrix.place_in_row(row, chunk), thread));
          if (form.element_bits)
            decompress(from, form.element_bits, bytes + chunk * chunk_bytes);
          else
            std::memcpy(bytes + chunk * chunk_bytes, from, chunk_bytes);
        }
        uint32_t lane = at.lane + row % form.run + row / form.run * form.step;
        for (uint32_t c = 0; c < form.copies; ++c)
          std::memcpy(memory.row(w, i, thread, lane + c * form.copy_step, at.column, form.row_bytes / 4u),
                      bytes, form.row_bytes);
      }
    };
    for (Block *block : blocks_of(w, i, thread, form.pair)) {
      uint64_t distance = w.block->cluster->distance_to_fenced(*block);
      SharedMatrix::of_tensor_core(w, i, thread, block->warps[0], descriptor, distance)
          .count_rows(w, 0, form.rows, form.row_bytes / chunk_bytes);
      issue_in_order(w, thread, Track::tensor, {}, [=] { perform(*block, distance); });
    }
  }
  return i + 1;
}

const Instruction *shift(Warp &w, const Instruction *i) {
  constexpr uint32_t columns = 8, rows = TensorMemory::lanes_of_warp;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t thread = first_lane(lanes);
    TensorAddress at(operand<uint32_t>(w, i, 0, thread));
    if (at.lane % rows != 0)
      fail(w, i, LaunchStatus::illegal_instruction,
           "tcgen05.shift from lane " + std::to_string(at.lane) + " on, which is no multiple of 32", thread);
    auto perform = [=, &w](Block &block) {
      for (uint32_t row = 0; row + 1 < rows; ++row)
        std::memcpy(block.tensor().row(w, i, thread, at.lane + row, at.column, columns),
                    block.tensor().row(w, i, thread, at.lane + row + 1, at.column, columns), 4 * columns);
    };
    for (Block *block : blocks_of(w, i, thread, i->immediate != 0))
      issue_in_order(w, thread, Track::tensor, {}, [=] { perform(*block); });
  }
  return i + 1;
}

} // namespace emulator::tensor_memory
