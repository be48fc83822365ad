// Made by interposer/generate.py from replay/api; do not edit.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct CUDA_ARRAY_DESCRIPTOR {
  uint64_t Width;
  uint64_t Height;
  uint32_t Format;
  uint32_t NumChannels;
};
_Static_assert(sizeof(struct CUDA_ARRAY_DESCRIPTOR) == 24 && offsetof(struct CUDA_ARRAY_DESCRIPTOR, Width) == 0 && offsetof(struct CUDA_ARRAY_DESCRIPTOR, Height) == 8 && offsetof(struct CUDA_ARRAY_DESCRIPTOR, Format) == 16 && offsetof(struct CUDA_ARRAY_DESCRIPTOR, NumChannels) == 20, "cuda.h");

struct CUDA_ARRAY3D_DESCRIPTOR {
  uint64_t Width;
  uint64_t Height;
  uint64_t Depth;
  uint32_t Format;
  uint32_t NumChannels;
  uint32_t Flags;
};
_Static_assert(sizeof(struct CUDA_ARRAY3D_DESCRIPTOR) == 40 && offsetof(struct CUDA_ARRAY3D_DESCRIPTOR, Width) == 0 && offsetof(struct CUDA_ARRAY3D_DESCRIPTOR, Height) == 8 && offsetof(struct CUDA_ARRAY3D_DESCRIPTOR, Depth) == 16 && offsetof(struct CUDA_ARRAY3D_DESCRIPTOR, Format) == 24 && offsetof(struct CUDA_ARRAY3D_DESCRIPTOR, NumChannels) == 28 && offsetof(struct CUDA_ARRAY3D_DESCRIPTOR, Flags) == 32, "cuda.h");

struct CUDA_BATCH_MEM_OP_NODE_PARAMS {
  uint64_t ctx;
  uint32_t count;
  uint64_t paramArray;
  uint32_t flags;
};
_Static_assert(sizeof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS) == 32 && offsetof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS, ctx) == 0 && offsetof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS, count) == 8 && offsetof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS, paramArray) == 16 && offsetof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS, flags) == 24, "cuda.h");

struct CUDA_CONDITIONAL_NODE_PARAMS {
  uint64_t handle;
  uint32_t type;
  uint32_t size;
  uint64_t phGraph_out;
  uint64_t ctx;
};
_Static_assert(sizeof(struct CUDA_CONDITIONAL_NODE_PARAMS) == 32 && offsetof(struct CUDA_CONDITIONAL_NODE_PARAMS, handle) == 0 && offsetof(struct CUDA_CONDITIONAL_NODE_PARAMS, type) == 8 && offsetof(struct CUDA_CONDITIONAL_NODE_PARAMS, size) == 12 && offsetof(struct CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out) == 16 && offsetof(struct CUDA_CONDITIONAL_NODE_PARAMS, ctx) == 24, "cuda.h");

struct CUDA_GRAPH_INSTANTIATE_PARAMS {
  uint64_t flags;
  uint64_t hUploadStream;
  uint64_t hErrNode_out;
  uint32_t result_out;
};
_Static_assert(sizeof(struct CUDA_GRAPH_INSTANTIATE_PARAMS) == 32 && offsetof(struct CUDA_GRAPH_INSTANTIATE_PARAMS, flags) == 0 && offsetof(struct CUDA_GRAPH_INSTANTIATE_PARAMS, hUploadStream) == 8 && offsetof(struct CUDA_GRAPH_INSTANTIATE_PARAMS, hErrNode_out) == 16 && offsetof(struct CUDA_GRAPH_INSTANTIATE_PARAMS, result_out) == 24, "cuda.h");

struct CUDA_HOST_NODE_PARAMS {
  uint64_t fn;
  uint64_t userData;
};
_Static_assert(sizeof(struct CUDA_HOST_NODE_PARAMS) == 16 && offsetof(struct CUDA_HOST_NODE_PARAMS, fn) == 0 && offsetof(struct CUDA_HOST_NODE_PARAMS, userData) == 8, "cuda.h");

struct CUDA_KERNEL_NODE_PARAMS {
  uint64_t func;
  uint32_t gridDimX;
  uint32_t gridDimY;
  uint32_t gridDimZ;
  uint32_t blockDimX;
  uint32_t blockDimY;
  uint32_t blockDimZ;
  uint32_t sharedMemBytes;
  uint64_t kernelParams;
  uint64_t extra;
  uint64_t kern;
  uint64_t ctx;
};
_Static_assert(sizeof(struct CUDA_KERNEL_NODE_PARAMS) == 72 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, func) == 0 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, gridDimX) == 8 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, gridDimY) == 12 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, gridDimZ) == 16 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, blockDimX) == 20 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, blockDimY) == 24 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, blockDimZ) == 28 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, sharedMemBytes) == 32 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, kernelParams) == 40 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, extra) == 48 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, kern) == 56 && offsetof(struct CUDA_KERNEL_NODE_PARAMS, ctx) == 64, "cuda.h");

struct CUDA_MEMCPY2D {
  uint64_t srcXInBytes;
  uint64_t srcY;
  uint32_t srcMemoryType;
  uint64_t srcHost;
  uint64_t srcDevice;
  uint64_t srcArray;
  uint64_t srcPitch;
  uint64_t dstXInBytes;
  uint64_t dstY;
  uint32_t dstMemoryType;
  uint64_t dstHost;
  uint64_t dstDevice;
  uint64_t dstArray;
  uint64_t dstPitch;
  uint64_t WidthInBytes;
  uint64_t Height;
};
_Static_assert(sizeof(struct CUDA_MEMCPY2D) == 128 && offsetof(struct CUDA_MEMCPY2D, srcXInBytes) == 0 && offsetof(struct CUDA_MEMCPY2D, srcY) == 8 && offsetof(struct CUDA_MEMCPY2D, srcMemoryType) == 16 && offsetof(struct CUDA_MEMCPY2D, srcHost) == 24 && offsetof(struct CUDA_MEMCPY2D, srcDevice) == 32 && offsetof(struct CUDA_MEMCPY2D, srcArray) == 40 && offsetof(struct CUDA_MEMCPY2D, srcPitch) == 48 && offsetof(struct CUDA_MEMCPY2D, dstXInBytes) == 56 && offsetof(struct CUDA_MEMCPY2D, dstY) == 64 && offsetof(struct CUDA_MEMCPY2D, dstMemoryType) == 72 && offsetof(struct CUDA_MEMCPY2D, dstHost) == 80 && offsetof(struct CUDA_MEMCPY2D, dstDevice) == 88 && offsetof(struct CUDA_MEMCPY2D, dstArray) == 96 && offsetof(struct CUDA_MEMCPY2D, dstPitch) == 104 && offsetof(struct CUDA_MEMCPY2D, WidthInBytes) == 112 && offsetof(struct CUDA_MEMCPY2D, Height) == 120, "cuda.h");

