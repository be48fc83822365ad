// Two- and three-dimensional copies of linear memory. CUDA arrays are not emulated: CUDA_ERROR_NOT_SUPPORTED.
#include "copy.hpp"

#include "device/context.hpp"
#include "stream/scheduler.hpp"

using namespace emulator::driver;

namespace {

struct Origin {
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  uint64_t x_bytes, y, z;
  uint64_t pitch_bytes, height;
};

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
    fail(CUDA_ERROR_NOT_SUPPORTED);
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (shape.width_bytes == 0 || shape.height == 0 || shape.depth == 0)
    return side; // nothing is copied, whatever the pitches say
  side.pitch_bytes = origin.pitch_bytes ? origin.pitch_bytes : origin.x_bytes + shape.width_bytes;
  uint64_t height = origin.height ? origin.height : origin.y + shape.height;
  require(side.pitch_bytes >= shape.width_bytes, CUDA_ERROR_INVALID_VALUE);
  require(shape.depth == 1 || height >= shape.height, CUDA_ERROR_INVALID_VALUE);
  uint64_t rows = 0, skipped = 0;
  require(!__builtin_mul_overflow(side.pitch_bytes, height, &side.slice_bytes) &&
              !__builtin_mul_overflow(origin.y, side.pitch_bytes, &rows) &&
              !__builtin_mul_overflow(origin.z, side.slice_bytes, &skipped),
          CUDA_ERROR_INVALID_VALUE);
  side.base += skipped + rows + origin.x_bytes;
  return side;
}

template <typename Description> Origin source_2d(const Description &d) {
  return {d.srcMemoryType, d.srcHost, d.srcDevice, d.srcXInBytes, d.srcY, 0, d.srcPitch, 0};
}
template <typename Description> Origin destination_2d(const Description &d) {
  return {d.dstMemoryType, d.dstHost, d.dstDevice, d.dstXInBytes, d.dstY, 0, d.dstPitch, 0};
}
template <typename Description> Origin source_3d(const Description &d) {
  return {d.srcMemoryType, d.srcHost, d.srcDevice, d.srcXInBytes, d.srcY, d.srcZ, d.srcPitch, d.srcHeight};
}
template <typename Description> Origin destination_3d(const Description &d) {
  return {d.dstMemoryType, d.dstHost, d.dstDevice, d.dstXInBytes, d.dstY, d.dstZ, d.dstPitch, d.dstHeight};
}

CUresult copy_2d(const char *function, const CUDA_MEMCPY2D *description, CUstream handle, bool asynchronous) {
  return enter(function, Needs::healthy, [&](Call &call) {
    require(description != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, handle);
    CopyShape shape{description->WidthInBytes, description->Height, 1};
    copy(call.lock, *stream->context, stream, side_of(destination_2d(*description), shape),
         side_of(source_2d(*description), shape), shape, asynchronous);
  });
}

template <typename Description>
CUresult copy_3d(const char *function, const Description *description, CUstream handle, bool asynchronous) {
  return enter(function, Needs::healthy, [&](Call &call) {
    require(description != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(description->srcLOD == 0 && description->dstLOD == 0, CUDA_ERROR_INVALID_VALUE);
    auto stream = stream_of(*call.context, handle);
    CopyShape shape{description->WidthInBytes, description->Height, description->Depth};
    copy(call.lock, *stream->context, stream, side_of(destination_3d(*description), shape),
         side_of(source_3d(*description), shape), shape, asynchronous);
  });
}

} // namespace

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy) {
  return copy_2d("cuMemcpy2D_v2", pCopy, nullptr, false);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy) {
  return copy_2d("cuMemcpy2DUnaligned_v2", pCopy, nullptr, false);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
  return copy_2d("cuMemcpy2DAsync_v2", pCopy, hStream, true);
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy) {
  return copy_3d("cuMemcpy3D_v2", pCopy, nullptr, false);
}

CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
  return copy_3d("cuMemcpy3DAsync_v2", pCopy, hStream, true);
}

CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy) {
  return copy_3d("cuMemcpy3DPeer", pCopy, nullptr, true);
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream) {
  return copy_3d("cuMemcpy3DPeerAsync", pCopy, hStream, true);
}
