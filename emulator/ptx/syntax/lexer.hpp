// Characters of a PTX text to tokens. The parser drives it, because what a dot or a minus means depends on
// where it is.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "ptx/syntax/module.hpp"

namespace emulator::ptx {

struct Number {
  enum class Kind : uint8_t { integer, real32, real64 } kind = Kind::integer;
  uint64_t bits = 0;
  bool is_unsigned = false; // of an integer: by its suffix, or because it does not fit into 63 bits
};

// Locale-free, and without the undefined cases of <cctype>.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Lexer {
public:
  // `text` lies inside `whole`, the text that columns are counted in, and begins on line `line` of it.
  Lexer(const Text &whole, std::string_view text, uint32_t line)
      : whole_(whole), text_(text), line_(line), first_line_(line) {}

  uint32_t line() const { return line_; }
  // For fail_at().
  size_t position() const { return position_; }
  // Back to where a copy of this one is.
  void go_to(const Lexer &other) {
    position_ = other.position_;
    token_ = other.token_;
    line_ = other.line_;
  }
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
  // An opcode with all its suffixes. `joined` keeps it where white space or comments lie in front of some.
  // `is_in_name`: whether these words are of the instruction's name, inside which there is neither.
  std::string_view opcode(std::deque<std::string> &joined, bool (*is_in_name)(std::string_view));
  // ".x" after the last name, or empty.
  std::string_view component();
  bool at_number();
  // Without a sign: see expression.hpp.
  Number number();
  // The characters between quotes.
  std::string_view string();
  // Everything up to the brace that closes the one just consumed, which is consumed too.
  std::string_view block();
  // Skips to after the next `c` outside comments and strings.
  void skip_past(char c);
  void skip_line();
  // Skips to after the parenthesis that closes the one just consumed.
  void skip_parentheses();

  // At the token that was read last; at the next character; at a position().
  [[noreturn]] void fail(const std::string &message) const { fail_at(token_, message); }
  [[noreturn]] void fail_here(const std::string &message) const { fail_at(position_, message); }
  [[noreturn]] void fail_at(size_t position, const std::string &message) const;
  // The text is of a PTX version that this driver does not know.
  [[noreturn]] void fail_version(const std::string &message) const;

private:
  std::string at(size_t position, const std::string &message) const;
  void skip_space();
  void skip_string();

  const Text &whole_;
  std::string_view text_;
  size_t position_ = 0;
  size_t token_ = 0; // where the last token begins
  uint32_t line_;
  uint32_t first_line_;
};

} // namespace emulator::ptx
