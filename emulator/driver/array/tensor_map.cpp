// cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2colWide and cuTensorMapReplaceAddress:
// what they document is checked, then written down.
#include "exec/interface/tensor_map.hpp"
#include "entry/entry.hpp"

#include <cstring>

using namespace emulator::driver;
using emulator::TensorMap;

namespace {

constexpr bool is_packed(CUtensorMapDataType type) { return type >= CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B; }
constexpr bool is_float(CUtensorMapDataType type) {
  return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

// Bytes of an element; half a byte is told apart by is_packed.
constexpr uint64_t element_bytes(CUtensorMapDataType type) {
  switch (type) {
  case CU_TENSOR_MAP_DATA_TYPE_UINT8:
    return 1;
  case CU_TENSOR_MAP_DATA_TYPE_UINT16:
  case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
  case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
    return 2;
  case CU_TENSOR_MAP_DATA_TYPE_UINT64:
  case CU_TENSOR_MAP_DATA_TYPE_INT64:
  case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
    return 8;
  default:
    return 4;
  }
}

void require_value(bool holds) { require(holds, CUDA_ERROR_INVALID_VALUE); }

uint64_t address_alignment(CUtensorMapDataType type, CUtensorMapInterleave interleave) {
  bool wide = type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B || type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
  return wide || interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
}

void require_supported() { require(settings().compute_capability.sm() >= 90, CUDA_ERROR_NOT_SUPPORTED); }

// What both ways of encoding ask of a tensor. `inner`: elements of a row of the box.
TensorMap describe(CUtensorMap *tensorMap, CUtensorMapDataType type, cuuint32_t rank, void *globalAddress,
                   const cuuint64_t *globalDim, const cuuint64_t *globalStrides, uint64_t inner,
                   const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
                   CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                   CUtensorMapFloatOOBfill oobFill) {
  auto address = reinterpret_cast<uint64_t>(globalAddress);
  bool wide = type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B || type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
  bool plain = interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
  require_value(reinterpret_cast<uint64_t>(tensorMap) % 64 == 0);
  require_value(static_cast<unsigned>(type) <= CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B &&
                static_cast<unsigned>(interleave) <= CU_TENSOR_MAP_INTERLEAVE_32B &&
                static_cast<unsigned>(swizzle) <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
                static_cast<unsigned>(l2Promotion) <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
                static_cast<unsigned>(oobFill) <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
  require_value(rank >= (plain ? 1u : 3u) && rank <= 5);
  uint64_t alignment = address_alignment(type, interleave);
  require_value(address != 0 && address % alignment == 0);
  require_value(inner >= 1 && inner <= 256);
  TensorMap map;
  for (unsigned d = 0; d < rank; ++d) {
    require_value(globalDim[d] >= 1 && globalDim[d] <= uint64_t{1} << 32);
    require_value(elementStrides[d] >= 1 && elementStrides[d] <= 8);
    map.last_index[d] = static_cast<uint32_t>(globalDim[d] - 1);
    map.element_stride[d] = static_cast<uint8_t>(elementStrides[d]);
    if (d > 0) {
      require_value(globalStrides[d - 1] % alignment == 0 && globalStrides[d - 1] < uint64_t{1} << 40);
      map.stride[d - 1] = globalStrides[d - 1];
    }
  }
  require_value(!wide || (globalDim[0] % 128 == 0 && inner == 128));
  require_value(type != CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B || globalDim[0] % 2 == 0);
  uint64_t inner_bytes = is_packed(type) ? (type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B ? inner / 2 : inner)
                                         : inner * element_bytes(type);
  if (plain) {
    require_value(inner_bytes % 16 == 0);
    require_value(swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ||
                  inner_bytes <= (swizzle == CU_TENSOR_MAP_SWIZZLE_32B   ? 32u
                                  : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64u
                                                                         : 128u));
  }
  require_value(interleave != CU_TENSOR_MAP_INTERLEAVE_32B || swizzle == CU_TENSOR_MAP_SWIZZLE_32B);
  if (type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B)
    require_value(plain);
  if (wide)
    require_value(
        swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || swizzle == CU_TENSOR_MAP_SWIZZLE_128B ||
        swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B ||
        (swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B && type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B));
  require_value(oobFill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || is_float(type));
  map.address = address;
  map.box[0] = static_cast<uint16_t>(inner);
  map.type = static_cast<uint8_t>(type);
  map.rank = static_cast<uint8_t>(rank);
  map.interleave = static_cast<uint8_t>(interleave);
  map.swizzle = static_cast<uint8_t>(swizzle);
  map.promotion = static_cast<uint8_t>(l2Promotion);
  map.fill = static_cast<uint8_t>(oobFill);
  return map;
}

void write(CUtensorMap *to, const TensorMap &map) {
  static_assert(sizeof(CUtensorMap) == sizeof map);
  std::memcpy(to, &map, sizeof map);
}

} // namespace

CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                        cuuint32_t tensorRank, void *globalAddress,
                                        const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                        const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
                                        CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill) {
  return enter("cuTensorMapEncodeTiled", Needs::initialised, [&](Call &) {
    require_value(tensorMap && globalDim && boxDim && elementStrides && (globalStrides || tensorRank == 1));
    require_supported();
    TensorMap map = describe(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                             boxDim[0], elementStrides, interleave, swizzle, l2Promotion, oobFill);
    for (unsigned d = 0; d < tensorRank; ++d) {
      require_value(boxDim[d] >= 1 && boxDim[d] <= 256);
      map.box[d] = static_cast<uint16_t>(boxDim[d]);
    }
    map.magic = TensorMap::tiled;
    write(tensorMap, map);
  });
}

// Corners are those of W, H and D in turn, the order of the dimensions (not yet seen on a GPU (GT-IM2COL):
// the header lists them the other way round).
CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                         cuuint32_t tensorRank, void *globalAddress,
                                         const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                         const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,
                                         cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
                                         const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
                                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                         CUtensorMapFloatOOBfill oobFill) {
  return enter("cuTensorMapEncodeIm2col", Needs::initialised, [&](Call &) {
    require_value(tensorMap && globalDim && globalStrides && pixelBoxLowerCorner && pixelBoxUpperCorner &&
                  elementStrides);
    require_supported();
    require_value(tensorRank >= 3 && tensorRank <= 5);
    TensorMap map = describe(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                             channelsPerPixel, elementStrides, interleave, swizzle, l2Promotion, oobFill);
    require_value(pixelsPerColumn >= 1 && pixelsPerColumn <= 1024);
    map.box[1] = static_cast<uint16_t>(pixelsPerColumn);
    const int limit = tensorRank == 3 ? 32768 : tensorRank == 4 ? 128 : 16;
    for (unsigned d = 0; d + 2 < tensorRank; ++d) {
      int lower = pixelBoxLowerCorner[d], upper = pixelBoxUpperCorner[d];
      require_value(lower >= -limit && lower < limit && upper >= -limit && upper < limit);
      // Interleaved, the tensor begins with a spatial dimension: its channels are in slices.
      unsigned spatial = interleave == CU_TENSOR_MAP_INTERLEAVE_NONE ? d + 1 : d;
      require_value(static_cast<int64_t>(globalDim[spatial]) + upper > lower);
      map.lower[d] = static_cast<int16_t>(lower);
      map.upper[d] = static_cast<int16_t>(upper);
    }
    map.magic = TensorMap::im2col;
    write(tensorMap, map);
  });
}