struct CUDA_MEMCPY3D {
  uint64_t srcXInBytes;
  uint64_t srcY;
  uint64_t srcZ;
  uint64_t srcLOD;
  uint32_t srcMemoryType;
  uint64_t srcHost;
  uint64_t srcDevice;
  uint64_t srcArray;
  uint64_t reserved0;
  uint64_t srcPitch;
  uint64_t srcHeight;
  uint64_t dstXInBytes;
  uint64_t dstY;
  uint64_t dstZ;
  uint64_t dstLOD;
  uint32_t dstMemoryType;
  uint64_t dstHost;
  uint64_t dstDevice;
  uint64_t dstArray;
  uint64_t reserved1;
  uint64_t dstPitch;
  uint64_t dstHeight;
  uint64_t WidthInBytes;
  uint64_t Height;
  uint64_t Depth;
};
_Static_assert(sizeof(struct CUDA_MEMCPY3D) == 200 && offsetof(struct CUDA_MEMCPY3D, srcXInBytes) == 0 && offsetof(struct CUDA_MEMCPY3D, srcY) == 8 && offsetof(struct CUDA_MEMCPY3D, srcZ) == 16 && offsetof(struct CUDA_MEMCPY3D, srcLOD) == 24 && offsetof(struct CUDA_MEMCPY3D, srcMemoryType) == 32 && offsetof(struct CUDA_MEMCPY3D, srcHost) == 40 && offsetof(struct CUDA_MEMCPY3D, srcDevice) == 48 && offsetof(struct CUDA_MEMCPY3D, srcArray) == 56 && offsetof(struct CUDA_MEMCPY3D, reserved0) == 64 && offsetof(struct CUDA_MEMCPY3D, srcPitch) == 72 && offsetof(struct CUDA_MEMCPY3D, srcHeight) == 80 && offsetof(struct CUDA_MEMCPY3D, dstXInBytes) == 88 && offsetof(struct CUDA_MEMCPY3D, dstY) == 96 && offsetof(struct CUDA_MEMCPY3D, dstZ) == 104 && offsetof(struct CUDA_MEMCPY3D, dstLOD) == 112 && offsetof(struct CUDA_MEMCPY3D, dstMemoryType) == 120 && offsetof(struct CUDA_MEMCPY3D, dstHost) == 128 && offsetof(struct CUDA_MEMCPY3D, dstDevice) == 136 && offsetof(struct CUDA_MEMCPY3D, dstArray) == 144 && offsetof(struct CUDA_MEMCPY3D, reserved1) == 152 && offsetof(struct CUDA_MEMCPY3D, dstPitch) == 160 && offsetof(struct CUDA_MEMCPY3D, dstHeight) == 168 && offsetof(struct CUDA_MEMCPY3D, WidthInBytes) == 176 && offsetof(struct CUDA_MEMCPY3D, Height) == 184 && offsetof(struct CUDA_MEMCPY3D, Depth) == 192, "cuda.h");

struct CUmemLocation_1_localized {
  uint8_t deviceId;
  uint8_t localityDomainId;
};
_Static_assert(sizeof(struct CUmemLocation_1_localized) == 2 && offsetof(struct CUmemLocation_1_localized, deviceId) == 0 && offsetof(struct CUmemLocation_1_localized, localityDomainId) == 1, "cuda.h");

union CUmemLocation_1 {
  int32_t id;
  struct CUmemLocation_1_localized localized;
};
_Static_assert(sizeof(union CUmemLocation_1) == 4 && offsetof(union CUmemLocation_1, id) == 0 && offsetof(union CUmemLocation_1, localized) == 0, "cuda.h");

struct CUmemLocation {
  uint32_t type;
  union { int32_t id;
  struct CUmemLocation_1_localized localized; } ;
};
_Static_assert(sizeof(struct CUmemLocation) == 8 && offsetof(struct CUmemLocation, type) == 0, "cuda.h");

struct CUmemcpy3DOperand_op_ptr {
  uint64_t ptr;
  uint64_t rowLength;
  uint64_t layerHeight;
  struct CUmemLocation locHint;
};
_Static_assert(sizeof(struct CUmemcpy3DOperand_op_ptr) == 32 && offsetof(struct CUmemcpy3DOperand_op_ptr, ptr) == 0 && offsetof(struct CUmemcpy3DOperand_op_ptr, rowLength) == 8 && offsetof(struct CUmemcpy3DOperand_op_ptr, layerHeight) == 16 && offsetof(struct CUmemcpy3DOperand_op_ptr, locHint) == 24, "cuda.h");

struct CUoffset3D {
  uint64_t x;
  uint64_t y;
  uint64_t z;
};
_Static_assert(sizeof(struct CUoffset3D) == 24 && offsetof(struct CUoffset3D, x) == 0 && offsetof(struct CUoffset3D, y) == 8 && offsetof(struct CUoffset3D, z) == 16, "cuda.h");

struct CUmemcpy3DOperand_op_array {
  uint64_t array;
  struct CUoffset3D offset;
};
_Static_assert(sizeof(struct CUmemcpy3DOperand_op_array) == 32 && offsetof(struct CUmemcpy3DOperand_op_array, array) == 0 && offsetof(struct CUmemcpy3DOperand_op_array, offset) == 8, "cuda.h");

union CUmemcpy3DOperand_op {
  struct CUmemcpy3DOperand_op_ptr ptr;
  struct CUmemcpy3DOperand_op_array array;
};
_Static_assert(sizeof(union CUmemcpy3DOperand_op) == 32 && offsetof(union CUmemcpy3DOperand_op, ptr) == 0 && offsetof(union CUmemcpy3DOperand_op, array) == 0, "cuda.h");

struct CUmemcpy3DOperand {
  uint32_t type;
  union CUmemcpy3DOperand_op op;
};
_Static_assert(sizeof(struct CUmemcpy3DOperand) == 40 && offsetof(struct CUmemcpy3DOperand, type) == 0 && offsetof(struct CUmemcpy3DOperand, op) == 8, "cuda.h");

struct CUextent3D {
  uint64_t width;
  uint64_t height;
  uint64_t depth;
};
_Static_assert(sizeof(struct CUextent3D) == 24 && offsetof(struct CUextent3D, width) == 0 && offsetof(struct CUextent3D, height) == 8 && offsetof(struct CUextent3D, depth) == 16, "cuda.h");

