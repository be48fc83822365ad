#include "lz4.hpp"

#include <cstring>

namespace emulator::driver {
namespace {

// A length that does not fit in its nibble goes on in bytes, each adding up to 255, until one is below 255.
bool read_length(const uint8_t *&at, const uint8_t *end, size_t &length) {
  if (length != 15)
    return true;
  for (;;) {
    if (at == end)
      return false;
    uint8_t more = *at++;
    length += more;
    if (more != 255)
      return true;
  }
}

} // namespace

// LZ4 block format: sequences of (token, literals, 16-bit offset, match); the last one ends after its
// literals.
bool decode_lz4_block(const uint8_t *input, size_t bytes, std::string &output) {
  constexpr size_t shortest_match = 4;
  const uint8_t *at = input, *end = input + bytes;
  char *out = output.data();
  size_t written = 0, capacity = output.size();
  while (at < end) {
    uint8_t token = *at++;
    size_t literals = token >> 4;
    if (!read_length(at, end, literals) || literals > static_cast<size_t>(end - at) ||
        literals > capacity - written)
      return false;
    std::memcpy(out + written, at, literals);
    at += literals;
    written += literals;
    if (at == end)
      return written == capacity;
    if (end - at < 2)
      return false;
    size_t offset = at[0] | static_cast<size_t>(at[1]) << 8;
    at += 2;
    size_t match = token & 15;
    if (!read_length(at, end, match))
      return false;
    match += shortest_match;
    if (offset == 0 || offset > written || match > capacity - written)
      return false;
    for (size_t i = 0; i < match; ++i, ++written) // byte by byte: the match may overlap what it writes
      out[written] = out[written - offset];
  }
  return false;
}

} // namespace emulator::driver
