// What a generated main.cpp is written in: memory at the addresses of the captured application, files, checks, times.
//
// Order: hold every address, then load the driver; place memory; set up; load contents; run the window once and compare
// what it left; then, for times, restore what it writes, flush the L2 cache, and run it between two events.
// Exit status: 0 outputs match, or the application's error was reproduced; 1 they differ, it was not, or nothing is
// compared; 3 something could not be done.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#ifndef EXPORT_FOLDER
#define EXPORT_FOLDER "."
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static const size_t granule = 2u << 20;
static const int most_tries = 16;
static int compared, different;
static size_t compared_bytes;
static volatile uint32_t *gate;  // 0: work in the held stream waits

[[noreturn]] static void fail(const std::string &what) {
  if (gate) *gate = 1;  // a device that waits for ever would keep this process
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(3);
}

// The driver is loaded when it is first called, behind the captured addresses that must be held before, and is not needed
// to build. LD_LIBRARY_PATH chooses another one.
[[maybe_unused]] static void *driver_function(const char *name) {
  static void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) fail(std::string("the driver cannot be loaded: ") + dlerror());
  void *const function = dlsym(library, name);
  if (!function) fail(std::string("this driver has no ") + name);
  return function;
}
#define NAME_(name) #name
#define NAME(name) NAME_(name)  // behind the #defines of cuda.h: cuMemAlloc is cuMemAlloc_v2
#define DRIVER(name) ([] { static const auto known = (decltype(&name))driver_function(NAME(name)); return known; }())

// The error in which the window ended in the application, while the window runs; 0 for none, -1
// where that is not known.
static int expected_error;
static const char *expected_at = "";

[[noreturn]] static void end_in_error(const char *name, const std::string &call) {
  std::printf("FAULT reproduced: the window ends in %s, as in the application (there at %s, here at %s)\n", name, expected_at, call.c_str());
  std::fflush(nullptr);
  _exit(0);
}

// The function of a call as it stands in the source: "cuMemAlloc" of "DRIVER(cuMemAlloc)(&p, 4)".
static std::string called(const std::string &call) {
  const size_t begin = call.rfind("DRIVER(", 0) == 0 ? 7 : 0;
  return call.substr(begin, call.find_first_of("()", begin) - begin);
}

[[maybe_unused]] static void check_result(CUresult result, const char *call, int line) {
  if (result == CUDA_SUCCESS) return;
  const char *name = nullptr;
  DRIVER(cuGetErrorName)(result, &name);
  if (expected_error < 0 || (expected_error && result == (CUresult)expected_error))
    end_in_error(name ? name : "an error", called(call));
  fail(called(call) + " in line " + std::to_string(line) + " returned " + (name ? name : std::to_string(result)));
}
#define CHECK(call) check_result((call), #call, __LINE__)

// For each context of the application: the device that stands for its own, and the context that stands for it.
static std::vector<CUdevice> devices;
static std::vector<CUcontext> contexts;

// Waits for all of them.
[[maybe_unused]] static void idle() {
  CUcontext current = nullptr;
  CHECK(DRIVER(cuCtxGetCurrent)(&current));
  for (CUcontext context : contexts) {
    if (contexts.size() > 1) CHECK(DRIVER(cuCtxSetCurrent)(context));
    CHECK(DRIVER(cuCtxSynchronize)());
  }
  if (contexts.size() > 1) CHECK(DRIVER(cuCtxSetCurrent)(current));
}

// Memory of this program.
struct Memory {
  unsigned char *data = nullptr;
  size_t size = 0;
  void *at(std::ptrdiff_t offset) const { return data + offset; }
};

// A pointer for whatever a function takes.
struct Any {
  void *pointer;
  template <class T> operator T *() const { return (T *)pointer; }
};

template <class T> [[maybe_unused]] static uint64_t word(T value) { return (uint64_t)value; }

template <class T> [[maybe_unused]] static void put(const Memory &block, size_t offset, T value) {
  const uint64_t bits = word(value);
  std::memcpy(block.data + offset, &bits, sizeof bits);
}

[[maybe_unused]] static Memory room(size_t size) { return {(unsigned char *)std::calloc(size ? size : 1, 1), size}; }

