#include "zstd_entropy.hpp"

namespace emulator::driver::zstd {

namespace {

constexpr unsigned least_accuracy = 5;
constexpr size_t most_weights = 255; // the weight of the last symbol follows from the others
constexpr unsigned weight_state_bits = 6;

unsigned highest_bit(uint32_t value) { return 31 - static_cast<unsigned>(__builtin_clz(value)); }

// Bits from the first byte to the last; reading behind the end is an error only when it is taken.
class ForwardBits {
public:
  explicit ForwardBits(Bytes bytes) : bytes_(bytes) {}
  uint32_t peek(unsigned count) const {
    uint64_t value = 0;
    for (size_t i = 0; i < 5 && position_ / 8 + i < bytes_.left(); ++i)
      value |= uint64_t{bytes_.at[position_ / 8 + i]} << (8 * i);
    return static_cast<uint32_t>(value >> (position_ % 8)) & ((1u << count) - 1);
  }
  void skip(unsigned count) {
    position_ += count;
    require(position_ <= bytes_.left() * 8, "the description of a table is cut short");
  }
  size_t bytes_used() const { return (position_ + 7) / 8; }

private:
  Bytes bytes_;
  size_t position_ = 0;
};

} // namespace

void StateTable::build(const int16_t *probabilities, size_t symbols, unsigned accuracy) {
  bits = accuracy;
  uint32_t size = 1u << accuracy, high = size;
  uint16_t next[256];
  for (size_t s = 0; s < symbols; ++s) {
    if (probabilities[s] == -1)
      cells[--high].symbol = static_cast<uint8_t>(s);
    next[s] = static_cast<uint16_t>(probabilities[s] == -1 ? 1 : probabilities[s]);
  }
  uint32_t step = (size >> 1) + (size >> 3) + 3, at = 0;
  for (size_t s = 0; s < symbols; ++s)
    for (int i = 0; i < probabilities[s]; ++i) {
      cells[at].symbol = static_cast<uint8_t>(s);
      do
        at = (at + step) & (size - 1);
      while (at >= high);
    }
  require(at == 0, "the probabilities of a table do not fill it");
  for (uint32_t c = 0; c < size; ++c) {
    uint32_t state = next[cells[c].symbol]++;
    cells[c].bits = static_cast<uint8_t>(accuracy - highest_bit(state));
    cells[c].next = static_cast<uint16_t>((state << cells[c].bits) - size);
  }
  known = true;
}

void StateTable::repeat(uint8_t symbol) {
  bits = 0;
  cells[0] = {0, symbol, 0};
  known = true;
}

// Section 4.1.1.
void StateTable::read(Bytes &from, size_t most_symbols, unsigned most_bits) {
  ForwardBits stream(from);
  unsigned accuracy = stream.peek(4) + least_accuracy;
  stream.skip(4);
  require(accuracy <= most_bits, "a table is larger than allowed");
  int16_t probabilities[256];
  size_t symbols = 0;
  int32_t remaining = 1 << accuracy;
  while (remaining > 0) {
    require(symbols < most_symbols, "a table has too many symbols");
    // Values that cannot occur make room: low ones are written with one bit less.
    unsigned width = highest_bit(static_cast<uint32_t>(remaining) + 1) + 1;
    uint32_t value = stream.peek(width), low_mask = (1u << (width - 1)) - 1;
    uint32_t threshold = (1u << width) - 1 - (static_cast<uint32_t>(remaining) + 1);
    if ((value & low_mask) < threshold) {
      value &= low_mask;
      stream.skip(width - 1);
    } else {
      if (value > low_mask)
        value -= threshold;
      stream.skip(width);
    }
    int32_t probability = static_cast<int32_t>(value) - 1;
    remaining -= probability < 0 ? -probability : probability;
    require(remaining >= 0, "the probabilities of a table do not fill it");
    probabilities[symbols++] = static_cast<int16_t>(probability);
    if (probability == 0) {
      uint32_t more;
      do {
        more = stream.peek(2);
        stream.skip(2);
        require(symbols + more <= most_symbols, "a table has too many symbols");
        for (uint32_t i = 0; i < more; ++i)
          probabilities[symbols++] = 0;
      } while (more == 3);
    }
  }
  from.take(stream.bytes_used());
  build(probabilities, symbols, accuracy);
}

// Section 4.2.1.
void HuffmanTable::read(Bytes &from) {
  uint8_t weights[most_weights + 1];
  size_t symbols = 0;
  uint8_t header = from.byte();
  if (header >= 128) {
    symbols = header - 127u;
    Bytes nibbles = from.take((symbols + 1) / 2);
    for (size_t s = 0; s < symbols; ++s)
      weights[s] = s % 2 ? nibbles.at[s / 2] & 15 : nibbles.at[s / 2] >> 4;
  } else {
    Bytes stream = from.take(header);
    StateTable table;
    table.read(stream, longest_huffman_code + 1, weight_state_bits);
    BackwardBits bits(stream);
    // Two states take turns; what they hold when the bits are used up are the last symbols.
    State one(table, bits), two(table, bits);
    require(bits.left() >= 0, "the weights of a Huffman table are cut short");
    State *now = &one, *other = &two;
    for (;;) {
      require(symbols < most_weights, "a Huffman table has too many weights");
      weights[symbols++] = now->symbol();
      now->advance(bits);
      if (bits.left() < 0) {
        require(symbols < most_weights, "a Huffman table has too many weights");
        weights[symbols++] = other->symbol();
        break;
      }
      State *last = now;
      now = other;
      other = last;
    }
  }
  uint32_t total = 0;
  for (size_t s = 0; s < symbols; ++s) {
    require(weights[s] <= longest_huffman_code, "a Huffman code is too long");
    total += weights[s] ? 1u << (weights[s] - 1) : 0;
  }
  require(total > 0, "a Huffman table without codes");
  unsigned longest = highest_bit(total) + 1;
  require(longest <= longest_huffman_code, "a Huffman code is too long");
  uint32_t rest = (1u << longest) - total;
  require((rest & (rest - 1)) == 0, "the codes of a Huffman table do not fill it");
  weights[symbols++] = static_cast<uint8_t>(highest_bit(rest) + 1);

  bits = longest;
  uint32_t begin = 0;
  for (unsigned weight = 1; weight <= longest; ++weight)
    for (size_t s = 0; s < symbols; ++s)
      if (weights[s] == weight) {
        uint32_t width = 1u << (weight - 1);
        for (uint32_t c = 0; c < width; ++c)
          cells[begin + c] = {static_cast<uint8_t>(s), static_cast<uint8_t>(longest + 1 - weight)};
        begin += width;
      }
  known = true;
}

void HuffmanTable::decode(Bytes stream, uint8_t *out, size_t count) const {
  BackwardBits source(stream);
  for (size_t i = 0; i < count; ++i) {
    Cell cell = cells[source.peek(bits)];
    out[i] = cell.symbol;
    source.skip(cell.bits);
  }
  require(source.left() == 0, "a Huffman stream does not end where it should");
}

} // namespace emulator::driver::zstd
