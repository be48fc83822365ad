// covers: cuStreamWriteValue and cuStreamWaitValue: one stream held until another, or the host, has written a
// value; the four comparisons, 64 bits, batches.
#include "check.hpp"

int main() {
  Primary primary;
  CUfunction kernel = function(load(AXPB), "axpb");
  CUstream first, second;
  CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  const uint32_t count = 1000;
  Words x(counting(count)), flag(4);
  CHECK(cuMemsetD32(flag.address, 0, 4));
  CUdeviceptr wide = flag.address + 8;

  // The second stream's kernel is issued first and must run last.
  CHECK(cuStreamWaitValue32(second, flag.address, 3, CU_STREAM_WAIT_VALUE_GEQ));
  CHECK(launch(kernel, 8, 128, second, x.address, uint32_t(1), uint32_t(100), count));
  EXPECT(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  CHECK(launch(kernel, 8, 128, first, x.address, uint32_t(7), uint32_t(0), count));
  CHECK(cuStreamWriteValue32(first, flag.address, 5, CU_STREAM_WRITE_VALUE_DEFAULT));
  CHECK(cuStreamSynchronize(second));
  equal("in order", words(x.address, count), axpb(axpb(counting(count), 7, 0), 1, 100));
  equal("flag", words(flag.address, 1), {5});

  CHECK(cuStreamWaitValue32(second, flag.address, 5, CU_STREAM_WAIT_VALUE_EQ));
  CHECK(cuStreamWaitValue32(second, flag.address, 4, CU_STREAM_WAIT_VALUE_AND));   // 5 & 4
  CHECK(cuStreamWaitValue32(second, flag.address, ~4u, CU_STREAM_WAIT_VALUE_NOR)); // ~(5 | ~4) has no bit...
  EXPECT(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  CHECK(cuStreamWriteValue32(first, flag.address, 1, CU_STREAM_WRITE_VALUE_DEFAULT)); // ...and now it has one
  CHECK(cuStreamSynchronize(second));

  const cuuint64_t large = cuuint64_t(1) << 40 | 9;
  CHECK(cuStreamWaitValue64(second, wide, large, CU_STREAM_WAIT_VALUE_EQ));
  CHECK(cuMemsetD32Async(x.address, 1, count, second));
  CUstreamBatchMemOpParams batch[2] = {};
  batch[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  batch[0].writeValue.address = wide;
  batch[0].writeValue.value64 = large;
  batch[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  batch[1].waitValue.address = flag.address;
  batch[1].waitValue.value = 1;
  batch[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CHECK(cuStreamBatchMemOp(first, 2, batch, 0));
  CHECK(cuStreamSynchronize(first));
  CHECK(cuStreamSynchronize(second));
  equal("x", words(x.address, count), std::vector<uint32_t>(count, 1));
  equal("wide", words(wide, 2), {9, 256});
  EXPECT(cuStreamWriteValue32(first, flag.address + 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamDestroy(first));
  CHECK(cuStreamDestroy(second));
  return ok();
}
