// Contexts that a program creates, each thread's stack of current ones, and what can be asked of one.
#include "destroy.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"

using namespace emulator::driver;

static CUresult create(const char *function, CUcontext *pctx, unsigned flags, CUdevice dev, unsigned version,
                       bool with_limited_multiprocessors) {
  return enter(function, Needs::initialised, [&](Call &) {
    require(pctx != nullptr, CUDA_ERROR_INVALID_VALUE);
    require_context_flags(flags);
    Device &device = device_of(dev);
    require(!with_limited_multiprocessors, CUDA_ERROR_NOT_SUPPORTED);
    auto context = new_context(device, flags, version);
    push_current(context);
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
      pop_current();
    destroy_context(call.lock, *context);
  });
}

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx) { return destroy("cuCtxDestroy", ctx); }
CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx) { return destroy("cuCtxDestroy_v2", ctx); }

static CUresult push(const char *function, CUcontext ctx) {
  return enter(function, Needs::initialised, [&](Call &) { push_current(live_context(ctx)); });
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx) { return push("cuCtxPushCurrent", ctx); }
CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext ctx) { return push("cuCtxPushCurrent_v2", ctx); }

static CUresult pop(const char *function, CUcontext *pctx) {
  return enter(function, Needs::initialised, [&](Call &) {
    Context *context = current_context();
    require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    if (pctx)
      *pctx = handle_of<CUcontext>(context);
    pop_current();
  });
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *pctx) { return pop("cuCtxPopCurrent", pctx); }
CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *pctx) { return pop("cuCtxPopCurrent_v2", pctx); }

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx) {
  return enter("cuCtxSetCurrent", Needs::initialised, [&](Call &) {
    // As documented: null pops the stack's top, anything else replaces it.
    auto context = ctx ? live_context(ctx) : nullptr;
    pop_current();
    if (context)
      push_current(context);
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

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
  return enter("cuCtxGetDevice_v2", Needs::initialised, [&](Call &) {
    require(device != nullptr, CUDA_ERROR_INVALID_VALUE);
    *device = live_or_current(ctx).device.ordinal;
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
    pop_current();
    destroy_context(call.lock, *call.context);
  });
}
