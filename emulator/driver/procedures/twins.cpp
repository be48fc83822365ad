// The `_ptsz` and `_ptds` twins: the same functions for programs compiled with the per-thread default stream.
#include "core/entry.hpp"

using emulator::driver::PerThreadDefaultStream;

#define TWIN(name, base, parameters, arguments)                                                              \
  CUresult CUDAAPI name parameters {                                                                         \
    PerThreadDefaultStream scope;                                                                            \
    return base arguments;                                                                                   \
  }

// clang-format off
TWIN(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags,
     (CUevent hEvent, CUstream hStream, unsigned int flags),
     (hEvent, hStream, flags))
TWIN(cuEventRecord_ptsz, cuEventRecord,
     (CUevent hEvent, CUstream hStream),
     (hEvent, hStream))
TWIN(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams,
     (CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
     (phGraphExec, hGraph, instantiateParams))
TWIN(cuGraphLaunch_ptsz, cuGraphLaunch,
     (CUgraphExec hGraph, CUstream hStream),
     (hGraph, hStream))
TWIN(cuGraphUpload_ptsz, cuGraphUpload,
     (CUgraphExec hGraph, CUstream hStream),
     (hGraph, hStream))
TWIN(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams),
     (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams))
TWIN(cuLaunchHostFunc_ptsz, cuLaunchHostFunc,
     (CUstream hStream, CUhostFn fn, void *userData),
     (hStream, fn, userData))
TWIN(cuLaunchKernelEx_ptsz, cuLaunchKernelEx,
     (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
     (config, f, kernelParams, extra))
TWIN(cuLaunchKernel_ptsz, cuLaunchKernel,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra),
     (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra))
TWIN(cuMemAllocAsync_ptsz, cuMemAllocAsync,
     (CUdeviceptr *dptr, size_t bytesize, CUstream hStream),
     (dptr, bytesize, hStream))
TWIN(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync,
     (CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
     (dptr, bytesize, pool, hStream))
TWIN(cuMemFreeAsync_ptsz, cuMemFreeAsync,
     (CUdeviceptr dptr, CUstream hStream),
     (dptr, hStream))
TWIN(cuMemPrefetchAsync_ptsz, cuMemPrefetchAsync,
     (CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream),
     (devPtr, count, dstDevice, hStream))
TWIN(cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchAsync_v2,
     (CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream hStream),
     (devPtr, count, location, flags, hStream))
TWIN(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync_v2,
     (const CUDA_MEMCPY2D *pCopy, CUstream hStream),
     (pCopy, hStream))
TWIN(cuMemcpy2DUnaligned_v2_ptds, cuMemcpy2DUnaligned_v2,
     (const CUDA_MEMCPY2D *pCopy),
     (pCopy))
TWIN(cuMemcpy2D_v2_ptds, cuMemcpy2D_v2,
     (const CUDA_MEMCPY2D *pCopy),
     (pCopy))
TWIN(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync_v2,
     (const CUDA_MEMCPY3D *pCopy, CUstream hStream),
     (pCopy, hStream))
TWIN(cuMemcpy3DPeerAsync_ptsz, cuMemcpy3DPeerAsync,
     (const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream),
     (pCopy, hStream))
TWIN(cuMemcpy3DPeer_ptds, cuMemcpy3DPeer,
     (const CUDA_MEMCPY3D_PEER *pCopy),
     (pCopy))
TWIN(cuMemcpy3D_v2_ptds, cuMemcpy3D_v2,
     (const CUDA_MEMCPY3D *pCopy),
     (pCopy))
TWIN(cuMemcpyAsync_ptsz, cuMemcpyAsync,
     (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
     (dst, src, ByteCount, hStream))
TWIN(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2,
     (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
     (dstDevice, srcDevice, ByteCount, hStream))
TWIN(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD_v2,
     (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
     (dstDevice, srcDevice, ByteCount))
TWIN(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2,
     (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
     (dstHost, srcDevice, ByteCount, hStream))
TWIN(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2,
     (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
     (dstHost, srcDevice, ByteCount))
TWIN(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2,
     (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
     (dstDevice, srcHost, ByteCount, hStream))
TWIN(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2,
     (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
     (dstDevice, srcHost, ByteCount))
TWIN(cuMemcpyPeerAsync_ptsz, cuMemcpyPeerAsync,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream),
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream))
TWIN(cuMemcpyPeer_ptds, cuMemcpyPeer,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount),
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount))
TWIN(cuMemcpy_ptds, cuMemcpy,
     (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
     (dst, src, ByteCount))
TWIN(cuMemsetD16Async_ptsz, cuMemsetD16Async,
     (CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream),
     (dstDevice, us, N, hStream))
TWIN(cuMemsetD16_v2_ptds, cuMemsetD16_v2,
     (CUdeviceptr dstDevice, unsigned short us, size_t N),
     (dstDevice, us, N))
TWIN(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream hStream),
     (dstDevice, dstPitch, us, Width, Height, hStream))
TWIN(cuMemsetD2D16_v2_ptds, cuMemsetD2D16_v2,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height),
     (dstDevice, dstPitch, us, Width, Height))
TWIN(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream hStream),
     (dstDevice, dstPitch, ui, Width, Height, hStream))
TWIN(cuMemsetD2D32_v2_ptds, cuMemsetD2D32_v2,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height),
     (dstDevice, dstPitch, ui, Width, Height))
TWIN(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream),
     (dstDevice, dstPitch, uc, Width, Height, hStream))
