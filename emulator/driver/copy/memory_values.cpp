// Documented in cuda.h with CUstreamWaitValue_flags, CUstreamWriteValue_flags and cuStreamBatchMemOp.
#include "memory_values.hpp"

#include "entry/entry.hpp"
#include "entry/touched_file.hpp"
#include "exec/interface/global_shadow.hpp"
#include "memory/allocations.hpp"
#include "stream/recorder.hpp"

using namespace emulator::driver;

namespace {

constexpr size_t most_operations = 256; // of one batch; cuStreamBatchMemOp's documented limit

template <typename Value> Value load(CUdeviceptr address) {
  return __atomic_load_n(reinterpret_cast<Value *>(address), __ATOMIC_ACQUIRE);
}

// The comparisons of CUstreamWaitValue_flags, in unsigned (cyclic for GEQ) arithmetic as documented.
template <typename Value> bool satisfied(Value now, Value wanted, unsigned comparison) {
  using Signed = std::make_signed_t<Value>;
  switch (comparison) {
  case CU_STREAM_WAIT_VALUE_GEQ:
    return static_cast<Signed>(now - wanted) >= 0;
  case CU_STREAM_WAIT_VALUE_EQ:
    return now == wanted;
  case CU_STREAM_WAIT_VALUE_AND:
    return (now & wanted) != 0;
  default:
    return static_cast<Value>(~(now | wanted)) != 0; // NOR
  }
}

template <typename Value> void require_word(Context &context, CUdeviceptr address, bool write) {
  require(address % sizeof(Value) == 0, CUDA_ERROR_INVALID_VALUE);
  require_range(context, address, sizeof(Value), write);
}

template <typename Value>
std::shared_ptr<Work> wait_work(Context &context, CUdeviceptr address, Value value, unsigned flags) {
  unsigned comparison = flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
  require(comparison <= CU_STREAM_WAIT_VALUE_NOR, CUDA_ERROR_INVALID_VALUE);
  require(!(flags & CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
  require_word<Value>(context, address, false);
  append_awaited(address, sizeof(Value));
  auto work = std::make_shared<Work>();
  work->ready = [=] { return satisfied(load<Value>(address), value, comparison); };
  return work;
}

template <typename Value>
std::shared_ptr<Work> write_work(Context &context, CUdeviceptr address, Value value, unsigned flags) {
  // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER: "not supported in the v2 API".
  require(flags <= CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER, CUDA_ERROR_INVALID_VALUE);
  require(flags == CU_STREAM_WRITE_VALUE_DEFAULT, CUDA_ERROR_NOT_SUPPORTED);
  require_word<Value>(context, address, true);
  auto work = std::make_shared<Work>();
  work->run = [=]() -> Outcome {
    __atomic_store_n(reinterpret_cast<Value *>(address), value, __ATOMIC_RELEASE);
    emulator::global_shadow().written(address, sizeof(Value));
    return {};
  };
  return work;
}

// A marker where order alone does it.
std::shared_ptr<Work> work_of(Context &context, const CUstreamBatchMemOpParams &operation) {
  const auto &wait = operation.waitValue;
  const auto &write = operation.writeValue;
  switch (operation.operation) {
  case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    return wait_work<cuuint32_t>(context, wait.address, wait.value, wait.flags);
  case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    return wait_work<cuuint64_t>(context, wait.address, wait.value64, wait.flags);
  case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    return write_work<cuuint32_t>(context, write.address, write.value, write.flags);
  case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    return write_work<cuuint64_t>(context, write.address, write.value64, write.flags);
  case CU_STREAM_MEM_OP_BARRIER:
    require(operation.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU, CUDA_ERROR_INVALID_VALUE);
    return std::make_shared<Work>(); // works of a stream are ordered as it is
  default:
    fail(CUDA_ERROR_NOT_SUPPORTED);
  }
}

void submit(Call &call, CUstream handle, const CUstreamBatchMemOpParams *operations, size_t count,
            unsigned flags) {
  auto stream = stream_of(*call.context, handle);
  auto batch = std::make_shared<MemoryValueOperation>(*stream->context, operations, count, flags);
  emulator::driver::submit(call.lock, stream, batch);
}

CUresult submit_wait(const char *function, CUstream stream, CUstreamBatchMemOpType operation,
                     CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return enter(function, Needs::healthy, stream, [&](Call &call) {
    CUstreamBatchMemOpParams parameters{};
    parameters.waitValue.operation = operation;
    parameters.waitValue.address = address;
    parameters.waitValue.value64 = value;
    parameters.waitValue.flags = flags;
    submit(call, stream, &parameters, 1, 0);
  });
}

CUresult submit_write(const char *function, CUstream stream, CUstreamBatchMemOpType operation,
                      CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return enter(function, Needs::healthy, stream, [&](Call &call) {
    CUstreamBatchMemOpParams parameters{};
    parameters.writeValue.operation = operation;
    parameters.writeValue.address = address;
    parameters.writeValue.value64 = value;
    parameters.writeValue.flags = flags;
    submit(call, stream, &parameters, 1, 0);
  });
}

} // namespace

MemoryValueOperation::MemoryValueOperation(Context &context, const CUstreamBatchMemOpParams *batch,
                                           size_t count, unsigned batch_flags)
    : where(&context), flags(batch_flags) {
  require(batch != nullptr && count > 0 && count <= most_operations && flags == 0, CUDA_ERROR_INVALID_VALUE);
  operations.assign(batch, batch + count);
}

Works MemoryValueOperation::works() const {
  Works works;
  for (const auto &operation : operations)
    works.push_back(work_of(*where, operation));
  return works;
}

CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                         unsigned int flags) {
  return submit_write("cuStreamWriteValue32_v2", stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                         unsigned int flags) {
  return submit_write("cuStreamWriteValue64_v2", stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                        unsigned int flags) {
  return submit_wait("cuStreamWaitValue32_v2", stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                        unsigned int flags) {
  return submit_wait("cuStreamWaitValue64_v2", stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}

CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                       CUstreamBatchMemOpParams *paramArray, unsigned int flags) {
  return enter("cuStreamBatchMemOp_v2", Needs::healthy, stream,
               [&](Call &call) { submit(call, stream, paramArray, count, flags); });
}
