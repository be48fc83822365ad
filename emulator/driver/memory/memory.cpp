// Linear device memory.
#include "core/heap.hpp"
#include "described.hpp"
#include "device/device.hpp"
#include "entry/entry.hpp"
#include "exec/interface/global_shadow.hpp"
#include "stream/scheduler.hpp"

using namespace emulator::driver;

namespace {

constexpr uint64_t pitch_alignment = 512;

} // namespace

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
  return enter("cuMemAlloc_v2", Needs::healthy, [&](Call &call) {
    require(dptr != nullptr && bytesize > 0, CUDA_ERROR_INVALID_VALUE);
    *dptr = allocate_device(*call.context, bytesize, MemoryKind::device)->base;
  });
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                    unsigned int ElementSizeBytes) {
  return enter("cuMemAllocPitch_v2", Needs::healthy, [&](Call &call) {
    require(dptr != nullptr && pPitch != nullptr && WidthInBytes > 0 && Height > 0, CUDA_ERROR_INVALID_VALUE);
    require(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16,
            CUDA_ERROR_INVALID_VALUE);
    uint64_t pitch = round_up(WidthInBytes, pitch_alignment);
    uint64_t bytes = 0;
    require(pitch >= WidthInBytes && !__builtin_mul_overflow(pitch, Height, &bytes),
            CUDA_ERROR_OUT_OF_MEMORY);
    *dptr = allocate_device(*call.context, bytes, MemoryKind::device)->base;
    *pPitch = pitch;
  });
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr) {
  return enter("cuMemFree_v2", Needs::healthy, [&](Call &call) {
    if (dptr == 0)
      return; // accepted by the real driver, though undocumented
    auto allocation = allocations().find(dptr);
    require_free(allocation && allocation->base == dptr && !allocation->freeing &&
                     (allocation->kind == MemoryKind::device || allocation->kind == MemoryKind::managed) &&
                     (!allocation->kept || allocation->kept->outstanding()),
                 dptr);
    Context &owner = *allocation->context;
    drain(call.lock, owner); // work may still use it
    if (&owner != call.context)
      drain(call.lock, *call.context);
    // While this thread waited, another may have freed it too.
    require(allocations().find(dptr) == allocation, CUDA_ERROR_INVALID_VALUE);
    release(allocation);
    require(call.context->error == CUDA_SUCCESS, call.context->error);
  });
}

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free, size_t *total) {
  return enter("cuMemGetInfo_v2", Needs::healthy, [&](Call &call) {
    require(free != nullptr && total != nullptr, CUDA_ERROR_INVALID_VALUE);
    *total = call.context->device.total_bytes;
    *free = call.context->device.total_bytes - call.context->device.used_bytes;
  });
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
  return enter("cuMemGetAddressRange_v2", Needs::healthy, [&](Call &) {
    auto allocation = allocations().find(dptr);
    require(allocation != nullptr, CUDA_ERROR_NOT_FOUND);
    if (pbase)
      *pbase = allocation->base;
    if (psize)
      *psize = allocation->bytes;
  });
}

CUresult CUDAAPI replayBeginMemory(CUdeviceptr base, size_t bytes) {
  return enter("replayBeginMemory", Needs::initialised, [&](Call &call) {
    require(base + bytes >= base, CUDA_ERROR_INVALID_VALUE);
    if (!emulator::global_shadow().is_on() || !is_followed(base))
      return;
    drain(call.lock); // what is under way may use what was there before
    emulator::global_shadow().begin(base, bytes);
  });
}

CUresult CUDAAPI replayConfineMemory(CUdeviceptr base, size_t bytes, const unsigned long long *pieces,
                                     size_t count) {
  return enter("replayConfineMemory", Needs::initialised, [&](Call &call) {
    require(bytes > 0 && base + bytes > base && (pieces != nullptr || count == 0), CUDA_ERROR_INVALID_VALUE);
    std::vector<Stretch> wanted;
    uint64_t end = base;
    for (size_t i = 0; i < count; ++i) {
      Stretch piece{pieces[2 * i], pieces[2 * i + 1]};
      require(piece.bytes > 0 && piece.base >= end && piece.base - base <= bytes &&
                  piece.bytes <= bytes - (piece.base - base),
              CUDA_ERROR_INVALID_VALUE);
      end = piece.base + piece.bytes;
      wanted.push_back(piece);
    }
    if (allocations().takes_away({base, bytes}, wanted))
      drain(call.lock);
    allocations().confine({base, bytes}, wanted);
  });
}
