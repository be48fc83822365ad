// cuGetProcAddress: which symbol a name, a CUDA version and a kind of default stream stand for.
//
// The rows come from the one table of the driver API (generated/procedures.inc). For a name, the newest row
// whose version is above neither the requested one nor the driver's is taken. With the per-thread kind, of a
// function that has twins, twins alone count: NVIDIA's driver (535) finds nothing below the version of the
// first.
#include "entry/entry.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#define PROC(name, version, flags, symbol)                                                                   \
  extern "C" __attribute__((visibility("default"))) void replay_##symbol(void) __asm__(#symbol);
#include "generated/procedures.inc"
#undef PROC

using namespace emulator::driver;

namespace {

struct Procedure {
  int version;
  int flags;
  void *address;
};

const std::map<std::string, std::vector<Procedure>> &procedures() {
  static const auto *table = [] {
    auto *made = new std::map<std::string, std::vector<Procedure>>;
#define PROC(name, version, flags, symbol)                                                                   \
  (*made)[#name].push_back({version, flags, reinterpret_cast<void *>(replay_##symbol)});
#include "generated/procedures.inc"
#undef PROC
    return made;
  }();
  return *table;
}

constexpr cuuint64_t known_flags =
    CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

CUresult look_up(const char *function, const char *symbol, void **out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult *status) {
  return enter(function, Needs::nothing, [&](Call &) {
    require(symbol != nullptr && out != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto reported = static_cast<int>(settings().driver_version);
    require((flags & ~known_flags) == 0, CUDA_ERROR_INVALID_VALUE);
    *out = nullptr;
    if (status)
      *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    auto rows = procedures().find(symbol);
    if (rows == procedures().end())
      return;
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    bool twins = per_thread &&
                 std::any_of(rows->second.begin(), rows->second.end(),
                             [&](const Procedure &row) { return row.flags == 2 && row.version <= reported; });
    const Procedure *best = nullptr;
    bool exists = false;
    for (const auto &row : rows->second) {
      if (row.version > reported || (row.flags == 2) != twins)
        continue;
      exists = true;
      if (row.version <= version && (!best || row.version > best->version))
        best = &row;
    }
    if (best)
      *out = best->address;
    if (status && best)
      *status = CU_GET_PROC_ADDRESS_SUCCESS;
    else if (status && exists)
      *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  });
}

} // namespace

CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
  void *found = nullptr;
  CUresult result = look_up("cuGetProcAddress", symbol, pfn ? &found : nullptr, cudaVersion, flags, nullptr);
  if (found)
    *pfn = found;
  // The first version has no status to say it with.
  return result == CUDA_SUCCESS && !found ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult *symbolStatus) {
  return look_up("cuGetProcAddress_v2", symbol, pfn, cudaVersion, flags, symbolStatus);
}