#if CUDA_VERSION >= 12080
CUresult CUDAAPI cuTensorMapEncodeIm2colWide(
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void *globalAddress,
    const cuuint64_t *globalDim, const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth,
    int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
    const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill) {
  return enter("cuTensorMapEncodeIm2colWide", Needs::initialised, [&](Call &) {
    require_value(tensorMap && globalDim && globalStrides && elementStrides);
    require(settings().compute_capability.sm() >= 100, CUDA_ERROR_NOT_SUPPORTED);
    require_value(tensorRank >= 3 && tensorRank <= 5 && static_cast<unsigned>(mode) <= 1);
    // PTX ISA: these modes have no interleaving, and need a swizzle.
    require_value(interleave == CU_TENSOR_MAP_INTERLEAVE_NONE);
    require_value(swizzle == CU_TENSOR_MAP_SWIZZLE_64B || swizzle == CU_TENSOR_MAP_SWIZZLE_128B ||
                  swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B);
    TensorMap map = describe(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                             channelsPerPixel, elementStrides, interleave, swizzle, l2Promotion, oobFill);
    bool fixed = mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;
    require_value(fixed || (pixelsPerColumn >= 1 && pixelsPerColumn <= 1024));
    map.box[1] = static_cast<uint16_t>(fixed ? 128 : pixelsPerColumn);
    constexpr int limit = 32768;
    int lower = pixelBoxLowerCornerWidth, upper = pixelBoxUpperCornerWidth;
    require_value(lower >= -limit && lower < limit && upper >= -limit && upper < limit);
    require_value(static_cast<int64_t>(globalDim[1]) + upper > lower);
    map.lower[0] = static_cast<int16_t>(lower);
    map.upper[0] = static_cast<int16_t>(upper);
    map.wide = fixed ? TensorMap::wide_128 : 0;
    map.magic = TensorMap::im2col_wide;
    write(tensorMap, map);
  });
}
#endif

CUresult CUDAAPI cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress) {
  return enter("cuTensorMapReplaceAddress", Needs::initialised, [&](Call &) {
    require_value(tensorMap != nullptr && reinterpret_cast<uint64_t>(tensorMap) % 64 == 0);
    require_supported();
    TensorMap map;
    std::memcpy(static_cast<void *>(&map), tensorMap, sizeof map);
    auto address = reinterpret_cast<uint64_t>(globalAddress);
    require_value((map.magic == TensorMap::tiled || map.magic == TensorMap::im2col ||
                   map.magic == TensorMap::im2col_wide) &&
                  address != 0 &&
                  address % address_alignment(static_cast<CUtensorMapDataType>(map.type),
                                              static_cast<CUtensorMapInterleave>(map.interleave)) ==
                      0);
    map.address = address;
    write(tensorMap, map);
  });
}
