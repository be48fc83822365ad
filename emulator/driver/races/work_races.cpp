#include "work_races.hpp"

#include "core/settings.hpp"
#include "device/device.hpp"
#include "entry/findings_file.hpp"
#include "memory/allocations.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace emulator::driver {
namespace {

constexpr size_t most_works = 64; // that are kept: the oldest go
constexpr uint64_t most_value_bytes = 8;

using Bits = std::array<uint64_t, touched_page_bytes / 64>;

// What the instructions of one line touched, of a launch; or a call of the host.
struct Site {
  bool writes = false, is_strong = false;
  TouchedPages pages;
  Rows rows; // of a call, which has no pages
  TouchedSite who;
};

struct Ran {
  std::string name;    // of the kernel, or of the call
  uint64_t launch = 0; // from 1; 0: a call
  uint64_t stream = 0, number = 0;
  uint64_t first_identifier = 0; // of memory that is allocated later
  std::vector<Site> sites;
};

std::deque<Ran> &ran() {
  static auto *all = new std::deque<Ran>; // with the driver's lock
  return *all;
}

bool looks_for_races() { return settings().checks.bits & bit_of(Check::race); }

// Two such operations of one word are no race, whatever orders them: kernels of one device see each other's.
bool is_strong(const std::string &instruction) {
  for (const char *word : {"atom.", "red.", ".volatile", ".relaxed", ".acquire", ".release"})
    if (instruction.find(word) != std::string::npos)
      return true;
  return false;
}

// The first byte that both touched, of memory that was there when the earlier one ran, and how many there
// are.
class Common {
public:
  Common(const Site &one, const Site &other, uint64_t first_identifier)
      : first_identifier_(first_identifier) {
    if (one.rows.empty() && other.rows.empty())
      of_pages(one.pages, other.pages);
    else if (other.rows.empty())
      of_rows(other.pages, one.rows);
    else if (one.rows.empty())
      of_rows(one.pages, other.rows);
    else
      of_both(one.rows, other.rows);
  }
  uint64_t first = UINT64_MAX, bytes = 0;

private:
  void add(uint64_t begin, uint64_t end) {
    while (begin < end) {
      auto allocation = allocations().find(begin);
      if (!allocation) { // the rest of a row of pageable memory, or of what was freed
        auto [below, above] = allocations().neighbours(begin);
        begin = above.bytes == 0 ? end : std::min(end, std::max(begin + 1, above.base));
        continue;
      }
      const uint64_t here = std::min(end, allocation->base + allocation->bytes);
      if (allocation->identifier < first_identifier_) {
        first = std::min(first, begin);
        bytes += here - begin;
      }
      begin = std::max(here, begin + 1);
    }
  }
  void add(uint64_t page, const Bits &bits) {
    for (uint64_t at = 0; at < touched_page_bytes; ++at) {
      if (bits[at / 64] == 0) {
        at += 63;
        continue;
      }
      uint64_t from = at;
      while (at < touched_page_bytes && (bits[at / 64] >> at % 64 & 1))
        ++at;
      if (from != at)
        add(page * touched_page_bytes + from, page * touched_page_bytes + at);
    }
  }
  void of_pages(const TouchedPages &one, const TouchedPages &other) {
    for (const auto &[page, bits] : one) {
      auto found = other.find(page);
      if (found == other.end())
        continue;
      Bits both;
      for (size_t word = 0; word < bits.size(); ++word)
        both[word] = bits[word] & found->second[word];
      add(page, both);
    }
  }
  void of_rows(const TouchedPages &pages, const Rows &rows) {
    for (const auto &[page, bits] : pages) {
      const uint64_t base = page * touched_page_bytes;
      for (auto row = std::upper_bound(rows.begin(), rows.end(), base,
                                       [](uint64_t at, const auto &one) { return at < one.second; });
           row != rows.end() && row->first < base + touched_page_bytes; ++row) {
        Bits both{};
        const uint64_t end = std::min(row->second, base + touched_page_bytes);
        for (uint64_t at = std::max(row->first, base); at < end; ++at)
          both[(at - base) / 64] |= bits[(at - base) / 64] & uint64_t{1} << (at - base) % 64;
        add(page, both);
      }
    }
  }
  void of_both(const Rows &one, const Rows &other) {
    for (auto a = one.begin(), b = other.begin(); a != one.end() && b != other.end();) {
      add(std::max(a->first, b->first), std::min(a->second, b->second));
      ++(a->second < b->second ? a : b);
    }
  }

