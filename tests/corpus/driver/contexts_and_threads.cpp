// covers: Several contexts and host threads: the stack of each thread, the primary context shared, memory of
// one context reached from another, one context used by many threads at once.
#include "check.hpp"

#include <atomic>
#include <thread>

static CUcontext current() {
  CUcontext context;
  CHECK(cuCtxGetCurrent(&context));
  return context;
}

int main() {
  CUdeviceptr nothing;
  CHECK(cuInit(0));
  EXPECT(cuMemAlloc(&nothing, 4), CUDA_ERROR_INVALID_CONTEXT);
  Primary primary;
  CUcontext other = new_context(primary.device), popped;
  REQUIRE(current() == other && other != primary.context);
  CHECK(cuCtxPushCurrent(primary.context));
  REQUIRE(current() == primary.context);
  CHECK(cuCtxPopCurrent(&popped));
  REQUIRE(popped == primary.context && current() == other);

  CUmodule module = load(AXPB);
  CUfunction in_other = function(module, "axpb");
  const uint32_t count = 1024;
  Words theirs(counting(count));
  CHECK(launch(in_other, 4, 256, nullptr, theirs.address, uint32_t(3), uint32_t(1), count));
  CHECK(cuCtxSynchronize());
  unsigned version = 0;
  CHECK(cuCtxGetApiVersion(other, &version));
  CUcontext owner;
  CHECK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, theirs.address));
  REQUIRE(owner == other);

  // Threads start without a context, whatever the one that started them has.
  CHECK(cuCtxSetCurrent(primary.context));
  CUfunction kernel = function(load(AXPB), "axpb");
  const unsigned threads = 4, rounds = 10;
  std::vector<std::vector<uint32_t>> results(threads);
  std::atomic<int> without_context{0};
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; t++)
    running.emplace_back([&, t] {
      without_context += current() == nullptr;
      CHECK(cuCtxSetCurrent(primary.context));
      CUstream stream;
      CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      Words mine(counting(count, t));
      for (unsigned round = 0; round < rounds; round++)
        CHECK(launch(kernel, 4, 256, stream, mine.address, uint32_t(3), uint32_t(t), count));
      CHECK(cuStreamSynchronize(stream));
      results[t] = words(mine.address, count);
      CHECK(cuStreamDestroy(stream));
    });
  for (std::thread &thread : running)
    thread.join();
  REQUIRE(without_context == int(threads));
  for (unsigned t = 0; t < threads; t++) {
    auto expected = counting(count, t);
    for (unsigned round = 0; round < rounds; round++)
      expected = axpb(expected, 3, t);
    equal("a thread's", results[t], expected);
  }

  // Addresses are of the process: a copy takes them from any context of the device.
  Words ours(count);
  CHECK(cuMemcpy(ours.address, theirs.address, count * 4));
  equal("copied", words(ours.address, count), axpb(counting(count), 3, 1));
  CHECK(cuMemcpyPeer(ours.address, primary.context, theirs.address, other, count * 2));

  CHECK(cuCtxDestroy(other));
  CHECK(launch(kernel, 4, 256, nullptr, ours.address, uint32_t(2), uint32_t(0), count));
  return ok();
}
