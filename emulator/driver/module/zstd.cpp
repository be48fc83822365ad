#include "zstd.hpp"

#include "zstd_entropy.hpp"

#include <memory>

namespace emulator::driver {
namespace zstd {
namespace {

constexpr uint32_t frame_magic = 0xFD2FB528;
constexpr size_t largest_block_bytes = size_t{128} << 10;
constexpr unsigned longest_offset_code = 31;

// Section 3.1.1.3.2.1: what a code stands for is its base and this many further bits.
struct Code {
  uint32_t base;
  uint8_t bits;
};
constexpr Code literal_lengths[] = {
    {0, 0},   {1, 0},   {2, 0},     {3, 0},     {4, 0},     {5, 0},     {6, 0},      {7, 0},      {8, 0},
    {9, 0},   {10, 0},  {11, 0},    {12, 0},    {13, 0},    {14, 0},    {15, 0},     {16, 1},     {18, 1},
    {20, 1},  {22, 1},  {24, 2},    {28, 2},    {32, 3},    {40, 3},    {48, 4},     {64, 6},     {128, 7},
    {256, 8}, {512, 9}, {1024, 10}, {2048, 11}, {4096, 12}, {8192, 13}, {16384, 14}, {32768, 15}, {65536, 16},
};
constexpr Code match_lengths[] = {
    {3, 0},   {4, 0},     {5, 0},     {6, 0},     {7, 0},     {8, 0},      {9, 0},      {10, 0},     {11, 0},
    {12, 0},  {13, 0},    {14, 0},    {15, 0},    {16, 0},    {17, 0},     {18, 0},     {19, 0},     {20, 0},
    {21, 0},  {22, 0},    {23, 0},    {24, 0},    {25, 0},    {26, 0},     {27, 0},     {28, 0},     {29, 0},
    {30, 0},  {31, 0},    {32, 0},    {33, 0},    {34, 0},    {35, 1},     {37, 1},     {39, 1},     {41, 1},
    {43, 2},  {47, 2},    {51, 3},    {59, 3},    {67, 4},    {83, 4},     {99, 5},     {131, 7},    {259, 8},
    {515, 9}, {1027, 10}, {2051, 11}, {4099, 12}, {8195, 13}, {16387, 14}, {32771, 15}, {65539, 16},
};
constexpr size_t literal_length_codes = sizeof literal_lengths / sizeof *literal_lengths;
constexpr size_t match_length_codes = sizeof match_lengths / sizeof *match_lengths;

// Section 3.1.1.3.2.2: the tables of mode "predefined".
constexpr int16_t usual_literal_lengths[] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                             2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
constexpr int16_t usual_match_lengths[] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                           1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                           1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
constexpr int16_t usual_offsets[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                     1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};

// XXH64 with seed 0, of which a frame's checksum is the low half.
uint64_t content_hash(const uint8_t *at, size_t bytes) {
  constexpr uint64_t p1 = 0x9E3779B185EBCA87, p2 = 0xC2B2AE3D27D4EB4F, p3 = 0x165667B19E3779F9,
                     p4 = 0x85EBCA77C2B2AE63, p5 = 0x27D4EB2F165667C5;
  auto rotated = [](uint64_t value, unsigned by) { return value << by | value >> (64 - by); };
  auto word = [](const uint8_t *from) {
    uint64_t value;
    std::memcpy(&value, from, 8);
    return value;
  };
  auto round = [&](uint64_t lane, uint64_t value) { return rotated(lane + value * p2, 31) * p1; };
  const uint8_t *end = at + bytes;
  uint64_t hash = p5;
  if (bytes >= 32) {
    uint64_t lanes[4] = {p1 + p2, p2, 0, 0 - p1};
    for (; end - at >= 32; at += 32)
      for (int l = 0; l < 4; ++l)
        lanes[l] = round(lanes[l], word(at + 8 * l));
    hash = rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12) + rotated(lanes[3], 18);
    for (uint64_t lane : lanes)
      hash = (hash ^ round(0, lane)) * p1 + p4;
  }
  hash += bytes;
  for (; end - at >= 8; at += 8)
    hash = rotated(hash ^ round(0, word(at)), 27) * p1 + p4;
  if (end - at >= 4) {
    uint32_t half;
    std::memcpy(&half, at, 4);
    hash = rotated(hash ^ half * p1, 23) * p2 + p3;
    at += 4;
  }
  for (; at < end; ++at)
    hash = rotated(hash ^ *at * p5, 11) * p1;
  hash = (hash ^ hash >> 33) * p2;
  hash = (hash ^ hash >> 29) * p3;
  return hash ^ hash >> 32;
}

class Frame {
public:
  Frame(Bytes input, std::string &output)
      : input_(input), out_(reinterpret_cast<uint8_t *>(output.data())), capacity_(output.size()) {}