  uint64_t first_identifier_;
};

// The lane that touched the byte first, and how many bytes from there on; 0: not known.
Side side_at(const Site &site, uint64_t address, uint64_t &bytes) {
  Side side = site.who.side;
  side.has_thread = false;
  bytes = 0;
  for (const Toucher &one : site.who.touchers) {
    uint64_t base = one.base;
    for (uint32_t lanes = one.lanes; lanes;
         lanes &= lanes - 1, base += static_cast<uint64_t>(int64_t{one.stride})) {
      if (address - base >= one.bytes)
        continue;
      const auto &[width, height, deep] = site.who.grid;
      const auto &size = site.who.block;
      const auto thread = one.warp * 32 + static_cast<uint32_t>(__builtin_ctz(lanes));
      side.block = {static_cast<uint32_t>(one.block % width),
                    static_cast<uint32_t>(one.block / width % height),
                    static_cast<uint32_t>(one.block / width / height)};
      side.thread = {thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]};
      side.has_thread = true;
      bytes = base + one.bytes - address;
      return side;
    }
  }
  return side;
}

std::string number_at(const uint8_t *bytes, uint64_t count) {
  std::string text = "0x";
  for (uint64_t k = count; k-- > 0;) {
    constexpr char digits[] = "0123456789abcdef";
    text += {digits[bytes[k] >> 4], digits[bytes[k] & 15]};
  }
  return text;
}

// first_bytes, bytes: that the two sides touch there, 0 where it is not known.
void note_values(Finding &to, const Site &now, uint64_t address, uint64_t first_bytes, uint64_t bytes) {
  const uint64_t offset = address % touched_page_bytes;
  bytes = std::min({most_value_bytes, bytes, touched_page_bytes - offset});
  if (!now.rows.empty()) { // not copied yet
    bytes = std::min<uint64_t>({most_value_bytes, to.bytes, first_bytes ? first_bytes : most_value_bytes});
    to.value = number_at(reinterpret_cast<const uint8_t *>(address), bytes);
    return;
  }
  auto found = now.who.values.find(address / touched_page_bytes);
  if (bytes == 0 || found == now.who.values.end())
    return;
  const TouchedValues &values = found->second;
  to.value = number_at(&values.before[offset], bytes);
  if (values.is_after_known[offset / 64] >> offset % 64 & 1)
    to.new_value = number_at(&values.after[offset], bytes);
}

bool has_touched(const Site &site, uint64_t address) {
  if (!site.rows.empty())
    return std::any_of(site.rows.begin(), site.rows.end(),
                       [=](const auto &row) { return row.first <= address && address < row.second; });
  auto page = site.pages.find(address / touched_page_bytes);
  const uint64_t at = address % touched_page_bytes;
  return page != site.pages.end() && (page->second[at / 64] >> at % 64 & 1);
}

// Who wrote the byte last before `earlier`, as far as works are kept.
void note_writer(Finding &to, const Ran &earlier, uint64_t address) {
  const Ran *last = nullptr;
  const Site *by = nullptr;
  for (const Ran &one : ran()) {
    if (&one == &earlier)
      break;
    for (const Site &site : one.sites)
      if (site.writes && has_touched(site, address)) {
        last = &one;
        by = &site;
      }
  }
  if (!last)
    return;
  uint64_t bytes = 0;
  to.has_writer = true;
  to.writer = side_at(*by, address, bytes);
  to.writer_kernel = last->name;
}

