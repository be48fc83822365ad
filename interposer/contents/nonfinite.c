// Which chunks of memory hold a NaN or an infinity, read as numbers of each type: for `capture --when nan`.
#include "base/selection.h"
#include "contents/copy.h"

enum { FLOATS = 4 }; // f16, bf16, f32, f64: a bit each for NaN, and again for infinities

static inline uint8_t bits_of(unsigned type, bool nan, bool infinity) {
  return (uint8_t)((unsigned)nan << type | (unsigned)infinity << (FLOATS + type));
}

uint8_t nonfinite_in(const uint8_t *data, size_t bytes) {
  enum { F16, BF16, F32, F64 };
  bool nan[FLOATS] = {false}, infinity[FLOATS] = {false};
  for (size_t n = 0; n + 8 <= bytes; n += 8) {
    uint64_t word = word_at(data, n), magnitude = word & (UINT64_MAX >> 1), exponent = (uint64_t)0x7ff << 52;
    nan[F64] |= magnitude > exponent;
    infinity[F64] |= magnitude == exponent;
  }
  for (size_t n = 0; n + 4 <= bytes; n += 4) {
    uint32_t word;
    memcpy(&word, data + n, sizeof word);
    nan[F32] |= (word & 0x7fffffffu) > 0x7f800000u;
    infinity[F32] |= (word & 0x7fffffffu) == 0x7f800000u;
  }
  for (size_t n = 0; n + 2 <= bytes; n += 2) {
    uint16_t word;
    memcpy(&word, data + n, sizeof word);
    unsigned magnitude = word & 0x7fffu;
    nan[F16] |= magnitude > 0x7c00u;
    infinity[F16] |= magnitude == 0x7c00u;
    nan[BF16] |= magnitude > 0x7f80u;
    infinity[BF16] |= magnitude == 0x7f80u;
  }
  uint8_t bits = 0;
  for (unsigned type = 0; type < FLOATS; type++)
    bits |= bits_of(type, nan[type], infinity[type]);
  return bits;
}

void note_nonfinite(struct copied *copied, size_t chunk, const uint8_t *data, size_t bytes, bool after) {
  if (LIKELY((selection.when.triggers & WHEN_NAN) == 0))
    return;
  uint8_t bits = nonfinite_in(data, bytes);
  if (after)
    copied->appeared |= (uint8_t)(bits & ~copied->nonfinite[chunk]);
  copied->nonfinite[chunk] = bits;
}

// `had` is what the range held before the window, `appeared` what chunks hold since that did not before.
void begin_nonfinite(struct copied *copied, enum moment moment) {
  if (LIKELY((selection.when.triggers & WHEN_NAN) == 0) || moment != MOMENT_BEFORE)
    return;
  copied->appeared = copied->had = 0;
}

void end_nonfinite(struct copied *copied, enum moment moment) {
  if (LIKELY((selection.when.triggers & WHEN_NAN) == 0) || moment != MOMENT_BEFORE)
    return;
  for (uint64_t at = 0; at < copied->bytes; at += CHUNK_BYTES)
    copied->had |= copied->nonfinite[at / CHUNK_BYTES];
}

uint8_t nonfinite_of_type(uint8_t bits, unsigned type) { return (uint8_t)(bits & bits_of(type, true, true)); }

bool nonfinite_of(uint64_t address, unsigned type, uint8_t *had, uint8_t *appeared, const void *unused) {
  (void)unused;
  struct range range;
  if (!memory_find(address, &range) || range.kind == RANGE_ARRAY || range.state != RANGE_TOUCHED)
    return false;
  const struct copied *copied = copied_before(&range);
  if (copied == NULL || !copied->whole)
    return false;
  *had = nonfinite_of_type(copied->had, type);
  *appeared = nonfinite_of_type(copied->appeared, type);
  return true;
}