struct CUDA_MEMCPY3D_BATCH_OP {
  struct CUmemcpy3DOperand src;
  struct CUmemcpy3DOperand dst;
  struct CUextent3D extent;
  uint32_t srcAccessOrder;
  uint32_t flags;
};
_Static_assert(sizeof(struct CUDA_MEMCPY3D_BATCH_OP) == 112 && offsetof(struct CUDA_MEMCPY3D_BATCH_OP, src) == 0 && offsetof(struct CUDA_MEMCPY3D_BATCH_OP, dst) == 40 && offsetof(struct CUDA_MEMCPY3D_BATCH_OP, extent) == 80 && offsetof(struct CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder) == 104 && offsetof(struct CUDA_MEMCPY3D_BATCH_OP, flags) == 108, "cuda.h");

struct CUDA_MEMCPY3D_PEER {
  uint64_t srcXInBytes;
  uint64_t srcY;
  uint64_t srcZ;
  uint64_t srcLOD;
  uint32_t srcMemoryType;
  uint64_t srcHost;
  uint64_t srcDevice;
  uint64_t srcArray;
  uint64_t srcContext;
  uint64_t srcPitch;
  uint64_t srcHeight;
  uint64_t dstXInBytes;
  uint64_t dstY;
  uint64_t dstZ;
  uint64_t dstLOD;
  uint32_t dstMemoryType;
  uint64_t dstHost;
  uint64_t dstDevice;
  uint64_t dstArray;
  uint64_t dstContext;
  uint64_t dstPitch;
  uint64_t dstHeight;
  uint64_t WidthInBytes;
  uint64_t Height;
  uint64_t Depth;
};
_Static_assert(sizeof(struct CUDA_MEMCPY3D_PEER) == 200 && offsetof(struct CUDA_MEMCPY3D_PEER, srcXInBytes) == 0 && offsetof(struct CUDA_MEMCPY3D_PEER, srcY) == 8 && offsetof(struct CUDA_MEMCPY3D_PEER, srcZ) == 16 && offsetof(struct CUDA_MEMCPY3D_PEER, srcLOD) == 24 && offsetof(struct CUDA_MEMCPY3D_PEER, srcMemoryType) == 32 && offsetof(struct CUDA_MEMCPY3D_PEER, srcHost) == 40 && offsetof(struct CUDA_MEMCPY3D_PEER, srcDevice) == 48 && offsetof(struct CUDA_MEMCPY3D_PEER, srcArray) == 56 && offsetof(struct CUDA_MEMCPY3D_PEER, srcContext) == 64 && offsetof(struct CUDA_MEMCPY3D_PEER, srcPitch) == 72 && offsetof(struct CUDA_MEMCPY3D_PEER, srcHeight) == 80 && offsetof(struct CUDA_MEMCPY3D_PEER, dstXInBytes) == 88 && offsetof(struct CUDA_MEMCPY3D_PEER, dstY) == 96 && offsetof(struct CUDA_MEMCPY3D_PEER, dstZ) == 104 && offsetof(struct CUDA_MEMCPY3D_PEER, dstLOD) == 112 && offsetof(struct CUDA_MEMCPY3D_PEER, dstMemoryType) == 120 && offsetof(struct CUDA_MEMCPY3D_PEER, dstHost) == 128 && offsetof(struct CUDA_MEMCPY3D_PEER, dstDevice) == 136 && offsetof(struct CUDA_MEMCPY3D_PEER, dstArray) == 144 && offsetof(struct CUDA_MEMCPY3D_PEER, dstContext) == 152 && offsetof(struct CUDA_MEMCPY3D_PEER, dstPitch) == 160 && offsetof(struct CUDA_MEMCPY3D_PEER, dstHeight) == 168 && offsetof(struct CUDA_MEMCPY3D_PEER, WidthInBytes) == 176 && offsetof(struct CUDA_MEMCPY3D_PEER, Height) == 184 && offsetof(struct CUDA_MEMCPY3D_PEER, Depth) == 192, "cuda.h");

struct CUDA_MEMCPY_NODE_PARAMS {
  int32_t flags;
  int32_t reserved;
  uint64_t copyCtx;
  struct CUDA_MEMCPY3D copyParams;
};
_Static_assert(sizeof(struct CUDA_MEMCPY_NODE_PARAMS) == 216 && offsetof(struct CUDA_MEMCPY_NODE_PARAMS, flags) == 0 && offsetof(struct CUDA_MEMCPY_NODE_PARAMS, reserved) == 4 && offsetof(struct CUDA_MEMCPY_NODE_PARAMS, copyCtx) == 8 && offsetof(struct CUDA_MEMCPY_NODE_PARAMS, copyParams) == 16, "cuda.h");

struct CUDA_MEMSET_NODE_PARAMS_v2 {
  uint64_t dst;
  uint64_t pitch;
  uint32_t value;
  uint32_t elementSize;
  uint64_t width;
  uint64_t height;
  uint64_t ctx;
};
_Static_assert(sizeof(struct CUDA_MEMSET_NODE_PARAMS_v2) == 48 && offsetof(struct CUDA_MEMSET_NODE_PARAMS_v2, dst) == 0 && offsetof(struct CUDA_MEMSET_NODE_PARAMS_v2, pitch) == 8 && offsetof(struct CUDA_MEMSET_NODE_PARAMS_v2, value) == 16 && offsetof(struct CUDA_MEMSET_NODE_PARAMS_v2, elementSize) == 20 && offsetof(struct CUDA_MEMSET_NODE_PARAMS_v2, width) == 24 && offsetof(struct CUDA_MEMSET_NODE_PARAMS_v2, height) == 32 && offsetof(struct CUDA_MEMSET_NODE_PARAMS_v2, ctx) == 40, "cuda.h");

struct CUmemPoolProps {
  uint32_t allocType;
  uint32_t handleTypes;
  struct CUmemLocation location;
  uint64_t win32SecurityAttributes;
  uint64_t maxSize;
  uint16_t usage;
  uint8_t gpuDirectRDMACapable;
  uint8_t reserved[53];
};
_Static_assert(sizeof(struct CUmemPoolProps) == 88 && offsetof(struct CUmemPoolProps, allocType) == 0 && offsetof(struct CUmemPoolProps, handleTypes) == 4 && offsetof(struct CUmemPoolProps, location) == 8 && offsetof(struct CUmemPoolProps, win32SecurityAttributes) == 16 && offsetof(struct CUmemPoolProps, maxSize) == 24 && offsetof(struct CUmemPoolProps, usage) == 32 && offsetof(struct CUmemPoolProps, gpuDirectRDMACapable) == 34 && offsetof(struct CUmemPoolProps, reserved) == 35, "cuda.h");

