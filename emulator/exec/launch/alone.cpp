#include "exec/launch/alone.hpp"

#include <mutex>
#include <thread>

namespace emulator {

namespace {
struct AllLaunches {
  std::mutex lock;
  uint64_t running = 0;
  const Launch *alone = nullptr;
};
AllLaunches &all_launches() {
  static AllLaunches all;
  return all;
}
} // namespace

Running::Running(const Launch &launch, bool on_one_thread) : launch_(launch) {
  AllLaunches &all = all_launches();
  std::lock_guard<std::mutex> hold(all.lock);
  if (all.running++ == 0) {
    launch.is_alone = on_one_thread;
    all.alone = on_one_thread ? &launch : nullptr;
  } else if (all.alone) {
    all.alone->is_alone = false;
    while (all.alone->in_atomic)
      std::this_thread::yield();
    all.alone = nullptr;
  }
}

Running::~Running() {
  AllLaunches &all = all_launches();
  std::lock_guard<std::mutex> hold(all.lock);
  --all.running;
  if (all.alone == &launch_)
    all.alone = nullptr;
}

} // namespace emulator