  void decode() {
    bool has_checksum = header();
    for (bool last = false; !last;) {
      auto word = static_cast<uint32_t>(input_.number(3));
      last = word & 1;
      size_t size = word >> 3;
      switch (word >> 1 & 3) {
      case 0: {
        Bytes raw = input_.take(size);
        require(size <= largest_block_ && size <= capacity_ - written_, too_long);
        if (size)
          std::memcpy(out_ + written_, raw.at, size);
        written_ += size;
        break;
      }
      case 1: {
        uint8_t value = input_.byte();
        require(size <= largest_block_ && size <= capacity_ - written_, too_long);
        if (size)
          std::memset(out_ + written_, value, size);
        written_ += size;
        break;
      }
      case 2:
        require(size <= largest_block_, "a block is larger than allowed");
        compressed_block(input_.take(size));
        break;
      default:
        throw Damaged{"a block of a reserved kind"};
      }
    }
    require(written_ == capacity_, "it unpacks to fewer bytes than its entry says");
    if (has_checksum)
      require(input_.number(4) == (content_hash(out_, capacity_) & 0xffffffff),
              "its checksum does not match");
  }

private:
  static constexpr const char *too_long = "it unpacks to more bytes than its entry says";

  // Section 3.1.1.1. True when a checksum follows the blocks.
  bool header() {
    require(input_.number(4) == frame_magic, "it does not begin like a ZSTD frame");
    uint8_t descriptor = input_.byte();
    require((descriptor & 8) == 0, "its header sets a reserved bit");
    bool single_segment = descriptor & 0x20;
    uint64_t window = 0;
    if (!single_segment) {
      uint8_t code = input_.byte();
      uint64_t base = uint64_t{1} << (10 + (code >> 3));
      window = base + base / 8 * (code & 7);
    }
    static constexpr size_t dictionary_bytes[] = {0, 1, 2, 4}, content_bytes[] = {0, 2, 4, 8};
    require(input_.number(dictionary_bytes[descriptor & 3]) == 0, "it needs a dictionary");
    size_t size_bytes = content_bytes[descriptor >> 6];
    if (size_bytes == 0 && single_segment)
      size_bytes = 1;
    if (size_bytes != 0) {
      uint64_t content = input_.number(size_bytes) + (size_bytes == 2 ? 256 : 0);
      require(content == capacity_, "its size is not the one its entry says");
      if (single_segment)
        window = content;
    }
    window_ = window;
    largest_block_ = window < largest_block_bytes ? static_cast<size_t>(window) : largest_block_bytes;
    return descriptor & 4;
  }

  void compressed_block(Bytes block) {
    size_t begin = written_;
    Bytes literals = read_literals(block);
    size_t count = block.byte();
    if (count >= 128)
      count = count == 255 ? block.number(2) + 0x7F00 : (count - 128) << 8 | block.byte();
    if (count == 0) {
      require(block.left() == 0, "bytes behind the sequences of a block");
    } else {
      read_tables(block);
      execute(block, literals, count);
    }
    put_literals(literals, literals.left());
    require(written_ - begin <= largest_block_, "a block unpacks to more than allowed");
  }

  // Section 3.1.1.3.1. What it returns points into the block or into literals_.
  Bytes read_literals(Bytes &block) {
    uint8_t first = block.byte();
    --block.at;
    unsigned kind = first & 3, format = first >> 2 & 3;
    if (kind < 2) {
      size_t header_bytes = format == 1 ? 2 : format == 3 ? 3 : 1;
      auto size = static_cast<size_t>(block.number(header_bytes) >> (header_bytes == 1 ? 3 : 4));
      require(size <= largest_block_, "literals of a block are more than allowed");
      if (kind == 0)
        return block.take(size);
      std::memset(literals_, block.byte(), size);
      return {literals_, literals_ + size};
    }
    size_t header_bytes = format < 2 ? 3 : format + 2;
    unsigned width = format < 2 ? 10 : format == 2 ? 14 : 18;
    uint64_t header = block.number(header_bytes) >> 4;
    auto size = static_cast<size_t>(header & ((1u << width) - 1));
    auto stored = static_cast<size_t>(header >> width);
    require(size <= largest_block_, "literals of a block are more than allowed");
    Bytes source = block.take(stored);
    if (kind == 2)
      huffman_.read(source);
    require(huffman_.known, "literals refer to a Huffman table that is not there");
    if (format == 0) {
      huffman_.decode(source, literals_, size);
    } else {
      size_t lengths[4];
      for (int s = 0; s < 3; ++s)
        lengths[s] = static_cast<size_t>(source.number(2));
      size_t part = (size + 3) / 4;
      require(size >= 6 && 3 * part <= size, "four streams for too few literals");
      for (int s = 0; s < 4; ++s)
        huffman_.decode(s < 3 ? source.take(lengths[s]) : source, literals_ + s * part,
                        s < 3 ? part : size - 3 * part);
    }
    return {literals_, literals_ + size};
  }

