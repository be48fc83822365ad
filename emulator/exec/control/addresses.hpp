// Handlers that make one address of another: of the frame, of a state space, of another block.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator::control {

// Address of something in the frame: immediate, in the local space or (wide_address) generic.
const Instruction *local_address(Warp &w, const Instruction *i);
const Instruction *to_generic(Warp &w, const Instruction *i); // cvta: a, space
const Instruction *from_generic(Warp &w, const Instruction *i);
const Instruction *is_space(Warp &w, const Instruction *i); // immediate: shared memory of the cluster counts
const Instruction *shared_address(Warp &w, const Instruction *i); // a + immediate, to a generic address
// mapa: a, b: rank; .shared::cluster or generic by space
const Instruction *map_address(Warp &w, const Instruction *i);
const Instruction *rank_of_address(Warp &w, const Instruction *i); // getctarank
// a & peer_mask, a being an address of .shared::cluster: on a GPU, one's own has one's rank, too
const Instruction *first_of_pair(Warp &w, const Instruction *i);

} // namespace emulator::control