TWIN(cuMemsetD2D8_v2_ptds, cuMemsetD2D8_v2,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height),
     (dstDevice, dstPitch, uc, Width, Height))
TWIN(cuMemsetD32Async_ptsz, cuMemsetD32Async,
     (CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream),
     (dstDevice, ui, N, hStream))
TWIN(cuMemsetD32_v2_ptds, cuMemsetD32_v2,
     (CUdeviceptr dstDevice, unsigned int ui, size_t N),
     (dstDevice, ui, N))
TWIN(cuMemsetD8Async_ptsz, cuMemsetD8Async,
     (CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream),
     (dstDevice, uc, N, hStream))
TWIN(cuMemsetD8_v2_ptds, cuMemsetD8_v2,
     (CUdeviceptr dstDevice, unsigned char uc, size_t N),
     (dstDevice, uc, N))
TWIN(cuStreamAddCallback_ptsz, cuStreamAddCallback,
     (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
     (hStream, callback, userData, flags))
TWIN(cuStreamAttachMemAsync_ptsz, cuStreamAttachMemAsync,
     (CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags),
     (hStream, dptr, length, flags))
TWIN(cuStreamBatchMemOp_v2_ptsz, cuStreamBatchMemOp_v2,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags),
     (stream, count, paramArray, flags))
TWIN(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph,
     (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
     (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))
TWIN(cuStreamBeginCapture_ptsz, cuStreamBeginCapture,
     (CUstream hStream),
     (hStream))
TWIN(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2,
     (CUstream hStream, CUstreamCaptureMode mode),
     (hStream, mode))
TWIN(cuStreamCopyAttributes_ptsz, cuStreamCopyAttributes,
     (CUstream dst, CUstream src),
     (dst, src))
TWIN(cuStreamEndCapture_ptsz, cuStreamEndCapture,
     (CUstream hStream, CUgraph *phGraph),
     (hStream, phGraph))
TWIN(cuStreamGetAttribute_ptsz, cuStreamGetAttribute,
     (CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out),
     (hStream, attr, value_out))
TWIN(cuStreamGetCaptureInfo_ptsz, cuStreamGetCaptureInfo,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
     (hStream, captureStatus_out, id_out))
TWIN(cuStreamGetCaptureInfo_v2_ptsz, cuStreamGetCaptureInfo_v2,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out),
     (hStream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out))
TWIN(cuStreamGetCaptureInfo_v3_ptsz, cuStreamGetCaptureInfo_v3,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
     (hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out))
TWIN(cuStreamGetCtx_ptsz, cuStreamGetCtx,
     (CUstream hStream, CUcontext *pctx),
     (hStream, pctx))
#if CUDA_VERSION >= 12050
TWIN(cuStreamGetCtx_v2_ptsz, cuStreamGetCtx_v2,
     (CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx),
     (hStream, pCtx, pGreenCtx))
#endif
#if CUDA_VERSION >= 12080
TWIN(cuStreamGetDevice_ptsz, cuStreamGetDevice,
     (CUstream hStream, CUdevice *device),
     (hStream, device))
#endif
TWIN(cuStreamGetFlags_ptsz, cuStreamGetFlags,
     (CUstream hStream, unsigned int *flags),
     (hStream, flags))
TWIN(cuStreamGetId_ptsz, cuStreamGetId,
     (CUstream hStream, unsigned long long *streamId),
     (hStream, streamId))
