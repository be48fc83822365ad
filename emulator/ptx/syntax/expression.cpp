#include "ptx/syntax/expression.hpp"

#include <cstring>

namespace emulator::ptx {

namespace {

constexpr int deepest_expression = 64;
constexpr uint64_t warp_size = 32;

enum class Binary : uint8_t {
  or_either,
  and_both,
  bit_or,
  bit_xor,
  bit_and,
  equal,
  unequal,
  less,
  less_equal,
  greater,
  greater_equal,
  shift_left,
  shift_right,
  add,
  subtract,
  multiply,
  divide,
  modulo,
};

struct Operator {
  char first, second; // '\0': one character
  Binary kind;
  int precedence;
};

// Those of two characters before those that begin like them.
constexpr Operator operators[] = {
    {'|', '|', Binary::or_either, 1},     {'&', '&', Binary::and_both, 2},
    {'|', '\0', Binary::bit_or, 3},       {'^', '\0', Binary::bit_xor, 4},
    {'&', '\0', Binary::bit_and, 5},      {'=', '=', Binary::equal, 6},
    {'!', '=', Binary::unequal, 6},       {'<', '<', Binary::shift_left, 8},
    {'>', '>', Binary::shift_right, 8},   {'<', '=', Binary::less_equal, 7},
    {'>', '=', Binary::greater_equal, 7}, {'<', '\0', Binary::less, 7},
    {'>', '\0', Binary::greater, 7},      {'+', '\0', Binary::add, 9},
    {'-', '\0', Binary::subtract, 9},     {'*', '\0', Binary::multiply, 10},
    {'/', '\0', Binary::divide, 10},      {'%', '\0', Binary::modulo, 10},
};

bool begins_word(char c) { return is_letter(c) || c == '_' || c == '$'; }

Number integer(uint64_t bits, bool is_unsigned) {
  Number result;
  result.bits = bits;
  result.is_unsigned = is_unsigned;
  return result;
}

double real_of(const Number &number) {
  double value;
  std::memcpy(&value, &number.bits, 8);
  return value;
}

Number real(double value) {
  Number result;
  result.kind = Number::Kind::real64;
  std::memcpy(&result.bits, &value, 8);
  return result;
}

class Reader {
public:
  explicit Reader(Lexer &lexer) : lexer_(lexer) {}

  Number read() {
    Number value = binary(1);
    if (!lexer_.accept('?'))
      return value;
    Deeper deeper(*this);
    Number one = read();
    lexer_.expect(':', "between the values after '?'");
    Number other = read();
    require_integers(value, one);
    require_integers(one, other);
    return value.bits ? one : other;
  }

private:
  struct Deeper {
    explicit Deeper(Reader &reader) : reader_(reader) {
      if (++reader_.depth_ > deepest_expression)
        reader_.lexer_.fail_here("an expression nested deeper than " + std::to_string(deepest_expression));
    }
    ~Deeper() { --reader_.depth_; }
    Deeper(const Deeper &) = delete;
    Deeper &operator=(const Deeper &) = delete;
    Reader &reader_;
  };

  [[noreturn]] void fail_integer() { lexer_.fail("an integer is expected in this constant expression"); }

  void require_integers(const Number &one, const Number &other) {
    if (one.kind != Number::Kind::integer || other.kind != Number::Kind::integer)
      fail_integer();
  }

  const Operator *next_operator(int least) {
    char c = lexer_.peek(), next = lexer_.peek_after(1);
    for (const Operator &candidate : operators) {
      if (candidate.first != c || (candidate.second != '\0' && candidate.second != next))
        continue;
      if (c == '%' && (begins_word(next) || is_digit(next)))
        return nullptr; // the name of a register
      return candidate.precedence >= least ? &candidate : nullptr;
    }
    return nullptr;
  }

  Number binary(int least) {
    Number left = unary();
    while (const Operator *found = next_operator(least)) {
      lexer_.accept(found->first);
      if (found->second != '\0')
        lexer_.accept(found->second);
      Number right = binary(found->precedence + 1);
      left = left.kind == Number::Kind::integer && right.kind == Number::Kind::integer
                 ? of_integers(found->kind, left, right)
                 : of_reals(found->kind, left, right);
    }
    return left;
  }

  Number unary() {
    Deeper deeper(*this);
    if (lexer_.accept('(')) {
      if (lexer_.peek() == '.' && begins_word(lexer_.peek_after(1)))
        return cast();
      Number inner = read();
      lexer_.expect(')', "after an expression");
      return inner;
    }
    for (char sign : {'-', '+', '~', '!'})
      if (lexer_.accept(sign))
        return of_one(sign, unary());
    if (lexer_.at_number())
      return lexer_.number();
    if (lexer_.name() == "WARP_SZ")
      return integer(warp_size, false);
    lexer_.fail("expected a number");
  }