struct CUDA_MEM_ALLOC_NODE_PARAMS {
  struct CUmemPoolProps poolProps;
  uint64_t accessDescs;
  uint64_t accessDescCount;
  uint64_t bytesize;
  uint64_t dptr;
};
_Static_assert(sizeof(struct CUDA_MEM_ALLOC_NODE_PARAMS) == 120 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS, poolProps) == 0 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS, accessDescs) == 88 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS, accessDescCount) == 96 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS, bytesize) == 104 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS, dptr) == 112, "cuda.h");

struct CUDA_RESOURCE_DESC_res_array {
  uint64_t hArray;
};
_Static_assert(sizeof(struct CUDA_RESOURCE_DESC_res_array) == 8 && offsetof(struct CUDA_RESOURCE_DESC_res_array, hArray) == 0, "cuda.h");

struct CUDA_RESOURCE_DESC_res_mipmap {
  uint64_t hMipmappedArray;
};
_Static_assert(sizeof(struct CUDA_RESOURCE_DESC_res_mipmap) == 8 && offsetof(struct CUDA_RESOURCE_DESC_res_mipmap, hMipmappedArray) == 0, "cuda.h");

struct CUDA_RESOURCE_DESC_res_linear {
  uint64_t devPtr;
  uint32_t format;
  uint32_t numChannels;
  uint64_t sizeInBytes;
};
_Static_assert(sizeof(struct CUDA_RESOURCE_DESC_res_linear) == 24 && offsetof(struct CUDA_RESOURCE_DESC_res_linear, devPtr) == 0 && offsetof(struct CUDA_RESOURCE_DESC_res_linear, format) == 8 && offsetof(struct CUDA_RESOURCE_DESC_res_linear, numChannels) == 12 && offsetof(struct CUDA_RESOURCE_DESC_res_linear, sizeInBytes) == 16, "cuda.h");

struct CUDA_RESOURCE_DESC_res_pitch2D {
  uint64_t devPtr;
  uint32_t format;
  uint32_t numChannels;
  uint64_t width;
  uint64_t height;
  uint64_t pitchInBytes;
};
_Static_assert(sizeof(struct CUDA_RESOURCE_DESC_res_pitch2D) == 40 && offsetof(struct CUDA_RESOURCE_DESC_res_pitch2D, devPtr) == 0 && offsetof(struct CUDA_RESOURCE_DESC_res_pitch2D, format) == 8 && offsetof(struct CUDA_RESOURCE_DESC_res_pitch2D, numChannels) == 12 && offsetof(struct CUDA_RESOURCE_DESC_res_pitch2D, width) == 16 && offsetof(struct CUDA_RESOURCE_DESC_res_pitch2D, height) == 24 && offsetof(struct CUDA_RESOURCE_DESC_res_pitch2D, pitchInBytes) == 32, "cuda.h");

struct CUDA_RESOURCE_DESC_res_reserved {
  int32_t reserved[32];
};
_Static_assert(sizeof(struct CUDA_RESOURCE_DESC_res_reserved) == 128 && offsetof(struct CUDA_RESOURCE_DESC_res_reserved, reserved) == 0, "cuda.h");

union CUDA_RESOURCE_DESC_res {
  struct CUDA_RESOURCE_DESC_res_array array;
  struct CUDA_RESOURCE_DESC_res_mipmap mipmap;
  struct CUDA_RESOURCE_DESC_res_linear linear;
  struct CUDA_RESOURCE_DESC_res_pitch2D pitch2D;
  struct CUDA_RESOURCE_DESC_res_reserved reserved;
};
_Static_assert(sizeof(union CUDA_RESOURCE_DESC_res) == 128 && offsetof(union CUDA_RESOURCE_DESC_res, array) == 0 && offsetof(union CUDA_RESOURCE_DESC_res, mipmap) == 0 && offsetof(union CUDA_RESOURCE_DESC_res, linear) == 0 && offsetof(union CUDA_RESOURCE_DESC_res, pitch2D) == 0 && offsetof(union CUDA_RESOURCE_DESC_res, reserved) == 0, "cuda.h");

struct CUDA_RESOURCE_DESC {
  uint32_t resType;
  union CUDA_RESOURCE_DESC_res res;
  uint32_t flags;
};
_Static_assert(sizeof(struct CUDA_RESOURCE_DESC) == 144 && offsetof(struct CUDA_RESOURCE_DESC, resType) == 0 && offsetof(struct CUDA_RESOURCE_DESC, res) == 8 && offsetof(struct CUDA_RESOURCE_DESC, flags) == 136, "cuda.h");

struct CUctxCreateParams {
  uint64_t execAffinityParams;
  int32_t numExecAffinityParams;
  uint64_t cigParams;
};
_Static_assert(sizeof(struct CUctxCreateParams) == 24 && offsetof(struct CUctxCreateParams, execAffinityParams) == 0 && offsetof(struct CUctxCreateParams, numExecAffinityParams) == 8 && offsetof(struct CUctxCreateParams, cigParams) == 16, "cuda.h");

struct CUgraphEdgeData {
  uint8_t from_port;
  uint8_t to_port;
  uint8_t type;
  uint8_t reserved[5];
};
_Static_assert(sizeof(struct CUgraphEdgeData) == 8 && offsetof(struct CUgraphEdgeData, from_port) == 0 && offsetof(struct CUgraphEdgeData, to_port) == 1 && offsetof(struct CUgraphEdgeData, type) == 2 && offsetof(struct CUgraphEdgeData, reserved) == 3, "cuda.h");

struct CUDA_KERNEL_NODE_PARAMS_v3 {
  uint64_t func;
  uint32_t gridDimX;
  uint32_t gridDimY;
  uint32_t gridDimZ;
  uint32_t blockDimX;
  uint32_t blockDimY;
  uint32_t blockDimZ;
  uint32_t sharedMemBytes;
  uint64_t kernelParams;
  uint64_t extra;
  uint64_t kern;
  uint64_t ctx;
};
_Static_assert(sizeof(struct CUDA_KERNEL_NODE_PARAMS_v3) == 72 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, func) == 0 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, gridDimX) == 8 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, gridDimY) == 12 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, gridDimZ) == 16 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, blockDimX) == 20 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, blockDimY) == 24 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, blockDimZ) == 28 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, sharedMemBytes) == 32 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, kernelParams) == 40 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, extra) == 48 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, kern) == 56 && offsetof(struct CUDA_KERNEL_NODE_PARAMS_v3, ctx) == 64, "cuda.h");

