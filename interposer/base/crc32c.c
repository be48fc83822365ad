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

static uint32_t by_table(uint32_t crc, const uint8_t *data, size_t bytes) {
  static const uint32_t table[16] = {
      // The remainders of all four-bit words, polynomial 0x82f63b78 (reflected).
      0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
      0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
  };
  for (size_t n = 0; n < bytes; n++) {
    crc ^= data[n];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
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
  return ~(has_instruction() ? by_instruction(~crc, data, bytes) : by_table(~crc, data, bytes));
}

// For the packer, which checks gigabytes with it.
EXPORT uint32_t replay_crc32c(uint32_t crc, const void *data, size_t bytes) {
  return crc32c(crc, data, bytes);
}