  Number cast() {
    std::string_view type = lexer_.directive();
    if (type != "s64" && type != "u64")
      lexer_.fail("a constant is cast to .s64 or .u64 only");
    lexer_.expect(')', "after a type");
    Number value = unary();
    require_integers(value, value);
    return integer(value.bits, type == "u64");
  }

  Number of_one(char sign, const Number &value) {
    if (value.kind == Number::Kind::real64 && (sign == '-' || sign == '+'))
      return real(sign == '-' ? -real_of(value) : real_of(value));
    require_integers(value, value);
    switch (sign) {
    case '-':
      return integer(-value.bits, value.is_unsigned);
    case '~':
      return integer(~value.bits, true);
    case '!':
      return integer(value.bits == 0, false);
    default:
      return value;
    }
  }

  Number of_reals(Binary kind, const Number &left, const Number &right) {
    if (left.kind != Number::Kind::real64 || right.kind != Number::Kind::real64)
      lexer_.fail("real numbers and others in one constant expression");
    double x = real_of(left), y = real_of(right);
    switch (kind) {
    case Binary::add:
      return real(x + y);
    case Binary::subtract:
      return real(x - y);
    case Binary::multiply:
      return real(x * y);
    case Binary::divide:
      return real(x / y);
    case Binary::equal:
      return integer(x == y, false);
    case Binary::unequal:
      return integer(x != y, false);
    case Binary::less:
      return integer(x < y, false);
    case Binary::less_equal:
      return integer(x <= y, false);
    case Binary::greater:
      return integer(x > y, false);
    case Binary::greater_equal:
      return integer(x >= y, false);
    default:
      fail_integer();
    }
  }

  Number of_integers(Binary kind, const Number &left, const Number &right) {
    uint64_t x = left.bits, y = right.bits;
    auto s = [](uint64_t bits) { return static_cast<int64_t>(bits); };
    bool is_unsigned = left.is_unsigned || right.is_unsigned;
    auto less = [&](uint64_t a, uint64_t b) { return is_unsigned ? a < b : s(a) < s(b); };
    switch (kind) {
    case Binary::or_either:
      return integer(x != 0 || y != 0, false);
    case Binary::and_both:
      return integer(x != 0 && y != 0, false);
    case Binary::bit_or:
      return integer(x | y, is_unsigned);
    case Binary::bit_xor:
      return integer(x ^ y, is_unsigned);
    case Binary::bit_and:
      return integer(x & y, is_unsigned);
    case Binary::equal:
      return integer(x == y, false);
    case Binary::unequal:
      return integer(x != y, false);
    case Binary::less:
      return integer(less(x, y), false);
    case Binary::less_equal:
      return integer(!less(y, x), false);
    case Binary::greater:
      return integer(less(y, x), false);
    case Binary::greater_equal:
      return integer(!less(x, y), false);
    case Binary::shift_left:
      return integer(x << (y & 63), left.is_unsigned);
    case Binary::shift_right:
      return integer(left.is_unsigned ? x >> (y & 63) : static_cast<uint64_t>(s(x) >> (y & 63)),
                     left.is_unsigned);
    case Binary::add:
      return integer(x + y, is_unsigned);
    case Binary::subtract:
      return integer(x - y, is_unsigned);
    case Binary::multiply:
      return integer(x * y, is_unsigned);
    case Binary::divide:
    case Binary::modulo:
      if (y == 0)
        lexer_.fail("a division by zero in a constant expression");
      if (kind == Binary::modulo)
        return integer(x % y, true);
      if (is_unsigned)
        return integer(x / y, true);
      return integer(s(y) == -1 ? -x : static_cast<uint64_t>(s(x) / s(y)), false); // -2^63 / -1 wraps
    }
    fail_integer();
  }

  Lexer &lexer_;
  int depth_ = 0;
};

} // namespace

bool at_constant(Lexer &lexer) {
  char c = lexer.peek();
  if (c == 'W') {
    Lexer name = lexer;
    return name.name() == "WARP_SZ";
  }
  return lexer.at_number() || c == '-' || c == '+' || c == '~' || c == '!' || c == '(';
}

Number constant_expression(Lexer &lexer) { return Reader(lexer).read(); }

int64_t integer_expression(Lexer &lexer) {
  Number value = constant_expression(lexer);
  if (value.kind != Number::Kind::integer)
    lexer.fail("expected an integer");
  return static_cast<int64_t>(value.bits);
}

} // namespace emulator::ptx
