// Before an .aligned instruction that each lane executes for itself: all lanes of the warp must be here.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator::control {

enum class Aligned {
  wmma_load,
  wmma_store,
  wgmma_fence,
  wgmma_commit_group,
  wgmma_wait_group,
  tcgen05_wait_ld,
  tcgen05_wait_st,
  setmaxnreg,
};

const Instruction *whole_warp(Warp &w, const Instruction *i); // immediate: an Aligned

} // namespace emulator::control