union CUDA_HOST_NODE_PARAMS_v2_3 {
  uint64_t ctx;
  uint64_t gCtx;
};
_Static_assert(sizeof(union CUDA_HOST_NODE_PARAMS_v2_3) == 8 && offsetof(union CUDA_HOST_NODE_PARAMS_v2_3, ctx) == 0 && offsetof(union CUDA_HOST_NODE_PARAMS_v2_3, gCtx) == 0, "cuda.h");

struct CUDA_HOST_NODE_PARAMS_v2 {
  uint64_t fn;
  uint64_t userData;
  uint32_t syncMode;
  union { uint64_t ctx;
  uint64_t gCtx; } ;
};
_Static_assert(sizeof(struct CUDA_HOST_NODE_PARAMS_v2) == 32 && offsetof(struct CUDA_HOST_NODE_PARAMS_v2, fn) == 0 && offsetof(struct CUDA_HOST_NODE_PARAMS_v2, userData) == 8 && offsetof(struct CUDA_HOST_NODE_PARAMS_v2, syncMode) == 16, "cuda.h");

struct CUDA_CHILD_GRAPH_NODE_PARAMS {
  uint64_t graph;
  uint32_t ownership;
};
_Static_assert(sizeof(struct CUDA_CHILD_GRAPH_NODE_PARAMS) == 16 && offsetof(struct CUDA_CHILD_GRAPH_NODE_PARAMS, graph) == 0 && offsetof(struct CUDA_CHILD_GRAPH_NODE_PARAMS, ownership) == 8, "cuda.h");

struct CUDA_EVENT_WAIT_NODE_PARAMS {
  uint64_t event;
};
_Static_assert(sizeof(struct CUDA_EVENT_WAIT_NODE_PARAMS) == 8 && offsetof(struct CUDA_EVENT_WAIT_NODE_PARAMS, event) == 0, "cuda.h");

union CUDA_EVENT_RECORD_NODE_PARAMS_1 {
  uint64_t ctx;
  uint64_t gCtx;
};
_Static_assert(sizeof(union CUDA_EVENT_RECORD_NODE_PARAMS_1) == 8 && offsetof(union CUDA_EVENT_RECORD_NODE_PARAMS_1, ctx) == 0 && offsetof(union CUDA_EVENT_RECORD_NODE_PARAMS_1, gCtx) == 0, "cuda.h");

struct CUDA_EVENT_RECORD_NODE_PARAMS {
  uint64_t event;
  union { uint64_t ctx;
  uint64_t gCtx; } ;
};
_Static_assert(sizeof(struct CUDA_EVENT_RECORD_NODE_PARAMS) == 16 && offsetof(struct CUDA_EVENT_RECORD_NODE_PARAMS, event) == 0, "cuda.h");

union CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2_3 {
  uint64_t ctx;
  uint64_t gCtx;
};
_Static_assert(sizeof(union CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2_3) == 8 && offsetof(union CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2_3, ctx) == 0 && offsetof(union CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2_3, gCtx) == 0, "cuda.h");

struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 {
  uint64_t extSemArray;
  uint64_t paramsArray;
  uint32_t numExtSems;
  union { uint64_t ctx;
  uint64_t gCtx; } ;
};
_Static_assert(sizeof(struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2) == 32 && offsetof(struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2, extSemArray) == 0 && offsetof(struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2, paramsArray) == 8 && offsetof(struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2, numExtSems) == 16, "cuda.h");

union CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2_3 {
  uint64_t ctx;
  uint64_t gCtx;
};
_Static_assert(sizeof(union CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2_3) == 8 && offsetof(union CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2_3, ctx) == 0 && offsetof(union CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2_3, gCtx) == 0, "cuda.h");

struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 {
  uint64_t extSemArray;
  uint64_t paramsArray;
  uint32_t numExtSems;
  union { uint64_t ctx;
  uint64_t gCtx; } ;
};
_Static_assert(sizeof(struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2) == 32 && offsetof(struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2, extSemArray) == 0 && offsetof(struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2, paramsArray) == 8 && offsetof(struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2, numExtSems) == 16, "cuda.h");

struct CUDA_MEM_ALLOC_NODE_PARAMS_v2 {
  struct CUmemPoolProps poolProps;
  uint64_t accessDescs;
  uint64_t accessDescCount;
  uint64_t bytesize;
  uint64_t dptr;
};
_Static_assert(sizeof(struct CUDA_MEM_ALLOC_NODE_PARAMS_v2) == 120 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS_v2, poolProps) == 0 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS_v2, accessDescs) == 88 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS_v2, accessDescCount) == 96 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS_v2, bytesize) == 104 && offsetof(struct CUDA_MEM_ALLOC_NODE_PARAMS_v2, dptr) == 112, "cuda.h");

struct CUDA_MEM_FREE_NODE_PARAMS {
  uint64_t dptr;
};
_Static_assert(sizeof(struct CUDA_MEM_FREE_NODE_PARAMS) == 8 && offsetof(struct CUDA_MEM_FREE_NODE_PARAMS, dptr) == 0, "cuda.h");

struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 {
  uint64_t ctx;
  uint32_t count;
  uint64_t paramArray;
  uint32_t flags;
};
_Static_assert(sizeof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2) == 32 && offsetof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, ctx) == 0 && offsetof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, count) == 8 && offsetof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, paramArray) == 16 && offsetof(struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2, flags) == 24, "cuda.h");

union CUDA_MEMCPY_BATCH_NODE_PARAMS_V1_7 {
  uint64_t ctx;
  uint64_t gCtx;
};
_Static_assert(sizeof(union CUDA_MEMCPY_BATCH_NODE_PARAMS_V1_7) == 8 && offsetof(union CUDA_MEMCPY_BATCH_NODE_PARAMS_V1_7, ctx) == 0 && offsetof(union CUDA_MEMCPY_BATCH_NODE_PARAMS_V1_7, gCtx) == 0, "cuda.h");

struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1 {
  uint64_t count;
  uint64_t dsts;
  uint64_t srcs;
  uint64_t sizes;
  uint64_t attrs;
  uint64_t attrsIdxs;
  uint64_t numAttrs;
  union { uint64_t ctx;
  uint64_t gCtx; } ;
};
_Static_assert(sizeof(struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1) == 64 && offsetof(struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1, count) == 0 && offsetof(struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1, dsts) == 8 && offsetof(struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1, srcs) == 16 && offsetof(struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1, sizes) == 24 && offsetof(struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1, attrs) == 32 && offsetof(struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1, attrsIdxs) == 40 && offsetof(struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1, numAttrs) == 48, "cuda.h");

union CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1_3 {
  uint64_t ctx;
  uint64_t gCtx;
};
_Static_assert(sizeof(union CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1_3) == 8 && offsetof(union CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1_3, ctx) == 0 && offsetof(union CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1_3, gCtx) == 0, "cuda.h");

