#include "launch_races.hpp"

#include "core/settings.hpp"
#include "device/device.hpp"
#include "memory/allocations.hpp"

#include <algorithm>
#include <deque>

namespace emulator::driver {
namespace {

constexpr size_t most_launches = 64; // that are kept: the oldest go

// What the instructions of one line touched, of a launch.
struct Site {
  Side side;
  bool writes = false, is_strong = false;
  TouchedPages pages;
};

struct Ran {
  std::string kernel;
  uint64_t launch = 0; // from 1
  uint64_t stream = 0, number = 0;
  uint64_t first_identifier = 0; // of memory that is allocated later
  std::vector<Site> sites;
};

std::deque<Ran> &ran() {
  static auto *all = new std::deque<Ran>; // with the driver's lock
  return *all;
}

// Two such operations of one word are no race, whatever orders them: kernels of one device see each other's.
bool is_strong(const std::string &instruction) {
  for (const char *word : {"atom.", "red.", ".volatile", ".relaxed", ".acquire", ".release"})
    if (instruction.find(word) != std::string::npos)
      return true;
  return false;
}

// The first byte that both touched, of memory that was there when the earlier one ran, and how many there
// are.
std::pair<uint64_t, uint64_t> common(const Site &one, const Site &other, uint64_t first_identifier) {
  uint64_t first = UINT64_MAX, count = 0;
  for (const auto &[page, bits] : one.pages) {
    auto found = other.pages.find(page);
    if (found == other.pages.end())
      continue;
    for (size_t word = 0; word < bits.size(); ++word) {
      uint64_t both = bits[word] & found->second[word];
      if (both == 0)
        continue;
      uint64_t address = page * touched_page_bytes + word * 64 + static_cast<uint64_t>(__builtin_ctzll(both));
      auto allocation = allocations().find(address);
      if (!allocation || allocation->identifier >= first_identifier)
        continue;
      first = std::min(first, address);
      count += static_cast<uint64_t>(__builtin_popcountll(both));
    }
  }
  return {first, count};
}

void compare(const Ran &earlier, const Ran &now, LaunchResult &result) {
  for (const Site &then : earlier.sites)
    for (const Site &site : now.sites) {
      if ((!then.writes && !site.writes) || (then.is_strong && site.is_strong))
        continue;
      auto [address, bytes] = common(then, site, earlier.first_identifier);
      if (bytes == 0 || result.findings.size() >= most_findings)
        continue;
      Finding found;
      found.check = Check::race;
      found.kind = !then.writes  ? FindingKind::write_after_read
                   : site.writes ? FindingKind::write_after_write
                                 : FindingKind::read_after_write;
      found.first = then.side;
      found.second = site.side;
      found.has_two_sides = true;
      found.space = "global";
      found.allocation = allocations().find(address)->base;
      found.offset = address - found.allocation;
      found.bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
      found.count = 1;
      found.earlier_kernel = earlier.kernel;
      found.earlier_launch = earlier.launch;
      result.findings.push_back(std::move(found));
    }
}

bool knows(const Order &order, const Ran &one) {
  auto found = order.find(one.stream);
  return found != order.end() && found->second >= one.number;
}

} // namespace

bool may_race(const Context &context) {
  return (settings().checks.bits & bit_of(Check::race)) && has_several_streams(context);
}

void find_launch_races(const std::string &kernel, uint64_t launch_number, LaunchResult &result) {
  const Running &running = running_work();
  Lock lock(driver().mutex);
  Ran now;
  now.kernel = kernel;
  now.launch = launch_number + 1;
  now.stream = running.stream;
  if (auto found = running.order.find(running.stream); found != running.order.end())
    now.number = found->second;
  now.first_identifier = driver().next_identifier;
  size_t k = 0;
  for (const auto &[key, pages] : result.touched) {
    const Side &side = result.sides[k++];
    if (std::get<3>(key) == TouchedSpace::global)
      now.sites.push_back({side, std::get<2>(key), is_strong(side.instruction), pages});
  }
  std::deque<Ran> &all = ran();
  // What the host has waited for comes before all that it issues from now on.
  all.erase(
      std::remove_if(all.begin(), all.end(), [](const Ran &earlier) { return knows(host_order(), earlier); }),
      all.end());
  for (const Ran &earlier : all)
    if (!knows(running.order, earlier))
      compare(earlier, now, result);
  if (all.size() == most_launches)
    all.pop_front();
  all.push_back(std::move(now));
}

} // namespace emulator::driver