[[maybe_unused]] static Memory bytes(const unsigned char *source, size_t size) {
  Memory made = room(size + 1);
  std::memcpy(made.data, source, size);
  made.size = size;
  return made;
}

[[maybe_unused]] static std::string folder() {
  const char *named = std::getenv("EXPORT_FOLDER");
  return named ? named : EXPORT_FOLDER;
}

// One more byte than the file has, which is zero: PTX ends with it.
[[maybe_unused]] static Memory read_file(const char *name, size_t size) {
  const std::string path = folder() + "/" + name;
  Memory made = room(size + 1);
  made.size = size;
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file || !made.data || std::fread(made.data, 1, size, file) != size)
    fail(path + " cannot be read; EXPORT_FOLDER names the folder with the data files");
  std::fclose(file);
  return made;
}

// A module image, however long it is: the file may be another one than was captured. A zero stands behind it.
[[maybe_unused]] static Memory read_image(const char *name) {
  std::FILE *file = std::fopen((folder() + "/" + name).c_str(), "rb");
  const long size = file && std::fseek(file, 0, SEEK_END) == 0 ? std::ftell(file) : 0;
  if (file) std::fclose(file);
  return read_file(name, size > 0 ? (size_t)size : 1);
}

// -- memory at captured addresses ---------------------------------------------------------------------------------------

struct Held {
  uint64_t address, size;
  bool host, read_only;
  unsigned shared;  // all of the same number, from 1, are addresses of one memory
  uint64_t shared_size;
  uint64_t managed_size;  // 0: no managed memory
  size_t device;  // which of `devices`
  // always: it is there all the time; of memory that takes turns at its addresses: at_start, later, or only_held for
  // addresses that only such memory has
  enum Turn { always, at_start, later, only_held } turn;
};
static std::vector<Held> held;

[[maybe_unused]] static void place(uint64_t address, uint64_t size, bool host, bool read_only, unsigned shared,
                                   uint64_t shared_size, uint64_t managed_size, size_t device, int turn) {
  held.push_back({address, size, host, read_only, shared, shared_size, managed_size, device, (Held::Turn)turn});
}

static bool hold(uint64_t address, uint64_t size) {
  void *wanted = (void *)address;
  void *got = mmap(wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted && got != MAP_FAILED) munmap(got, size);
  return got == wanted;
}

// The lowest addresses are the driver's: held, they are in its way, and nothing else comes in between.
static bool is_held(const Held &item) { return item.host || item.address >= uint64_t{1} << 40; }

// Before anything else can take them. Another start of the program has another layout of its addresses.
[[maybe_unused]] static void hold_all(char **argv) {
  for (const Held &item : held) {
    const bool by_others = item.host && (item.turn == Held::at_start || item.turn == Held::later);
    if (!is_held(item) || by_others || hold(item.address, item.size)) continue;
    const char *tries = std::getenv("EXPORT_TRIES");
    const int count = tries ? std::atoi(tries) : 0;
    if (count < most_tries) {
      setenv("EXPORT_TRIES", std::to_string(count + 1).c_str(), 1);
      execv("/proc/self/exe", argv);
    }
    fail("an address of the captured application is in use in this process");
  }
}

using Stretch = std::pair<uint64_t, uint64_t>;  // begin, end

// Fill what is free outside of low..high: above it, or everywhere.
static std::vector<Stretch> fill_free(uint64_t low, uint64_t high, bool everywhere) {
  const uint64_t lowest = 1ull << 16, never_first = 1ull << 40, highest = 1ull << 47, stack = 64ull << 20;
  std::vector<Stretch> mapped = {{0, lowest}}, filled;
  if (std::FILE *maps = std::fopen("/proc/self/maps", "r")) {
    char line[512];
    unsigned long long begin, end;
    while (std::fgets(line, sizeof line, maps))
      if (std::sscanf(line, "%llx-%llx ", &begin, &end) == 2 && begin < highest) mapped.push_back({begin, end});
    std::fclose(maps);
  }
  for (size_t i = 0; i + 1 < mapped.size(); i++) {
    const uint64_t begin = mapped[i].second;
    uint64_t end = mapped[i + 1].first;
    if (everywhere && i + 2 == mapped.size()) end = std::max(begin, end > stack ? end - stack : 0);  // it may grow
    for (const Stretch &free : {Stretch{begin, std::min(end, low)}, Stretch{std::max(begin, high), end}}) {
      const bool chosen = everywhere || free.first >= std::max(high, never_first);
      if (chosen && free.second > free.first && free.second - free.first >= granule / 2 &&
          hold(free.first, free.second - free.first))
        filled.push_back(free);
    }
  }
  return filled;
}

