#include "exec/interface/global_shadow.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace emulator {

namespace {

constexpr uint64_t most_bytes_looked_at = 2048;

// Stands for every page of which nothing was written.
alignas(64) uint8_t unwritten_page[GlobalShadow::page_bytes];

template <typename Entry> Entry *zeroed(uint64_t count) {
  void *memory = std::calloc(count, sizeof(Entry));
  if (!memory)
    throw std::bad_alloc();
  return static_cast<Entry *>(memory);
}

} // namespace

GlobalShadow &global_shadow() {
  static GlobalShadow *only = new GlobalShadow;
  return *only;
}

void GlobalShadow::turn_on() {
  std::lock_guard<std::mutex> hold(lock_);
  if (is_on_)
    return;
  std::memset(unwritten_page, 0xff, sizeof unwritten_page);
  parts_ = zeroed<Part>(parts);
  is_on_ = true;
}

GlobalShadow::Page *GlobalShadow::entry(uint64_t address) {
  const uint64_t number = address / (page_bytes * pages_of_part);
  if (number >= parts)
    return nullptr;
  Part &part = parts_[number];
  Page *pages = part.load(std::memory_order_acquire);
  if (!pages) {
    Page *fresh = zeroed<Page>(pages_of_part);
    if (part.compare_exchange_strong(pages, fresh))
      pages = fresh;
    else
      std::free(fresh);
  }
  return &pages[address / page_bytes % pages_of_part];
}

uint8_t *GlobalShadow::take_page() {
  std::lock_guard<std::mutex> hold(lock_);
  if (spare_.empty())
    return zeroed<uint8_t>(page_bytes);
  uint8_t *page = spare_.back();
  spare_.pop_back();
  return page;
}

uint8_t *GlobalShadow::own_page(Page &page) {
  uint8_t *now = page.load(std::memory_order_acquire);
  while (!now || now == unwritten_page) {
    uint8_t *fresh = take_page();
    std::memset(fresh, now ? 0xff : 0, page_bytes);
    if (page.compare_exchange_strong(now, fresh))
      return fresh;
    std::lock_guard<std::mutex> hold(lock_);
    spare_.push_back(fresh);
  }
  return now; // it is nobody's spare one while kernels run
}

void GlobalShadow::set(uint64_t base, uint64_t bytes, bool undefined) {
  while (is_on_ && bytes != 0) {
    const uint64_t offset = base % page_bytes, here = std::min(bytes, page_bytes - offset);
    // Whether there is anything to do is asked without making a table.
    const uint8_t *known = page_at(base);
    Page *page = (undefined ? known != unwritten_page : known != nullptr) ? entry(base) : nullptr;
    uint8_t *unwritten = unwritten_page;
    if (page && undefined && here == page_bytes) {
      uint8_t *old = page->exchange(unwritten_page);
      std::lock_guard<std::mutex> hold(lock_);
      if (old && old != unwritten_page)
        spare_.push_back(old);
    } else if (page && (here != page_bytes || !page->compare_exchange_strong(unwritten, nullptr))) {
      std::memset(own_page(*page) + offset, undefined ? 0xff : 0, here);
    }
    base += here;
    bytes -= here;
  }
}

void GlobalShadow::all_written() {
  for (uint64_t part = 0; is_on_ && part < parts; ++part)
    if (Page *pages = parts_[part].load())
      for (uint64_t k = 0; k < pages_of_part; ++k)
        if (pages[k].load(std::memory_order_relaxed))
          std::memset(own_page(pages[k]), 0, page_bytes);
}

void GlobalShadow::end(uint64_t base, uint64_t bytes) {
  written(base, bytes);
  const uint64_t last = (base + bytes) / page_bytes * page_bytes;
  for (uint64_t at = (base + page_bytes - 1) / page_bytes * page_bytes; at < last; at += page_bytes)
    if (page_at(at)) {
      uint8_t *page = entry(at)->exchange(nullptr);
      std::lock_guard<std::mutex> hold(lock_);
      spare_.push_back(page);
    }
}

void GlobalShadow::take(uint64_t from, uint8_t *to, uint64_t bytes) const {
  for (uint64_t at = from, end = from + bytes; at < end;) {
    const uint64_t next = std::min(end, (at / page_bytes + 1) * page_bytes);
    if (const uint8_t *bits = this->at(at))
      std::memcpy(to + (at - from), bits, next - at);
    else
      std::memset(to + (at - from), 0, next - at);
    at = next;
  }
}

void GlobalShadow::put_all(uint64_t to, const uint8_t *from, uint64_t bytes, bool follow) {
  for (uint64_t at = to, end = to + bytes; at < end;) {
    const uint64_t next = std::min(end, (at / page_bytes + 1) * page_bytes);
    if (const uint8_t *bits = from + (at - to); !follow || !any_bit(bits, next - at))
      written(at, next - at);
    else if (Page *page = entry(at))
      std::memcpy(own_page(*page) + at % page_bytes, bits, next - at);
    at = next;
  }
}

void GlobalShadow::copy(uint64_t from, uint64_t to, uint64_t bytes, bool follow) {
  if (!is_on_)
    return;
  bool any = false;
  for (uint64_t at = from; follow && !any && at < from + bytes; at = (at / page_bytes + 1) * page_bytes)
    any = page_at(at) != nullptr;
  if (!any) {
    written(to, bytes);
    return;
  }
  std::vector<uint8_t> taken(bytes); // the two may overlap
  take(from, taken.data(), bytes);
  put_all(to, taken.data(), bytes, true);
}

bool GlobalShadow::may_be_undefined(uint64_t address, uint64_t bytes) const {
  const uint64_t end = address + bytes;
  while (address < end) {
    const uint64_t next = std::min(end, (address / page_bytes + 1) * page_bytes);
    if (const uint8_t *bits = at(address))
      if (next - address > most_bytes_looked_at || any_bit(bits, next - address))
        return true;
    address = next;
  }
  return false;
}

void GlobalShadow::put(uint64_t address, const void *bits, uint32_t bytes) {
  if (!is_on_ || (!page_at(address) && !any_bit(static_cast<const uint8_t *>(bits), bytes)))
    return;
  if (Page *page = entry(address))
    std::memcpy(own_page(*page) + address % page_bytes, bits, bytes);
}

} // namespace emulator
