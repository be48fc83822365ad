// Memory that is allocated, freed and moved in the order of a stream.
#include "core/entry.hpp"
#include "core/same.hpp"

using namespace emulator::runtime;

// clang-format off
FORWARD_STREAM(cudaMallocAsync, (void **devPtr, size_t size, cudaStream_t hStream),
               cuMemAllocAsync, (device_pointer(devPtr), size, hStream))
FORWARD_STREAM(cudaMallocFromPoolAsync, (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
               cuMemAllocFromPoolAsync, (device_pointer(ptr), size, memPool, stream))
FORWARD_STREAM(cudaFreeAsync, (void *devPtr, cudaStream_t hStream), cuMemFreeAsync, (device_pointer(devPtr), hStream))

#if CUDART_VERSION >= 13000
FORWARD_STREAM(cudaMemPrefetchAsync,
               (const void *devPtr, size_t count, cudaMemLocation location, unsigned int flags, cudaStream_t stream),
               cuMemPrefetchAsync, (device_pointer(devPtr), count, *same(&location), flags, stream))
FORWARD_STREAM(cudaMemcpyBatchAsync,
               (void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream),
               cuMemcpyBatchAsync,
               (reinterpret_cast<CUdeviceptr *>(const_cast<void **>(dsts)),
                reinterpret_cast<CUdeviceptr *>(const_cast<void **>(srcs)),
                const_cast<size_t *>(sizes), count, same(attrs), attrsIdxs, numAttrs, stream))
FORWARD_STREAM(cudaMemcpy3DBatchAsync,
               (size_t numOps, cudaMemcpy3DBatchOp *opList, unsigned long long flags, cudaStream_t stream),
               cuMemcpy3DBatchAsync, (numOps, same(opList), flags, stream))
FORWARD_STREAM(cudaMemPrefetchBatchAsync,
               (void **dptrs, size_t *sizes, size_t count, cudaMemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream),
               cuMemPrefetchBatchAsync,
               (device_pointer(dptrs), sizes, count, same(prefetchLocs), prefetchLocIdxs, numPrefetchLocs, flags,
                stream))
FORWARD_STREAM(cudaMemDiscardBatchAsync,
               (void **dptrs, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t stream),
               cuMemDiscardBatchAsync, (device_pointer(dptrs), sizes, count, flags, stream))
FORWARD_STREAM(cudaMemDiscardAndPrefetchBatchAsync,
               (void **dptrs, size_t *sizes, size_t count, cudaMemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream),
               cuMemDiscardAndPrefetchBatchAsync,
               (device_pointer(dptrs), sizes, count, same(prefetchLocs), prefetchLocIdxs, numPrefetchLocs, flags,
                stream))
#else
FORWARD_STREAM(cudaMemPrefetchAsync, (const void *devPtr, size_t count, int dstDevice, cudaStream_t stream),
               cuMemPrefetchAsync, (device_pointer(devPtr), count, location_of(dstDevice), 0, stream))
FORWARD_STREAM(cudaMemPrefetchAsync_v2,
               (const void *devPtr, size_t count, cudaMemLocation location, unsigned int flags, cudaStream_t stream),
               cuMemPrefetchAsync, (device_pointer(devPtr), count, *same(&location), flags, stream))
FORWARD_STREAM(cudaMemcpyBatchAsync,
               (void **dsts, void **srcs, size_t *sizes, size_t count, cudaMemcpyAttributes *attrs, size_t *attrsIdxs,
                size_t numAttrs, size_t *failIdx, cudaStream_t stream),
               cuMemcpyBatchAsync,
               (device_pointer(dsts), device_pointer(srcs), sizes, count, same(attrs), attrsIdxs, numAttrs, failIdx,
                stream))
FORWARD_STREAM(cudaMemcpy3DBatchAsync,
               (size_t numOps, cudaMemcpy3DBatchOp *opList, size_t *failIdx, unsigned long long flags,
                cudaStream_t stream),
               cuMemcpy3DBatchAsync, (numOps, same(opList), failIdx, flags, stream))
#endif
