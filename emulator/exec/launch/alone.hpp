// Which launches run at the same time. Atomic operations of one that is alone cost a tenth.
#pragma once

#include "exec/warp/worker.hpp"

namespace emulator {

// While it lives, the launch counts as running. `on_one_thread`: it may be told that it is alone.
class Running {
public:
  Running(const Launch &launch, bool on_one_thread);
  ~Running();
  Running(const Running &) = delete;
  Running &operator=(const Running &) = delete;

private:
  const Launch &launch_;
};

} // namespace emulator