// cuMemAllocManaged takes no address: for a moment all stretches that would be chosen before the captured one are filled.
// Its addresses, and those of the items behind it, are held; where it fails they are held again. Returns "" or why.
static std::string back_managed(size_t place) {
  const Held &item = held[place];
  if (!is_held(item)) return "the driver has these addresses to itself";
  const uint64_t small = (1 << 20) + 4096;  // what is smaller may be packed together with other memory
  const uint64_t wanted = std::min(std::max(item.managed_size, small), item.size), end = item.address + item.size;
  std::string problem;
  for (int attempt = 0; attempt < 12; attempt++) {  // a driver asks for more than it gives, to align it
    const bool everywhere = attempt >= 4;
    const uint64_t low = item.address - (attempt >= 8) * granule, high = end + attempt % 4 * granule;
    std::vector<Stretch> beyond;
    for (size_t i = place + 1; i < held.size(); i++)
      if (!held[i].host && held[i].address < high && held[i].address >= end)
        beyond.push_back({held[i].address, std::min(high, held[i].address + held[i].size)});
    munmap((void *)item.address, item.size);
    for (const Stretch &part : beyond) munmap((void *)part.first, part.second - part.first);
    const std::vector<Stretch> filled = fill_free(low, high, everywhere);
    CUdeviceptr got = 0;
    const CUresult result = DRIVER(cuMemAllocManaged)(&got, wanted, CU_MEM_ATTACH_GLOBAL);
    for (const Stretch &part : filled) munmap((void *)part.first, part.second - part.first);
    bool again = true;
    for (const Stretch &part : beyond) again = hold(part.first, part.second - part.first) && again;
    if (result == CUDA_SUCCESS && got == item.address && again) return "";
    if (!again) fail("an address of the captured application was taken meanwhile");
    problem = result == CUDA_SUCCESS ? "the driver gives another address" : "cuMemAllocManaged failed";
    if (result == CUDA_SUCCESS) CHECK(DRIVER(cuMemFree)(got));
    if (!hold(item.address, item.size)) fail("an address of the captured application was taken meanwhile");
  }
  return problem;
}

static std::vector<std::vector<CUmemAccessDesc>> access_to;  // of each device, for those that can use its memory
static std::map<unsigned, CUmemGenericAllocationHandle> memories;  // by the number that addresses of one memory share

