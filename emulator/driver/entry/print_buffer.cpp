#include "print_buffer.hpp"

#include "device/context.hpp"

#include <cstdio>
#include <deque>
#include <string_view>

namespace emulator::driver {
namespace {

struct Print {
  const Context *context; // compared only
  std::string text;
  size_t buffer_bytes;
};

struct Buffers {
  std::mutex mutex;
  std::deque<Print> waiting; // of all contexts, in the order in which they were printed
  std::map<const Context *, size_t> bytes;
};

Buffers &buffers() {
  static Buffers *only = new Buffers;
  return *only;
}

std::atomic<bool> something_waits{false};

bool begins_with(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

enum class Flush { never, before, after, both };

Flush flush_of(std::string_view function) {
  if (begins_with(function, "cuLaunch") || function == "cuGraphLaunch" || function == "cuStreamAddCallback" ||
      begins_with(function, "cuModuleLoad") || begins_with(function, "cuLibraryLoad"))
    return Flush::before;
  if (function == "cuModuleUnload" || function == "cuLibraryUnload" ||
      begins_with(function, "cuCtxDestroy") || begins_with(function, "cuDevicePrimaryCtxRe"))
    return Flush::both;
  bool waits = function.find("Synchronize") != function.npos;
  bool copies = begins_with(function, "cuMemcpy") && function.find("Async") == function.npos;
  return waits || copies ? Flush::after : Flush::never;
}

} // namespace

void hold_print(const Context &context, std::string text, size_t buffer_bytes) {
  auto limit = context.limits.find(CU_LIMIT_PRINTF_FIFO_SIZE);
  size_t capacity = limit == context.limits.end() ? size_t{1} << 20 : limit->second;
  Buffers &all = buffers();
  std::lock_guard<std::mutex> guard(all.mutex);
  size_t &used = all.bytes[&context];
  used += buffer_bytes;
  all.waiting.push_back({&context, std::move(text), buffer_bytes});
  for (auto oldest = all.waiting.begin(); used > capacity && oldest != all.waiting.end();) {
    if (oldest->context != &context) {
      ++oldest;
      continue;
    }
    used -= oldest->buffer_bytes;
    oldest = all.waiting.erase(oldest);
  }
  something_waits = true;
}

void flush_prints(const char *function, bool at_begin) {
  if (!something_waits.load(std::memory_order_relaxed))
    return;
  Flush when = flush_of(function);
  if (when != Flush::both && when != (at_begin ? Flush::before : Flush::after))
    return;
  Buffers &all = buffers();
  std::lock_guard<std::mutex> guard(all.mutex);
  for (const Print &print : all.waiting)
    std::fwrite(print.text.data(), 1, print.text.size(), stdout);
  std::fflush(stdout);
  all.waiting.clear();
  all.bytes.clear();
  something_waits = false;
}

} // namespace emulator::driver
