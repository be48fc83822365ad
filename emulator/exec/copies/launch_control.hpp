// clusterlaunchcontrol.try_cancel: a cluster that has not begun is taken out of the launch, for the asking
// one to do its work.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator::launch_control {

// Operands are in Program::extra from Instruction::extra on: generic addresses of the answer and of the
// mbarrier. immediate: 1 writes to each block of the cluster. The answer is 16 bytes of our own layout: the
// position of the first block of the cluster, and 1; all zero when none is left.
const Instruction *try_cancel(Warp &w, const Instruction *i);

} // namespace emulator::launch_control
