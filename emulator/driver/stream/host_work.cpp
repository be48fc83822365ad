// Host functions in streams, and streams that write or wait for a value in memory.
#include "device/context.hpp"
#include "memory/allocations.hpp"
#include "scheduler.hpp"

#include <atomic>

using namespace emulator::driver;

namespace {

void issue_host_work(Call &call, const std::shared_ptr<Stream> &stream, std::function<Outcome()> run) {
  auto work = std::make_shared<Work>();
  work->on_host_thread = true;
  work->run = std::move(run);
  issue(call.lock, stream, work);
}

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
void issue_wait(Call &call, CUstream handle, CUdeviceptr address, Value value, unsigned flags) {
  unsigned comparison = flags & ~static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
  require(comparison <= CU_STREAM_WAIT_VALUE_NOR, CUDA_ERROR_INVALID_VALUE);
  require(!(flags & CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
  auto stream = stream_of(*call.context, handle);
  require_word<Value>(*stream->context, address, false);
  auto work = std::make_shared<Work>();
  work->ready = [=] { return satisfied(load<Value>(address), value, comparison); };
  issue(call.lock, stream, work);
}

template <typename Value>
void issue_write(Call &call, CUstream handle, CUdeviceptr address, Value value, unsigned flags) {
  require(flags == CU_STREAM_WRITE_VALUE_DEFAULT || flags == CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER,
          CUDA_ERROR_INVALID_VALUE);
  auto stream = stream_of(*call.context, handle);
  require_word<Value>(*stream->context, address, true);
  issue(call.lock, stream, [=]() -> Outcome {
    __atomic_store_n(reinterpret_cast<Value *>(address), value, __ATOMIC_RELEASE);
    return {};
  });
}

void issue_operation(Call &call, CUstream stream, const CUstreamBatchMemOpParams &operation) {
  const auto &wait = operation.waitValue;
  const auto &write = operation.writeValue;
  switch (operation.operation) {
  case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    return issue_wait<cuuint32_t>(call, stream, wait.address, wait.value, wait.flags);
  case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    return issue_wait<cuuint64_t>(call, stream, wait.address, wait.value64, wait.flags);
  case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    return issue_write<cuuint32_t>(call, stream, write.address, write.value, write.flags);
  case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    return issue_write<cuuint64_t>(call, stream, write.address, write.value64, write.flags);
  case CU_STREAM_MEM_OP_BARRIER:
    return; // works of a stream are ordered as it is
  default:
    fail(CUDA_ERROR_NOT_SUPPORTED);
  }
}

} // namespace

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
  return enter("cuLaunchHostFunc", Needs::healthy, [&](Call &call) {
    require(fn != nullptr, CUDA_ERROR_INVALID_VALUE);
    issue_host_work(call, stream_of(*call.context, hStream), [=]() -> Outcome {
      fn(userData);
      return {};
    });
  });
}

CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                                     unsigned int flags) {
  return enter("cuStreamAddCallback", Needs::healthy, [&](Call &call) {
    require(callback != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    issue_host_work(call, stream_of(*call.context, hStream), [=]() -> Outcome {
      callback(hStream, CUDA_SUCCESS, userData);
      return {};
    });
  });
}

CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                         unsigned int flags) {
  return enter("cuStreamWriteValue32_v2", Needs::healthy,
               [&](Call &call) { issue_write(call, stream, addr, value, flags); });
}

CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                         unsigned int flags) {
  return enter("cuStreamWriteValue64_v2", Needs::healthy,
               [&](Call &call) { issue_write(call, stream, addr, value, flags); });
}

CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                        unsigned int flags) {
  return enter("cuStreamWaitValue32_v2", Needs::healthy,
               [&](Call &call) { issue_wait(call, stream, addr, value, flags); });
}

CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                        unsigned int flags) {
  return enter("cuStreamWaitValue64_v2", Needs::healthy,
               [&](Call &call) { issue_wait(call, stream, addr, value, flags); });
}

CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                       CUstreamBatchMemOpParams *paramArray, unsigned int flags) {
  return enter("cuStreamBatchMemOp_v2", Needs::healthy, [&](Call &call) {
    require(paramArray != nullptr && count > 0 && count <= 256 && flags == 0, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; ++i)
      issue_operation(call, stream, paramArray[i]);
  });
}