// Memory of a place appears: what was there has left.
[[maybe_unused]] static void come(size_t place) {
  const Held &item = held[place];
  void *wanted = (void *)item.address;
  if (item.host) {
    if (mmap(wanted, item.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != wanted)
      fail("memory of the host cannot be had at its captured address");
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (item.read_only) flags |= 8;  // CU_MEMHOSTREGISTER_READ_ONLY
    CHECK(DRIVER(cuMemHostRegister)(wanted, item.size, flags));
    return;
  }
  if (is_held(item)) munmap(wanted, item.size);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = devices[item.device];
  CUdeviceptr got = 0;
  CHECK(DRIVER(cuMemAddressReserve)(&got, item.size, granule, item.address, 0));
  if (got != item.address) fail("the driver does not give memory at a captured address");
  const auto known = memories.find(item.shared);
  CUmemGenericAllocationHandle memory;
  if (item.shared && known != memories.end())
    memory = known->second;
  else
    CHECK(DRIVER(cuMemCreate)(&memory, item.shared ? item.shared_size : item.size, &properties, 0));
  CHECK(DRIVER(cuMemMap)(got, item.size, 0, memory, 0));
  if (item.shared)
    memories[item.shared] = memory;
  else
    CHECK(DRIVER(cuMemRelease)(memory));
  CHECK(DRIVER(cuMemSetAccess)(got, item.size, access_to[item.device].data(), access_to[item.device].size()));
}

// Memory of a place ends, and its addresses stay held.
[[maybe_unused]] static void leave(size_t place) {
  const Held &item = held[place];
  void *there = (void *)item.address;
  if (item.host) {
    CHECK(DRIVER(cuMemHostUnregister)(there));
    mmap(there, item.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return;
  }
  CHECK(DRIVER(cuMemUnmap)(item.address, item.size));
  CHECK(DRIVER(cuMemAddressFree)(item.address, item.size));
  if (!hold(item.address, item.size)) fail("an address of the captured application was taken meanwhile");
}

[[maybe_unused]] static void back_all() {
  std::vector<bool> managed(held.size());
  for (size_t i = 0; i < held.size(); i++) {
    if (!held[i].managed_size) continue;
    const std::string problem = back_managed(i);
    managed[i] = problem.empty();
    if (!managed[i])
      std::printf("managed memory at %#llx is device memory here: %s\n", (unsigned long long)held[i].address,
                  problem.c_str());
  }
  access_to.resize(devices.size());
  for (size_t i = 0; i < devices.size(); i++)
    for (size_t j = 0; j < devices.size(); j++) {
      int can = devices[i] == devices[j];
      const bool twice = std::find(devices.begin(), devices.begin() + j, devices[j]) != devices.begin() + j;
      if (!can) CHECK(DRIVER(cuDeviceCanAccessPeer)(&can, devices[j], devices[i]));
      if (can && !twice)
        access_to[i].push_back({{CU_MEM_LOCATION_TYPE_DEVICE, {devices[j]}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    }
  for (size_t i = 0; i < held.size(); i++)
    if (!managed[i] && (held[i].turn == Held::always || held[i].turn == Held::at_start)) come(i);
}

static bool in_window = false, told_inside = false;  // told_inside: while the window runs

// Where allocations end, for a driver that can be told: the CPU driver of replay. pieces: address and bytes of each.
[[maybe_unused]] static void confine(uint64_t address, uint64_t size, const std::vector<unsigned long long> &pieces) {
  static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
  static const auto tell = (int (*)(uint64_t, size_t, const unsigned long long *, size_t))(
      library ? dlsym(library, "replayConfineMemory") : nullptr);
  told_inside = told_inside || (tell && in_window);
  if (tell && tell(address, size, pieces.data(), pieces.size() / 2) != 0) fail("replayConfineMemory failed");
}

[[maybe_unused]] static void write_to(uint64_t target, const void *source, size_t size, bool host) {
  if (host) {
    std::memcpy((void *)target, source, size);
  } else {
    CHECK(DRIVER(cuMemcpyHtoD)(target, source, size));
    CHECK(DRIVER(cuStreamSynchronize)(CU_STREAM_LEGACY));  // it may return early; other streams need not wait
  }
}

[[maybe_unused]] static void load(uint64_t target, const Memory &contents, bool host) { write_to(target, contents.data, contents.size, host); }

template <class T> [[maybe_unused]] static void point(uint64_t target, T value, bool host) {
  const uint64_t bits = word(value);
  write_to(target, &bits, sizeof bits, host);
}

[[maybe_unused]] static void host_write(uint64_t target, const Memory &data, bool host, bool wait) {
  if (wait) idle();
  write_to(target, data.data, data.size, host);
}

// -- checks -------------------------------------------------------------------------------------------------------------

[[maybe_unused]] static void judge(const unsigned char *expected, const unsigned char *found, size_t size, const char *label) {
  compared++;
  compared_bytes += size;
  size_t count = 0, first = 0;
  for (size_t i = 0; i < size; i++)
    if (expected[i] != found[i] && count++ == 0) first = i;
  if (!count) return;
  different++;
  std::printf("%s: %zu of %zu bytes differ, the first at offset %zu: expected %02x, got %02x\n", label, count, size, first,
              expected[first], found[first]);
}

[[maybe_unused]] static void compare(uint64_t target, const Memory &contents, bool host, const char *label,
                    const std::vector<std::pair<size_t, uint64_t>> &words) {
  std::vector<unsigned char> expected(contents.data, contents.data + contents.size), found(contents.size);
  idle();
  if (host)
    std::memcpy(found.data(), (void *)target, found.size());
  else
    CHECK(DRIVER(cuMemcpyDtoH)(found.data(), target, found.size()));
  // A pointer to a variable of a module, where nothing else was written over it.
  for (const auto &item : words)
    if (item.first + 8 <= found.size() && std::memcmp(&found[item.first], &item.second, 8) == 0)
      std::memcpy(&expected[item.first], &item.second, 8);
  judge(expected.data(), found.data(), found.size(), label);
}

[[maybe_unused]] static void compare_block(const Memory &room, const Memory &expected, const char *label) {
  judge(expected.data, room.data, std::min(room.size, expected.size), label);
}

[[maybe_unused]] static void compare_block(uint64_t address, const Memory &expected, const char *label) {
  judge(expected.data, (const unsigned char *)address, expected.size, label);
}

// -- the program --------------------------------------------------------------------------------------------------------

struct Program {
  void (*prepare)();
  void (*places)();
  void (*set_up)(bool), (*load_all)(bool), (*restore)(bool), (*window)(bool), (*compare_all)(bool), (*clean_up)(bool);
  CUstream *main_stream;  // nullptr: the window makes its streams itself
  std::vector<CUstream> (*other_streams)();
  const char *hold_reason;  // why the stream is not held while the window is queued; "" where it is
  std::vector<int> captured;  // ordinals of the application's devices, one for each context
  void (*take_contexts)();
  int error = 0;  // CUresult in which the window ended in the application, and at which call
  const char *error_call = "";
};

// Device i of the application is device i here where there are so many; else all of them are one device, each with a
// context of its own. A device that stands in the list again has another context.
[[maybe_unused]] static void open_devices(const Program &program, const char *asked) {
  int count = 0;
  CHECK(DRIVER(cuDeviceGetCount)(&count));
  const std::vector<int> &captured = program.captured;
  const auto ends = std::minmax_element(captured.begin(), captured.end());
  const bool several = *ends.first != *ends.second, spread = several && !asked && *ends.second < count;
  for (size_t i = 0; i < captured.size(); i++) {
    CUdevice device;
    CUcontext context = nullptr;
    CHECK(DRIVER(cuDeviceGet)(&device, spread ? captured[i] : asked ? std::atoi(asked) : 0));
    if (i == 0 || (spread && std::find(captured.begin(), captured.begin() + i, captured[i]) == captured.begin() + i))
      CHECK(DRIVER(cuDevicePrimaryCtxRetain)(&context, device));
    else
#if CUDA_VERSION >= 13000
      CHECK(DRIVER(cuCtxCreate)(&context, nullptr, 0, device));
#else
      CHECK(DRIVER(cuCtxCreate)(&context, 0, device));
#endif
    devices.push_back(device);
    contexts.push_back(context);
  }
  CHECK(DRIVER(cuCtxSetCurrent)(contexts[0]));
  if (several && !spread) std::printf("all devices of the application are one device here\n");
  program.take_contexts();
}

[[maybe_unused]] static void print_times(const char *what, std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  std::printf("%s: median %.3f us, min %.3f us, max %.3f us, n %zu\n", what, times_us[times_us.size() / 2], times_us.front(),
              times_us.back(), times_us.size());
}

// So that the time in which the host queues the window does not count, its stream waits until all of it is queued.
// Returns why that is not done, "" where it is.
[[maybe_unused]] static std::string prepare_hold(const Program &program, bool modelled, CUdeviceptr *flag) {
  const char *asked = std::getenv("EXPORT_HOLD");
  if (asked && std::strcmp(asked, "0") == 0) return "EXPORT_HOLD=0";
  if (*program.hold_reason) return program.hold_reason;
  if (told_inside) return "the driver is told inside the window where allocations end";
  if (modelled && !asked) return "the modelled clock does not run while the host works";
  void *memory = nullptr;
  if (DRIVER(cuMemHostAlloc)(&memory, sizeof *gate, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
    return "no memory for the flag";
  *(volatile uint32_t *)memory = 1;
  if (DRIVER(cuMemHostGetDevicePointer)(flag, memory, 0) != CUDA_SUCCESS ||
      DRIVER(cuStreamWaitValue32)(*program.main_stream, *flag, 1, CU_STREAM_WAIT_VALUE_EQ) != CUDA_SUCCESS)
    return "the driver cannot hold a stream";
  idle();
  gate = (volatile uint32_t *)memory;
  return "";
}

[[maybe_unused]] static void time_window(const Program &program, int samples, CUdevice device, bool modelled) {
  int l2_bytes = 0;
  CHECK(DRIVER(cuDeviceGetAttribute)(&l2_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device));
  const size_t flush_bytes = 2 * (size_t)l2_bytes;
  CUdeviceptr flush = 0;
  if (flush_bytes) CHECK(DRIVER(cuMemAlloc)(&flush, flush_bytes));
  const std::vector<CUstream> others = program.other_streams();
  CUevent begin, end, join;
  CHECK(DRIVER(cuEventCreate)(&begin, CU_EVENT_DEFAULT));
  CHECK(DRIVER(cuEventCreate)(&end, CU_EVENT_DEFAULT));
  CHECK(DRIVER(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
  CUdeviceptr flag = 0;
  const std::string not_held = program.main_stream ? prepare_hold(program, modelled, &flag) : program.hold_reason;
  std::vector<double> gpu_us, host_us;
  for (int i = 0; i < samples; i++) {
    program.restore(false);
    if (flush) CHECK(DRIVER(cuMemsetD8)(flush, 0, flush_bytes));
    idle();
    const auto start = std::chrono::steady_clock::now();
    if (gate) {
      *gate = 0;
      CHECK(DRIVER(cuStreamWaitValue32)(*program.main_stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    }
    if (program.main_stream) {
      CHECK(DRIVER(cuEventRecord)(begin, *program.main_stream));
      for (CUstream other : others) CHECK(DRIVER(cuStreamWaitEvent)(other, begin, 0));
    }
    program.window(false);
    if (program.main_stream) {
      for (CUstream other : others) {
        CHECK(DRIVER(cuEventRecord)(join, other));
        CHECK(DRIVER(cuStreamWaitEvent)(*program.main_stream, join, 0));
      }
      CHECK(DRIVER(cuEventRecord)(end, *program.main_stream));
    }
    if (gate) *gate = 1;
    idle();
    host_us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    if (program.main_stream) {
      float ms = 0;
      CHECK(DRIVER(cuEventElapsedTime)(&ms, begin, end));
      gpu_us.push_back(1000.0 * ms);
    }
    if (i + 1 < samples) program.clean_up(false);
  }
  if (!gpu_us.empty()) print_times(modelled ? "GPU time of the window, modelled" : "GPU time of the window", gpu_us);
  print_times(modelled ? "host time of the window on the CPU driver" : "host time of the window", host_us);
  std::printf(not_held.empty() ? "the stream was held while the window was queued%s\n" : "the stream was not held: %s\n",
              not_held.c_str());
}

[[maybe_unused]] static int run(const Program &program, int argc, char **argv) {
  const int samples = argc > 1 ? std::atoi(argv[1]) : 20;
  program.places();
  hold_all(argv);
  program.prepare();
  CHECK(DRIVER(cuInit)(0));
  const char *ordinal = std::getenv("EXPORT_DEVICE");
  open_devices(program, ordinal);
  const CUdevice device = devices[0];
  char name[256] = "";
  CHECK(DRIVER(cuDeviceGetName)(name, sizeof name, device));
  const bool modelled = std::strncmp(name, "Emulated", 8) == 0;
  back_all();
  program.set_up(false);
  program.load_all(false);
  idle();
  expected_error = program.error;
  expected_at = program.error_call;
  in_window = true;
  program.window(true);
  in_window = false;
  idle();
  if (program.error) {
    std::printf("%s: FAULT NOT REPRODUCED: the window ends without an error; in the application it ended in error %d at %s\n", name,
                program.error, program.error_call);
    std::fflush(nullptr);
    _exit(1);
  }
  program.compare_all(true);
  std::printf("%s: outputs %s (%d compared, %zu bytes)\n", name,
              different ? "DIFFER" : compared ? "match" : "were not captured, nothing is compared", compared, compared_bytes);
  if (samples > 0 && compared) { // a time of what nobody knows to be right says nothing
    program.clean_up(false);
    time_window(program, samples, device, modelled);
    const int before = different;
    program.compare_all(true);
    if (different != before) std::printf("after the timed runs outputs differ%s\n", before ? ", too" : "");
  }
  std::fflush(nullptr);
  _exit(different || !compared ? 1 : 0);  // what the driver does at exit is of no interest
}
