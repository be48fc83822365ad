// Characters of a PTX text to tokens. The parser drives it, because what a dot or a minus means depends on
// where it stands.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ptx/module.hpp"

namespace emulator::ptx {

struct Number {
  enum class Kind : uint8_t { integer, real32, real64 } kind = Kind::integer;
  uint64_t bits = 0;
};

class Lexer {
public:
  Lexer(std::string_view text, uint32_t line) : text_(text), line_(line) {}

  uint32_t line() const { return line_; }
  bool at_end();
  // The next character after white space and comments, 0 at the end; nothing is consumed.
  char peek();
  char peek_after(size_t distance) const {
    return position_ + distance < text_.size() ? text_[position_ + distance] : '\0';
  }
  bool accept(char c);
  void expect(char c, std::string_view what);
  // A name: letters, digits, _ $ %. Empty when the next character cannot begin one.
  std::string_view name();
  // A name that begins with a dot and may hold more of them, as ".visible" or ".b8": the part after the dot.
  std::string_view directive();
  // An opcode with all its suffixes.
  std::string_view opcode();
  // ".x" directly behind the last name, or empty.
  std::string_view component();
  bool at_number();
  Number number();
  // The characters between quotes.
  std::string_view string();
  // Everything up to the brace that closes the one just consumed, which is consumed too.
  std::string_view block();
  // Skips to behind the next `c` outside comments and strings.
  void skip_past(char c);

  [[noreturn]] void fail(const std::string &message) const;

private:
  void skip_space();
  void skip_string();

  std::string_view text_;
  size_t position_ = 0;
  uint32_t line_;
};

} // namespace emulator::ptx
