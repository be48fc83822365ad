// Made by interposer/generate.py from replay/api; do not edit.
//
// Twins of what the CPU driver defines. No header of CUDA is included: its types of the arguments differ.
#include "entry/default_stream.hpp"

#include <cstdint>

using emulator::driver::PerThreadDefaultStream;

#pragma GCC visibility push(default)
extern "C" {
int cuEventRecord(uint64_t a0, uint64_t a1);
int cuEventRecord_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuEventRecord(a0, a1);
}
int cuEventRecordWithFlags(uint64_t a0, uint64_t a1, uint32_t a2);
int cuEventRecordWithFlags_ptsz(uint64_t a0, uint64_t a1, uint32_t a2) {
  PerThreadDefaultStream scope;
  return cuEventRecordWithFlags(a0, a1, a2);
}
int cuGraphInstantiateWithParams(uint64_t a0, uint64_t a1, uint64_t a2);
int cuGraphInstantiateWithParams_ptsz(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuGraphInstantiateWithParams(a0, a1, a2);
}
int cuGraphLaunch(uint64_t a0, uint64_t a1);
int cuGraphLaunch_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuGraphLaunch(a0, a1);
}
int cuGraphUpload(uint64_t a0, uint64_t a1);
int cuGraphUpload_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuGraphUpload(a0, a1);
}
int cuLaunchCooperativeKernel(uint64_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t a4, uint32_t a5, uint32_t a6, uint32_t a7, uint64_t a8, uint64_t a9);
int cuLaunchCooperativeKernel_ptsz(uint64_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t a4, uint32_t a5, uint32_t a6, uint32_t a7, uint64_t a8, uint64_t a9) {
  PerThreadDefaultStream scope;
  return cuLaunchCooperativeKernel(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9);
}
int cuLaunchHostFunc(uint64_t a0, uint64_t a1, uint64_t a2);
int cuLaunchHostFunc_ptsz(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuLaunchHostFunc(a0, a1, a2);
}
int cuLaunchKernel(uint64_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t a4, uint32_t a5, uint32_t a6, uint32_t a7, uint64_t a8, uint64_t a9, uint64_t a10);
int cuLaunchKernel_ptsz(uint64_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t a4, uint32_t a5, uint32_t a6, uint32_t a7, uint64_t a8, uint64_t a9, uint64_t a10) {
  PerThreadDefaultStream scope;
  return cuLaunchKernel(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10);
}
int cuLaunchKernelEx(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuLaunchKernelEx_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuLaunchKernelEx(a0, a1, a2, a3);
}
int cuMemAllocAsync(uint64_t a0, uint64_t a1, uint64_t a2);
int cuMemAllocAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuMemAllocAsync(a0, a1, a2);
}
int cuMemAllocFromPoolAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemAllocFromPoolAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemAllocFromPoolAsync(a0, a1, a2, a3);
}
int cuMemDiscardAndPrefetchBatchAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7);
int cuMemDiscardAndPrefetchBatchAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7) {
  PerThreadDefaultStream scope;
  return cuMemDiscardAndPrefetchBatchAsync(a0, a1, a2, a3, a4, a5, a6, a7);
}
int cuMemDiscardBatchAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
int cuMemDiscardBatchAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemDiscardBatchAsync(a0, a1, a2, a3, a4);
}
int cuMemFreeAsync(uint64_t a0, uint64_t a1);
int cuMemFreeAsync_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuMemFreeAsync(a0, a1);
}
int cuMemPrefetchAsync(uint64_t a0, uint64_t a1, int32_t a2, uint64_t a3);
int cuMemPrefetchAsync_ptsz(uint64_t a0, uint64_t a1, int32_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemPrefetchAsync(a0, a1, a2, a3);
}
int cuMemPrefetchAsync_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3, uint64_t a4);
int cuMemPrefetchAsync_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemPrefetchAsync_v2(a0, a1, a2, a3, a4);
}
int cuMemPrefetchBatchAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7);
int cuMemPrefetchBatchAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7) {
  PerThreadDefaultStream scope;
  return cuMemPrefetchBatchAsync(a0, a1, a2, a3, a4, a5, a6, a7);
}
int cuMemcpy(uint64_t a0, uint64_t a1, uint64_t a2);
int cuMemcpy_ptds(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuMemcpy(a0, a1, a2);
}
int cuMemcpy2DAsync_v2(uint64_t a0, uint64_t a1);
int cuMemcpy2DAsync_v2_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuMemcpy2DAsync_v2(a0, a1);
}
int cuMemcpy2DUnaligned_v2(uint64_t a0);
int cuMemcpy2DUnaligned_v2_ptds(uint64_t a0) {
  PerThreadDefaultStream scope;
  return cuMemcpy2DUnaligned_v2(a0);
}
int cuMemcpy2D_v2(uint64_t a0);
int cuMemcpy2D_v2_ptds(uint64_t a0) {
  PerThreadDefaultStream scope;
  return cuMemcpy2D_v2(a0);
}
int cuMemcpy3DAsync_v2(uint64_t a0, uint64_t a1);
int cuMemcpy3DAsync_v2_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuMemcpy3DAsync_v2(a0, a1);
}
int cuMemcpy3DBatchAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
int cuMemcpy3DBatchAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemcpy3DBatchAsync(a0, a1, a2, a3, a4);
}
int cuMemcpy3DBatchAsync_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemcpy3DBatchAsync_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemcpy3DBatchAsync_v2(a0, a1, a2, a3);
}
int cuMemcpy3DPeer(uint64_t a0);
int cuMemcpy3DPeer_ptds(uint64_t a0) {
  PerThreadDefaultStream scope;
  return cuMemcpy3DPeer(a0);
}
int cuMemcpy3DPeerAsync(uint64_t a0, uint64_t a1);
int cuMemcpy3DPeerAsync_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuMemcpy3DPeerAsync(a0, a1);
}
int cuMemcpy3DWithAttributesAsync(uint64_t a0, uint64_t a1, uint64_t a2);
int cuMemcpy3DWithAttributesAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuMemcpy3DWithAttributesAsync(a0, a1, a2);
}
int cuMemcpy3D_v2(uint64_t a0);
int cuMemcpy3D_v2_ptds(uint64_t a0) {
  PerThreadDefaultStream scope;
  return cuMemcpy3D_v2(a0);
}
int cuMemcpyAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemcpyAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemcpyAsync(a0, a1, a2, a3);
}
int cuMemcpyAtoA_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
int cuMemcpyAtoA_v2_ptds(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemcpyAtoA_v2(a0, a1, a2, a3, a4);
}
int cuMemcpyAtoD_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemcpyAtoD_v2_ptds(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemcpyAtoD_v2(a0, a1, a2, a3);
}
int cuMemcpyAtoHAsync_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
int cuMemcpyAtoHAsync_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemcpyAtoHAsync_v2(a0, a1, a2, a3, a4);
}
int cuMemcpyAtoH_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemcpyAtoH_v2_ptds(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemcpyAtoH_v2(a0, a1, a2, a3);
}
int cuMemcpyBatchAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);
int cuMemcpyBatchAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  PerThreadDefaultStream scope;
  return cuMemcpyBatchAsync(a0, a1, a2, a3, a4, a5, a6, a7, a8);
}
int cuMemcpyBatchAsync_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7);
int cuMemcpyBatchAsync_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7) {
  PerThreadDefaultStream scope;
  return cuMemcpyBatchAsync_v2(a0, a1, a2, a3, a4, a5, a6, a7);
}
int cuMemcpyDtoA_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemcpyDtoA_v2_ptds(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemcpyDtoA_v2(a0, a1, a2, a3);
}
int cuMemcpyDtoDAsync_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemcpyDtoDAsync_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemcpyDtoDAsync_v2(a0, a1, a2, a3);
}
int cuMemcpyDtoD_v2(uint64_t a0, uint64_t a1, uint64_t a2);
int cuMemcpyDtoD_v2_ptds(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuMemcpyDtoD_v2(a0, a1, a2);
}
int cuMemcpyDtoHAsync_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemcpyDtoHAsync_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemcpyDtoHAsync_v2(a0, a1, a2, a3);
}
int cuMemcpyDtoH_v2(uint64_t a0, uint64_t a1, uint64_t a2);
int cuMemcpyDtoH_v2_ptds(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuMemcpyDtoH_v2(a0, a1, a2);
}
int cuMemcpyHtoAAsync_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
int cuMemcpyHtoAAsync_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemcpyHtoAAsync_v2(a0, a1, a2, a3, a4);
}
int cuMemcpyHtoA_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemcpyHtoA_v2_ptds(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemcpyHtoA_v2(a0, a1, a2, a3);
}
int cuMemcpyHtoDAsync_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3);
int cuMemcpyHtoDAsync_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemcpyHtoDAsync_v2(a0, a1, a2, a3);
}
int cuMemcpyHtoD_v2(uint64_t a0, uint64_t a1, uint64_t a2);
int cuMemcpyHtoD_v2_ptds(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuMemcpyHtoD_v2(a0, a1, a2);
}
int cuMemcpyPeer(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
int cuMemcpyPeer_ptds(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemcpyPeer(a0, a1, a2, a3, a4);
}
int cuMemcpyPeerAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5);
int cuMemcpyPeerAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5) {
  PerThreadDefaultStream scope;
  return cuMemcpyPeerAsync(a0, a1, a2, a3, a4, a5);
}
int cuMemcpyWithAttributesAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
int cuMemcpyWithAttributesAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemcpyWithAttributesAsync(a0, a1, a2, a3, a4);
}
int cuMemsetD16Async(uint64_t a0, uint16_t a1, uint64_t a2, uint64_t a3);
int cuMemsetD16Async_ptsz(uint64_t a0, uint16_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemsetD16Async(a0, a1, a2, a3);
}
int cuMemsetD16_v2(uint64_t a0, uint16_t a1, uint64_t a2);
int cuMemsetD16_v2_ptds(uint64_t a0, uint16_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuMemsetD16_v2(a0, a1, a2);
}
int cuMemsetD2D16Async(uint64_t a0, uint64_t a1, uint16_t a2, uint64_t a3, uint64_t a4, uint64_t a5);
int cuMemsetD2D16Async_ptsz(uint64_t a0, uint64_t a1, uint16_t a2, uint64_t a3, uint64_t a4, uint64_t a5) {
  PerThreadDefaultStream scope;
  return cuMemsetD2D16Async(a0, a1, a2, a3, a4, a5);
}
int cuMemsetD2D16_v2(uint64_t a0, uint64_t a1, uint16_t a2, uint64_t a3, uint64_t a4);
int cuMemsetD2D16_v2_ptds(uint64_t a0, uint64_t a1, uint16_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemsetD2D16_v2(a0, a1, a2, a3, a4);
}
int cuMemsetD2D32Async(uint64_t a0, uint64_t a1, uint32_t a2, uint64_t a3, uint64_t a4, uint64_t a5);
int cuMemsetD2D32Async_ptsz(uint64_t a0, uint64_t a1, uint32_t a2, uint64_t a3, uint64_t a4, uint64_t a5) {
  PerThreadDefaultStream scope;
  return cuMemsetD2D32Async(a0, a1, a2, a3, a4, a5);
}
int cuMemsetD2D32_v2(uint64_t a0, uint64_t a1, uint32_t a2, uint64_t a3, uint64_t a4);
int cuMemsetD2D32_v2_ptds(uint64_t a0, uint64_t a1, uint32_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemsetD2D32_v2(a0, a1, a2, a3, a4);
}
int cuMemsetD2D8Async(uint64_t a0, uint64_t a1, uint8_t a2, uint64_t a3, uint64_t a4, uint64_t a5);
int cuMemsetD2D8Async_ptsz(uint64_t a0, uint64_t a1, uint8_t a2, uint64_t a3, uint64_t a4, uint64_t a5) {
  PerThreadDefaultStream scope;
  return cuMemsetD2D8Async(a0, a1, a2, a3, a4, a5);
}
int cuMemsetD2D8_v2(uint64_t a0, uint64_t a1, uint8_t a2, uint64_t a3, uint64_t a4);
int cuMemsetD2D8_v2_ptds(uint64_t a0, uint64_t a1, uint8_t a2, uint64_t a3, uint64_t a4) {
  PerThreadDefaultStream scope;
  return cuMemsetD2D8_v2(a0, a1, a2, a3, a4);
}
int cuMemsetD32Async(uint64_t a0, uint32_t a1, uint64_t a2, uint64_t a3);
int cuMemsetD32Async_ptsz(uint64_t a0, uint32_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemsetD32Async(a0, a1, a2, a3);
}
int cuMemsetD32_v2(uint64_t a0, uint32_t a1, uint64_t a2);
int cuMemsetD32_v2_ptds(uint64_t a0, uint32_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuMemsetD32_v2(a0, a1, a2);
}
int cuMemsetD8Async(uint64_t a0, uint8_t a1, uint64_t a2, uint64_t a3);
int cuMemsetD8Async_ptsz(uint64_t a0, uint8_t a1, uint64_t a2, uint64_t a3) {
  PerThreadDefaultStream scope;
  return cuMemsetD8Async(a0, a1, a2, a3);
}
int cuMemsetD8_v2(uint64_t a0, uint8_t a1, uint64_t a2);
int cuMemsetD8_v2_ptds(uint64_t a0, uint8_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuMemsetD8_v2(a0, a1, a2);
}
int cuStreamAddCallback(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3);
int cuStreamAddCallback_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3) {
  PerThreadDefaultStream scope;
  return cuStreamAddCallback(a0, a1, a2, a3);
}
int cuStreamAttachMemAsync(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3);
int cuStreamAttachMemAsync_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3) {
  PerThreadDefaultStream scope;
  return cuStreamAttachMemAsync(a0, a1, a2, a3);
}
int cuStreamBatchMemOp_v2(uint64_t a0, uint32_t a1, uint64_t a2, uint32_t a3);
int cuStreamBatchMemOp_v2_ptsz(uint64_t a0, uint32_t a1, uint64_t a2, uint32_t a3) {
  PerThreadDefaultStream scope;
  return cuStreamBatchMemOp_v2(a0, a1, a2, a3);
}
int cuStreamBeginCapture(uint64_t a0);
int cuStreamBeginCapture_ptsz(uint64_t a0) {
  PerThreadDefaultStream scope;
  return cuStreamBeginCapture(a0);
}
int cuStreamBeginCaptureToGraph(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint32_t a5);
int cuStreamBeginCaptureToGraph_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint32_t a5) {
  PerThreadDefaultStream scope;
  return cuStreamBeginCaptureToGraph(a0, a1, a2, a3, a4, a5);
}
int cuStreamBeginCapture_v2(uint64_t a0, uint32_t a1);
int cuStreamBeginCapture_v2_ptsz(uint64_t a0, uint32_t a1) {
  PerThreadDefaultStream scope;
  return cuStreamBeginCapture_v2(a0, a1);
}
int cuStreamCopyAttributes(uint64_t a0, uint64_t a1);
int cuStreamCopyAttributes_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuStreamCopyAttributes(a0, a1);
}
int cuStreamEndCapture(uint64_t a0, uint64_t a1);
int cuStreamEndCapture_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuStreamEndCapture(a0, a1);
}
int cuStreamGetAttribute(uint64_t a0, uint32_t a1, uint64_t a2);
int cuStreamGetAttribute_ptsz(uint64_t a0, uint32_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuStreamGetAttribute(a0, a1, a2);
}
int cuStreamGetCaptureInfo(uint64_t a0, uint64_t a1, uint64_t a2);
int cuStreamGetCaptureInfo_ptsz(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuStreamGetCaptureInfo(a0, a1, a2);
}
int cuStreamGetCaptureInfo_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5);
int cuStreamGetCaptureInfo_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5) {
  PerThreadDefaultStream scope;
  return cuStreamGetCaptureInfo_v2(a0, a1, a2, a3, a4, a5);
}
int cuStreamGetCaptureInfo_v3(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6);
int cuStreamGetCaptureInfo_v3_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6) {
  PerThreadDefaultStream scope;
  return cuStreamGetCaptureInfo_v3(a0, a1, a2, a3, a4, a5, a6);
}
int cuStreamGetCtx(uint64_t a0, uint64_t a1);
int cuStreamGetCtx_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuStreamGetCtx(a0, a1);
}
int cuStreamGetCtx_v2(uint64_t a0, uint64_t a1, uint64_t a2);
int cuStreamGetCtx_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuStreamGetCtx_v2(a0, a1, a2);
}
int cuStreamGetDevice(uint64_t a0, uint64_t a1);
int cuStreamGetDevice_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuStreamGetDevice(a0, a1);
}
int cuStreamGetFlags(uint64_t a0, uint64_t a1);
int cuStreamGetFlags_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuStreamGetFlags(a0, a1);
}
int cuStreamGetId(uint64_t a0, uint64_t a1);
int cuStreamGetId_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuStreamGetId(a0, a1);
}
int cuStreamGetPriority(uint64_t a0, uint64_t a1);
int cuStreamGetPriority_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuStreamGetPriority(a0, a1);
}
int cuStreamIsCapturing(uint64_t a0, uint64_t a1);
int cuStreamIsCapturing_ptsz(uint64_t a0, uint64_t a1) {
  PerThreadDefaultStream scope;
  return cuStreamIsCapturing(a0, a1);
}
int cuStreamQuery(uint64_t a0);
int cuStreamQuery_ptsz(uint64_t a0) {
  PerThreadDefaultStream scope;
  return cuStreamQuery(a0);
}
int cuStreamSetAttribute(uint64_t a0, uint32_t a1, uint64_t a2);
int cuStreamSetAttribute_ptsz(uint64_t a0, uint32_t a1, uint64_t a2) {
  PerThreadDefaultStream scope;
  return cuStreamSetAttribute(a0, a1, a2);
}
int cuStreamSynchronize(uint64_t a0);
int cuStreamSynchronize_ptsz(uint64_t a0) {
  PerThreadDefaultStream scope;
  return cuStreamSynchronize(a0);
}
int cuStreamUpdateCaptureDependencies(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3);
int cuStreamUpdateCaptureDependencies_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3) {
  PerThreadDefaultStream scope;
  return cuStreamUpdateCaptureDependencies(a0, a1, a2, a3);
}
int cuStreamUpdateCaptureDependencies_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint32_t a4);
int cuStreamUpdateCaptureDependencies_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint32_t a4) {
  PerThreadDefaultStream scope;
  return cuStreamUpdateCaptureDependencies_v2(a0, a1, a2, a3, a4);
}
int cuStreamWaitEvent(uint64_t a0, uint64_t a1, uint32_t a2);
int cuStreamWaitEvent_ptsz(uint64_t a0, uint64_t a1, uint32_t a2) {
  PerThreadDefaultStream scope;
  return cuStreamWaitEvent(a0, a1, a2);
}
int cuStreamWaitValue32_v2(uint64_t a0, uint64_t a1, uint32_t a2, uint32_t a3);
int cuStreamWaitValue32_v2_ptsz(uint64_t a0, uint64_t a1, uint32_t a2, uint32_t a3) {
  PerThreadDefaultStream scope;
  return cuStreamWaitValue32_v2(a0, a1, a2, a3);
}
int cuStreamWaitValue64_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3);
int cuStreamWaitValue64_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3) {
  PerThreadDefaultStream scope;
  return cuStreamWaitValue64_v2(a0, a1, a2, a3);
}
int cuStreamWriteValue32_v2(uint64_t a0, uint64_t a1, uint32_t a2, uint32_t a3);
int cuStreamWriteValue32_v2_ptsz(uint64_t a0, uint64_t a1, uint32_t a2, uint32_t a3) {
  PerThreadDefaultStream scope;
  return cuStreamWriteValue32_v2(a0, a1, a2, a3);
}
int cuStreamWriteValue64_v2(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3);
int cuStreamWriteValue64_v2_ptsz(uint64_t a0, uint64_t a1, uint64_t a2, uint32_t a3) {
  PerThreadDefaultStream scope;
  return cuStreamWriteValue64_v2(a0, a1, a2, a3);
}
}
#pragma GCC visibility pop