void compare(const Ran &earlier, const Ran &now, std::vector<Finding> &findings) {
  for (const Site &then : earlier.sites)
    for (const Site &site : now.sites) {
      if ((!then.writes && !site.writes) || (then.is_strong && site.is_strong))
        continue;
      const Common common(then, site, earlier.first_identifier);
      if (common.bytes == 0 || findings.size() >= most_findings)
        continue;
      Finding found;
      found.check = Check::race;
      found.kind = !then.writes  ? FindingKind::write_after_read
                   : site.writes ? FindingKind::write_after_write
                                 : FindingKind::read_after_write;
      uint64_t first_bytes = 0, second_bytes = 0;
      found.first = side_at(then, common.first, first_bytes);
      found.second = side_at(site, common.first, second_bytes);
      found.has_two_sides = true;
      found.space = "global";
      found.allocation = allocations().find(common.first)->base;
      found.offset = common.first - found.allocation;
      found.bytes = static_cast<uint32_t>(std::min<uint64_t>(common.bytes, UINT32_MAX));
      found.count = 1;
      found.earlier_kernel = earlier.name;
      found.earlier_launch = earlier.launch;
      note_values(found, site, common.first, first_bytes, second_bytes);
      if (!then.writes)
        note_writer(found, earlier, common.first);
      findings.push_back(std::move(found));
    }
}

bool knows(const Order &order, const Ran &one) {
  auto found = order.find(one.stream);
  return found != order.end() && found->second >= one.number;
}

Ran running_now(const std::string &name, uint64_t launch) {
  const Running &running = running_work();
  Ran now;
  now.name = name;
  now.launch = launch;
  now.stream = running.stream;
  if (auto found = running.order.find(running.stream); found != running.order.end())
    now.number = found->second;
  now.first_identifier = driver().next_identifier;
  return now;
}

void add(Ran now, std::vector<Finding> &findings) {
  std::deque<Ran> &all = ran();
  // What the host has waited for comes before all that it issues from now on.
  all.erase(
      std::remove_if(all.begin(), all.end(), [](const Ran &earlier) { return knows(host_order(), earlier); }),
      all.end());
  for (const Ran &earlier : all)
    if (!knows(running_work().order, earlier))
      compare(earlier, now, findings);
  if (all.size() == most_works)
    all.pop_front();
  for (Site &site : now.sites)
    site.who.values.clear();
  all.push_back(std::move(now));
}

} // namespace

bool may_race(const Context &context) { return looks_for_races() && has_several_streams(context); }

WatchedPages unordered_pages() {
  WatchedPages pages;
  for (const Ran &earlier : ran()) {
    if (knows(running_work().order, earlier))
      continue;
    for (const Site &site : earlier.sites)
      for (size_t by_writes = site.writes ? 0 : 1; by_writes < pages.size(); ++by_writes) {
        for (const auto &page : site.pages)
          pages[by_writes].insert(page.first);
        for (const auto &[begin, end] : site.rows)
          for (uint64_t page = begin / touched_page_bytes; page * touched_page_bytes < end; ++page)
            pages[by_writes].insert(page);
      }
  }
  return pages;
}

void find_launch_races(const std::string &kernel, uint64_t launch_number, LaunchResult &result) {
  Lock lock(driver().mutex);
  Ran now = running_now(kernel, launch_number + 1);
  for (auto &[key, who] : result.sites) {
    Site site;
    site.writes = std::get<2>(key);
    site.is_strong = is_strong(who.side.instruction);
    site.pages = result.touched[key];
    site.who = std::move(who);
    now.sites.push_back(std::move(site));
  }
  add(std::move(now), result.findings);
}

Rows rows_of(uint64_t base, uint64_t width, uint64_t height, uint64_t pitch_bytes, uint64_t depth,
             uint64_t slice_bytes) {
  Rows rows;
  for (uint64_t z = 0; looks_for_races() && z < depth; ++z)
    for (uint64_t y = 0; y < height; ++y) {
      const uint64_t begin = base + z * slice_bytes + y * pitch_bytes;
      if (!rows.empty() && rows.back().second == begin)
        rows.back().second += width;
      else
        rows.emplace_back(begin, begin + width);
    }
  return rows;
}

void find_call_races(const std::string &call, const Rows &read, const Rows &written) {
  if (read.empty() && written.empty())
    return;
  LaunchResult result;
  {
    Lock lock(driver().mutex);
    Ran now = running_now(call, 0);
    for (const Rows *rows : {&read, &written})
      if (!rows->empty()) {
        Site site;
        site.writes = rows == &written;
        site.rows = *rows;
        site.who.side.instruction = call;
        now.sites.push_back(std::move(site));
      }
    add(std::move(now), result.findings);
  }
  if (!result.findings.empty())
    append_findings(call, result, no_launch);
}

} // namespace emulator::driver
