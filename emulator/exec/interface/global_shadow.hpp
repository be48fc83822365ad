// Which bits of global memory nothing has written, or were made of such (the check `init`): of the whole
// process, since addresses are. All of it counts as written until something is said.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace emulator {

// Bits are kept beside each page of which some are undefined. Any thread may ask and write, as it may touch
// the memory itself; what begins or ends is told while no kernel uses it.
class GlobalShadow {
public:
  static constexpr uint64_t page_bytes = 4096;
  // Off, which is how it begins, nothing is kept and everything counts as written.
  void turn_on();
  bool is_on() const { return is_on_; }
  // Memory that begins: nothing has written it.
  void begin(uint64_t base, uint64_t bytes) { set(base, bytes, true); }
  void written(uint64_t base, uint64_t bytes) { set(base, bytes, false); }
  void end(uint64_t base, uint64_t bytes);
  // Everything counts as written from now on.
  void all_written();
  // What is at `from` is now at `to`, too. `follow`: whether undefined bits may be kept there.
  void copy(uint64_t from, uint64_t to, uint64_t bytes, bool follow);
  // The bits of a stretch of any length, given and taken.
  void put_all(uint64_t to, const uint8_t *bits, uint64_t bytes, bool follow);
  void take(uint64_t from, uint8_t *bits, uint64_t bytes) const;

  // The bits beside an access that lies in one page; nullptr: all of it counts as written.
  const uint8_t *at(uint64_t address) const {
    const uint8_t *page = page_at(address);
    return page ? page + address % page_bytes : nullptr;
  }
  // Whether a bit may be undefined. True too where there is more than is worth a look.
  bool may_be_undefined(uint64_t address, uint64_t bytes) const;
  // Of an access that lies in one page.
  void put(uint64_t address, const void *bits, uint32_t bytes);

private:
  using Page = std::atomic<uint8_t *>;
  static constexpr uint64_t pages_of_part = uint64_t{1} << 18,
                            parts = uint64_t{1} << 17; // 47 bits of address
  using Part = std::atomic<Page *>;

  uint8_t *page_at(uint64_t address) const {
    const uint64_t part = address / (page_bytes * pages_of_part);
    if (!is_on_ || part >= parts)
      return nullptr;
    Page *pages = parts_[part].load(std::memory_order_acquire);
    return pages ? pages[address / page_bytes % pages_of_part].load(std::memory_order_acquire) : nullptr;
  }
  Page *entry(uint64_t address);
  void set(uint64_t base, uint64_t bytes, bool undefined);
  uint8_t *own_page(Page &page);
  uint8_t *take_page();

  bool is_on_ = false;
  Part *parts_ = nullptr;
  std::mutex lock_; // of what follows
  std::vector<uint8_t *> spare_;
};

// Whether any of the bits is 1.
inline bool any_bit(const uint8_t *bits, uint64_t bytes) {
  uint64_t all = 0, word = 0;
  for (; bytes >= 8; bytes -= 8, bits += 8) {
    std::memcpy(&word, bits, 8);
    all |= word;
  }
  for (; bytes; --bytes)
    all |= *bits++;
  return all != 0;
}

// The process's. It stays to the end, like the threads that may use it.
GlobalShadow &global_shadow();

} // namespace emulator