  void read_tables(Bytes &block) {
    uint8_t modes = block.byte();
    require((modes & 3) == 0, "the sequences of a block set a reserved bit");
    auto read = [&](unsigned mode, StateTable &table, const int16_t *usual, size_t usual_symbols,
                    unsigned usual_bits, size_t symbols, unsigned bits) {
      if (mode == 0) {
        table.build(usual, usual_symbols, usual_bits);
      } else if (mode == 1) {
        uint8_t symbol = block.byte();
        require(symbol < symbols, "a sequence code that does not exist");
        table.repeat(symbol);
      } else if (mode == 2) {
        table.read(block, symbols, bits);
      } else {
        require(table.known, "sequences refer to a table that is not there");
      }
    };
    read(modes >> 6, literal_length_table_, usual_literal_lengths, literal_length_codes, 6,
         literal_length_codes, 9);
    read(modes >> 4 & 3, offset_table_, usual_offsets, sizeof usual_offsets / sizeof *usual_offsets, 5,
         longest_offset_code + 1, 8);
    read(modes >> 2 & 3, match_length_table_, usual_match_lengths, match_length_codes, 6, match_length_codes,
         9);
  }

  // Sections 3.1.1.4 and 3.1.1.5.
  void execute(Bytes stream, Bytes &literals, size_t count) {
    BackwardBits bits(stream);
    State literal_length(literal_length_table_, bits), offset_code(offset_table_, bits),
        match_length(match_length_table_, bits);
    for (size_t s = 0; s < count; ++s) {
      unsigned offset_bits = offset_code.symbol();
      uint64_t offset_value = (uint64_t{1} << offset_bits) + bits.read(offset_bits);
      const Code &match = match_lengths[match_length.symbol()];
      size_t match_bytes = match.base + static_cast<size_t>(bits.read(match.bits));
      const Code &literal = literal_lengths[literal_length.symbol()];
      size_t literal_bytes = literal.base + static_cast<size_t>(bits.read(literal.bits));
      require(bits.left() >= 0, "the sequences of a block are cut short");
      uint64_t offset = resolved(offset_value, literal_bytes == 0);
      if (s + 1 < count) {
        literal_length.advance(bits);
        match_length.advance(bits);
        offset_code.advance(bits);
      }
      require(literal_bytes <= literals.left(), "sequences take more literals than there are");
      put_literals(literals, literal_bytes);
      copy_match(offset, match_bytes);
    }
    require(bits.left() == 0, "the sequences of a block do not end where they should");
  }

  uint64_t resolved(uint64_t value, bool without_literals) {
    uint64_t offset;
    if (value > 3) {
      offset = value - 3;
      repeats_[2] = repeats_[1];
      repeats_[1] = repeats_[0];
    } else {
      uint64_t which = value - 1 + (without_literals ? 1 : 0);
      offset = which == 3 ? repeats_[0] - 1 : repeats_[which];
      require(offset != 0, "a repeated offset of zero");
      if (which > 1)
        repeats_[2] = repeats_[1];
      if (which > 0)
        repeats_[1] = repeats_[0];
    }
    repeats_[0] = offset;
    return offset;
  }

  void put_literals(Bytes &literals, size_t count) {
    require(count <= capacity_ - written_, too_long);
    if (count)
      std::memcpy(out_ + written_, literals.at, count);
    literals.at += count;
    written_ += count;
  }

  void copy_match(uint64_t offset, size_t count) {
    require(offset <= written_ && offset <= window_, "a match begins before the output or its window");
    require(count <= capacity_ - written_, too_long);
    uint8_t *to = out_ + written_;
    const uint8_t *from = to - offset;
    if (offset >= count)
      std::memcpy(to, from, count);
    else
      for (size_t i = 0; i < count; ++i) // byte by byte: the match overlaps what it writes
        to[i] = from[i];
    written_ += count;
  }

  Bytes input_;
  uint8_t *out_;
  size_t capacity_;
  size_t written_ = 0;
  uint64_t window_ = 0;
  size_t largest_block_ = 0;
  uint64_t repeats_[3] = {1, 4, 8};
  HuffmanTable huffman_;
  StateTable literal_length_table_, offset_table_, match_length_table_;
  uint8_t literals_[largest_block_bytes];
};

} // namespace
} // namespace zstd

const char *decode_zstd_frame(const uint8_t *input, size_t bytes, std::string &output) {
  try {
    std::make_unique<zstd::Frame>(zstd::Bytes{input, input + bytes}, output)->decode();
    return nullptr;
  } catch (const zstd::Damaged &damaged) {
    return damaged.what;
  }
}

} // namespace emulator::driver
