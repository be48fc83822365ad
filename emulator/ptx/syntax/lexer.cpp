#include "ptx/syntax/lexer.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace emulator::ptx {

namespace {

bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool begins_name(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
bool continues_name(char c) { return begins_name(c) || is_digit(c); }

uint64_t hex_value(std::string_view digits) {
  uint64_t value = 0;
  for (char c : digits)
    value = value << 4 | static_cast<uint64_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
  return value;
}

} // namespace

std::string Lexer::at(size_t position, const std::string &message) const {
  if (position > text_.size())
    position = text_.size();
  std::string_view before = text_.substr(0, position);
  const char *at = before.data() + before.size(), *begin = whole_.text.data();
  auto line = first_line_ + std::count(before.begin(), before.end(), '\n');
  const char *line_begin = at;
  while (line_begin > begin && line_begin[-1] != '\n')
    --line_begin;
  return (whole_.name.empty() ? "" : whole_.name + ": ") + "line " + std::to_string(line) + ", column " +
         std::to_string(at - line_begin + 1) + ": " + message;
}

void Lexer::fail_at(size_t position, const std::string &message) const {
  throw SyntaxError(at(position, message));
}

void Lexer::fail_version(const std::string &message) const {
  SyntaxError error(at(token_, message));
  error.is_unknown_version = true;
  throw error;
}

void Lexer::skip_space() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\0') {
      ++position_;
    } else if (c == '/' && peek_after(1) == '/') {
      size_t end = text_.find('\n', position_);
      position_ = end == std::string_view::npos ? text_.size() : end;
    } else if (c == '/' && peek_after(1) == '*') {
      size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos)
        fail_here("a comment that is never closed");
      for (; position_ < end + 2; ++position_)
        line_ += text_[position_] == '\n';
    } else {
      return;
    }
  }
}

bool Lexer::at_end() {
  skip_space();
  return position_ >= text_.size();
}