struct CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1 {
  uint64_t numOps;
  uint64_t opList;
  uint64_t flags;
  union { uint64_t ctx;
  uint64_t gCtx; } ;
};
_Static_assert(sizeof(struct CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1) == 32 && offsetof(struct CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1, numOps) == 0 && offsetof(struct CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1, opList) == 8 && offsetof(struct CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1, flags) == 16, "cuda.h");

union CUgraphNodeParams_2 {
  int64_t reserved1[29];
  struct CUDA_KERNEL_NODE_PARAMS_v3 kernel;
  struct CUDA_MEMCPY_NODE_PARAMS memcpy;
  struct CUDA_MEMSET_NODE_PARAMS_v2 memset;
  struct CUDA_HOST_NODE_PARAMS_v2 host;
  struct CUDA_CHILD_GRAPH_NODE_PARAMS graph;
  struct CUDA_EVENT_WAIT_NODE_PARAMS eventWait;
  struct CUDA_EVENT_RECORD_NODE_PARAMS eventRecord;
  struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 extSemSignal;
  struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 extSemWait;
  struct CUDA_MEM_ALLOC_NODE_PARAMS_v2 alloc;
  struct CUDA_MEM_FREE_NODE_PARAMS free;
  struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 memOp;
  struct CUDA_CONDITIONAL_NODE_PARAMS conditional;
  struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1 memcpyBatch;
  struct CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1 fabricCpyBatch;
  uint8_t asBytes[232];
};
_Static_assert(sizeof(union CUgraphNodeParams_2) == 232 && offsetof(union CUgraphNodeParams_2, reserved1) == 0 && offsetof(union CUgraphNodeParams_2, kernel) == 0 && offsetof(union CUgraphNodeParams_2, memcpy) == 0 && offsetof(union CUgraphNodeParams_2, memset) == 0 && offsetof(union CUgraphNodeParams_2, host) == 0 && offsetof(union CUgraphNodeParams_2, graph) == 0 && offsetof(union CUgraphNodeParams_2, eventWait) == 0 && offsetof(union CUgraphNodeParams_2, eventRecord) == 0 && offsetof(union CUgraphNodeParams_2, extSemSignal) == 0 && offsetof(union CUgraphNodeParams_2, extSemWait) == 0 && offsetof(union CUgraphNodeParams_2, alloc) == 0 && offsetof(union CUgraphNodeParams_2, free) == 0 && offsetof(union CUgraphNodeParams_2, memOp) == 0 && offsetof(union CUgraphNodeParams_2, conditional) == 0 && offsetof(union CUgraphNodeParams_2, memcpyBatch) == 0 && offsetof(union CUgraphNodeParams_2, fabricCpyBatch) == 0 && offsetof(union CUgraphNodeParams_2, asBytes) == 0, "cuda.h");

struct CUgraphNodeParams {
  uint32_t type;
  int32_t reserved0[3];
  union { int64_t reserved1[29];
  struct CUDA_KERNEL_NODE_PARAMS_v3 kernel;
  struct CUDA_MEMCPY_NODE_PARAMS memcpy;
  struct CUDA_MEMSET_NODE_PARAMS_v2 memset;
  struct CUDA_HOST_NODE_PARAMS_v2 host;
  struct CUDA_CHILD_GRAPH_NODE_PARAMS graph;
  struct CUDA_EVENT_WAIT_NODE_PARAMS eventWait;
  struct CUDA_EVENT_RECORD_NODE_PARAMS eventRecord;
  struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 extSemSignal;
  struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 extSemWait;
  struct CUDA_MEM_ALLOC_NODE_PARAMS_v2 alloc;
  struct CUDA_MEM_FREE_NODE_PARAMS free;
  struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 memOp;
  struct CUDA_CONDITIONAL_NODE_PARAMS conditional;
  struct CUDA_MEMCPY_BATCH_NODE_PARAMS_V1 memcpyBatch;
  struct CUDA_FABRIC_CPY_BATCH_NODE_PARAMS_V1 fabricCpyBatch;
  uint8_t asBytes[232]; } ;
  int64_t reserved2;
};
_Static_assert(sizeof(struct CUgraphNodeParams) == 256 && offsetof(struct CUgraphNodeParams, type) == 0 && offsetof(struct CUgraphNodeParams, reserved0) == 4 && offsetof(struct CUgraphNodeParams, reserved2) == 248, "cuda.h");

struct CUaccessPolicyWindow {
  uint64_t base_ptr;
  uint64_t num_bytes;
  float hitRatio;
  uint32_t hitProp;
  uint32_t missProp;
};
_Static_assert(sizeof(struct CUaccessPolicyWindow) == 32 && offsetof(struct CUaccessPolicyWindow, base_ptr) == 0 && offsetof(struct CUaccessPolicyWindow, num_bytes) == 8 && offsetof(struct CUaccessPolicyWindow, hitRatio) == 16 && offsetof(struct CUaccessPolicyWindow, hitProp) == 20 && offsetof(struct CUaccessPolicyWindow, missProp) == 24, "cuda.h");

struct CUlaunchAttributeValue_clusterDim {
  uint32_t x;
  uint32_t y;
  uint32_t z;
};
_Static_assert(sizeof(struct CUlaunchAttributeValue_clusterDim) == 12 && offsetof(struct CUlaunchAttributeValue_clusterDim, x) == 0 && offsetof(struct CUlaunchAttributeValue_clusterDim, y) == 4 && offsetof(struct CUlaunchAttributeValue_clusterDim, z) == 8, "cuda.h");

struct CUlaunchAttributeValue_programmaticEvent {
  uint64_t event;
  int32_t flags;
  int32_t triggerAtBlockStart;
};
_Static_assert(sizeof(struct CUlaunchAttributeValue_programmaticEvent) == 16 && offsetof(struct CUlaunchAttributeValue_programmaticEvent, event) == 0 && offsetof(struct CUlaunchAttributeValue_programmaticEvent, flags) == 8 && offsetof(struct CUlaunchAttributeValue_programmaticEvent, triggerAtBlockStart) == 12, "cuda.h");

struct CUlaunchAttributeValue_launchCompletionEvent {
  uint64_t event;
  int32_t flags;
};
_Static_assert(sizeof(struct CUlaunchAttributeValue_launchCompletionEvent) == 16 && offsetof(struct CUlaunchAttributeValue_launchCompletionEvent, event) == 0 && offsetof(struct CUlaunchAttributeValue_launchCompletionEvent, flags) == 8, "cuda.h");

