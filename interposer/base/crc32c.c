// CRC-32C (Castagnoli, RFC 3720), with the instruction where the processor has it.
#include "base/bytes.h"
#include "base/macros.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
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

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *data,
                                                                 size_t bytes) {
  uint64_t wide = crc;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word;
    memcpy(&word, data, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = (uint32_t)wide;
  for (; bytes > 0; data++, bytes--)
    crc = __builtin_ia32_crc32qi(crc, *data);
  return crc;
}

static bool has_instruction(void) { return __builtin_cpu_supports("sse4.2"); }

#elif defined(__aarch64__)

__attribute__((target("+crc"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *data,
                                                               size_t bytes) {
  for (; bytes >= 8; data += 8, bytes -= 8) {
    uint64_t word;
    memcpy(&word, data, 8);
    crc = __builtin_aarch64_crc32cx(crc, word);
  }
  for (; bytes > 0; data++, bytes--)
    crc = __builtin_aarch64_crc32cb(crc, *data);
  return crc;
}

static bool has_instruction(void) { return (getauxval(AT_HWCAP) & (1 << 7)) != 0; } // HWCAP_CRC32

#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes) {
  static atomic_int known; // 0 unknown, 1 no, 2 yes
  int answer = atomic_load_explicit(&known, memory_order_relaxed);
  if (answer == 0) {
    answer = has_instruction() ? 2 : 1;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
  }
  return ~(answer == 2 ? by_instruction(~crc, data, bytes) : by_table(~crc, data, bytes));
}

// For the packer, which checks gigabytes with it.
EXPORT uint32_t replay_crc32c(uint32_t crc, const void *data, size_t bytes) {
  return crc32c(crc, data, bytes);
}
