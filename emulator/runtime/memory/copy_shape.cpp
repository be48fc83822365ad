#include "copy_shape.hpp"

#include "array_format.hpp"
#include "core/current.hpp"
#include "core/driver.hpp"

namespace emulator::runtime {
namespace {

CUmemorytype memory_type(cudaMemcpyKind kind, bool destination) {
  switch (kind) {
  case cudaMemcpyHostToHost:
    return CU_MEMORYTYPE_HOST;
  case cudaMemcpyHostToDevice:
    return destination ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  case cudaMemcpyDeviceToHost:
    return destination ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  case cudaMemcpyDeviceToDevice:
    return CU_MEMORYTYPE_DEVICE;
  default:
    return CU_MEMORYTYPE_UNIFIED;
  }
}

// Shared by the plain and the peer form, which differ in nothing that is filled here.
template <typename Shape, typename Parameters>
void fill(Shape &shape, const Parameters &parameters, cudaMemcpyKind kind) {
  require((parameters.srcArray != nullptr) != (parameters.srcPtr.ptr != nullptr), cudaErrorInvalidValue);
  require((parameters.dstArray != nullptr) != (parameters.dstPtr.ptr != nullptr), cudaErrorInvalidValue);
  // Documented: "if a CUDA array is participating in the copy, the extent is defined in terms of that array's
  // elements", and a position in an array counts its elements, in memory it counts bytes.
  size_t extent_unit = 1;
  if (parameters.srcArray) {
    size_t unit = element_bytes(parameters.srcArray);
    extent_unit = unit;
    shape.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    shape.srcArray = array_of(parameters.srcArray);
    shape.srcXInBytes = parameters.srcPos.x * unit;
  } else {
    shape.srcMemoryType = memory_type(kind, false);
    shape.srcHost = parameters.srcPtr.ptr;
    shape.srcDevice = address_of(parameters.srcPtr.ptr);
    shape.srcPitch = parameters.srcPtr.pitch;
    shape.srcHeight = parameters.srcPtr.ysize;
    shape.srcXInBytes = parameters.srcPos.x;
  }
  if (parameters.dstArray) {
    size_t unit = element_bytes(parameters.dstArray);
    extent_unit = unit;
    shape.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    shape.dstArray = array_of(parameters.dstArray);
    shape.dstXInBytes = parameters.dstPos.x * unit;
  } else {
    shape.dstMemoryType = memory_type(kind, true);
    shape.dstHost = parameters.dstPtr.ptr;
    shape.dstDevice = address_of(parameters.dstPtr.ptr);
    shape.dstPitch = parameters.dstPtr.pitch;
    shape.dstHeight = parameters.dstPtr.ysize;
    shape.dstXInBytes = parameters.dstPos.x;
  }
  shape.srcY = parameters.srcPos.y;
  shape.srcZ = parameters.srcPos.z;
  shape.dstY = parameters.dstPos.y;
  shape.dstZ = parameters.dstPos.z;
  shape.WidthInBytes = parameters.extent.width * extent_unit;
  shape.Height = parameters.extent.height;
  shape.Depth = parameters.extent.depth;
}

} // namespace

void require_direction(cudaMemcpyKind kind) {
  require(kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
}

size_t element_bytes(cudaArray_const_t array) {
  CUDA_ARRAY3D_DESCRIPTOR description{};
  require(driver.call_cuArray3DGetDescriptor(&description, array_of(array)));
  return description.NumChannels * bytes_of(description.Format);
}

CUDA_MEMCPY2D shape_2d(const Side &destination, const Side &source, size_t width_bytes, size_t height,
                       cudaMemcpyKind kind) {
  require_direction(kind);
  CUDA_MEMCPY2D shape{};
  if (source.array) {
    shape.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    shape.srcArray = array_of(source.array);
  } else {
    require(width_bytes <= source.pitch_bytes, cudaErrorInvalidPitchValue);
    shape.srcMemoryType = memory_type(kind, false);
    shape.srcHost = source.pointer;
    shape.srcDevice = address_of(source.pointer);
    shape.srcPitch = source.pitch_bytes;
  }
  if (destination.array) {
    shape.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    shape.dstArray = array_of(destination.array);
  } else {
    require(width_bytes <= destination.pitch_bytes, cudaErrorInvalidPitchValue);
    shape.dstMemoryType = memory_type(kind, true);
    shape.dstHost = const_cast<void *>(destination.pointer);
    shape.dstDevice = address_of(destination.pointer);
    shape.dstPitch = destination.pitch_bytes;
  }
  shape.srcXInBytes = source.x_bytes;
  shape.srcY = source.y;
  shape.dstXInBytes = destination.x_bytes;
  shape.dstY = destination.y;
  shape.WidthInBytes = width_bytes;
  shape.Height = height;
  return shape;
}

CUDA_MEMCPY3D shape_3d(const cudaMemcpy3DParms *parameters) {
  require(parameters != nullptr, cudaErrorInvalidValue);
  require_direction(parameters->kind);
  CUDA_MEMCPY3D shape{};
  fill(shape, *parameters, parameters->kind);
  return shape;
}

CUDA_MEMCPY3D_PEER shape_3d(const cudaMemcpy3DPeerParms *parameters) {
  require(parameters != nullptr, cudaErrorInvalidValue);
  CUDA_MEMCPY3D_PEER shape{};
  fill(shape, *parameters, cudaMemcpyDeviceToDevice);
  shape.srcContext = primary_context(device_of(parameters->srcDevice));
  shape.dstContext = primary_context(device_of(parameters->dstDevice));
  return shape;
}

cudaMemcpy3DParms parameters_of(const CUDA_MEMCPY3D &shape) {
  cudaMemcpy3DParms parameters{};
  size_t extent_unit = 1;
  auto pointer_of = [](CUmemorytype type, const void *host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? const_cast<void *>(host) : reinterpret_cast<void *>(device);
  };
  if (shape.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    parameters.srcArray = reinterpret_cast<cudaArray_t>(shape.srcArray);
    extent_unit = element_bytes(parameters.srcArray);
    parameters.srcPos.x = shape.srcXInBytes / extent_unit;
  } else {
    parameters.srcPtr = {pointer_of(shape.srcMemoryType, shape.srcHost, shape.srcDevice), shape.srcPitch,
                         shape.srcPitch, shape.srcHeight};
    parameters.srcPos.x = shape.srcXInBytes;
  }
  if (shape.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    parameters.dstArray = reinterpret_cast<cudaArray_t>(shape.dstArray);
    extent_unit = element_bytes(parameters.dstArray);
    parameters.dstPos.x = shape.dstXInBytes / extent_unit;
  } else {
    parameters.dstPtr = {pointer_of(shape.dstMemoryType, shape.dstHost, shape.dstDevice), shape.dstPitch,
                         shape.dstPitch, shape.dstHeight};
    parameters.dstPos.x = shape.dstXInBytes;
  }
  parameters.srcPos.y = shape.srcY;
  parameters.srcPos.z = shape.srcZ;
  parameters.dstPos.y = shape.dstY;
  parameters.dstPos.z = shape.dstZ;
  parameters.extent = {shape.WidthInBytes / extent_unit, shape.Height, shape.Depth};
  bool from_host = shape.srcMemoryType == CU_MEMORYTYPE_HOST;
  bool to_host = shape.dstMemoryType == CU_MEMORYTYPE_HOST;
  if (shape.srcMemoryType == CU_MEMORYTYPE_UNIFIED || shape.dstMemoryType == CU_MEMORYTYPE_UNIFIED)
    parameters.kind = cudaMemcpyDefault;
  else if (from_host)
    parameters.kind = to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  else
    parameters.kind = to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
  return parameters;
}

} // namespace emulator::runtime
