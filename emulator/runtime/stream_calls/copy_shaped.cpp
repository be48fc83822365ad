// Copies of two and three dimensions, from, to and between arrays.
#include "core/entry.hpp"
#include "memory/copy_shape.hpp"

#include <algorithm>

using namespace emulator::runtime;

namespace {

Result copy(const CUDA_MEMCPY2D &shape) {
  if (shape.WidthInBytes == 0 || shape.Height == 0)
    return cudaSuccess;
  return driver.call_cuMemcpy2DUnaligned[default_stream](&shape);
}

Result copy_async(const CUDA_MEMCPY2D &shape, cudaStream_t stream) {
  if (shape.WidthInBytes == 0 || shape.Height == 0)
    return cudaSuccess;
  return driver.call_cuMemcpy2DAsync[default_stream](&shape, stream);
}

template <typename Shape> bool is_empty(const Shape &shape) {
  return shape.WidthInBytes == 0 || shape.Height == 0 || shape.Depth == 0;
}

// The one-dimensional forms run through an array row after row: the rest of a row, whole rows, the start of a
// last one.
template <typename Copy>
void in_rows(cudaArray_const_t array, size_t x_bytes, size_t y, size_t count, Copy &&copy_part) {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  require(driver.call_cuArray3DGetDescriptor(&description, array_of(array)));
  size_t row_bytes = description.Width * element_bytes(array);
  require(x_bytes <= row_bytes, cudaErrorInvalidValue);
  size_t done = 0;
  while (done < count) {
    size_t left = count - done;
    size_t height = x_bytes == 0 && left >= row_bytes ? left / row_bytes : 1;
    size_t width = std::min(left, row_bytes - x_bytes);
    require(width > 0, cudaErrorInvalidValue);
    copy_part(done, width, height, x_bytes, y);
    done += width * height;
    y += height;
    x_bytes = 0;
  }
}

} // namespace

cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                   size_t height, cudaMemcpyKind kind) {
  return enter(Needs::context,
               [&] { return copy(shape_2d({dst, dpitch}, {src, spitch}, width, height, kind)); });
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                        size_t width, size_t height, cudaMemcpyKind kind,
                                        cudaStream_t stream) {
  return enter(Needs::context, [&] {
    return copy_async(shape_2d({dst, dpitch}, {src, spitch}, width, height, kind), stream);
  });
}

cudaError_t CUDARTAPI cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                                          size_t spitch, size_t width, size_t height, cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return copy(shape_2d({nullptr, 0, dst, wOffset, hOffset}, {src, spitch}, width, height, kind));
  });
}

cudaError_t CUDARTAPI cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset,
                                               const void *src, size_t spitch, size_t width, size_t height,
                                               cudaMemcpyKind kind, cudaStream_t stream) {
  return enter(Needs::context, [&] {
    return copy_async(shape_2d({nullptr, 0, dst, wOffset, hOffset}, {src, spitch}, width, height, kind),
                      stream);
  });
}

cudaError_t CUDARTAPI cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
                                            size_t hOffset, size_t width, size_t height,
                                            cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return copy(shape_2d({dst, dpitch}, {nullptr, 0, src, wOffset, hOffset}, width, height, kind));
  });
}

cudaError_t CUDARTAPI cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src,
                                                 size_t wOffset, size_t hOffset, size_t width, size_t height,
                                                 cudaMemcpyKind kind, cudaStream_t stream) {
  return enter(Needs::context, [&] {
    return copy_async(shape_2d({dst, dpitch}, {nullptr, 0, src, wOffset, hOffset}, width, height, kind),
                      stream);
  });
}

cudaError_t CUDARTAPI cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                                               cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
                                               size_t width, size_t height, cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    return copy(shape_2d({nullptr, 0, dst, wOffsetDst, hOffsetDst}, {nullptr, 0, src, wOffsetSrc, hOffsetSrc},
                         width, height, kind));
  });
}

cudaError_t CUDARTAPI cudaMemcpyToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                                        size_t count, cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    in_rows(dst, wOffset, hOffset, count, [&](size_t done, size_t width, size_t height, size_t x, size_t y) {
      const char *from = static_cast<const char *>(src) + done;
      require(copy(shape_2d({nullptr, 0, dst, x, y}, {from, width}, width, height, kind)));
    });
  });
}

cudaError_t CUDARTAPI cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
                                             size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
  return enter(Needs::context, [&] {
    in_rows(dst, wOffset, hOffset, count, [&](size_t done, size_t width, size_t height, size_t x, size_t y) {
      const char *from = static_cast<const char *>(src) + done;
      require(copy_async(shape_2d({nullptr, 0, dst, x, y}, {from, width}, width, height, kind), stream));
    });
  });
}

cudaError_t CUDARTAPI cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
                                          size_t count, cudaMemcpyKind kind) {
  return enter(Needs::context, [&] {
    in_rows(src, wOffset, hOffset, count, [&](size_t done, size_t width, size_t height, size_t x, size_t y) {
      char *to = static_cast<char *>(dst) + done;
      require(copy(shape_2d({to, width}, {nullptr, 0, src, x, y}, width, height, kind)));
    });
  });
}

cudaError_t CUDARTAPI cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t wOffset,
                                               size_t hOffset, size_t count, cudaMemcpyKind kind,
                                               cudaStream_t stream) {
  return enter(Needs::context, [&] {
    in_rows(src, wOffset, hOffset, count, [&](size_t done, size_t width, size_t height, size_t x, size_t y) {
      char *to = static_cast<char *>(dst) + done;
      require(copy_async(shape_2d({to, width}, {nullptr, 0, src, x, y}, width, height, kind), stream));
    });
  });
}

cudaError_t CUDARTAPI cudaMemcpy3D(const cudaMemcpy3DParms *p) {
  return enter(Needs::context, [&]() -> Result {
    CUDA_MEMCPY3D shape = shape_3d(p);
    if (is_empty(shape))
      return cudaSuccess;
    return driver.call_cuMemcpy3D[default_stream](&shape);
  });
}

cudaError_t CUDARTAPI cudaMemcpy3DAsync(const cudaMemcpy3DParms *p, cudaStream_t stream) {
  return enter(Needs::context, [&]() -> Result {
    CUDA_MEMCPY3D shape = shape_3d(p);
    if (is_empty(shape))
      return cudaSuccess;
    return driver.call_cuMemcpy3DAsync[default_stream](&shape, stream);
  });
}

cudaError_t CUDARTAPI cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms *p) {
  return enter(Needs::context, [&]() -> Result {
    CUDA_MEMCPY3D_PEER shape = shape_3d(p);
    if (is_empty(shape))
      return cudaSuccess;
    return driver.call_cuMemcpy3DPeer[default_stream](&shape);
  });
}

cudaError_t CUDARTAPI cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms *p, cudaStream_t stream) {
  return enter(Needs::context, [&]() -> Result {
    CUDA_MEMCPY3D_PEER shape = shape_3d(p);
    if (is_empty(shape))
      return cudaSuccess;
    return driver.call_cuMemcpy3DPeerAsync[default_stream](&shape, stream);
  });
}
