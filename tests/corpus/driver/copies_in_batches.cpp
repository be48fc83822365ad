// covers: Copies in batches: flat and boxes, from pageable, pinned and device memory, copies with attributes,
// copies between contexts in three dimensions.
#include "check.hpp"

int main() {
  Primary primary;
  CUfunction kernel = function(load(AXPB), "axpb");
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const size_t count = 1200, bytes = count * 4;
  auto pageable = counting(count, 5);
  uint32_t *pinned = nullptr;
  CHECK(cuMemAllocHost(reinterpret_cast<void **>(&pinned), bytes));
  for (size_t i = 0; i < count; i++)
    pinned[i] = uint32_t(3 * i);
  Words device(counting(count, 9)), one(count), two(count), three(count), boxes(count), shaped(count);

#if CUDA_VERSION >= 13000
  CUmemcpyAttributes attributes = {};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  CUdeviceptr destinations[] = {one.address, two.address, three.address};
  CUdeviceptr sources[] = {reinterpret_cast<CUdeviceptr>(pageable.data()),
                           reinterpret_cast<CUdeviceptr>(pinned), device.address};
  size_t sizes[] = {bytes, bytes - 400, bytes}, first = 0;
  CHECK(cuMemsetD32Async(two.address, 77, count, stream));
  CHECK(cuMemcpyBatchAsync(destinations, sources, sizes, 3, &attributes, &first, 1, stream));

  // Two boxes of 20 rows: out of the middle of an image in pageable memory, and from device memory.
  CUDA_MEMCPY3D_BATCH_OP operations[2] = {};
  for (int n = 0; n < 2; n++) {
    auto &operation = operations[n];
    operation.src.type = operation.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    operation.src.op.ptr.ptr = n == 0 ? reinterpret_cast<CUdeviceptr>(pageable.data() + 3) : device.address;
    operation.src.op.ptr.rowLength = 120;
    operation.dst.op.ptr.ptr = boxes.address + n * 2000;
    operation.extent = {100, 20, 1};
    operation.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  operations[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  CHECK(cuMemcpy3DBatchAsync(2, operations, 0, stream));
  CHECK(cuStreamSynchronize(stream));

  auto expected = pageable;
  equal("pageable", words(one.address, count), expected);
  std::vector<uint32_t> mixed(pinned, pinned + count);
  std::fill(mixed.end() - 100, mixed.end(), 77u);
  equal("pinned", words(two.address, count), mixed);
  equal("device", words(three.address, count), counting(count, 9));
  auto box = words(boxes.address, 1000);
  for (uint32_t i = 0; i < 500; i++) {
    REQUIRE(box[i] == pageable[3 + i / 25 * 30 + i % 25]);
    REQUIRE(box[500 + i] == 9 + i / 25 * 30 + i % 25);
  }
#endif
#if CUDA_VERSION >= 13020
  CUmemcpyAttributes single = {};
  single.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CHECK(cuMemcpyWithAttributesAsync(one.address, three.address, bytes, &single, stream));
  CHECK(cuMemcpy3DWithAttributesAsync(&operations[1], 0, stream));
#endif

  CUcontext context = primary.context;
  CUDA_MEMCPY3D_PEER peer = {};
  peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  peer.srcContext = peer.dstContext = context;
  peer.srcDevice = device.address;
  peer.srcPitch = 120;
  peer.dstDevice = shaped.address;
  peer.dstPitch = 100;
  peer.srcHeight = peer.dstHeight = 10;
  peer.WidthInBytes = 100;
  peer.Height = 10;
  peer.Depth = 2;
  CHECK(cuMemcpy3DPeerAsync(&peer, stream));
  CHECK(launch(kernel, 4, 128, stream, shaped.address, uint32_t(2), uint32_t(1), uint32_t(500)));
  CHECK(cuStreamSynchronize(stream));
  auto result = words(shaped.address, 500);
  for (uint32_t i = 0; i < 500; i++)
    REQUIRE(result[i] == 2 * (9 + i / 25 * 30 + i % 25) + 1);
  peer.srcDevice = shaped.address;
  peer.dstDevice = three.address;
  CHECK(cuMemcpy3DPeer(&peer));
  CHECK(cuMemFreeHost(pinned));
  return ok();
}
