#include "readable.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace emulator::driver {
namespace {

constexpr size_t pages_at_once = 256;

} // namespace

size_t readable_bytes(const void *from, size_t most) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uint64_t>(from);
  most = std::min<uint64_t>(most, ~begin); // no range reaches round the end of the address space
  uint64_t at = begin, end = begin + most;
  while (at < end) {
    // One byte of each page; the kernel stops in front of the first that it cannot read.
    iovec there[pages_at_once];
    size_t count = 0;
    for (uint64_t next = at; next < end && count < pages_at_once; next = (next / page + 1) * page)
      there[count++] = {reinterpret_cast<void *>(next), 1};
    char bytes[pages_at_once];
    iovec here{bytes, count};
    ssize_t got = process_vm_readv(getpid(), &here, 1, there, count, 0);
    if (got < 0 && errno != EFAULT)
      return most;
    if (got < static_cast<ssize_t>(count)) {
      size_t pages = got < 0 ? 0 : static_cast<size_t>(got);
      return pages == 0 ? at - begin : (at / page + pages) * page - begin;
    }
    at = (at / page + count) * page;
  }
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
