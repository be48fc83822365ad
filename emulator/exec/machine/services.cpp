#include "exec/machine/services.hpp"

#include <cstdio>
#include <cstring>

#include "exec/machine/block.hpp"

namespace emulator {

namespace {

constexpr size_t longest_string = 1 << 16;
constexpr size_t longest_conversion = 32;

// Reads the argument of a call, in the caller's frame.
template <typename T> T argument(const Warp &w, const Callee &callee, uint32_t lane, size_t number) {
  T value{};
  if (number < callee.arguments.size()) {
    const ParameterBytes &bytes = callee.arguments[number];
    uint64_t from = w.local_base + lane * w.local_stride + w.local_offset + bytes.offset;
    std::memcpy(&value, reinterpret_cast<const void *>(from),
                sizeof value < bytes.size_bytes ? sizeof value : bytes.size_bytes);
  }
  return value;
}

template <typename T> void give_back(const Warp &w, const Callee &callee, uint32_t lane, T value) {
  if (callee.returns.empty())
    return;
  const ParameterBytes &bytes = callee.returns[0];
  uint64_t to = w.local_base + lane * w.local_stride + w.local_offset + bytes.offset;
  std::memcpy(reinterpret_cast<void *>(to), &value,
              sizeof value < bytes.size_bytes ? sizeof value : bytes.size_bytes);
}

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

// The next argument of printf: each at the alignment of its size.
template <typename T> T next_argument(Warp &w, const Instruction *i, uint32_t lane, uint64_t &at) {
  at = (at + sizeof(T) - 1) / sizeof(T) * sizeof(T);
  check_access(w, i, lane, at, sizeof(T), false);
  T value;
  std::memcpy(&value, reinterpret_cast<const void *>(at), sizeof value);
  at += sizeof(T);
  return value;
}

template <typename... T> void append(std::string &out, const std::string &format, T... values) {
  int length = std::snprintf(nullptr, 0, format.c_str(), values...);
  if (length <= 0)
    return;
  std::vector<char> text(static_cast<size_t>(length) + 1);
  std::snprintf(text.data(), text.size(), format.c_str(), values...);
  out.append(text.data(), static_cast<size_t>(length));
}

// Only conversions made up here reach the printf of the host: the format comes from device memory.
int print(Warp &w, const Instruction *i, uint32_t lane, uint64_t format_address, uint64_t arguments) {
  std::string format = read_string(w, i, lane, format_address);
  std::string out;
  int converted = 0;
  for (size_t k = 0; k < format.size(); ++k) {
    if (format[k] != '%') {
      out.push_back(format[k]);
      continue;
    }
    if (k + 1 < format.size() && format[k + 1] == '%') {
      out.push_back('%');
      ++k;
      continue;
    }
    std::string conversion = "%";
    size_t p = k + 1;
    while (p < format.size() && std::strchr("-+ #0123456789.*", format[p]) &&
           conversion.size() < longest_conversion) {
      if (format[p] == '*') {
        conversion += std::to_string(next_argument<int32_t>(w, i, lane, arguments) % 4096);
      } else {
        conversion.push_back(format[p]);
      }
      ++p;
    }
    bool wide = false;
    while (p < format.size() && std::strchr("hljztL", format[p]))
      wide |= format[p] == 'l' || format[p] == 'j' || format[p] == 'z' || format[p] == 't', ++p;
    char kind = p < format.size() ? format[p] : '\0';
    // A width is bounded so that a hostile format cannot ask for gigabytes.
    size_t digits = 0;
    for (char c : conversion)
      digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (kind == '\0' || digits > 6) {
      out += format.substr(k, p - k + 1);
    } else if (std::strchr("di", kind)) {
      if (wide)
        append(out, conversion + "lld",
               static_cast<long long>(next_argument<int64_t>(w, i, lane, arguments)));
      else
        append(out, conversion + "d", next_argument<int32_t>(w, i, lane, arguments));
    } else if (std::strchr("uoxXc", kind)) {
      if (wide)
        append(out, conversion + "ll" + kind,
               static_cast<unsigned long long>(next_argument<uint64_t>(w, i, lane, arguments)));
      else
        append(out, conversion + kind, next_argument<uint32_t>(w, i, lane, arguments));
    } else if (std::strchr("fFeEgGaA", kind)) {
      append(out, conversion + kind, next_argument<double>(w, i, lane, arguments));
    } else if (kind == 'p') {
      append(out, conversion + "p", reinterpret_cast<void *>(next_argument<uint64_t>(w, i, lane, arguments)));
    } else if (kind == 's') {
      uint64_t address = next_argument<uint64_t>(w, i, lane, arguments);
      append(out, conversion + "s", address ? read_string(w, i, lane, address).c_str() : "(null)");
    } else {
      out += format.substr(k, p - k + 1);
    }
    ++converted;
    k = p;
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  return converted;
}

} // namespace

void run_service(Warp &w, const Instruction *i, const Callee &callee) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(lanes));
    switch (callee.kind) {
    case CalleeKind::vprintf:
      give_back<int32_t>(
          w, callee, lane,
          print(w, i, lane, argument<uint64_t>(w, callee, lane, 0), argument<uint64_t>(w, callee, lane, 1)));
      break;
    case CalleeKind::malloc:
      give_back<uint64_t>(w, callee, lane,
                          w.block->launch->memory->device_malloc(argument<uint64_t>(w, callee, lane, 0)));
      break;
    case CalleeKind::free:
      if (uint64_t address = argument<uint64_t>(w, callee, lane, 0))
        w.block->launch->memory->device_free(address);
      break;
    case CalleeKind::assertfail: {
      auto text = [&](size_t number) {
        uint64_t address = argument<uint64_t>(w, callee, lane, number);
        return address ? read_string(w, i, lane, address) : std::string("?");
      };
      fail(w, i, LaunchStatus::assertion,
           text(1) + ":" + std::to_string(argument<uint32_t>(w, callee, lane, 2)) + ": " + text(3) +
               ": Assertion `" + text(0) + "` failed",
           lane);
    }
    default:
      break;
    }
  }
  if (callee.kind == CalleeKind::vprintf)
    std::fflush(stdout);
}

const FunctionCode *function_at(const Warp &w, uint64_t address) {
  uint64_t distance = address - first_function_address;
  const ptx::Module &module = *w.block->launch->module;
  if (distance % function_address_step != 0 || distance / function_address_step >= module.functions.size())
    return nullptr;
  const ptx::Function *function = &module.functions[distance / function_address_step];
  for (const FunctionCode &code : w.program->functions)
    if (code.function == function)
      return &code;
  return nullptr;
}

} // namespace emulator
