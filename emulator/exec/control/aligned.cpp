#include "exec/control/aligned.hpp"

#include "exec/operations/matrix/whole_warp.hpp"

namespace emulator::control {

const Instruction *whole_warp(Warp &w, const Instruction *i) {
  // In the order of Aligned.
  static constexpr const char *names[] = {"wmma.load",          "wmma.store",       "wgmma.fence",
                                          "wgmma.commit_group", "wgmma.wait_group", "tcgen05.wait::ld",
                                          "tcgen05.wait::st",   "setmaxnreg"};
  return has_whole_warp(w, i, names[i->immediate]) ? i + 1 : nullptr;
}

} // namespace emulator::control
