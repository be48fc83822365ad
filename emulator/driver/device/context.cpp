// Contexts: created, primary, and each thread's stack of current ones.
#include "context.hpp"

#include "array/array.hpp"
#include "array/reference.hpp"
#include "array/texture.hpp"
#include "device.hpp"
#include "launch/function.hpp"
#include "memory/allocations.hpp"
#include "memory/pool.hpp"
#include "module/module.hpp"
#include "stream/capture.hpp"
#include "stream/event.hpp"
#include "stream/scheduler.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

// Shared pointers, so that a destroyed context stays a valid object for the threads that have it current.
// Never destroyed: handlers of atexit run after the destructors of thread-local objects, and may call the
// driver.
thread_local std::vector<std::shared_ptr<Context>> &context_stack =
    *new std::vector<std::shared_ptr<Context>>;

constexpr int least_priority = 0;
constexpr int greatest_priority = -5;
constexpr size_t largest_stack_bytes = 512 << 10; // local memory of a thread (technical specifications)

std::shared_ptr<Context> new_context(Device &device, unsigned flags, unsigned api_version) {
  auto context = std::make_shared<Context>(device, flags, api_version);
  driver().contexts.add(context);
  return context;
}

void require_context_flags(unsigned flags) {
  unsigned schedule = flags & CU_CTX_SCHED_MASK;
  require((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0, CUDA_ERROR_INVALID_VALUE);
  require(schedule == 0 || schedule == 1 || schedule == 2 || schedule == 4, CUDA_ERROR_INVALID_VALUE);
}

std::shared_ptr<Context> live_context(CUcontext handle) {
  auto context = driver().contexts.get(handle, CUDA_ERROR_INVALID_CONTEXT);
  require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return context;
}

// For functions where a null context means the current one.
Context &live_or_current(CUcontext handle) {
  Context *context = handle ? live_context(handle).get() : current_context();
  require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return *context;
}

} // namespace

Context::Context(Device &owner, unsigned context_flags, unsigned version)
    : device(owner), flags(context_flags), api_version(version), identifier(driver().next_identifier++),
      limits{{CU_LIMIT_STACK_SIZE, 1024},
             {CU_LIMIT_PRINTF_FIFO_SIZE, size_t{1} << 20},
             {CU_LIMIT_MALLOC_HEAP_SIZE, size_t{8} << 20},
             {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
             {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
             {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}},
      memory(std::make_unique<DeviceMemory>(*this)) {
  if (device.architecture.sm < 90) // documented: applicable below compute capability 9.0 only
    limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
}

Context::~Context() = default;

Context *current_context() { return context_stack.empty() ? nullptr : context_stack.back().get(); }

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

void destroy_context(Lock &lock, Context &context) {
  end_captures(context);
  drain(lock, context);
  auto owned = [&context](const auto &object) { return object.context == &context; };
  driver().events.remove_if(owned);
  driver().streams.remove_if(owned);
  driver().functions.remove_if(
      [&](const Function &function) { return function.module->context == &context; });
  driver().libraries.for_each([&](const auto &library) { library->modules.erase(&context); });
  driver().modules.remove_if(owned);
  driver().texture_objects.remove_if(owned);
  driver().surface_objects.remove_if(owned);
  driver().texture_references.remove_if(owned);
  driver().surface_references.remove_if(owned);
  driver().mipmapped_arrays.remove_if(owned);
  driver().arrays.remove_if(owned);
  for (const auto &allocation : driver().allocations->all())
    if (allocation->context == &context)
      release(allocation);
  settle_pools(context.device);
  context.legacy_stream.reset();
  context.per_thread_streams.clear();
  context.blocking_streams.clear();
  context.marker_stream.reset();
  context.holding.clear();
  context.peers.clear();
  context.memory = std::make_unique<DeviceMemory>(context);
  context.alive = false;
  if (!context.primary) {
    driver().ended_contexts.push_back(context.shared_from_this());
    driver().contexts.remove(&context);
  }
}

} // namespace emulator::driver

using namespace emulator::driver;

static CUresult create(const char *function, CUcontext *pctx, unsigned flags, CUdevice dev, unsigned version,
                       bool with_limited_multiprocessors) {
  return enter(function, Needs::initialised, [&](Call &) {
    require(pctx != nullptr, CUDA_ERROR_INVALID_VALUE);
    require_context_flags(flags);
    Device &device = device_of(dev);
    require(!with_limited_multiprocessors, CUDA_ERROR_NOT_SUPPORTED);
    auto context = new_context(device, flags, version);
    context_stack.push_back(context);
    *pctx = handle_of<CUcontext>(context.get());
  });
}

CUresult CUDAAPI cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  return create("cuCtxCreate", pctx, flags, dev, 3010, false);
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  return create("cuCtxCreate_v2", pctx, flags, dev, 3020, false);
}

CUresult CUDAAPI cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                                unsigned int flags, CUdevice dev) {
  return create("cuCtxCreate_v3", pctx, flags, dev, 11040, paramsArray != nullptr && numParams > 0);
}