struct CUlaunchMemSyncDomainMap {
  uint8_t default_;
  uint8_t remote;
};
_Static_assert(sizeof(struct CUlaunchMemSyncDomainMap) == 2 && offsetof(struct CUlaunchMemSyncDomainMap, default_) == 0 && offsetof(struct CUlaunchMemSyncDomainMap, remote) == 1, "cuda.h");

struct CUlaunchAttributeValue_preferredClusterDim {
  uint32_t x;
  uint32_t y;
  uint32_t z;
};
_Static_assert(sizeof(struct CUlaunchAttributeValue_preferredClusterDim) == 12 && offsetof(struct CUlaunchAttributeValue_preferredClusterDim, x) == 0 && offsetof(struct CUlaunchAttributeValue_preferredClusterDim, y) == 4 && offsetof(struct CUlaunchAttributeValue_preferredClusterDim, z) == 8, "cuda.h");

struct CUlaunchAttributeValue_deviceUpdatableKernelNode {
  int32_t deviceUpdatable;
  uint64_t devNode;
};
_Static_assert(sizeof(struct CUlaunchAttributeValue_deviceUpdatableKernelNode) == 16 && offsetof(struct CUlaunchAttributeValue_deviceUpdatableKernelNode, deviceUpdatable) == 0 && offsetof(struct CUlaunchAttributeValue_deviceUpdatableKernelNode, devNode) == 8, "cuda.h");

union CUlaunchAttributeValue {
  uint8_t pad[64];
  struct CUaccessPolicyWindow accessPolicyWindow;
  int32_t cooperative;
  uint32_t syncPolicy;
  struct CUlaunchAttributeValue_clusterDim clusterDim;
  uint32_t clusterSchedulingPolicyPreference;
  int32_t programmaticStreamSerializationAllowed;
  struct CUlaunchAttributeValue_programmaticEvent programmaticEvent;
  struct CUlaunchAttributeValue_launchCompletionEvent launchCompletionEvent;
  int32_t priority;
  struct CUlaunchMemSyncDomainMap memSyncDomainMap;
  uint32_t memSyncDomain;
  struct CUlaunchAttributeValue_preferredClusterDim preferredClusterDim;
  struct CUlaunchAttributeValue_deviceUpdatableKernelNode deviceUpdatableKernelNode;
  uint32_t sharedMemCarveout;
  uint32_t nvlinkUtilCentricScheduling;
  uint32_t portableClusterSizeMode;
  uint32_t sharedMemoryMode;
};
_Static_assert(sizeof(union CUlaunchAttributeValue) == 64 && offsetof(union CUlaunchAttributeValue, pad) == 0 && offsetof(union CUlaunchAttributeValue, accessPolicyWindow) == 0 && offsetof(union CUlaunchAttributeValue, cooperative) == 0 && offsetof(union CUlaunchAttributeValue, syncPolicy) == 0 && offsetof(union CUlaunchAttributeValue, clusterDim) == 0 && offsetof(union CUlaunchAttributeValue, clusterSchedulingPolicyPreference) == 0 && offsetof(union CUlaunchAttributeValue, programmaticStreamSerializationAllowed) == 0 && offsetof(union CUlaunchAttributeValue, programmaticEvent) == 0 && offsetof(union CUlaunchAttributeValue, launchCompletionEvent) == 0 && offsetof(union CUlaunchAttributeValue, priority) == 0 && offsetof(union CUlaunchAttributeValue, memSyncDomainMap) == 0 && offsetof(union CUlaunchAttributeValue, memSyncDomain) == 0 && offsetof(union CUlaunchAttributeValue, preferredClusterDim) == 0 && offsetof(union CUlaunchAttributeValue, deviceUpdatableKernelNode) == 0 && offsetof(union CUlaunchAttributeValue, sharedMemCarveout) == 0 && offsetof(union CUlaunchAttributeValue, nvlinkUtilCentricScheduling) == 0 && offsetof(union CUlaunchAttributeValue, portableClusterSizeMode) == 0 && offsetof(union CUlaunchAttributeValue, sharedMemoryMode) == 0, "cuda.h");

struct CUlaunchAttribute {
  uint32_t id;
  uint8_t pad[4];
  union CUlaunchAttributeValue value;
};
_Static_assert(sizeof(struct CUlaunchAttribute) == 72 && offsetof(struct CUlaunchAttribute, id) == 0 && offsetof(struct CUlaunchAttribute, pad) == 4 && offsetof(struct CUlaunchAttribute, value) == 8, "cuda.h");

struct CUlaunchConfig {
  uint32_t gridDimX;
  uint32_t gridDimY;
  uint32_t gridDimZ;
  uint32_t blockDimX;
  uint32_t blockDimY;
  uint32_t blockDimZ;
  uint32_t sharedMemBytes;
  uint64_t hStream;
  uint64_t attrs;
  uint32_t numAttrs;
};
_Static_assert(sizeof(struct CUlaunchConfig) == 56 && offsetof(struct CUlaunchConfig, gridDimX) == 0 && offsetof(struct CUlaunchConfig, gridDimY) == 4 && offsetof(struct CUlaunchConfig, gridDimZ) == 8 && offsetof(struct CUlaunchConfig, blockDimX) == 12 && offsetof(struct CUlaunchConfig, blockDimY) == 16 && offsetof(struct CUlaunchConfig, blockDimZ) == 20 && offsetof(struct CUlaunchConfig, sharedMemBytes) == 24 && offsetof(struct CUlaunchConfig, hStream) == 32 && offsetof(struct CUlaunchConfig, attrs) == 40 && offsetof(struct CUlaunchConfig, numAttrs) == 48, "cuda.h");

struct CUmemAccessDesc {
  struct CUmemLocation location;
  uint32_t flags;
};
_Static_assert(sizeof(struct CUmemAccessDesc) == 12 && offsetof(struct CUmemAccessDesc, location) == 0 && offsetof(struct CUmemAccessDesc, flags) == 8, "cuda.h");

struct CUmemAllocationProp_allocFlags {
  uint8_t compressionType;
  uint8_t gpuDirectRDMACapable;
  uint16_t usage;
  uint8_t reserved[4];
};
_Static_assert(sizeof(struct CUmemAllocationProp_allocFlags) == 8 && offsetof(struct CUmemAllocationProp_allocFlags, compressionType) == 0 && offsetof(struct CUmemAllocationProp_allocFlags, gpuDirectRDMACapable) == 1 && offsetof(struct CUmemAllocationProp_allocFlags, usage) == 2 && offsetof(struct CUmemAllocationProp_allocFlags, reserved) == 4, "cuda.h");

