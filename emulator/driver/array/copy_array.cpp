// Copies to and from one-dimensional CUDA arrays.
#include "copy/copy.hpp"

#include "array.hpp"
#include "entry/entry.hpp"

using namespace emulator::driver;

namespace {

// One side of a copy as the functions name it: an array and an offset, or an address.
struct Place {
  enum Kind { array, device, host } kind;
  uint64_t value; // handle or address
  uint64_t offset_bytes;
};

Place array_at(CUarray handle, size_t offset) {
  return {Place::array, reinterpret_cast<uint64_t>(handle), offset};
}
Place device_at(CUdeviceptr pointer) { return {Place::device, pointer, 0}; }
Place host_at(const void *pointer) { return {Place::host, reinterpret_cast<uint64_t>(pointer), 0}; }

CopySide side_of(const Place &place, uint64_t bytes) {
  if (place.kind == Place::array)
    return linear_array_side(reinterpret_cast<CUarray>(place.value), place.offset_bytes, bytes);
  return {place.value, 0, 0, place.kind == Place::host, {}};
}

CUresult run(const char *function, Place to, Place from, size_t bytes, CUstream handle, bool asynchronous) {
  return enter(function, Needs::healthy, [&](Call &call) {
    auto stream = stream_of(*call.context, handle);
    copy(call.lock, *stream->context, stream, side_of(to, bytes), side_of(from, bytes), {bytes, 1, 1},
         asynchronous);
  });
}

} // namespace

CUresult CUDAAPI cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
                                 size_t ByteCount) {
  return run("cuMemcpyDtoA_v2", array_at(dstArray, dstOffset), device_at(srcDevice), ByteCount, nullptr,
             false);
}

CUresult CUDAAPI cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
                                 size_t ByteCount) {
  return run("cuMemcpyAtoD_v2", device_at(dstDevice), array_at(srcArray, srcOffset), ByteCount, nullptr,
             false);
}

CUresult CUDAAPI cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount) {
  return run("cuMemcpyHtoA_v2", array_at(dstArray, dstOffset), host_at(srcHost), ByteCount, nullptr, false);
}

CUresult CUDAAPI cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  return run("cuMemcpyAtoH_v2", host_at(dstHost), array_at(srcArray, srcOffset), ByteCount, nullptr, false);
}

CUresult CUDAAPI cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
                                 size_t ByteCount) {
  return run("cuMemcpyAtoA_v2", array_at(dstArray, dstOffset), array_at(srcArray, srcOffset), ByteCount,
             nullptr, false);
}

CUresult CUDAAPI cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                                      size_t ByteCount, CUstream hStream) {
  return run("cuMemcpyHtoAAsync_v2", array_at(dstArray, dstOffset), host_at(srcHost), ByteCount, hStream,
             true);
}

CUresult CUDAAPI cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                                      CUstream hStream) {
  return run("cuMemcpyAtoHAsync_v2", host_at(dstHost), array_at(srcArray, srcOffset), ByteCount, hStream,
             true);
}
