#include "copy.hpp"

#include "core/cost_model.hpp"
#include "entry/entry.hpp"
#include "entry/touched_file.hpp"
#include "exec/interface/global_shadow.hpp"
#include "memory/allocations.hpp"
#include "memory/virtual/virtual_memory.hpp"
#include "races/work_races.hpp"
#include "stream/recorder.hpp"

#include <cstring>

namespace emulator::driver {
namespace {

// From the first byte to the one after the last. Throws when the sum does not fit.
uint64_t extent(const CopySide &side, const CopyShape &shape) {
  uint64_t rows = 0, slices = 0, total = 0;
  require(!__builtin_mul_overflow(shape.height - 1, side.pitch_bytes, &rows) &&
              !__builtin_mul_overflow(shape.depth - 1, side.slice_bytes, &slices) &&
              !__builtin_add_overflow(rows, slices, &total) &&
              !__builtin_add_overflow(total, shape.width_bytes, &total) && side.base + total >= side.base,
          CUDA_ERROR_INVALID_VALUE);
  return total;
}

uint64_t number(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

uint8_t *row(const CopySide &side, uint64_t y, uint64_t z) {
  return reinterpret_cast<uint8_t *>(side.base + y * side.pitch_bytes + z * side.slice_bytes);
}

void move_rows(const CopySide &destination, const CopySide &source, const CopyShape &shape) {
  bool one_row = shape.height == 1 && shape.depth == 1;
  if (one_row && source.host &&
      write_untouched(destination.base, reinterpret_cast<const void *>(source.base), shape.width_bytes))
    return;
  for (uint64_t z = 0; z < shape.depth; ++z)
    for (uint64_t y = 0; y < shape.height; ++y)
      std::memmove(row(destination, y, z), row(source, y, z), shape.width_bytes);
}

// What nothing has written stays so where it is copied to.
void follow_rows(const CopySide &destination, const CopySide &source, const CopyShape &shape) {
  if (!global_shadow().is_on())
    return;
  const bool follow = !destination.storage && is_followed(destination.base);
  for (uint64_t z = 0; z < shape.depth; ++z)
    for (uint64_t y = 0; y < shape.height; ++y)
      global_shadow().copy(number(row(source, y, z)), number(row(destination, y, z)), shape.width_bytes,
                           follow);
}

// What the copy touches of memory that kernels may touch, too.
Rows touched_rows(const CopySide &side, const CopyShape &shape) {
  if (side.storage || !allocations().find(side.base))
    return {};
  return rows_of(side.base, shape.width_bytes, shape.height, side.pitch_bytes, shape.depth, side.slice_bytes);
}

enum class Memory { device, pinned, pageable };

Memory memory_of(uint64_t address) {
  auto allocation = allocations().find(address);
  return !allocation ? Memory::pageable : allocation->is_host() ? Memory::pinned : Memory::device;
}

Memory memory_of(const CopySide &side) { return side.storage ? Memory::device : memory_of(side.base); }

bool is_empty(const CopyShape &shape) {
  return shape.width_bytes == 0 || shape.height == 0 || shape.depth == 0;
}

// A side named as host may be any pointer; one that the driver knows is validated all the same, and so is
// what offsets lead to from there: past the end of pinned memory is no pageable memory. Not yet seen on a
// GPU (GT-COPY-HOST).
bool is_checked(const CopySide &side) {
  bool unknown = memory_of(side.base) == Memory::pageable &&
                 (side.named == 0 || memory_of(side.named) == Memory::pageable);
  return !side.storage && !(side.host && unknown);
}

// The rows are looked at one by one where the gaps between them may be nothing.
bool all_mapped(const CopySide &side, const CopyShape &shape, uint64_t bytes) {
  if (is_mapped(side.base, bytes))
    return true;
  for (uint64_t z = 0; z < shape.depth; ++z)
    for (uint64_t y = 0; y < shape.height; ++y)
      if (!is_mapped(side.base + y * side.pitch_bytes + z * side.slice_bytes, shape.width_bytes))
        return false;
  return true;
}

void require_side(Context &context, const CopySide &side, const CopyShape &shape, bool write) {
  require(side.base != 0, CUDA_ERROR_INVALID_VALUE);
  uint64_t bytes = extent(side, shape);
  if (is_checked(side)) {
    require_range(side.context ? *side.context : context, side.base, bytes, write);
  } else if (!side.storage && !all_mapped(side, shape, bytes)) {
    // The documentation names no error for it; the real driver may also fault. Not yet seen on a GPU
    // (GT-COPY-HOST).
    tell("a copy is given host memory that the process does not have");
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

bool still_there(const CopySide &side, const CopyShape &shape) {
  return side.storage || allocations().covers(side.base, extent(side, shape));
}

// Pinned or managed memory: a synchronous copy to it has ended when the function returns.
bool is_everywhere(const CopySide &side) {
  auto allocation = side.storage ? nullptr : allocations().find(side.base);
  return allocation && allocation->everywhere;
}

bool synchronises_always(const CopySide &side) {
  auto allocation = side.storage ? nullptr : allocations().find(side.base);
  return allocation && allocation->sync_memops;
}

} // namespace

bool is_pageable(uint64_t address) { return memory_of(address) == Memory::pageable; }

std::shared_ptr<Work> CopyOperation::work(SourceAccess access) const {
  const auto &[destination, source, shape] = sides;
  auto work = std::make_shared<Work>();
  if (is_empty(shape))
    return work;
  require_side(*where, destination, shape, true);
  require_side(*where, source, shape, false);
  uint64_t bytes = 0;
  require(!__builtin_mul_overflow(shape.width_bytes, shape.height, &bytes) &&
              !__builtin_mul_overflow(bytes, shape.depth, &bytes),
          CUDA_ERROR_INVALID_VALUE);
  uint64_t cost =
      copy_ns(bytes, memory_of(destination) != Memory::device || memory_of(source) != Memory::device);
  bool check_destination = is_checked(destination), check_source = is_checked(source);
  CopySide from = source;
  std::shared_ptr<std::vector<uint8_t>> staged;
  if (access == SourceAccess::during_the_call) {
    staged = std::make_shared<std::vector<uint8_t>>(bytes);
    from = {reinterpret_cast<uint64_t>(staged->data()),
            shape.width_bytes,
            shape.width_bytes * shape.height,
            true,
            {}};
    move_rows(from, source, shape);
    check_source = false;
  }
  work->run = [to = destination, from, named = source, staged, shape = shape, cost, check_destination,
               check_source]() -> Outcome {
    if ((check_destination && !still_there(to, shape)) || (check_source && !still_there(from, shape))) {
      tell("a copy reads or writes memory that was freed before the copy's turn came");
      return {CUDA_ERROR_ILLEGAL_ADDRESS, 0};
    }
    find_call_races("a copy of the host", staged ? Rows{} : touched_rows(from, shape),
                    touched_rows(to, shape));
    move_rows(to, from, shape);
    follow_rows(to, named, shape);
    append_copied({to.base, to.pitch_bytes, to.slice_bytes},
                  {named.base, named.pitch_bytes, named.slice_bytes}, shape.width_bytes, shape.height,
                  shape.depth);
    return {CUDA_SUCCESS, cost};
  };
  return work;
}

// A pageable source may be overwritten as soon as the function returns; the copy itself is still to come.
Works CopyOperation::works_at_call() const {
  bool staged =
      memory_of(sides.source) == Memory::pageable && memory_of(sides.destination) != Memory::pageable;
  return {work(staged ? SourceAccess::during_the_call : SourceAccess::in_stream_order)};
}

void serialise(Lock &lock, Context &destination, Context &source) {
  drain(lock, destination);
  drain(lock, source);
}

void copy(Lock &lock, Context &context, const std::shared_ptr<Stream> &stream, const CopySide &destination,
          const CopySide &source, const CopyShape &shape, bool asynchronous) {
  if (is_empty(shape))
    return;
  auto operation = std::make_shared<CopyOperation>(context, ShapedCopy{destination, source, shape});
  Memory to = memory_of(destination);
  if (asynchronous) {
    auto work = submit(lock, stream, operation);
    if (work && to == Memory::pageable)
      synchronise(lock, work);
    return;
  }
  Memory from = memory_of(source);
  // The documentation says of a synchronous copy, too, that it is staged, once it has waited for its stream.
  // Unless deferred, nothing can be between that and the copy.
  bool staged = from == Memory::pageable && to != Memory::pageable && settings().deferred;
  if (staged)
    synchronise(lock, stream);
  auto work = issue(lock, stream,
                    operation->work(staged ? SourceAccess::during_the_call : SourceAccess::in_stream_order));
  bool inside_device = to == Memory::device && from == Memory::device;
  if ((!inside_device && !(staged && !is_everywhere(destination))) || synchronises_always(destination) ||
      synchronises_always(source) || (context.flags & CU_CTX_SYNC_MEMOPS))
    synchronise(lock, work);
}

} // namespace emulator::driver

using namespace emulator::driver;

namespace {

CopySide host_side(const void *pointer) { return {reinterpret_cast<uint64_t>(pointer), 0, 0, true, {}}; }
CopySide device_side(CUdeviceptr pointer) { return {pointer, 0, 0, false, {}}; }
// cuMemcpy infers what a pointer is.
CopySide any_side(CUdeviceptr pointer) { return {pointer, 0, 0, is_pageable(pointer), {}}; }

CUresult linear(const char *function, CUstream handle, bool asynchronous, CopySide (*to)(CUdeviceptr),
                uint64_t destination, CopySide (*from)(CUdeviceptr), uint64_t source, size_t bytes) {
  return enter(function, Needs::healthy, [&](Call &call) {
    auto stream = stream_of(*call.context, handle);
    copy(call.lock, *stream->context, stream, to(destination), from(source), {bytes, 1, 1}, asynchronous);
  });
}

CopySide host_at(CUdeviceptr address) { return host_side(reinterpret_cast<const void *>(address)); }

} // namespace

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
  return linear("cuMemcpyHtoD_v2", nullptr, false, device_side, dstDevice, host_at, number(srcHost),
                ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return linear("cuMemcpyDtoH_v2", nullptr, false, host_at, number(dstHost), device_side, srcDevice,
                ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return linear("cuMemcpyDtoD_v2", nullptr, false, device_side, dstDevice, device_side, srcDevice, ByteCount);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return linear("cuMemcpy", nullptr, false, any_side, dst, any_side, src, ByteCount);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                      CUstream hStream) {
  return linear("cuMemcpyHtoDAsync_v2", hStream, true, device_side, dstDevice, host_at, number(srcHost),
                ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                      CUstream hStream) {
  return linear("cuMemcpyDtoHAsync_v2", hStream, true, host_at, number(dstHost), device_side, srcDevice,
                ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                      CUstream hStream) {
  return linear("cuMemcpyDtoDAsync_v2", hStream, true, device_side, dstDevice, device_side, srcDevice,
                ByteCount);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  return linear("cuMemcpyAsync", hStream, true, any_side, dst, any_side, src, ByteCount);
}

static CUresult peer(const char *function, CUdeviceptr destination, CUcontext destination_context,
                     CUdeviceptr source, CUcontext source_context, size_t bytes, CUstream handle,
                     bool asynchronous) {
  return enter(function, Needs::healthy, [&](Call &call) {
    auto to = driver().contexts.get(destination_context, CUDA_ERROR_INVALID_CONTEXT);
    auto from = driver().contexts.get(source_context, CUDA_ERROR_INVALID_CONTEXT);
    require(to->alive && from->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    auto stream = stream_of(*call.context, handle);
    if (!asynchronous)
      serialise(call.lock, *to, *from);
    // "This function is asynchronous with respect to the host": both forms, between two addresses.
    CopySide destination_side = device_side(destination), source_side = device_side(source);
    destination_side.context = to;
    source_side.context = from;
    copy(call.lock, *stream->context, stream, destination_side, source_side, {bytes, 1, 1}, true);
    if (!asynchronous)
      synchronise(call.lock, stream);
  });
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                              CUcontext srcContext, size_t ByteCount) {
  return peer("cuMemcpyPeer", dstDevice, dstContext, srcDevice, srcContext, ByteCount, nullptr, false);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                   CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  return peer("cuMemcpyPeerAsync", dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, true);
}
