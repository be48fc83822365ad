// Memset in all widths, one- and two-dimensional.
#include "fill.hpp"

#include "core/cost_model.hpp"
#include "entry/entry.hpp"
#include "exec/interface/global_shadow.hpp"
#include "memory/allocations.hpp"
#include "memory/virtual/virtual_memory.hpp"
#include "races/work_races.hpp"
#include "stream/recorder.hpp"

#include <algorithm>

using namespace emulator::driver;

namespace {

template <typename Element> void fill_rows(const FillShape &shape) {
  for (size_t y = 0; y < shape.height; ++y) {
    auto *row = reinterpret_cast<Element *>(shape.destination + y * shape.pitch_bytes);
    std::fill_n(row, shape.width, static_cast<Element>(shape.value));
  }
}

// From the first byte to the one after the last. Throws when the shape makes no sense.
uint64_t fill_extent(const FillShape &shape) {
  const auto &[destination, pitch_bytes, value, element_bytes, width, height] = shape;
  uint64_t row_bytes = 0, before_last = 0, bytes = 0;
  require(element_bytes == 1 || element_bytes == 2 || element_bytes == 4, CUDA_ERROR_INVALID_VALUE);
  require(destination % element_bytes == 0, CUDA_ERROR_INVALID_VALUE);
  require(height == 1 || pitch_bytes % element_bytes == 0, CUDA_ERROR_INVALID_VALUE);
  require(!__builtin_mul_overflow(width, element_bytes, &row_bytes) &&
              (height == 1 || row_bytes <= pitch_bytes) &&
              !__builtin_mul_overflow(pitch_bytes, height - 1, &before_last) &&
              !__builtin_add_overflow(before_last, row_bytes, &bytes),
          CUDA_ERROR_INVALID_VALUE);
  return bytes;
}

CUresult fill(const char *function, FillShape shape, CUstream handle, bool asynchronous) {
  return enter(function, Needs::healthy, handle, [&](Call &call) {
    auto stream = stream_of(*call.context, handle);
    if (shape.width == 0 || shape.height == 0)
      return;
    auto operation = std::make_shared<FillOperation>(*stream->context, shape, function);
    if (asynchronous) {
      submit(call.lock, stream, operation);
      return;
    }
    auto work = issue(call.lock, stream, operation->works().front());
    // Documented: asynchronous towards the host, except where the target is host or managed memory.
    auto allocation = allocations().find(shape.destination);
    if (allocation && (allocation->everywhere || allocation->sync_memops))
      synchronise(call.lock, work);
  });
}

} // namespace

namespace emulator::driver {

Works FillOperation::works() const {
  require(shape.width != 0 && shape.height != 0, CUDA_ERROR_INVALID_VALUE);
  uint64_t bytes = fill_extent(shape);
  require_range(*where, shape.destination, bytes, true);
  bool host = allocations().find(shape.destination)->is_host();
  uint64_t cost = copy_ns(shape.width * shape.element_bytes * shape.height, host);
  return one_work([shape = shape, bytes, cost, call = call]() -> Outcome {
    if (!allocations().covers(shape.destination, bytes)) {
      tell("a memset writes memory that was freed before its turn came");
      return {CUDA_ERROR_ILLEGAL_ADDRESS, 0};
    }
    for (size_t y = 0; global_shadow().is_on() && y < shape.height; ++y)
      global_shadow().written(shape.destination + y * shape.pitch_bytes, shape.width * shape.element_bytes);
    find_call_races(
        call, {},
        rows_of(shape.destination, shape.width * shape.element_bytes, shape.height, shape.pitch_bytes));
    if (shape.value == 0 && is_untouched(shape.destination, bytes))
      return {CUDA_SUCCESS, cost};
    if (shape.element_bytes == 1)
      fill_rows<uint8_t>(shape);
    else if (shape.element_bytes == 2)
      fill_rows<uint16_t>(shape);
    else
      fill_rows<uint32_t>(shape);
    return {CUDA_SUCCESS, cost};
  });
}

} // namespace emulator::driver

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return fill("cuMemsetD8_v2", {dstDevice, 0, uc, 1, N, 1}, nullptr, false);
}
CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
  return fill("cuMemsetD16_v2", {dstDevice, 0, us, 2, N, 1}, nullptr, false);
}
CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
  return fill("cuMemsetD32_v2", {dstDevice, 0, ui, 4, N, 1}, nullptr, false);
}
CUresult CUDAAPI cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                                 size_t Height) {
  return fill("cuMemsetD2D8_v2", {dstDevice, dstPitch, uc, 1, Width, Height}, nullptr, false);
}
CUresult CUDAAPI cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                                  size_t Height) {
  return fill("cuMemsetD2D16_v2", {dstDevice, dstPitch, us, 2, Width, Height}, nullptr, false);
}
CUresult CUDAAPI cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                                  size_t Height) {
  return fill("cuMemsetD2D32_v2", {dstDevice, dstPitch, ui, 4, Width, Height}, nullptr, false);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
  return fill("cuMemsetD8Async", {dstDevice, 0, uc, 1, N, 1}, hStream, true);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
  return fill("cuMemsetD16Async", {dstDevice, 0, us, 2, N, 1}, hStream, true);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
  return fill("cuMemsetD32Async", {dstDevice, 0, ui, 4, N, 1}, hStream, true);
}
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                                   size_t Height, CUstream hStream) {
  return fill("cuMemsetD2D8Async", {dstDevice, dstPitch, uc, 1, Width, Height}, hStream, true);
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                                    size_t Height, CUstream hStream) {
  return fill("cuMemsetD2D16Async", {dstDevice, dstPitch, us, 2, Width, Height}, hStream, true);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                                    size_t Height, CUstream hStream) {
  return fill("cuMemsetD2D32Async", {dstDevice, dstPitch, ui, 4, Width, Height}, hStream, true);
}
