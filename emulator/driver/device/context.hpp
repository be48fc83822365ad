// A context owns streams, modules, events and memory, and remembers the first error of its work.
#pragma once

#include "driver.hpp"

#include <map>
#include <set>
#include <thread>

namespace emulator {
class MemoryMap;
}

namespace emulator::driver {

struct Context : std::enable_shared_from_this<Context> {
  Context(Device &device, unsigned flags, unsigned api_version);

  Device &device;
  unsigned flags;
  unsigned api_version;
  uint64_t identifier;
  bool primary = false;
  bool alive = true;
  unsigned attached = 1; // cuCtxCreate and every cuCtxAttach
  // CUDA_SUCCESS, or what every later call that works with the context returns.
  CUresult error = CUDA_SUCCESS;

  std::map<CUlimit, size_t> limits;
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
  std::set<int> peers; // ordinals of devices whose memory this context may touch

  std::shared_ptr<Stream> legacy_stream; // handle 0 and CU_STREAM_LEGACY
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread_streams;
  std::vector<std::weak_ptr<Stream>> blocking_streams; // those that join with the legacy stream
  // Of streams that have ended since all was waited for, the last work, and whether it joins with the legacy
  // stream: kept where settings().checks asks for races.
  std::vector<std::pair<std::shared_ptr<Work>, bool>> ended;

  // cuCtxWaitEvent: works that everything issued later waits for, and until when the done ones lasted.
  std::vector<std::shared_ptr<Work>> holding;
  uint64_t held_until_ns = 0;
  std::shared_ptr<Stream> marker_stream; // where cuCtxRecordEvent puts its markers

  std::shared_ptr<MemoryMap> memory; // what its kernels may touch; null before the first of them
};

// CUDA_ERROR_INVALID_VALUE for flags that no context has.
void require_context_flags(unsigned flags);
std::shared_ptr<Context> new_context(Device &device, unsigned flags, unsigned api_version);

// The calling thread's current context, alive or not; null when there is none.
Context *current_context();
void push_current(std::shared_ptr<Context> context);
void pop_current();

std::shared_ptr<Context> live_context(CUcontext handle);
// For functions where a null context means the current one.
Context &live_or_current(CUcontext handle);

// Makes the primary context live (again) without counting a retain.
std::shared_ptr<Context> primary_context(Device &device);

} // namespace emulator::driver
