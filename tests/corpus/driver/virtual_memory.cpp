// covers: Virtual memory: a range put together from two pieces of physical memory, one of them mapped at a
// second address that outlives the first, and memory that outlives its handle.
#include "check.hpp"

int main() {
  Primary primary;
  CUmemAllocationProp property = {};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  property.location.id = primary.device;
  size_t piece = 0;
  CHECK(cuMemGetAllocationGranularity(&piece, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  REQUIRE(piece > 0 && (piece & (piece - 1)) == 0);
  CUmemGenericAllocationHandle low, high;
  CHECK(cuMemCreate(&low, piece, &property, 0));
  CHECK(cuMemCreate(&high, piece, &property, 0));
  EXPECT(cuMemCreate(&high, piece + 1, &property, 0), CUDA_ERROR_INVALID_VALUE);

  CUdeviceptr joined, again;
  CHECK(cuMemAddressReserve(&joined, 2 * piece, 0, 0, 0));
  CHECK(cuMemAddressReserve(&again, piece, 0, 0, 0));
  CHECK(cuMemMap(joined, piece, 0, low, 0));
  CHECK(cuMemMap(joined + piece, piece, 0, high, 0));
  CUmemAccessDesc access = {property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemSetAccess(joined, 2 * piece, &access, 1));
  unsigned long long flags = 0;
  CHECK(cuMemGetAccess(&flags, &property.location, joined));
  REQUIRE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

  // 100 words on either side of the seam between the pieces.
  const uint32_t half = 100, count = 2 * half;
  CUdeviceptr seam = joined + piece, start = seam - half * 4;
  auto values = counting(count, 1);
  CHECK(cuMemcpyHtoD(start, values.data(), count * 4));
  CUmodule module = load(AXPB);
  CUfunction kernel = function(module, "axpb");
  CHECK(launch(kernel, 2, 128, nullptr, start, uint32_t(2), uint32_t(3), count));
  values = axpb(values, 2, 3);
  equal("joined", words(start, count), values);
  std::vector<uint32_t> right(values.begin() + half, values.end());
  CHECK(cuMemMap(again, piece, 0, high, 0));
  CHECK(cuMemSetAccess(again, piece, &access, 1));
  equal("at the other address", words(again, half), right);
  equal("and at the first", words(start, count), values);
  CHECK(cuMemUnmap(joined, 2 * piece));
  CHECK(launch(kernel, 1, 128, nullptr, again, uint32_t(5), uint32_t(0), half));

  CUmemGenericAllocationHandle kept;
  CHECK(cuMemRetainAllocationHandle(&kept, reinterpret_cast<void *>(again)));
  CHECK(cuMemRelease(kept));
  CHECK(cuMemRelease(high)); // the mappings keep the memory
  equal("still there", words(again, half), axpb(right, 5, 0));
  EXPECT(cuMemAddressFree(again, piece / 2), CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(again, piece));
  CHECK(cuMemAddressFree(joined, 2 * piece));
  CHECK(cuMemAddressFree(again, piece));
  CHECK(cuMemRelease(low));
  return ok();
}
