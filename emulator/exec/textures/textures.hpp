// Texture and surface instructions. They reach memory through handles, which the driver explains
// (MemoryMap::texture), and lane by lane: nothing here is written for speed.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator::textures {

// Operands are in Program::extra from Instruction::extra on, at fixed places; no_offset is one left out.
// `immediate` is the index of the instruction's ImageForm.
enum Place : uint32_t {
  handle = 0,     // u64
  layer = 1,      // u32
  coordinate = 2, // three, f32 or s32; of surfaces the first counts bytes
  level = 5,      // f32
  change_x = 6,   // three, f32: tex.grad
  change_y = 9,
  offset = 12,   // three, s32
  value = 15,    // four: results, or what is stored
  resident = 19, // predicate
  places = 20,
};

const Instruction *sample(Warp &w, const Instruction *i);
const Instruction *gather(Warp &w, const Instruction *i);
const Instruction *query(Warp &w, const Instruction *i);
const Instruction *load(Warp &w, const Instruction *i);   // suld
const Instruction *store(Warp &w, const Instruction *i);  // sust
const Instruction *reduce(Warp &w, const Instruction *i); // sured
const Instruction *is_type(Warp &w, const Instruction *i);

} // namespace emulator::textures
