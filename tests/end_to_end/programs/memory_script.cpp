// Carries out a script of memory operations, one line each, so that tests can make up programs of their own.
// usage: memory_script FILE. Slots are numbers; N counts 32-bit words; the last line printed is ok.
//
//   alloc SLOT KIND N      device, pitched, async, pool, managed, pinned, writecombined, registered, mapped
//   free SLOT
//   fill SLOT BASE         the host fills it with counting numbers, through a copy where it cannot reach it
//   write SLOT AT VALUE    the host writes one word with no call (managed and host memory)
//   add SLOT B             kernel: x[i] = x[i] + B
//   scale SLOT A B         kernel: x[i] = A * x[i] + B
//   sum TO FROM            kernel: to[i] = to[i] + from[i], over the shorter one
//   copy TO FROM           asynchronous copy of the shorter one
//   set SLOT VALUE         memset
//   wait | query           for the stream
//   physical SLOT N        physical memory, with no address
//   map SLOT ADDRESS       physical memory at reserved address number ADDRESS
//   unmap ADDRESS
//   mapadd ADDRESS B       kernel on mapped memory
//   mapset ADDRESS VALUE
//   segment SLOT N         device memory, a part of which a sub-allocator hands out
//   block SLOT OF AT N     a block of a segment, which the hints tell of; hidden: which they do not
//   endblock SLOT
//   drop SLOT              the handle of the physical memory is released
#include "../../corpus/driver/check.hpp"

#include <fstream>
#include <map>
#include <sstream>

#include <dlfcn.h>
#include <sys/mman.h>

static const char *const SUM = PTX_HEADER R"(
.visible .entry sum(.param .u64 to, .param .u64 from, .param .u32 n)
{
  .reg .pred %out; .reg .b32 %r<8>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %out, %r2, %r1;
  @%out ret;
  mul.wide.u32 %rd3, %r2, 4;
  add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
  ld.global.u32 %r5, [%rd4]; ld.global.u32 %r6, [%rd5];
  add.u32 %r5, %r5, %r6;
  st.global.u32 [%rd4], %r5;
  ret;
}
)";

struct Buffer {
  std::string kind;
  uint32_t words = 0;
  CUdeviceptr device = 0;
  uint32_t *host = nullptr; // NULL: the host cannot reach it
};

static std::map<int, Buffer> buffers;
static std::map<int, CUmemGenericAllocationHandle> handles;
static std::map<int, CUdeviceptr> addresses;
static CUstream stream;
static CUmemoryPool pool;
static size_t granule;
static CUmemAllocationProp property;

static void allocate(int slot, const std::string &kind, uint32_t words) {
  Buffer made{kind, words};
  size_t bytes = size_t(words) * 4, pitch = 0;
  if (kind == "device")
    CHECK(cuMemAlloc(&made.device, bytes));
  else if (kind == "pitched")
    CHECK(cuMemAllocPitch(&made.device, &pitch, 256, (bytes + 255) / 256, 4));
  else if (kind == "async")
    CHECK(cuMemAllocAsync(&made.device, bytes, stream));
  else if (kind == "pool")
    CHECK(cuMemAllocFromPoolAsync(&made.device, bytes, pool, stream));
  else if (kind == "managed") {
    CHECK(cuMemAllocManaged(&made.device, bytes, CU_MEM_ATTACH_GLOBAL));
    made.host = reinterpret_cast<uint32_t *>(made.device);
  } else {
    void *host = nullptr;
    if (kind == "pinned")
      CHECK(cuMemAllocHost(&host, bytes));
    else if (kind == "writecombined")
      CHECK(cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_DEVICEMAP));
    else if (kind == "mapped")
      CHECK(cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    else if (kind == "registered") {
      host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      REQUIRE(host != MAP_FAILED);
      CHECK(cuMemHostRegister(host, bytes, CU_MEMHOSTREGISTER_DEVICEMAP));
    } else {
      REQUIRE(!"a kind of memory");
    }
    CHECK(cuMemHostGetDevicePointer(&made.device, host, 0));
    made.host = static_cast<uint32_t *>(host);
  }
  buffers[slot] = made;
}

static void release(int slot) {
  Buffer &buffer = buffers.at(slot);
  if (buffer.kind == "async" || buffer.kind == "pool") {
    CHECK(cuMemFreeAsync(buffer.device, stream));
  } else if (buffer.kind == "registered") {
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemHostUnregister(buffer.host));
    munmap(buffer.host, size_t(buffer.words) * 4);
  } else if (buffer.host != nullptr && buffer.kind != "managed") {
    CHECK(cuMemFreeHost(buffer.host));
  } else {
    CHECK(cuMemFree(buffer.device));
  }
  buffers.erase(slot);
}

