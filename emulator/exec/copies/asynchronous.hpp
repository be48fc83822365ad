// Asynchronous copies. They are done where they are issued, which is one of the moments a GPU may choose, and
// what waits for them does nothing; or later, where a launch defers them (block/pending.hpp).
#pragma once

#include "exec/block/pending.hpp"
#include "exec/copies/combine.hpp"

namespace emulator::asynchronous {

// Operands are in Program::extra from Instruction::extra on; addresses are generic, no_offset is an operand
// left out.

// cp.async: destination, source, bytes of the source or none, predicate to ignore the source or none.
// element_bytes is no memory site here: `immediate` has the bytes of the destination.
const Instruction *copy(Warp &w, const Instruction *i);
// cp.async.bulk: destination, source, bytes, mbarrier or none, mask of blocks or none, mask of bytes or none;
// immediate: at_once for what is no asynchronous copy
const Instruction *copy_bulk(Warp &w, const Instruction *i);
constexpr int64_t at_once = 1;
// cp.reduce.async.bulk: destination, source, bytes, mbarrier or none; immediate: Reduction
const Instruction *reduce_bulk(Warp &w, const Instruction *i);
// st.bulk, which is done where it is issued: destination, bytes; immediate: whether these are 64 bits wide
const Instruction *clear(Warp &w, const Instruction *i);
// st.async, red.async: destination, mbarrier, then the elements; element_count in `immediate` >> 8, Reduction
// below
const Instruction *store(Warp &w, const Instruction *i);

// Where operations are deferred. immediate of `commit`: Track; of `wait`: waits() or
// waits_for_all().
const Instruction *commit(Warp &w, const Instruction *i);
const Instruction *wait(Warp &w, const Instruction *i);
constexpr int64_t waits(Track track, uint32_t groups, bool reading) {
  return static_cast<int64_t>(track) | int64_t{reading} << 8 | int64_t{groups} << 16;
}
constexpr int64_t waits_for_all(Track track) { return static_cast<int64_t>(track) | 1 << 9; }
// wgmma.wait_group; immediate: groups. What the four warps of a group multiply is one operation, so that it
// is done when all have committed it, and then for all.
const Instruction *wait_for_products(Warp &w, const Instruction *i);
// cp.async.mbarrier.arrive: mbarrier; immediate: whether its count holds the arrival already (.noinc)
const Instruction *arrive_after_copies(Warp &w, const Instruction *i);
const Instruction *fence_shared(Warp &w, const Instruction *i); // fence.proxy.async
const Instruction *acquire_map(Warp &w,
                               const Instruction *i); // fence.proxy.tensormap::generic.acquire: the map
const Instruction *fence_registers(Warp &w, const Instruction *i); // wgmma.fence

// What Instruction::immediate packs: an operator, and the type it works on.
constexpr int64_t reduction(Operator op, ptx::Type type) {
  return static_cast<int64_t>(op) | static_cast<int64_t>(type) << 8;
}

} // namespace emulator::asynchronous
