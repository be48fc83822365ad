#include "described.hpp"

#include "core/error.hpp"
#include "core/settings.hpp"
#include "entry/log.hpp"
#include "exec/interface/hexadecimal.hpp"

#include <algorithm>
#include <cstdlib>

namespace emulator::driver {
namespace {

constexpr size_t most_told = 10;

void tell_leaks() {
  std::vector<std::shared_ptr<Allocation>> left = allocations().all();
  left.erase(std::remove_if(left.begin(), left.end(),
                            [](const auto &one) {
                              return one->freeing ||
                                     (one->kind != MemoryKind::device && one->kind != MemoryKind::managed &&
                                      one->kind != MemoryKind::host);
                            }),
             left.end());
  std::sort(left.begin(), left.end(),
            [](const auto &a, const auto &b) { return a->identifier < b->identifier; });
  uint64_t bytes = 0;
  for (const auto &one : left)
    bytes += one->bytes;
  if (left.empty())
    return;
  tell("memory: " + grouped(bytes) + " bytes were never freed, in " + grouped(left.size()) +
       (left.size() == 1 ? " allocation" : " allocations, the earliest first"));
  for (size_t k = 0; k < std::min(left.size(), most_told); ++k)
    tell("  " + named({left[k]->base, left[k]->bytes}) +
         (left[k]->kind == MemoryKind::device    ? ""
          : left[k]->kind == MemoryKind::managed ? ", managed"
                                                 : ", of the host"));
}

} // namespace

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string named(const Stretch &stretch) {
  return "the " + grouped(stretch.bytes) + "-byte allocation at " + hexadecimal(stretch.base);
}

void require_free(bool may_be_freed, uint64_t address) {
  if (may_be_freed)
    return;
  if (settings().checks.memory) {
    auto holder = allocations().find(address);
    auto [base, bytes] = allocations().freed_at(address);
    std::string why =
        holder && holder->base != address
            ? grouped(address - holder->base) + " bytes into " + named({holder->base, holder->bytes})
        : holder && holder->freeing ? "freed already in a stream: " + named({holder->base, holder->bytes})
        : holder ? "not memory that this call frees: " + named({holder->base, holder->bytes})
        : bytes != 0 && base == address ? "freed already: " + named({base, bytes})
                                        : "no allocation begins there";
    tell("memory: a free of " + hexadecimal(address) + " fails: " + why);
  }
  fail(CUDA_ERROR_INVALID_VALUE);
}

void watch_for_leaks() {
  if (settings().checks.memory)
    std::atexit(tell_leaks);
}

} // namespace emulator::driver
