// Batches of copies: validated as a whole, then one piece of work of the stream.
#include "copy/copy.hpp"

#include "array.hpp"
#include "entry/entry.hpp"

#include <algorithm>
#include <cstdint>

#if CUDA_VERSION >= 12080

using namespace emulator::driver;

namespace {

constexpr size_t no_single_operation = SIZE_MAX; // failIdx when the error is not one copy's

struct Batch {
  Works copies;
  bool to_pageable = false; // "API synchronization behavior": such a copy has ended at return
};

SourceAccess access_of(CUmemcpySrcAccessOrder order) {
  require(order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
              order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
          CUDA_ERROR_INVALID_VALUE);
  // ANY permits every moment; the latest one shows the most mistakes.
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ? SourceAccess::during_the_call
                                                             : SourceAccess::in_stream_order;
}

void require_flags(unsigned flags) {
  require((flags & ~unsigned{CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE}) == 0, CUDA_ERROR_INVALID_VALUE);
}

CopySide pointer_side(CUdeviceptr pointer) { return {pointer, 0, 0, is_pageable(pointer), {}}; }

void add(Batch &batch, Context &context, const ShapedCopy &copy, SourceAccess access) {
  batch.copies.push_back(CopyOperation(context, copy).work(access));
  batch.to_pageable = batch.to_pageable || copy.destination.host;
}

// `fill` adds operation number `index`; what it throws becomes the result, and `index` the failing one.
template <typename Fill>
CUresult run(const char *function, CUstream handle, size_t count, size_t *fail_index, Fill &&fill) {
  if (fail_index)
    *fail_index = no_single_operation;
  return enter(function, Needs::healthy, [&](Call &call) {
    auto stream = stream_of(*call.context, handle);
    require(!stream->legacy, CUDA_ERROR_INVALID_VALUE); // documented
    Batch batch;
    for (size_t index = 0; index < count; ++index) {
      try {
        fill(batch, *stream->context, index);
      } catch (const Error &) {
        if (fail_index)
          *fail_index = index;
        throw;
      }
    }
    auto work = issue(call.lock, stream, [copies = std::move(batch.copies)]() -> Outcome {
      Outcome whole;
      for (const auto &copy : copies) {
        Outcome one = copy->run ? copy->run() : Outcome{};
        whole.cost_ns += one.cost_ns;
        if (one.error != CUDA_SUCCESS && whole.error == CUDA_SUCCESS)
          whole.error = one.error;
      }
      return whole;
    });
    if (batch.to_pageable)
      synchronise(call.lock, work);
  });
}

CUresult linear(const char *function, const CUdeviceptr *destinations, const CUdeviceptr *sources,
                const size_t *sizes, size_t count, const CUmemcpyAttributes *attributes,
                const size_t *attribute_starts, size_t attribute_count, size_t *fail_index, CUstream handle) {
  bool sound = destinations && sources && sizes && count > 0 && attributes && attribute_starts &&
               attribute_count > 0 && attribute_count <= count && attribute_starts[0] == 0;
  for (size_t i = 1; sound && i < attribute_count; ++i)
    sound = attribute_starts[i] > attribute_starts[i - 1] && attribute_starts[i] < count;
  size_t row = 0; // of the attributes
  return run(function, handle, sound ? count : 1, fail_index, [&](Batch &batch, Context &context, size_t i) {
    require(sound, CUDA_ERROR_INVALID_VALUE);
    while (row + 1 < attribute_count && attribute_starts[row + 1] <= i)
      ++row;
    require_flags(attributes[row].flags);
    require(sizes[i] > 0, CUDA_ERROR_INVALID_VALUE); // not yet seen on a GPU (GT-ERROR-CODES)
    add(batch, context, {pointer_side(destinations[i]), pointer_side(sources[i]), {sizes[i], 1, 1}},
        access_of(attributes[row].srcAccessOrder));
  });
}

uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  require(!__builtin_mul_overflow(a, b, &result), CUDA_ERROR_INVALID_VALUE);
  return result;
}

// 0 for a pointer, whose elements are those of the other operand.
uint64_t operand_element_bytes(const CUmemcpy3DOperand &operand) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_POINTER)
    return 0;
  require(operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY, CUDA_ERROR_INVALID_VALUE);
  return driver().arrays.get(operand.op.array.array, CUDA_ERROR_INVALID_HANDLE)->element_bytes;
}

CopySide side_of(const CUmemcpy3DOperand &operand, const CUextent3D &extent, const CopyShape &shape,
                 uint64_t element_bytes) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    const auto &place = operand.op.array;
    return array_side(place.array, product(place.offset.x, element_bytes), place.offset.y, place.offset.z,
                      shape);
  }
  const auto &place = operand.op.ptr;
  uint64_t row = place.rowLength ? place.rowLength : extent.width;
  uint64_t rows = place.layerHeight ? place.layerHeight : extent.height;
  require(row >= extent.width && rows >= extent.height, CUDA_ERROR_INVALID_VALUE);
  CopySide side = pointer_side(place.ptr);
  side.pitch_bytes = product(row, element_bytes);
  side.slice_bytes = product(side.pitch_bytes, rows);
  return side;
}

CUresult boxes(const char *function, size_t count, const CUDA_MEMCPY3D_BATCH_OP *operations,
               size_t *fail_index, unsigned long long flags, CUstream handle) {
  bool sound = operations && count > 0 && flags == 0;
  return run(function, handle, sound ? count : 1, fail_index, [&](Batch &batch, Context &context, size_t i) {
    require(sound, CUDA_ERROR_INVALID_VALUE);
    const auto &operation = operations[i];
    const auto &extent = operation.extent;
    require_flags(operation.flags);
    require(extent.width > 0 && extent.height > 0 && extent.depth > 0, CUDA_ERROR_INVALID_VALUE);
    uint64_t from = operand_element_bytes(operation.src), to = operand_element_bytes(operation.dst);
    require(from == 0 || to == 0 || from == to, CUDA_ERROR_INVALID_VALUE);
    uint64_t element = std::max({from, to, uint64_t{1}});
    CopyShape shape{product(extent.width, element), extent.height, extent.depth};
    add(batch, context,
        {side_of(operation.dst, extent, shape, element), side_of(operation.src, extent, shape, element),
         shape},
        access_of(operation.srcAccessOrder));
  });
}

} // namespace

// CUDA 12.8 and 12.9, with the number of the failing copy.
CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                    CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                                    size_t *failIdx, CUstream hStream) {
  return linear("cuMemcpyBatchAsync", dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream);
}

CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                       CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                                       CUstream hStream) {
  return linear("cuMemcpyBatchAsync_v2", dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr,
                hStream);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
                                      unsigned long long flags, CUstream hStream) {
  return boxes("cuMemcpy3DBatchAsync", numOps, opList, failIdx, flags, hStream);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                         unsigned long long flags, CUstream hStream) {
  return boxes("cuMemcpy3DBatchAsync_v2", numOps, opList, nullptr, flags, hStream);
}

// CUDA 13.2: batches of one.
CUresult CUDAAPI cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                             CUmemcpyAttributes *attr, CUstream hStream) {
  size_t start = 0;
  return linear("cuMemcpyWithAttributesAsync", &dst, &src, &size, 1, attr, &start, 1, nullptr, hStream);
}

CUresult CUDAAPI cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                               CUstream hStream) {
  return boxes("cuMemcpy3DWithAttributesAsync", 1, op, nullptr, flags, hStream);
}

#endif
