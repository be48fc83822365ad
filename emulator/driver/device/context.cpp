#include "context.hpp"

#include "device.hpp"

namespace emulator::driver {
namespace {

// Shared pointers, so that a destroyed context stays a valid object for the threads that have it current.
// Never destroyed: handlers of atexit run after the destructors of thread-local objects, and may call the
// driver.
thread_local std::vector<std::shared_ptr<Context>> &context_stack =
    *new std::vector<std::shared_ptr<Context>>;

} // namespace

Context::Context(Device &owner, unsigned context_flags, unsigned version)
    : device(owner), flags(context_flags), api_version(version), identifier(driver().next_identifier++),
      limits{{CU_LIMIT_STACK_SIZE, 1024},
             {CU_LIMIT_PRINTF_FIFO_SIZE, size_t{1} << 20},
             {CU_LIMIT_MALLOC_HEAP_SIZE, size_t{8} << 20},
             {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
             {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
             {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}} {
  if (device.architecture.sm < 90) // documented: applicable below compute capability 9.0 only
    limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
}

void require_context_flags(unsigned flags) {
  unsigned schedule = flags & CU_CTX_SCHED_MASK;
  require((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0, CUDA_ERROR_INVALID_VALUE);
  require(schedule == 0 || schedule == 1 || schedule == 2 || schedule == 4, CUDA_ERROR_INVALID_VALUE);
}

std::shared_ptr<Context> new_context(Device &device, unsigned flags, unsigned api_version) {
  auto context = std::make_shared<Context>(device, flags, api_version);
  driver().contexts.add(context);
  return context;
}

std::shared_ptr<Context> live_context(CUcontext handle) {
  auto context = driver().contexts.get(handle, CUDA_ERROR_INVALID_CONTEXT);
  require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return context;
}

Context &live_or_current(CUcontext handle) {
  Context *context = handle ? live_context(handle).get() : current_context();
  require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return *context;
}

Context *current_context() { return context_stack.empty() ? nullptr : context_stack.back().get(); }

void push_current(std::shared_ptr<Context> context) { context_stack.push_back(std::move(context)); }

void pop_current() {
  if (!context_stack.empty())
    context_stack.pop_back();
}

std::shared_ptr<Context> primary_context(Device &device) {
  if (!device.primary) {
    device.primary = new_context(device, device.primary_flags, CUDA_VERSION);
    device.primary->primary = true;
  }
  Context &context = *device.primary;
  if (!context.alive) {
    context.alive = true;
    context.error = CUDA_SUCCESS;
    context.flags = device.primary_flags;
  }
  return device.primary;
}

} // namespace emulator::driver
