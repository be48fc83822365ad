// CRC-32C (Castagnoli, RFC 3720), with the instruction where the processor has it.
#include "base/base.h"

#if defined(__x86_64__)
#define INSTRUCTIONS "sse4.2,crc32"
#define EIGHT_BYTES __builtin_ia32_crc32di
#define ONE_BYTE __builtin_ia32_crc32qi
static bool has_instruction(void) { return __builtin_cpu_supports("sse4.2"); }
#else
#include <sys/auxv.h>
#define INSTRUCTIONS "+crc"
#ifdef __clang__
#define EIGHT_BYTES __builtin_arm_crc32cd
#define ONE_BYTE __builtin_arm_crc32cb
#else
#define EIGHT_BYTES __builtin_aarch64_crc32cx
#define ONE_BYTE __builtin_aarch64_crc32cb
#endif
static bool has_instruction(void) { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; } // HWCAP_CRC32
#endif

static uint32_t by_bits(uint32_t crc, const uint8_t *data, size_t bytes) {
  for (size_t n = 0; n < bytes; n++) {
    crc ^= data[n];
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (0x82f63b78 & -(crc & 1)); // the polynomial, reflected
  }
  return crc;
}

__attribute__((target(INSTRUCTIONS))) static uint32_t by_instruction(uint32_t crc, const uint8_t *data,
                                                                     size_t bytes) {
  uint64_t wide = crc;
  for (; bytes >= 8; data += 8, bytes -= 8)
    wide = EIGHT_BYTES(wide, word_at(data, 0));
  crc = (uint32_t)wide;
  for (; bytes > 0; data++, bytes--)
    crc = ONE_BYTE(crc, *data);
  return crc;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes) {
  return ~(has_instruction() ? by_instruction(~crc, data, bytes) : by_bits(~crc, data, bytes));
}

// For the packer, which checks gigabytes with it.
EXPORT uint32_t replay_crc32c(uint32_t crc, const void *data, size_t bytes) {
  return crc32c(crc, data, bytes);
}
