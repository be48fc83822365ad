#include "core/settings.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "recorder.hpp"

#include <algorithm>

using namespace emulator::driver;

namespace {

constexpr int greatest_stream_priority = -5;

CUresult create(const char *function, CUstream *out, unsigned flags, int priority) {
  return enter(function, Needs::healthy, [&](Call &call) {
    require(out != nullptr && (flags == CU_STREAM_DEFAULT || flags == CU_STREAM_NON_BLOCKING),
            CUDA_ERROR_INVALID_VALUE);
    // Documented: a priority outside the range is clamped to it.
    auto stream = new_stream(*call.context, flags, std::clamp(priority, greatest_stream_priority, 0));
    *out = driver().streams.add(stream);
  });
}

CUresult destroy(const char *function, CUstream handle) {
  return enter(function, Needs::healthy, handle, [&](Call &) {
    // Work that is still queued keeps the stream until it is done.
    auto stream = driver().streams.get(handle);
    if (auto recorder = stream->recorder)
      recorder->stream_ends(*stream);
    if (stream->last && (settings().checks.bits & emulator::bit_of(emulator::Check::race)))
      stream->context->ended.emplace_back(stream->last, stream->blocking());
    driver().streams.remove(stream.get());
  });
}

} // namespace

CUresult CUDAAPI cuStreamCreate(CUstream *phStream, unsigned int Flags) {
  return create("cuStreamCreate", phStream, Flags, 0);
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
  return create("cuStreamCreateWithPriority", phStream, flags, priority);
}

CUresult CUDAAPI cuStreamDestroy(CUstream hStream) { return destroy("cuStreamDestroy", hStream); }
CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream) { return destroy("cuStreamDestroy_v2", hStream); }

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream) {
  return enter("cuStreamSynchronize", Needs::healthy, hStream, [&](Call &call) {
    auto stream = stream_of(*call.context, hStream);
    refuse_recorded(*stream);
    synchronise(call.lock, stream);
  });
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  return enter("cuCtxSynchronize", Needs::healthy, [&](Call &call) {
    refuse_waiting(*call.context);
    synchronise(call.lock, *call.context);
  });
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx) {
  return enter("cuCtxSynchronize_v2", Needs::initialised, [&](Call &call) {
    Context &context = live_or_current(ctx);
    refuse_waiting(context);
    synchronise(call.lock, context);
  });
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream) {
  return enter("cuStreamQuery", Needs::healthy, hStream, [&](Call &call) {
    auto stream = stream_of(*call.context, hStream);
    refuse_recorded(*stream);
    bool done = idle(call.lock, stream->last);
    require(stream->context->error == CUDA_SUCCESS, stream->context->error);
    require(done, CUDA_ERROR_NOT_READY);
  });
}

CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int *priority) {
  return enter("cuStreamGetPriority", Needs::context, hStream, [&](Call &call) {
    require(priority != nullptr, CUDA_ERROR_INVALID_VALUE);
    *priority = stream_of(*call.context, hStream)->priority;
  });
}

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int *flags) {
  return enter("cuStreamGetFlags", Needs::context, hStream, [&](Call &call) {
    require(flags != nullptr, CUDA_ERROR_INVALID_VALUE);
    *flags = stream_of(*call.context, hStream)->flags;
  });
}

CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long *streamId) {
  return enter("cuStreamGetId", Needs::context, hStream, [&](Call &call) {
    require(streamId != nullptr, CUDA_ERROR_INVALID_VALUE);
    *streamId = stream_of(*call.context, hStream)->identifier;
  });
}

CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
  return enter("cuStreamGetCtx", Needs::context, hStream, [&](Call &call) {
    require(pctx != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pctx = handle_of<CUcontext>(stream_of(*call.context, hStream)->context);
  });
}

#if CUDA_VERSION >= 12050
CUresult CUDAAPI cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
  return enter("cuStreamGetCtx_v2", Needs::context, hStream, [&](Call &call) {
    require(pCtx != nullptr && pGreenCtx != nullptr, CUDA_ERROR_INVALID_VALUE);
    *pCtx = handle_of<CUcontext>(stream_of(*call.context, hStream)->context);
    *pGreenCtx = nullptr; // documented: for a stream that belongs to no green context
  });
}
#endif

#if CUDA_VERSION >= 12080
CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice *device) {
  return enter("cuStreamGetDevice", Needs::context, [&](Call &call) {
    require(device != nullptr, CUDA_ERROR_INVALID_VALUE);
    *device = stream_of(*call.context, hStream)->context->device.ordinal;
  });
}
#endif

CUresult CUDAAPI cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value) {
  return enter("cuStreamGetAttribute", Needs::context, hStream, [&](Call &call) {
    require(value != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    require(attr == CU_LAUNCH_ATTRIBUTE_PRIORITY || attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
                attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
                attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
                attr == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
            CUDA_ERROR_INVALID_VALUE);
    *value = CUstreamAttrValue{};
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
      value->priority = stream->priority;
    else if (auto found = stream->attributes.find(attr); found != stream->attributes.end())
      *value = found->second;
    else if (attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
      value->syncPolicy = CU_SYNC_POLICY_AUTO;
  });
}

CUresult CUDAAPI cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value) {
  return enter("cuStreamSetAttribute", Needs::healthy, hStream, [&](Call &call) {
    require(value != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, hStream);
    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      stream->priority = std::clamp(value->priority, greatest_stream_priority, 0);
      return;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      stream->attributes[attr] = *value; // remembered; none of them changes a result
      return;
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
    }
  });
}

CUresult CUDAAPI cuStreamCopyAttributes(CUstream dstStream, CUstream srcStream) {
  return enter("cuStreamCopyAttributes", Needs::healthy, dstStream, [&](Call &call) {
    auto source = stream_of(*call.context, srcStream), destination = stream_of(*call.context, dstStream);
    require(source->context == destination->context, CUDA_ERROR_INVALID_VALUE);
    destination->attributes = source->attributes;
    destination->priority = source->priority; // CU_LAUNCH_ATTRIBUTE_PRIORITY
  });
}
