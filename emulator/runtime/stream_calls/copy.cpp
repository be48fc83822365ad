// Copies between linear memory.
#include "core/entry.hpp"
#include "memory/copy_shape.hpp"
#include "registration/registry.hpp"

using namespace emulator::runtime;

namespace {

// A direction chooses the driver's function, which checks that the pointers are what the direction says.
Result copy(void *dst, const void *src, size_t count, cudaMemcpyKind kind) {
  require_direction(kind);
  if (count == 0)
    return cudaSuccess;
  switch (kind) {
  case cudaMemcpyHostToDevice:
    return driver.call_cuMemcpyHtoD[default_stream](address_of(dst), src, count);
  case cudaMemcpyDeviceToHost:
    return driver.call_cuMemcpyDtoH[default_stream](dst, address_of(src), count);
  case cudaMemcpyDeviceToDevice:
    return driver.call_cuMemcpyDtoD[default_stream](address_of(dst), address_of(src), count);
  default:
    return driver.call_cuMemcpy[default_stream](address_of(dst), address_of(src), count);
  }
}

Result copy_async(void *dst, const void *src, size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  require_direction(kind);
  if (count == 0)
    return cudaSuccess;
  switch (kind) {
  case cudaMemcpyHostToDevice:
    return driver.call_cuMemcpyHtoDAsync[default_stream](address_of(dst), src, count, stream);
  case cudaMemcpyDeviceToHost:
    return driver.call_cuMemcpyDtoHAsync[default_stream](dst, address_of(src), count, stream);
  case cudaMemcpyDeviceToDevice:
    return driver.call_cuMemcpyDtoDAsync[default_stream](address_of(dst), address_of(src), count, stream);
  default:
    return driver.call_cuMemcpyAsync[default_stream](address_of(dst), address_of(src), count, stream);
  }
}

// The part of a variable that a copy reaches. The variable is on the device, so the directions that name the
// host there are errors.
void *part_of_symbol(const void *symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                     cudaMemcpyKind with_host) {
  require(kind == with_host || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault,
          cudaErrorInvalidMemcpyDirection);
  Place place = place_of_symbol(symbol);
  require(offset <= place.size_bytes && count <= place.size_bytes - offset, cudaErrorInvalidValue);
  return reinterpret_cast<void *>(place.address + offset);
}

} // namespace

cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t count, cudaMemcpyKind kind) {
  return enter(Needs::context, [&] { return copy(dst, src, count, kind); });
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t count, cudaMemcpyKind kind,
                                      cudaStream_t stream) {
  return enter(Needs::context, [&] { return copy_async(dst, src, count, kind, stream); });
}

cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                                         cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return copy(part_of_symbol(symbol, count, offset, kind, cudaMemcpyHostToDevice), src, count, kind);
  });
}

cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
                                              size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return enter(Needs::context, [&] {
    return copy_async(part_of_symbol(symbol, count, offset, kind, cudaMemcpyHostToDevice), src, count, kind,
                      stream);
  });
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                           cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return copy(dst, part_of_symbol(symbol, count, offset, kind, cudaMemcpyDeviceToHost), count, kind);
  });
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
                                                cudaMemcpyKind kind, cudaStream_t stream) {
  return enter(Needs::context, [&] {
    return copy_async(dst, part_of_symbol(symbol, count, offset, kind, cudaMemcpyDeviceToHost), count, kind,
                      stream);
  });
}
