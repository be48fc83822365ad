#include "readable.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace emulator::driver {
namespace {

// The kernel reads the 8 bytes of a signal mask before it looks at the operation, which is none: nothing
// changes, and only memory that cannot be read gives EFAULT. Reading a process from outside may be forbidden;
// this is not.
bool is_readable(uint64_t address) {
  constexpr long no_operation = -1;
  constexpr size_t mask_bytes = 8;
  int before = errno;
  long refused =
      syscall(SYS_rt_sigprocmask, no_operation, address / mask_bytes * mask_bytes, nullptr, mask_bytes);
  bool readable = refused == 0 || errno != EFAULT;
  errno = before;
  return readable;
}

} // namespace

size_t readable_bytes(const void *from, size_t most) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uint64_t>(from);
  most = std::min<uint64_t>(most, ~begin); // no range reaches round the end of the address space
  uint64_t end = begin + most;
  for (uint64_t at = begin; at < end; at = (at / page + 1) * page)
    if (!is_readable(at))
      return at - begin;
  return most;
}

size_t readable_length(const char *text, bool &ends) {
  constexpr size_t step = size_t{1} << 20;
  for (size_t length = 0;;) {
    size_t readable = readable_bytes(text + length, step);
    size_t found = strnlen(text + length, readable);
    length += found;
    ends = found < readable;
    if (ends || readable < step)
      return length;
  }
}

} // namespace emulator::driver