#if CUDA_VERSION >= 12050
CUresult CUDAAPI cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                                CUdevice dev) {
  bool limited = ctxCreateParams &&
                 (ctxCreateParams->cigParams ||
                  (ctxCreateParams->execAffinityParams && ctxCreateParams->numExecAffinityParams > 0));
  return create("cuCtxCreate_v4", pctx, flags, dev, 12050, limited);
}
#endif

static CUresult destroy(const char *function, CUcontext ctx) {
  return enter(function, Needs::initialised, [&](Call &call) {
    auto context = driver().contexts.get(ctx, CUDA_ERROR_INVALID_CONTEXT);
    require(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
    if (current_context() == context.get())
      context_stack.pop_back();
    destroy_context(call.lock, *context);
  });
}

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx) { return destroy("cuCtxDestroy", ctx); }
CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx) { return destroy("cuCtxDestroy_v2", ctx); }

static CUresult push(const char *function, CUcontext ctx) {
  return enter(function, Needs::initialised, [&](Call &) { context_stack.push_back(live_context(ctx)); });
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx) { return push("cuCtxPushCurrent", ctx); }
CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext ctx) { return push("cuCtxPushCurrent_v2", ctx); }

static CUresult pop(const char *function, CUcontext *pctx) {
  return enter(function, Needs::initialised, [&](Call &) {
    require(!context_stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
    if (pctx)
      *pctx = handle_of<CUcontext>(context_stack.back().get());
    context_stack.pop_back();
  });
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *pctx) { return pop("cuCtxPopCurrent", pctx); }
CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *pctx) { return pop("cuCtxPopCurrent_v2", pctx); }

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx) {
  return enter("cuCtxSetCurrent", Needs::initialised, [&](Call &) {
    // As documented: null pops the stack's top, anything else replaces it.
    auto context = ctx ? live_context(ctx) : nullptr;
    if (!context_stack.empty())
      context_stack.pop_back();
    if (context)
      context_stack.push_back(context);
  });
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx) {
  return enter("cuCtxGetCurrent", Needs::initialised, [&](Call &) {
    require(pctx != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pctx = handle_of<CUcontext>(current_context());
  });
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
  return enter("cuCtxGetDevice", Needs::context, [&](Call &call) {
    require(device != nullptr, CUDA_ERROR_INVALID_VALUE);
    *device = call.context->device.ordinal;
  });
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags) {
  return enter("cuCtxGetFlags", Needs::context, [&](Call &call) {
    require(flags != nullptr, CUDA_ERROR_INVALID_VALUE);
    *flags = call.context->flags;
  });
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags) {
  return enter("cuCtxSetFlags", Needs::context, [&](Call &call) {
    require_context_flags(flags);
    call.context->flags = flags;
  });
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
  return enter("cuCtxGetId", Needs::initialised, [&](Call &) {
    require(ctxId != nullptr, CUDA_ERROR_INVALID_VALUE);
    *ctxId = live_or_current(ctx).identifier;
  });
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
  return enter("cuCtxGetApiVersion", Needs::initialised, [&](Call &) {
    require(version != nullptr, CUDA_ERROR_INVALID_VALUE);
    *version = live_or_current(ctx).api_version;
  });
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  return enter("cuCtxSynchronize", Needs::healthy, [&](Call &call) {
    refuse_waiting(*call.context);
    synchronise(call.lock, *call.context);
  });
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
  return enter("cuCtxGetDevice_v2", Needs::initialised, [&](Call &) {
    require(device != nullptr, CUDA_ERROR_INVALID_VALUE);
    *device = live_or_current(ctx).device.ordinal;
  });
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx) {
  return enter("cuCtxSynchronize_v2", Needs::initialised, [&](Call &call) {
    Context &context = live_or_current(ctx);
    refuse_waiting(context);
    synchronise(call.lock, context);
  });
}

CUresult CUDAAPI cuCtxAttach(CUcontext *pctx, unsigned int flags) {
  return enter("cuCtxAttach", Needs::context, [&](Call &call) {
    require(pctx != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    require(!call.context->primary, CUDA_ERROR_INVALID_CONTEXT);
    ++call.context->attached;
    *pctx = handle_of<CUcontext>(call.context);
  });
}

CUresult CUDAAPI cuCtxDetach(CUcontext ctx) {
  return enter("cuCtxDetach", Needs::context, [&](Call &call) {
    // Documented: the context must be current to the calling thread.
    require(ctx == handle_of<CUcontext>(call.context) && !call.context->primary, CUDA_ERROR_INVALID_CONTEXT);
    if (--call.context->attached > 0)
      return;
    context_stack.pop_back();
    destroy_context(call.lock, *call.context);
  });
}

CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type) {
  return enter("cuCtxGetExecAffinity", Needs::context, [&](Call &) {
    require(pExecAffinity != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(type == CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    pExecAffinity->type = type;
    pExecAffinity->param.smCount.val = static_cast<unsigned>(settings().multiprocessors);
  });
}

CUresult CUDAAPI cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
  return enter("cuCtxGetLimit", Needs::context, [&](Call &call) {
    require(pvalue != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto found = call.context->limits.find(limit);
    require(found != call.context->limits.end(), CUDA_ERROR_UNSUPPORTED_LIMIT);
    *pvalue = found->second;
  });
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  return enter("cuCtxSetLimit", Needs::healthy, [&](Call &call) {
    auto found = call.context->limits.find(limit);
    require(found != call.context->limits.end(), CUDA_ERROR_UNSUPPORTED_LIMIT);
    // Values are clamped where the hardware has a bound.
    if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY)
      value = std::min<size_t>(value, 128);
    if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE) // CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
      value = 0;
    if (limit == CU_LIMIT_STACK_SIZE)
      value = std::min<size_t>(value, largest_stack_bytes);
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
      require(value <= call.context->device.total_bytes, CUDA_ERROR_OUT_OF_MEMORY);
    found->second = value;
  });
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
  return enter("cuCtxGetCacheConfig", Needs::context, [&](Call &call) {
    require(pconfig != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pconfig = call.context->cache_config;
  });
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  return enter("cuCtxSetCacheConfig", Needs::context, [&](Call &call) {
    require(config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL,
            CUDA_ERROR_INVALID_VALUE);
    call.context->cache_config = config;
  });
}

CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig *pConfig) {
  return enter("cuCtxGetSharedMemConfig", Needs::context, [&](Call &) {
    require(pConfig != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  });
}

CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return enter("cuCtxSetSharedMemConfig", Needs::context, [&](Call &) {
    require(config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE,
            CUDA_ERROR_INVALID_VALUE); // without effect since Maxwell
  });
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache(void) {
  return enter("cuCtxResetPersistingL2Cache", Needs::context, [&](Call &) {});
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
  return enter("cuCtxGetStreamPriorityRange", Needs::context, [&](Call &) {
    if (leastPriority)
      *leastPriority = least_priority;
    if (greatestPriority)
      *greatestPriority = greatest_priority;
  });
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  return enter("cuCtxEnablePeerAccess", Needs::healthy, [&](Call &call) {
    require(Flags == 0, CUDA_ERROR_INVALID_VALUE);
    auto peer = live_context(peerContext);
    require(&peer->device != &call.context->device, CUDA_ERROR_INVALID_DEVICE);
    require(call.context->peers.insert(peer->device.ordinal).second, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  });
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext) {
  return enter("cuCtxDisablePeerAccess", Needs::healthy, [&](Call &call) {
    auto peer = live_context(peerContext);
    require(call.context->peers.erase(peer->device.ordinal) == 1, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
  return enter("cuDevicePrimaryCtxRetain", Needs::initialised, [&](Call &) {
    require(pctx != nullptr, CUDA_ERROR_INVALID_VALUE);
    Device &device = device_of(dev);
    auto context = primary_context(device);
    ++device.primary_retains;
    *pctx = handle_of<CUcontext>(context.get());
  });
}

static CUresult release_primary(const char *function, CUdevice dev) {
  return enter(function, Needs::initialised, [&](Call &call) {
    Device &device = device_of(dev);
    require(device.primary_retains > 0, CUDA_ERROR_INVALID_CONTEXT);
    if (--device.primary_retains == 0)
      destroy_context(call.lock, *device.primary);
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev) {
  return release_primary("cuDevicePrimaryCtxRelease", dev);
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  return release_primary("cuDevicePrimaryCtxRelease_v2", dev);
}

static CUresult reset_primary(const char *function, CUdevice dev) {
  return enter(function, Needs::initialised, [&](Call &call) {
    Device &device = device_of(dev);
    if (!device.primary || !device.primary->alive)
      return;
    destroy_context(call.lock, *device.primary);
    // "Explicitly destroys and cleans up all resources": a later use of the same handle finds it fresh.
    if (device.primary_retains > 0)
      primary_context(device);
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev) {
  return reset_primary("cuDevicePrimaryCtxReset", dev);
}
CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  return reset_primary("cuDevicePrimaryCtxReset_v2", dev);
}

static CUresult set_primary_flags(const char *function, CUdevice dev, unsigned flags) {
  return enter(function, Needs::initialised, [&](Call &) {
    Device &device = device_of(dev);
    require_context_flags(flags);
    device.primary_flags = flags;
    if (device.primary)
      device.primary->flags = flags;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return set_primary_flags("cuDevicePrimaryCtxSetFlags", dev, flags);
}
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  return set_primary_flags("cuDevicePrimaryCtxSetFlags_v2", dev, flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
  return enter("cuDevicePrimaryCtxGetState", Needs::initialised, [&](Call &) {
    Device &device = device_of(dev);
    require(flags != nullptr && active != nullptr, CUDA_ERROR_INVALID_VALUE);
    *flags = device.primary_flags;
    *active = device.primary && device.primary->alive;
  });
}
