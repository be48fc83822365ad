#include "settings.hpp"

#include "exec/interface/findings.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <unistd.h>

namespace emulator::driver {
namespace {

uint64_t whole_number(const std::string &text) {
  char *end = nullptr;
  errno = 0;
  unsigned long long value = std::strtoull(text.c_str(), &end, 0);
  if (text.empty() || text[0] == '-' || *end != '\0' || errno != 0)
    throw std::invalid_argument("a whole number is expected");
  return value;
}

double real_number(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= 0) || value > 1e6)
    throw std::invalid_argument("a number between 0 and 1000000 is expected");
  return value;
}

std::regex expression(const std::string &text) {
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex::nosubs);
  } catch (const std::regex_error &) {
    throw std::invalid_argument("the regular expression does not compile");
  }
}

void parse(const std::string &text, setting::integer &value) { value = whole_number(text); }

void parse(const std::string &text, setting::text &value) { value = text; }

void parse(const std::string &text, setting::real &value) { value = real_number(text); }

void parse(const std::string &text, setting::flag &value) {
  if (text != "0" && text != "1" && !text.empty())
    throw std::invalid_argument("0 or 1 is expected");
  value = text == "1";
}

void parse(const std::string &text, setting::capability &value) {
  size_t dot = text.find('.');
  if (dot == std::string::npos)
    throw std::invalid_argument("MAJOR.MINOR is expected, for example 9.0");
  uint64_t major = whole_number(text.substr(0, dot));
  uint64_t minor = whole_number(text.substr(dot + 1));
  if (major < 5 || major > 20 || minor > 9)
    throw std::invalid_argument("MAJOR.MINOR from 5.0 is expected, for example 9.0");
  value.major = static_cast<int>(major);
  value.minor = static_cast<int>(minor);
}

void parse(const std::string &text, setting::pattern &value) {
  if (!text.empty())
    value = expression(text);
}

void parse(const std::string &text, setting::pattern_factor &value) {
  if (text.empty())
    return;
  size_t colon = text.rfind(':'); // the last one: a C++ name in the expression may hold "::"
  if (colon == std::string::npos)
    throw std::invalid_argument("REGEX:FACTOR is expected, for example 'matmul:1.05'");
  value.kernel = expression(text.substr(0, colon));
  value.factor = real_number(text.substr(colon + 1));
}

void parse(const std::string &text, setting::checks &value) {
  for (size_t start = 0; start < text.size();) {
    size_t comma = std::min(text.find(',', start), text.size());
    std::string item = text.substr(start, comma - start);
    start = comma + 1;
    if (item == "memory") {
      value.memory = true;
      continue;
    }
    size_t check = 0;
    while (check < std::size(check_names) && item != check_names[check])
      ++check;
    if (check == std::size(check_names))
      throw std::invalid_argument("there is no check " + item);
    value.bits |= bit_of(static_cast<Check>(check));
  }
}

void parse(const std::string &text, setting::failures &value) {
  for (size_t start = 0; start < text.size();) {
    size_t comma = text.find(',', start);
    std::string item = text.substr(start, comma == std::string::npos ? comma : comma - start);
    start = comma == std::string::npos ? text.size() : comma + 1;
    size_t first = item.find(':');
    size_t second = first == std::string::npos ? first : item.find(':', first + 1);
    if (second == std::string::npos)
      throw std::invalid_argument("FUNCTION:CALL:ERROR is expected, for example 'cuMemAlloc_v2:3:2'");
    uint64_t call = whole_number(item.substr(first + 1, second - first - 1));
    if (call == 0)
      throw std::invalid_argument("calls are counted from 1");
    value[item.substr(0, first)][call] = static_cast<int>(whole_number(item.substr(second + 1)));
  }
}

template <typename T> void read(const char *variable, const char *fallback, T &value, std::string &problem) {
  const char *text = std::getenv(variable);
  try {
    parse(text ? text : fallback, value);
  } catch (const std::invalid_argument &error) {
    problem = std::string(variable) + "='" + (text ? text : "") + "': " + error.what();
    parse(fallback, value);
  }
}

void expect(bool holds, const char *what, std::string &problem) {
  if (!holds && problem.empty())
    problem = what;
}

} // namespace

Settings read_settings() {
  Settings result;
#define KNOB(member, type, variable, fallback, help) read(variable, fallback, result.member, result.problem);
#include "settings.inc"
#undef KNOB
  expect(result.devices <= 16, "REPLAY_EMULATOR_DEVICES must be 0 to 16", result.problem);
  expect(result.multiprocessors >= 1 && result.multiprocessors <= 1024,
         "REPLAY_EMULATOR_MULTIPROCESSORS must be 1 to 1024", result.problem);
  expect(result.driver_version >= 11000 && result.driver_version < 100000,
         "REPLAY_EMULATOR_DRIVER_VERSION must be 11000 to 99999, for example 13000", result.problem);
  if (result.memory_bytes == 0) {
    uint64_t machine =
        static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    result.memory_bytes = std::min<uint64_t>(uint64_t{8} << 30, machine / 2);
  }
  constexpr uint64_t granule = uint64_t{2} << 20;
  result.memory_bytes = std::max(result.memory_bytes / granule * granule, granule);
  return result;
}

const Settings &settings() {
  static const Settings *values =
      new Settings(read_settings()); // never destroyed: calls may come during exit
  return *values;
}

} // namespace emulator::driver
