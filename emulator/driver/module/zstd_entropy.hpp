// The two entropy codes of ZSTD (RFC 8878, section 4): finite state entropy and Huffman. Both read their bits
// from the end of a stream to its beginning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace emulator::driver::zstd {

// Thrown at anything the format does not allow; caught where a frame begins.
struct Damaged {
  const char *what;
};

inline void require(bool holds, const char *what) {
  if (!holds)
    throw Damaged{what};
}

struct Bytes {
  const uint8_t *at = nullptr;
  const uint8_t *end = nullptr;
  size_t left() const { return static_cast<size_t>(end - at); }
  uint8_t byte() {
    require(at < end, "it is cut short");
    return *at++;
  }
  // `count` bytes as a number, the first one lowest.
  uint64_t number(size_t count) {
    require(left() >= count, "it is cut short");
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i)
      value |= uint64_t{at[i]} << (8 * i);
    at += count;
    return value;
  }
  Bytes take(size_t count) {
    require(left() >= count, "it is cut short");
    Bytes part{at, at + count};
    at += count;
    return part;
  }
};

// Bits from the last byte to the first. The highest set bit of the last byte marks where they begin.
class BackwardBits {
public:
  explicit BackwardBits(Bytes bytes) : begin_(bytes.at), bytes_(bytes.left()) {
    require(bytes_ > 0 && bytes.end[-1] != 0, "a bit stream has no end mark");
    left_ = static_cast<int64_t>(bytes_) * 8 - 8 + (31 - __builtin_clz(bytes.end[-1]));
  }
  // The next `count` bits (56 at most), the first one read highest; zeros stand before the beginning. Nothing
  // is consumed.
  uint64_t peek(unsigned count) const {
    int64_t low = left_ - count;
    if (low >= 0)
      return window(static_cast<size_t>(low)) & mask(count);
    if (left_ <= 0)
      return 0;
    return (window(0) & mask(static_cast<unsigned>(left_))) << -low & mask(count);
  }
  void skip(unsigned count) { left_ -= count; }
  uint64_t read(unsigned count) {
    uint64_t value = peek(count);
    left_ -= count;
    return value;
  }
  // Negative once more bits were read than there are.
  int64_t left() const { return left_; }

private:
  static uint64_t mask(unsigned count) { return (uint64_t{1} << count) - 1; }
  // 57 bits or more from bit `low` on, as far as the stream goes.
  uint64_t window(size_t low) const {
    size_t byte = low / 8;
    uint64_t value = 0;
    if (bytes_ - byte >= 8)
      std::memcpy(&value, begin_ + byte, 8); // both supported processors are little endian
    else
      for (size_t i = 0; byte + i < bytes_; ++i)
        value |= uint64_t{begin_[byte + i]} << (8 * i);
    return value >> (low % 8);
  }

  const uint8_t *begin_;
  size_t bytes_;
  int64_t left_;
};

constexpr unsigned largest_state_bits = 9; // of literal lengths and match lengths; offsets 8, weights 6

struct StateTable {
  struct Cell {
    uint16_t next;
    uint8_t symbol;
    uint8_t bits;
  };
  std::array<Cell, size_t{1} << largest_state_bits> cells;
  unsigned bits = 0; // the table has 2^bits cells
  bool known = false;

  // From the probability of each symbol; -1 is "less than one".
  void build(const int16_t *probabilities, size_t symbols, unsigned accuracy);
  void repeat(uint8_t symbol); // every cell is this symbol and takes no bits
  // From a description in the stream, which it consumes.
  void read(Bytes &from, size_t most_symbols, unsigned most_bits);
};

// A state of one of the interleaved streams of symbols.
struct State {
  const StateTable *table;
  uint32_t cell;
  State(const StateTable &of, BackwardBits &bits)
      : table(&of), cell(static_cast<uint32_t>(bits.read(of.bits))) {}
  uint8_t symbol() const { return table->cells[cell].symbol; }
  void advance(BackwardBits &bits) {
    const StateTable::Cell &from = table->cells[cell];
    cell = from.next + static_cast<uint32_t>(bits.read(from.bits));
  }
};

constexpr unsigned longest_huffman_code = 11;

struct HuffmanTable {
  struct Cell {
    uint8_t symbol;
    uint8_t bits;
  };
  std::array<Cell, size_t{1} << longest_huffman_code> cells;
  unsigned bits = 0;
  bool known = false;

  // From a description in the stream, which it consumes.
  void read(Bytes &from);
  // One stream of symbols, which must end where the output does.
  void decode(Bytes stream, uint8_t *out, size_t count) const;
};

} // namespace emulator::driver::zstd
