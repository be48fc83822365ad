// A context owns streams, modules, events and memory, and remembers the first error its work left behind.
#pragma once

#include "core/driver.hpp"

#include <map>
#include <set>
#include <thread>

namespace emulator::driver {

class DeviceMemory;

struct Context : std::enable_shared_from_this<Context> {
  Context(Device &device, unsigned flags, unsigned api_version);
  ~Context();

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

  // cuCtxWaitEvent: works that everything issued later waits for, and until when the done ones lasted.
  std::vector<std::shared_ptr<Work>> holding;
  uint64_t held_until_ns = 0;
  std::shared_ptr<Stream> marker_stream; // where cuCtxRecordEvent puts its markers

  std::unique_ptr<DeviceMemory> memory; // what this context's kernels may touch
};

// The calling thread's current context, alive or not; null when there is none.
Context *current_context();

// Makes the primary context live (again) without counting a retain.
std::shared_ptr<Context> primary_context(Device &device);

// Waits for the context's work, then frees everything it owns. The object stays, marked dead, for threads
// that still have it on their stack.
void destroy_context(Lock &lock, Context &context);

} // namespace emulator::driver