char Lexer::peek() {
  skip_space();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool Lexer::accept(char c) {
  if (peek() != c || at_end())
    return false;
  ++position_;
  return true;
}

void Lexer::expect(char c, std::string_view what) {
  if (!accept(c)) {
    std::string found = at_end() ? "the end of the text" : "'" + std::string(1, text_[position_]) + "'";
    fail_here("expected '" + std::string(1, c) + "' " + std::string(what) + ", found " + found);
  }
}

std::string_view Lexer::name() {
  bool is_name = begins_name(peek());
  token_ = position_;
  if (!is_name)
    return {};
  size_t begin = position_;
  while (position_ < text_.size() && continues_name(text_[position_]))
    ++position_;
  return text_.substr(begin, position_ - begin);
}

std::string_view Lexer::directive() {
  bool is_directive = peek() == '.' && continues_name(peek_after(1));
  token_ = position_;
  if (!is_directive)
    return {};
  size_t begin = ++position_;
  while (position_ < text_.size() && continues_name(text_[position_]))
    ++position_;
  return text_.substr(begin, position_ - begin);
}

namespace {
// No instruction has one that is as long. Longer texts are not looked up, for a file may have very long ones.
constexpr size_t longest_name = 64;
} // namespace

// As ptxas 13.0 does it: white space and comments may be in front of a dot that ends the instruction's name
// or follows it, and neither after a dot nor around "::".
std::string_view Lexer::opcode(std::deque<std::string> &joined, bool (*is_in_name)(std::string_view)) {
  if (name().empty())
    return {};
  std::string parts; // all but the last, where something lies between them
  size_t begin = token_;
  for (;;) {
    while (position_ < text_.size() && (continues_name(text_[position_]) || text_[position_] == '.' ||
                                        (text_[position_] == ':' && peek_after(1) == ':') ||
                                        (text_[position_] == ':' && text_[position_ - 1] == ':')))
      ++position_;
    const Lexer after_part = *this;
    if (peek() != '.' || !continues_name(peek_after(1))) {
      go_to(after_part);
      std::string_view last = text_.substr(begin, position_ - begin);
      return parts.empty() ? last : std::string_view(joined.emplace_back(parts.append(last)));
    }
    parts.append(text_.substr(begin, after_part.position_ - begin));
    begin = position_;
    do
      ++position_;
    while (position_ < text_.size() && continues_name(text_[position_]));
    if (parts.size() > longest_name)
      continue;
    if (std::string name = parts + std::string(text_.substr(begin, position_ - begin)); is_in_name(name))
      fail_at(begin, "'" + name + "' must be written in one piece");
  }
}

std::string_view Lexer::component() {
  const Lexer before = *this;
  if (peek() != '.' || position_ + 1 >= text_.size() || !std::strchr("xyzwrgba", text_[position_ + 1]) ||
      continues_name(peek_after(2))) {
    go_to(before);
    return {};
  }
  position_ += 2;
  return text_.substr(position_ - 1, 1);
}

bool Lexer::at_number() {
  char c = peek();
  return is_digit(c) || (c == '.' && is_digit(peek_after(1)));
}

Number Lexer::number() {
  Number result;
  peek();
  token_ = position_;
  size_t begin = position_;
  char marker = static_cast<char>(peek_after(1) | 0x20);
  auto digits_after_prefix = [&](auto is_member) {
    position_ += 2;
    size_t first = position_;
    while (position_ < text_.size() && is_member(text_[position_]))
      ++position_;
    return text_.substr(first, position_ - first);
  };
  if (peek() == '0' && (marker == 'f' || marker == 'd') && is_hex(peek_after(2))) {
    size_t length = marker == 'f' ? 8 : 16;
    std::string_view digits = digits_after_prefix(is_hex);
    if (digits.size() != length)
      fail("a floating-point constant 0" + std::string(1, marker) + " needs " + std::to_string(length) +
           " hexadecimal digits");
    result.kind = marker == 'f' ? Number::Kind::real32 : Number::Kind::real64;
    result.bits = hex_value(digits);
    return result;
  }
  if (peek() == '0' && marker == 'x') {
    std::string_view digits = digits_after_prefix(is_hex);
    if (digits.empty() || digits.size() > 16)
      fail("an integer constant does not fit into 64 bits");
    result.bits = hex_value(digits);
  } else if (peek() == '0' && marker == 'b') {
    std::string_view digits = digits_after_prefix([](char c) { return c == '0' || c == '1'; });
    if (digits.size() > 64)
      fail("an integer constant does not fit into 64 bits");
    for (char c : digits)
      result.bits = result.bits << 1 | static_cast<uint64_t>(c - '0');
  } else {
    while (position_ < text_.size() && is_digit(text_[position_]))
      ++position_;
    // Digits after the dot may be missing: "1.", "1.e3".
    char after_dot = static_cast<char>(peek_after(1) | 0x20);
    bool real = position_ < text_.size() && text_[position_] == '.' &&
                (after_dot == 'e' || !continues_name(peek_after(1)) || is_digit(peek_after(1)));
    if (real) {
      ++position_;
      while (position_ < text_.size() && is_digit(text_[position_]))
        ++position_;
    }
    char next = position_ < text_.size() ? static_cast<char>(text_[position_] | 0x20) : '\0';
    if (next == 'e' && (is_digit(peek_after(1)) ||
                        ((peek_after(1) == '-' || peek_after(1) == '+') && is_digit(peek_after(2))))) {
      real = true;
      position_ += 2;
      while (position_ < text_.size() && is_digit(text_[position_]))
        ++position_;
    }
    std::string_view digits = text_.substr(begin, position_ - begin);
    if (real) {
      double value = 0; // stays infinity or zero where the number is out of range
      if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec ==
          std::errc::result_out_of_range)
        value = digits.find("e-") != digits.npos || digits.find("E-") != digits.npos ? 0 : HUGE_VAL;
      result.kind = Number::Kind::real64;
      std::memcpy(&result.bits, &value, 8);
      return result;
    }
    if (digits.empty())
      fail("expected a number");
    unsigned base = digits.size() > 1 && digits[0] == '0' ? 8 : 10;
    for (char c : digits) {
      unsigned digit = static_cast<unsigned>(c - '0');
      if (digit >= base || __builtin_mul_overflow(result.bits, base, &result.bits) ||
          __builtin_add_overflow(result.bits, digit, &result.bits))
        fail("'" + std::string(digits) + "' is not an integer of 64 bits");
    }
  }
  result.is_unsigned = static_cast<int64_t>(result.bits) < 0;
  if (position_ < text_.size() && text_[position_] == 'U') {
    ++position_;
    result.is_unsigned = true;
  }
  return result;
}

void Lexer::skip_string() {
  token_ = position_;
  ++position_;
  while (position_ < text_.size() && text_[position_] != '"') {
    line_ += text_[position_] == '\n';
    position_ += text_[position_] == '\\' ? 2 : 1;
  }
  if (position_ >= text_.size())
    fail("a string that is never closed");
  ++position_;
}

std::string_view Lexer::string() {
  if (peek() != '"')
    fail_here("expected a string");
  size_t begin = position_;
  skip_string();
  return text_.substr(begin + 1, position_ - begin - 2);
}

std::string_view Lexer::block() {
  size_t begin = position_;
  token_ = position_ - 1;
  for (uint32_t depth = 1;;) {
    if (at_end())
      fail_at(begin - 1, "'{' is never closed");
    char c = text_[position_];
    if (c == '"') {
      skip_string();
      continue;
    }
    ++position_;
    if (c == '{')
      ++depth;
    if (c == '}' && --depth == 0)
      return text_.substr(begin, position_ - 1 - begin);
  }
}

void Lexer::skip_past(char c) {
  while (!at_end()) {
    if (text_[position_] == '"') {
      skip_string();
      continue;
    }
    if (text_[position_++] == c)
      return;
  }
  fail_here("expected '" + std::string(1, c) + "' before the end");
}

void Lexer::skip_line() {
  size_t end = text_.find('\n', position_);
  position_ = end == std::string_view::npos ? text_.size() : end;
}

void Lexer::skip_parentheses() {
  for (uint32_t depth = 1; depth > 0;) {
    if (at_end())
      fail_here("expected ')' before the end");
    char c = text_[position_++];
    depth += c == '(';
    depth -= c == ')';
  }
}

} // namespace emulator::ptx
