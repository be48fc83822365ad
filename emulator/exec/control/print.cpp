#include "exec/control/print.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "exec/access/access.hpp"

namespace emulator {

namespace {

constexpr size_t longest_string = 1 << 16;
// CUDA C++ Programming Guide, "Formatted Output": further conversions are put out as they are written.
constexpr int most_arguments = 32;
// A width is bounded so that a hostile format cannot ask for gigabytes.
constexpr int widest = 4096;
// What the buffer keeps of one printf beside its arguments; a GPU's own figure is not documented.
constexpr size_t record_bytes = 16;
bool is_one_of(char c, const char *set) { return c != '\0' && std::strchr(set, c) != nullptr; }

// What vprintf's second argument points to: each argument at the alignment of its size.
struct Arguments {
  Warp &w;
  const Instruction *i;
  uint32_t lane;
  uint64_t at;
  int count = 0;
  size_t bytes = 0;

  template <typename T> T next() {
    at = (at + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    check_access(w, i, lane, at, sizeof(T), false);
    T value;
    std::memcpy(&value, reinterpret_cast<const void *>(at), sizeof value);
    at += sizeof(T);
    ++count;
    bytes += 8;
    return value;
  }
};

// %[flags][width][.precision][size]type
struct Conversion {
  std::string flags;
  int width = -1, precision = -1; // -1: none
  bool width_is_argument = false, precision_is_argument = false;
  std::string size; // "", "h", "hh", "l", "ll"
  char type = '\0'; // '\0': this is no conversion
  size_t end = 0;   // after it, in the format
};

Conversion conversion_at(const std::string &format, size_t at) {
  Conversion conversion;
  size_t p = at + 1;
  auto peek = [&] { return p < format.size() ? format[p] : '\0'; };
  auto number = [&](int &value, bool &is_argument) {
    if (peek() == '*') {
      is_argument = true;
      ++p;
      return;
    }
    for (; peek() >= '0' && peek() <= '9'; ++p)
      value = std::min(std::max(value, 0) * 10 + (peek() - '0'), widest);
  };
  for (; is_one_of(peek(), "-+ #0'") && conversion.flags.size() < 8; ++p)
    conversion.flags.push_back(peek());
  number(conversion.width, conversion.width_is_argument);
  if (peek() == '.') {
    ++p;
    conversion.precision = 0;
    number(conversion.precision, conversion.precision_is_argument);
  }
  for (; is_one_of(peek(), "hl") && conversion.size.size() < 2; ++p)
    conversion.size.push_back(peek());
  for (; is_one_of(peek(), "jztqL");
       ++p) // 64-bit words on this host; L changes nothing, there is no long double
    conversion.size = peek() == 'L' ? conversion.size : "ll";
  conversion.type = is_one_of(peek(), "diouxXcpeEfFgGaAs") ? peek() : '\0';
  conversion.end = conversion.type ? p + 1 : std::min(p, format.size());
  return conversion;
}

// Only conversions made up here reach the printf of the host: the format comes from device memory.
template <typename T> void append(std::string &out, const std::string &format, T value) {
  int length = std::snprintf(nullptr, 0, format.c_str(), value);
  if (length <= 0)
    return;
  std::vector<char> text(static_cast<size_t>(length) + 1);
  std::snprintf(text.data(), text.size(), format.c_str(), value);
  out.append(text.data(), static_cast<size_t>(length));
}

void convert(std::string &out, Conversion conversion, Arguments &arguments) {
  auto from_argument = [&](int &value) {
    value = std::min(std::max(arguments.next<int32_t>(), -widest), widest);
  };
  if (conversion.width_is_argument) {
    from_argument(conversion.width);
    if (conversion.width < 0) { // as in C: a flag and a width
      conversion.flags.push_back('-');
      conversion.width = -conversion.width;
    }
  }
  if (conversion.precision_is_argument)
    from_argument(conversion.precision); // negative: as if there were none
  std::string format = "%" + conversion.flags;
  if (conversion.width >= 0)
    format += std::to_string(conversion.width);
  if (conversion.precision >= 0)
    format += "." + std::to_string(conversion.precision);
  char type = conversion.type;
  bool wide = conversion.size == "l" || conversion.size == "ll";
  if (is_one_of(type, "diouxX")) {
    if (wide)
      append(out, format + "ll" + type, arguments.next<long long>());
    else
      append(out, format + conversion.size + type, arguments.next<int32_t>());
  } else if (type == 'c') {
    append(out, format + "c", arguments.next<int32_t>());
  } else if (type == 'p') {
    append(out, format + "p", reinterpret_cast<void *>(arguments.next<uint64_t>()));
  } else if (type == 's') {
    auto address = arguments.next<uint64_t>();
    std::string text = address ? read_string(arguments.w, arguments.i, arguments.lane, address) : "(null)";
    arguments.bytes += address ? text.size() + 1 : 0;
    append(out, format + "s", text.c_str());
  } else {
    append(out, format + type, arguments.next<double>());
  }
}

} // namespace

std::string read_string(Warp &w, const Instruction *i, uint32_t lane, uint64_t address) {
  std::string text;
  for (; text.size() < longest_string; ++address) {
    check_access(w, i, lane, address, 1, false);
    char c = *reinterpret_cast<const char *>(address);
    if (c == '\0')
      break;
    text.push_back(c);
  }
  return text;
}

int print(Warp &w, const Instruction *i, uint32_t lane, uint64_t format_address, uint64_t arguments_address) {
  if (format_address == 0)
    return -1;
  std::string format = read_string(w, i, lane, format_address);
  std::string out;
  Arguments arguments{w, i, lane, arguments_address};
  for (size_t k = 0; k < format.size();) {
    if (format[k] != '%') {
      out.push_back(format[k++]);
      continue;
    }
    if (k + 1 < format.size() && format[k + 1] == '%') {
      out.push_back('%');
      k += 2;
      continue;
    }
    Conversion conversion = conversion_at(format, k);
    int needed = 1 + conversion.width_is_argument + conversion.precision_is_argument;
    if (conversion.type == '\0' || arguments.count + needed > most_arguments)
      out += format.substr(k, conversion.end - k);
    else
      convert(out, conversion, arguments);
    k = conversion.end;
  }
  int count = arguments.count;
  size_t bytes = record_bytes + arguments.bytes;
  const auto &sink = w.launch->request->print;
  if (sink) {
    sink(std::move(out), bytes);
  } else {
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
  }
  return count;
}

} // namespace emulator
