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
// Its addresses, and those of the items after it, are held; where it fails they are held again. Returns "" or why.
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

