// Two- and three-dimensional copies of linear memory and CUDA arrays.
#include "copy_shaped.hpp"

#include "array.hpp"
#include "entry/entry.hpp"

namespace emulator::driver {
namespace {

constexpr uint64_t largest_pitch_bytes = 0x7fffffff; // CU_DEVICE_ATTRIBUTE_MAX_PITCH

struct Origin {
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  CUarray array;
  uint64_t x_bytes, y, z;
  uint64_t pitch_bytes, height;
};

// The documentation wants the offset in a row and the width to fit into the pitch. Dr.Jit copies with larger
// offsets, presumably without harm. Not yet seen on a GPU (GT-COPY-PITCH): whether its driver refuses that.
void note_wide_offset() {
  static bool noted = false; // under the driver's lock
  if (!noted)
    tell("a copy of rows begins beyond the pitch (srcXInBytes or dstXInBytes + WidthInBytes > pitch): done "
         "here, "
         "though the documentation forbids it");
  noted = true;
}

CopySide side_of(const Origin &origin, const CopyShape &shape) {
  CopySide side;
  switch (origin.type) {
  case CU_MEMORYTYPE_HOST:
    side.base = reinterpret_cast<uint64_t>(origin.host);
    side.host = true;
    break;
  case CU_MEMORYTYPE_DEVICE:
    side.base = origin.device;
    break;
  case CU_MEMORYTYPE_UNIFIED:
    side.base = origin.device;
    side.host = is_pageable(origin.device);
    break;
  case CU_MEMORYTYPE_ARRAY:
    return array_side(origin.array, origin.x_bytes, origin.y, origin.z, shape);
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (shape.width_bytes == 0 || shape.height == 0 || shape.depth == 0)
    return side; // nothing is copied, whatever the pitches say
  // "If specified", a row holds the copy and what comes before it, and so does a slice.
  uint64_t row = 0, slice_rows = 0;
  require(!__builtin_add_overflow(origin.x_bytes, shape.width_bytes, &row) &&
              !__builtin_add_overflow(origin.y, shape.height, &slice_rows),
          CUDA_ERROR_INVALID_VALUE);
  side.pitch_bytes = origin.pitch_bytes ? origin.pitch_bytes : row;
  uint64_t height = origin.height ? origin.height : slice_rows;
  require(side.pitch_bytes >= shape.width_bytes && origin.pitch_bytes <= largest_pitch_bytes,
          CUDA_ERROR_INVALID_VALUE);
  if (side.pitch_bytes < row)
    note_wide_offset();
  require(shape.depth == 1 || height >= slice_rows, CUDA_ERROR_INVALID_VALUE);
  uint64_t rows = 0, skipped = 0;
  require(!__builtin_mul_overflow(side.pitch_bytes, height, &side.slice_bytes) &&
              !__builtin_mul_overflow(origin.y, side.pitch_bytes, &rows) &&
              !__builtin_mul_overflow(origin.z, side.slice_bytes, &skipped),
          CUDA_ERROR_INVALID_VALUE);
  uint64_t offset = 0;
  side.named = side.base;
  require(!__builtin_add_overflow(skipped, rows, &offset) &&
              !__builtin_add_overflow(offset, origin.x_bytes, &offset) &&
              !__builtin_add_overflow(side.base, offset, &side.base),
          CUDA_ERROR_INVALID_VALUE);
  return side;
}

template <typename Description> Origin source_2d(const Description &d) {
  return {d.srcMemoryType, d.srcHost, d.srcDevice, d.srcArray, d.srcXInBytes, d.srcY, 0, d.srcPitch, 0};
}
template <typename Description> Origin destination_2d(const Description &d) {
  return {d.dstMemoryType, d.dstHost, d.dstDevice, d.dstArray, d.dstXInBytes, d.dstY, 0, d.dstPitch, 0};
}
template <typename Description> Origin source_3d(const Description &d) {
  return {d.srcMemoryType, d.srcHost, d.srcDevice, d.srcArray, d.srcXInBytes,
          d.srcY,          d.srcZ,    d.srcPitch,  d.srcHeight};
}
template <typename Description> Origin destination_3d(const Description &d) {
  return {d.dstMemoryType, d.dstHost, d.dstDevice, d.dstArray, d.dstXInBytes,
          d.dstY,          d.dstZ,    d.dstPitch,  d.dstHeight};
}

// The context of one side, null where the structure documents that it is ignored.
std::shared_ptr<Context> peer_context(CUcontext handle, CUmemorytype type) {
  if (type == CU_MEMORYTYPE_ARRAY || type == CU_MEMORYTYPE_HOST)
    return nullptr;
  auto context = driver().contexts.get(handle, CUDA_ERROR_INVALID_CONTEXT);
  require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return context;
}

// Fields of the peer form are the same but for their types: an array there is a CUarray as well.
template <typename Description> ShapedCopy three_dimensional(const Description &description) {
  require(description.srcLOD == 0 && description.dstLOD == 0, CUDA_ERROR_INVALID_VALUE);
  CopyShape shape{description.WidthInBytes, description.Height, description.Depth};
  return {side_of(destination_3d(description), shape), side_of(source_3d(description), shape), shape};
}

template <typename Description>
CUresult run(const char *function, const Description *description, CUstream handle, bool asynchronous) {
  return enter(function, Needs::healthy, [&](Call &call) {
    require(description != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, handle);
    auto [destination, source, shape] = shaped_copy(*description);
    copy(call.lock, *stream->context, stream, destination, source, shape, asynchronous);
  });
}

} // namespace

ShapedCopy shaped_copy(const CUDA_MEMCPY2D &description) {
  CopyShape shape{description.WidthInBytes, description.Height, 1};
  return {side_of(destination_2d(description), shape), side_of(source_2d(description), shape), shape};
}

ShapedCopy shaped_copy(const CUDA_MEMCPY3D &description) { return three_dimensional(description); }
ShapedCopy shaped_copy(const CUDA_MEMCPY3D_PEER &description) {
  ShapedCopy copy = three_dimensional(description);
  copy.destination.context = peer_context(description.dstContext, description.dstMemoryType);
  copy.source.context = peer_context(description.srcContext, description.srcMemoryType);
  return copy;
}

} // namespace emulator::driver

using namespace emulator::driver;

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy) {
  return run("cuMemcpy2D_v2", pCopy, nullptr, false);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy) {
  return run("cuMemcpy2DUnaligned_v2", pCopy, nullptr, false);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
  return run("cuMemcpy2DAsync_v2", pCopy, hStream, true);
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy) {
  return run("cuMemcpy3D_v2", pCopy, nullptr, false);
}

CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
  return run("cuMemcpy3DAsync_v2", pCopy, hStream, true);
}

CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy) {
  return enter("cuMemcpy3DPeer", Needs::healthy, [&](Call &call) {
    require(pCopy != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto [destination, source, shape] = shaped_copy(*pCopy);
    auto stream = stream_of(*call.context, nullptr);
    serialise(call.lock, destination.context ? *destination.context : *call.context,
              source.context ? *source.context : *call.context);
    copy(call.lock, *stream->context, stream, destination, source, shape, true);
    synchronise(call.lock, stream);
  });
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream) {
  return run("cuMemcpy3DPeerAsync", pCopy, hStream, true);
}
