// Memset in all widths, one- and two-dimensional.
#include "allocations.hpp"
#include "core/cost_model.hpp"
#include "device/context.hpp"
#include "stream/scheduler.hpp"

#include <algorithm>

using namespace emulator::driver;

namespace {

template <typename Element>
CUresult fill(const char *function, CUdeviceptr destination, size_t pitch_bytes, Element value, size_t width,
              size_t height, CUstream handle, bool asynchronous) {
  return enter(function, Needs::healthy, [&](Call &call) {
    auto stream = stream_of(*call.context, handle);
    if (width == 0 || height == 0)
      return;
    uint64_t row_bytes = 0, before_last = 0, extent = 0;
    require(destination % sizeof(Element) == 0, CUDA_ERROR_INVALID_VALUE);
    require(height == 1 || pitch_bytes % sizeof(Element) == 0, CUDA_ERROR_INVALID_VALUE);
    require(!__builtin_mul_overflow(width, sizeof(Element), &row_bytes) &&
                (height == 1 || row_bytes <= pitch_bytes) &&
                !__builtin_mul_overflow(pitch_bytes, height - 1, &before_last) &&
                !__builtin_add_overflow(before_last, row_bytes, &extent),
            CUDA_ERROR_INVALID_VALUE);
    require_range(*stream->context, destination, extent, true);
    auto allocation = driver().allocations->find(destination);
    uint64_t cost = copy_ns(row_bytes * height, allocation->is_host());
    auto work = issue(call.lock, stream, [=]() -> Outcome {
      if (!driver().allocations->covers(destination, extent)) {
        tell("a memset writes memory that was freed before its turn came");
        return {CUDA_ERROR_ILLEGAL_ADDRESS, 0};
      }
      for (size_t y = 0; y < height; ++y) {
        auto *row = reinterpret_cast<Element *>(destination + y * pitch_bytes);
        std::fill_n(row, width, value);
      }
      return {CUDA_SUCCESS, cost};
    });
    // Documented: asynchronous towards the host, except where the target is host or managed memory.
    if (!asynchronous && (allocation->everywhere || allocation->sync_memops))
      synchronise(call.lock, work);
  });
}

} // namespace

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return fill("cuMemsetD8_v2", dstDevice, 0, uc, N, 1, nullptr, false);
}
CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return fill("cuMemsetD16_v2", dstDevice, 0, us, N, 1, nullptr, false);
}
CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return fill("cuMemsetD32_v2", dstDevice, 0, ui, N, 1, nullptr, false);
}
CUresult CUDAAPI cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                                 size_t Height) {
  return fill("cuMemsetD2D8_v2", dstDevice, dstPitch, uc, Width, Height, nullptr, false);
}
CUresult CUDAAPI cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                                  size_t Height) {
  return fill("cuMemsetD2D16_v2", dstDevice, dstPitch, us, Width, Height, nullptr, false);
}
CUresult CUDAAPI cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                                  size_t Height) {
  return fill("cuMemsetD2D32_v2", dstDevice, dstPitch, ui, Width, Height, nullptr, false);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return fill("cuMemsetD8Async", dstDevice, 0, uc, N, 1, hStream, true);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return fill("cuMemsetD16Async", dstDevice, 0, us, N, 1, hStream, true);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return fill("cuMemsetD32Async", dstDevice, 0, ui, N, 1, hStream, true);
}
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                                   size_t Height, CUstream hStream) {
  return fill("cuMemsetD2D8Async", dstDevice, dstPitch, uc, Width, Height, hStream, true);
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                                    size_t Height, CUstream hStream) {
  return fill("cuMemsetD2D16Async", dstDevice, dstPitch, us, Width, Height, hStream, true);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                                    size_t Height, CUstream hStream) {
  return fill("cuMemsetD2D32Async", dstDevice, dstPitch, ui, Width, Height, hStream, true);
}