int main(int count, char **arguments) {
  REQUIRE(count == 2);
  Primary primary;
  CUfunction scale = function(load(AXPB), "axpb"), sum = function(load(SUM), "sum");
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuMemPoolCreate(&pool, &properties));
  cuuint64_t keep = 1 << 20;
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuMemGetAllocationGranularity(&granule, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  auto run_scale = [&](CUdeviceptr at, uint32_t a, uint32_t b, uint32_t n) {
    CHECK(launch(scale, (n + 127) / 128, 128, stream, at, a, b, n));
  };
  std::ifstream script(arguments[1]);
  REQUIRE(script.good());
  for (std::string line; std::getline(script, line);) {
    std::istringstream words(line);
    std::string what, kind;
    long long a = 0, b = 0, c = 0;
    if (!(words >> what))
      continue;
    if (what == "alloc") {
      words >> a >> kind >> b;
      allocate(int(a), kind, uint32_t(b));
      continue;
    }
    words >> a >> b >> c;
    if (what == "segment") {
      allocate(int(a), "device", uint32_t(b));
    } else if (what == "block" || what == "hidden") {
      uint32_t n = 0;
      words >> n;
      buffers[int(a)] = Buffer{"block", n, buffers.at(int(b)).device + CUdeviceptr(c) * 4};
      auto lives =
          reinterpret_cast<void (*)(uint64_t, uint64_t)>(dlsym(RTLD_DEFAULT, "replay_hint_block_lives"));
      if (lives != nullptr && what == "block")
        lives(buffers[int(a)].device, uint64_t(n) * 4);
    } else if (what == "endblock") {
      auto ends = reinterpret_cast<void (*)(uint64_t)>(dlsym(RTLD_DEFAULT, "replay_hint_block_ends"));
      if (ends != nullptr)
        ends(buffers.at(int(a)).device);
      buffers.erase(int(a));
    } else if (what == "free") {
      release(int(a));
    } else if (what == "fill") {
      Buffer &buffer = buffers.at(int(a));
      auto values = counting(buffer.words, uint32_t(b));
      if (buffer.host != nullptr)
        memcpy(buffer.host, values.data(), values.size() * 4);
      else
        CHECK(cuMemcpyHtoDAsync(buffer.device, values.data(), values.size() * 4, stream));
    } else if (what == "write") {
      buffers.at(int(a)).host[b] = uint32_t(c);
    } else if (what == "add") {
      run_scale(buffers.at(int(a)).device, 1, uint32_t(b), buffers.at(int(a)).words);
    } else if (what == "scale") {
      run_scale(buffers.at(int(a)).device, uint32_t(b), uint32_t(c), buffers.at(int(a)).words);
    } else if (what == "sum") {
      Buffer &to = buffers.at(int(a)), &from = buffers.at(int(b));
      uint32_t n = std::min(to.words, from.words);
      CHECK(launch(sum, (n + 127) / 128, 128, stream, to.device, from.device, n));
    } else if (what == "copy") {
      Buffer &to = buffers.at(int(a)), &from = buffers.at(int(b));
      CHECK(cuMemcpyAsync(to.device, from.device, size_t(std::min(to.words, from.words)) * 4, stream));
    } else if (what == "set") {
      CHECK(cuMemsetD32Async(buffers.at(int(a)).device, uint32_t(b), buffers.at(int(a)).words, stream));
    } else if (what == "wait") {
      CHECK(cuStreamSynchronize(stream));
    } else if (what == "query") {
      CUresult answer = cuStreamQuery(stream);
      REQUIRE(answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_READY);
    } else if (what == "physical") {
      CHECK(cuMemCreate(&handles[int(a)], size_t(b) * granule, &property, 0));
    } else if (what == "map") {
      CUdeviceptr &address = addresses[int(b)];
      if (address == 0)
        CHECK(cuMemAddressReserve(&address, 2 * granule, 0, 0, 0));
      CHECK(cuMemMap(address, granule, 0, handles.at(int(a)), 0));
      CUmemAccessDesc access = {property.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      CHECK(cuMemSetAccess(address, granule, &access, 1));
    } else if (what == "unmap") {
      CHECK(cuStreamSynchronize(stream));
      CHECK(cuMemUnmap(addresses.at(int(a)), granule));
    } else if (what == "mapadd") {
      run_scale(addresses.at(int(a)), 1, uint32_t(b), 1000);
    } else if (what == "mapset") {
      CHECK(cuMemsetD32Async(addresses.at(int(a)), uint32_t(b), 2000, stream));
    } else if (what == "drop") {
      CHECK(cuMemRelease(handles.at(int(a))));
    } else {
      std::printf("%s\n", line.c_str());
      return 1;
    }
  }
  CHECK(cuStreamSynchronize(stream));
  for (auto &[slot, buffer] : buffers) // what it computed, so that a capture that changes it is seen
    if (buffer.host != nullptr) {
      uint32_t total = 0;
      for (uint32_t i = 0; i < buffer.words; i++)
        total = 31 * total + buffer.host[i];
      std::printf("%d %u\n", slot, total);
    } else {
      uint32_t total = 0;
      for (uint32_t value : words(buffer.device, buffer.words))
        total = 31 * total + value;
      std::printf("%d %u\n", slot, total);
    }
  return ok();
}