TWIN(cuStreamGetPriority_ptsz, cuStreamGetPriority,
     (CUstream hStream, int *priority),
     (hStream, priority))
TWIN(cuStreamIsCapturing_ptsz, cuStreamIsCapturing,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus),
     (hStream, captureStatus))
TWIN(cuStreamQuery_ptsz, cuStreamQuery,
     (CUstream hStream),
     (hStream))
TWIN(cuStreamSetAttribute_ptsz, cuStreamSetAttribute,
     (CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value),
     (hStream, attr, value))
TWIN(cuStreamSynchronize_ptsz, cuStreamSynchronize,
     (CUstream hStream),
     (hStream))
TWIN(cuStreamUpdateCaptureDependencies_ptsz, cuStreamUpdateCaptureDependencies,
     (CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags),
     (hStream, dependencies, numDependencies, flags))
TWIN(cuStreamUpdateCaptureDependencies_v2_ptsz, cuStreamUpdateCaptureDependencies_v2,
     (CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags),
     (hStream, dependencies, dependencyData, numDependencies, flags))
TWIN(cuStreamWaitEvent_ptsz, cuStreamWaitEvent,
     (CUstream hStream, CUevent hEvent, unsigned int Flags),
     (hStream, hEvent, Flags))
TWIN(cuStreamWaitValue32_v2_ptsz, cuStreamWaitValue32_v2,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
     (stream, addr, value, flags))
TWIN(cuStreamWaitValue64_v2_ptsz, cuStreamWaitValue64_v2,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
     (stream, addr, value, flags))
TWIN(cuStreamWriteValue32_v2_ptsz, cuStreamWriteValue32_v2,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
     (stream, addr, value, flags))
TWIN(cuStreamWriteValue64_v2_ptsz, cuStreamWriteValue64_v2,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
     (stream, addr, value, flags))
TWIN(cuMemcpyAtoA_v2_ptds, cuMemcpyAtoA_v2,
     (CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount),
     (dstArray, dstOffset, srcArray, srcOffset, ByteCount))
TWIN(cuMemcpyAtoD_v2_ptds, cuMemcpyAtoD_v2,
     (CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount),
     (dstDevice, srcArray, srcOffset, ByteCount))
TWIN(cuMemcpyAtoH_v2_ptds, cuMemcpyAtoH_v2,
     (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount),
     (dstHost, srcArray, srcOffset, ByteCount))
TWIN(cuMemcpyAtoHAsync_v2_ptsz, cuMemcpyAtoHAsync_v2,
     (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream),
     (dstHost, srcArray, srcOffset, ByteCount, hStream))
TWIN(cuMemcpyDtoA_v2_ptds, cuMemcpyDtoA_v2,
     (CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount),
     (dstArray, dstOffset, srcDevice, ByteCount))
TWIN(cuMemcpyHtoA_v2_ptds, cuMemcpyHtoA_v2,
     (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount),
     (dstArray, dstOffset, srcHost, ByteCount))
TWIN(cuMemcpyHtoAAsync_v2_ptsz, cuMemcpyHtoAAsync_v2,
     (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream),
     (dstArray, dstOffset, srcHost, ByteCount, hStream))
TWIN(cuMemPrefetchBatchAsync_ptsz, cuMemPrefetchBatchAsync,
     (CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream),
     (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream))
TWIN(cuMemDiscardBatchAsync_ptsz, cuMemDiscardBatchAsync,
     (CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream hStream),
     (dptrs, sizes, count, flags, hStream))
TWIN(cuMemDiscardAndPrefetchBatchAsync_ptsz, cuMemDiscardAndPrefetchBatchAsync,
     (CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream),
     (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream))
#if CUDA_VERSION >= 12080
TWIN(cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync,
     (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream),
     (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream))
TWIN(cuMemcpyBatchAsync_v2_ptsz, cuMemcpyBatchAsync_v2,
     (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream),
     (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream))
TWIN(cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync,
     (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags, CUstream hStream),
     (numOps, opList, failIdx, flags, hStream))
TWIN(cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DBatchAsync_v2,
     (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream hStream),
     (numOps, opList, flags, hStream))
TWIN(cuMemcpyWithAttributesAsync_ptsz, cuMemcpyWithAttributesAsync,
     (CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr, CUstream hStream),
     (dst, src, size, attr, hStream))
TWIN(cuMemcpy3DWithAttributesAsync_ptsz, cuMemcpy3DWithAttributesAsync,
     (CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream hStream),
     (op, flags, hStream))
#endif