struct CUmemAllocationProp {
  uint32_t type;
  uint32_t requestedHandleTypes;
  struct CUmemLocation location;
  uint64_t win32HandleMetaData;
  struct CUmemAllocationProp_allocFlags allocFlags;
};
_Static_assert(sizeof(struct CUmemAllocationProp) == 32 && offsetof(struct CUmemAllocationProp, type) == 0 && offsetof(struct CUmemAllocationProp, requestedHandleTypes) == 4 && offsetof(struct CUmemAllocationProp, location) == 8 && offsetof(struct CUmemAllocationProp, win32HandleMetaData) == 16 && offsetof(struct CUmemAllocationProp, allocFlags) == 24, "cuda.h");

struct CUmemcpyAttributes {
  uint32_t srcAccessOrder;
  struct CUmemLocation srcLocHint;
  struct CUmemLocation dstLocHint;
  uint32_t flags;
};
_Static_assert(sizeof(struct CUmemcpyAttributes) == 24 && offsetof(struct CUmemcpyAttributes, srcAccessOrder) == 0 && offsetof(struct CUmemcpyAttributes, srcLocHint) == 4 && offsetof(struct CUmemcpyAttributes, dstLocHint) == 12 && offsetof(struct CUmemcpyAttributes, flags) == 20, "cuda.h");

union CUstreamBatchMemOpParams_waitValue_2 {
  uint32_t value;
  uint64_t value64;
};
_Static_assert(sizeof(union CUstreamBatchMemOpParams_waitValue_2) == 8 && offsetof(union CUstreamBatchMemOpParams_waitValue_2, value) == 0 && offsetof(union CUstreamBatchMemOpParams_waitValue_2, value64) == 0, "cuda.h");

struct CUstreamBatchMemOpParams_waitValue {
  uint32_t operation;
  uint64_t address;
  union { uint32_t value;
  uint64_t value64; } ;
  uint32_t flags;
  uint64_t alias;
};
_Static_assert(sizeof(struct CUstreamBatchMemOpParams_waitValue) == 40 && offsetof(struct CUstreamBatchMemOpParams_waitValue, operation) == 0 && offsetof(struct CUstreamBatchMemOpParams_waitValue, address) == 8 && offsetof(struct CUstreamBatchMemOpParams_waitValue, flags) == 24 && offsetof(struct CUstreamBatchMemOpParams_waitValue, alias) == 32, "cuda.h");

union CUstreamBatchMemOpParams_writeValue_2 {
  uint32_t value;
  uint64_t value64;
};
_Static_assert(sizeof(union CUstreamBatchMemOpParams_writeValue_2) == 8 && offsetof(union CUstreamBatchMemOpParams_writeValue_2, value) == 0 && offsetof(union CUstreamBatchMemOpParams_writeValue_2, value64) == 0, "cuda.h");

struct CUstreamBatchMemOpParams_writeValue {
  uint32_t operation;
  uint64_t address;
  union { uint32_t value;
  uint64_t value64; } ;
  uint32_t flags;
  uint64_t alias;
};
_Static_assert(sizeof(struct CUstreamBatchMemOpParams_writeValue) == 40 && offsetof(struct CUstreamBatchMemOpParams_writeValue, operation) == 0 && offsetof(struct CUstreamBatchMemOpParams_writeValue, address) == 8 && offsetof(struct CUstreamBatchMemOpParams_writeValue, flags) == 24 && offsetof(struct CUstreamBatchMemOpParams_writeValue, alias) == 32, "cuda.h");

struct CUstreamBatchMemOpParams_flushRemoteWrites {
  uint32_t operation;
  uint32_t flags;
};
_Static_assert(sizeof(struct CUstreamBatchMemOpParams_flushRemoteWrites) == 8 && offsetof(struct CUstreamBatchMemOpParams_flushRemoteWrites, operation) == 0 && offsetof(struct CUstreamBatchMemOpParams_flushRemoteWrites, flags) == 4, "cuda.h");

struct CUstreamBatchMemOpParams_memoryBarrier {
  uint32_t operation;
  uint32_t flags;
};
_Static_assert(sizeof(struct CUstreamBatchMemOpParams_memoryBarrier) == 8 && offsetof(struct CUstreamBatchMemOpParams_memoryBarrier, operation) == 0 && offsetof(struct CUstreamBatchMemOpParams_memoryBarrier, flags) == 4, "cuda.h");

struct CUstreamBatchMemOpParams_atomicReduction {
  uint32_t operation;
  uint32_t flags;
  uint32_t reductionOp;
  uint32_t dataType;
  uint64_t address;
  uint64_t value;
  uint64_t alias;
};
_Static_assert(sizeof(struct CUstreamBatchMemOpParams_atomicReduction) == 40 && offsetof(struct CUstreamBatchMemOpParams_atomicReduction, operation) == 0 && offsetof(struct CUstreamBatchMemOpParams_atomicReduction, flags) == 4 && offsetof(struct CUstreamBatchMemOpParams_atomicReduction, reductionOp) == 8 && offsetof(struct CUstreamBatchMemOpParams_atomicReduction, dataType) == 12 && offsetof(struct CUstreamBatchMemOpParams_atomicReduction, address) == 16 && offsetof(struct CUstreamBatchMemOpParams_atomicReduction, value) == 24 && offsetof(struct CUstreamBatchMemOpParams_atomicReduction, alias) == 32, "cuda.h");

union CUstreamBatchMemOpParams {
  uint32_t operation;
  struct CUstreamBatchMemOpParams_waitValue waitValue;
  struct CUstreamBatchMemOpParams_writeValue writeValue;
  struct CUstreamBatchMemOpParams_flushRemoteWrites flushRemoteWrites;
  struct CUstreamBatchMemOpParams_memoryBarrier memoryBarrier;
  struct CUstreamBatchMemOpParams_atomicReduction atomicReduction;
  uint64_t pad[6];
};
_Static_assert(sizeof(union CUstreamBatchMemOpParams) == 48 && offsetof(union CUstreamBatchMemOpParams, operation) == 0 && offsetof(union CUstreamBatchMemOpParams, waitValue) == 0 && offsetof(union CUstreamBatchMemOpParams, writeValue) == 0 && offsetof(union CUstreamBatchMemOpParams, flushRemoteWrites) == 0 && offsetof(union CUstreamBatchMemOpParams, memoryBarrier) == 0 && offsetof(union CUstreamBatchMemOpParams, atomicReduction) == 0 && offsetof(union CUstreamBatchMemOpParams, pad) == 0, "cuda.h");

struct CUtensorMap {
  uint64_t opaque[16];
};
_Static_assert(sizeof(struct CUtensorMap) == 128 && offsetof(struct CUtensorMap, opaque) == 0, "cuda.h");
