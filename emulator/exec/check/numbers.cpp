#include "exec/check/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "exec/check/findings.hpp"
#include "exec/check/numbers/formats.hpp"
#include "exec/warp/warp.hpp"

namespace emulator {

namespace {

// What can give something that is not finite for what is. What else has floating point takes such a value
// from where it was before.
constexpr std::string_view makers[] = {"add",   "sub", "mul", "mad", "fma", "div",  "rcp", "sqrt",
                                       "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "cvt"};

NumberType number_type(ptx::Type type) {
  switch (type) {
  case ptx::Type::f16:
    return NumberType::f16;
  case ptx::Type::bf16:
    return NumberType::bf16;
  case ptx::Type::f16x2:
    return NumberType::f16x2;
  case ptx::Type::bf16x2:
    return NumberType::bf16x2;
  case ptx::Type::f32:
    return NumberType::f32;
  case ptx::Type::f64:
    return NumberType::f64;
  case ptx::Type::s16:
    return NumberType::s16;
  case ptx::Type::s32:
    return NumberType::s32;
  case ptx::Type::s64:
    return NumberType::s64;
  default:
    switch (ptx::size_bytes(type)) {
    case 1:
      return NumberType::byte;
    case 2:
      return NumberType::u16;
    case 4:
      return NumberType::u32;
    default:
      return NumberType::u64;
    }
  }
}

uint64_t read(const uint8_t *row, NumberType type, uint32_t lane) {
  uint32_t bytes = format_of(type).bytes;
  uint64_t bits = 0;
  std::memcpy(&bits, row + size_t{lane} * bytes, bytes);
  return bits;
}
uint64_t read(Warp &w, uint32_t row, NumberType type, uint32_t lane) {
  return read(w.row<uint8_t>(row), type, lane);
}

// The lanes whose value, or a part of it, is not finite.
uint32_t not_finite(const uint8_t *row, NumberType type) {
  const Format format = format_of(type);
  uint32_t lanes = 0;
  if (format.exponent_bits == 0)
    return 0;
  if (type == NumberType::f32) {
    const uint32_t *values = reinterpret_cast<const uint32_t *>(row);
    for (uint32_t l = 0; l < lanes_per_warp; ++l)
      lanes |= uint32_t{(values[l] & 0x7f800000) == 0x7f800000} << l;
    return lanes;
  }
  for (uint32_t l = 0; l < lanes_per_warp; ++l) {
    uint64_t bits = read(row, type, l);
    for (uint32_t p = 0; p < parts_of(format); ++p)
      lanes |= uint32_t{!is_finite(part(bits, format, p), format)} << l;
  }
  return lanes;
}
uint32_t not_finite(Warp &w, uint32_t row, NumberType type) {
  return row == no_offset ? 0 : not_finite(w.row<uint8_t>(row), type);
}

struct Sources {
  uint64_t bits[WatchedNumbers::most_sources][lanes_per_warp];
};

// Whether the part of the result could only be what it is because of one that was not finite before.
bool reads_only_finite(const WatchedNumbers &watched, const uint64_t *sources, uint32_t number) {
  const uint32_t parts = parts_of(format_of(watched.result));
  for (uint32_t s = 0; s < watched.source_count; ++s) {
    const Format format = format_of(watched.sources[s]);
    const bool one_by_one = parts_of(format) == parts && is_floating(watched.sources[s]);
    for (uint32_t p = 0; p < parts_of(format); ++p)
      if ((p == number || !one_by_one) && !is_finite(part(sources[s], format, p), format))
        return false;
  }
  return true;
}

void tell(Warp &w, const Instruction *i, FindingKind kind, uint32_t lanes, const FoundExample &values) {
  const Dim3 &grid = w.launch->request->grid;
  FoundExample example = values;
  example.block = w.position[0] + uint64_t{grid.x} * (w.position[1] + uint64_t{grid.y} * w.position[2]);
  example.first_thread = example.second_thread = w.index * lanes_per_warp + first_lane(lanes);
  example.count = count_lanes(lanes);
  example.order = ++w.worker->numbers_told;
  uint32_t place = static_cast<uint32_t>(i - w.program->code.data());
  const Check check = kind == FindingKind::loses_digits ? Check::cancellation : Check::numbers;
  note(w.worker->found, {check, kind, place, place, false, false}, example);
}

FindingKind kind_of(bool nan) { return nan ? FindingKind::makes_nan : FindingKind::makes_infinity; }

// Sums of which more than half of the digits of what was added are gone, and something is left.
void look_for_lost_digits(Warp &w, const Instruction *i, const WatchedNumbers &watched, uint32_t lanes,
                          const Sources &sources) {
  const Format format = format_of(watched.result);
  uint32_t found = 0;
  FoundExample example;
  for (; lanes; lanes &= lanes - 1) {
    const uint32_t l = first_lane(lanes);
    const uint64_t result = read(w, i->destination, watched.result, l);
    for (uint32_t p = 0; p < parts_of(format); ++p) {
      double terms[WatchedNumbers::most_sources] = {};
      bool finite = is_finite(part(result, format, p), format);
      for (uint32_t s = 0; s < watched.source_count; ++s) {
        const Format of = format_of(watched.sources[s]);
        const uint64_t bits = part(sources.bits[s][l], of, parts_of(of) > 1 ? p : 0);
        finite &= of.exponent_bits != 0 && is_finite(bits, of);
        terms[s] = finite ? value_of(bits, of) : 0;
      }
      const double sum = finite ? std::fabs(value_of(part(result, format, p), format)) : 0;
      const double one = std::fabs(watched.source_count == 3 ? terms[0] * terms[1] : terms[0]);
      const double other = std::fabs(watched.source_count == 3 ? terms[2] : terms[1]);
      if (!(sum > 0) || sum >= std::ldexp(std::max(one, other), -(format.fraction_bits / 2 + 1)))
        continue;
      if (found == 0) {
        example.values[0] = result;
        for (uint32_t s = 0; s < watched.source_count; ++s)
          example.values[s + 1] = sources.bits[s][l];
      }
      found |= uint32_t{1} << l;
    }
  }
  if (found)
    tell(w, i, FindingKind::loses_digits, found, example);
}

// The result of one lane's instruction, of those in `lanes`.
void look_at_lanes(Warp &w, const Instruction *i, const WatchedNumbers &watched, uint32_t lanes,
                   const Sources &sources) {
  const Format format = format_of(watched.result);
  uint32_t of_kind[2] = {};
  FoundExample example[2];
  for (; lanes; lanes &= lanes - 1) {
    uint32_t l = first_lane(lanes);
    uint64_t result = read(w, i->destination, watched.result, l);
    uint64_t of_lane[WatchedNumbers::most_sources] = {};
    for (uint32_t s = 0; s < watched.source_count; ++s)
      of_lane[s] = sources.bits[s][l];
    for (uint32_t p = 0; p < parts_of(format); ++p) {
      uint64_t value = part(result, format, p);
      if (is_finite(value, format) || !reads_only_finite(watched, of_lane, p))
        continue;
      bool nan = is_nan(value, format);
      if (of_kind[nan] == 0) {
        example[nan].values[0] = result;
        std::copy(std::begin(of_lane), std::end(of_lane), example[nan].values + 1);
      }
      of_kind[nan] |= uint32_t{1} << l;
    }
  }
  for (bool nan : {true, false})
    if (of_kind[nan])
      tell(w, i, kind_of(nan), of_kind[nan], example[nan]);
}

const uint32_t *rows_of(const Warp &w, const Instruction *i) { return w.program->extra.data() + i->extra; }

// Every element of the result depends on many of the others, so one that is not finite anywhere in the warp
// leaves open where that of the result comes from.
bool product_reads_only_finite(Warp &w, const Instruction *i, const WatchedNumbers &watched) {
  const MatrixForm &form = w.program->matrices[static_cast<size_t>(i->immediate)];
  const uint32_t *row = rows_of(w, i) + form.d.registers;
  for (uint32_t operand = 0; operand < 3; ++operand) {
    uint32_t count = operand == 0 ? form.a.registers : operand == 1 ? form.b.registers : form.c.registers;
    for (uint32_t r = 0; r < count; ++r)
      if (not_finite(w, *row++, watched.sources[operand]))
        return false;
  }
  return true;
}

const Instruction *watch_product(Warp &w, const Instruction *i, const WatchedNumbers &watched) {
  if (!(w.launch->request->checks & bit_of(Check::numbers)))
    return watched.handler(w, i);
  const bool finite = product_reads_only_finite(w, i, watched);
  const Instruction *next = watched.handler(w, i);
  const MatrixForm &form = w.program->matrices[static_cast<size_t>(i->immediate)];
  const Format format = format_of(watched.result);
  for (uint32_t r = 0; finite && r < form.d.registers; ++r) {
    uint32_t row = rows_of(w, i)[r], of_kind[2] = {};
    FoundExample example[2];
    for (uint32_t lanes = not_finite(w, row, watched.result) & w.active; lanes; lanes &= lanes - 1) {
      uint32_t l = first_lane(lanes);
      uint64_t result = read(w, row, watched.result, l);
      for (uint32_t p = 0; p < parts_of(format); ++p) {
        uint64_t value = part(result, format, p);
        if (is_finite(value, format))
          continue;
        bool nan = is_nan(value, format);
        if (of_kind[nan] == 0)
          example[nan].values[0] = result;
        of_kind[nan] |= uint32_t{1} << l;
      }
    }
    for (bool nan : {true, false})
      if (of_kind[nan])
        tell(w, i, kind_of(nan), of_kind[nan], example[nan]);
  }
  return next;
}

void keep_sources(Warp &w, const Instruction *i, const WatchedNumbers &watched) {
  const uint32_t rows[] = {i->a, i->b, i->c, i->extra};
  for (uint32_t s = 0; s < watched.source_count; ++s)
    if (watched.overwritten >> s & 1)
      std::memcpy(w.worker->kept_rows[s], w.row<uint8_t>(rows[s]), sizeof w.worker->kept_rows[s]);
}

// Whether an exponent is all ones: one more in its last place then carries into the sign.
template <typename Bits, uint32_t Count> bool has_full_exponent(const uint8_t *row, Bits exponent) {
  const Bits *values = reinterpret_cast<const Bits *>(row);
  const Bits last = exponent & static_cast<Bits>(~exponent + 1);
  Bits any = 0;
  for (uint32_t k = 0; k < Count; ++k)
    any |= static_cast<Bits>((values[k] & exponent) + last);
  return any >> (8 * sizeof(Bits) - 1);
}

// Of lanes that do not take part, too.
bool may_be_not_finite(const uint8_t *row, NumberType type) {
  switch (type) {
  case NumberType::f16:
    return has_full_exponent<uint16_t, lanes_per_warp>(row, 0x7c00);
  case NumberType::bf16:
    return has_full_exponent<uint16_t, lanes_per_warp>(row, 0x7f80);
  case NumberType::f16x2:
    return has_full_exponent<uint16_t, 2 * lanes_per_warp>(row, 0x7c00);
  case NumberType::bf16x2:
    return has_full_exponent<uint16_t, 2 * lanes_per_warp>(row, 0x7f80);
  case NumberType::f32:
    return has_full_exponent<uint32_t, lanes_per_warp>(row, 0x7f800000);
  case NumberType::f32x2:
    return has_full_exponent<uint32_t, 2 * lanes_per_warp>(row, 0x7f800000);
  default:
    return has_full_exponent<uint64_t, lanes_per_warp>(row, 0x7ff0000000000000);
  }
}

bool looks_at_all(const Warp &w, const WatchedNumbers &watched) {
  return watched.subtracts && w.launch->request->checks & bit_of(Check::cancellation);
}

[[gnu::noinline]] void look(Warp &w, const Instruction *i, const WatchedNumbers &watched) {
  uint32_t lanes = w.active;
  if (i->guard != no_offset)
    lanes &= i->guard_negated ? ~w.predicate(i->guard) : w.predicate(i->guard);
  const uint32_t checks = w.launch->request->checks, rows[] = {i->a, i->b, i->c, i->extra};
  const bool of_digits = looks_at_all(w, watched);
  uint32_t of_numbers =
      checks & bit_of(Check::numbers) ? lanes & not_finite(w, i->destination, watched.result) : 0;
  const uint8_t *sources[WatchedNumbers::most_sources];
  for (uint32_t s = 0; s < watched.source_count; ++s) {
    sources[s] = watched.overwritten >> s & 1 ? w.worker->kept_rows[s] : w.row<uint8_t>(rows[s]);
    // A value that is the only one of its lane decides for the lane.
    if (of_numbers && parts_of(format_of(watched.sources[s])) == 1)
      of_numbers &= ~not_finite(sources[s], watched.sources[s]);
  }
  if (!of_numbers && !of_digits)
    return;
  Sources bits;
  for (uint32_t s = 0; s < watched.source_count; ++s)
    for (uint32_t l = 0; l < lanes_per_warp; ++l)
      bits.bits[s][l] = read(sources[s], watched.sources[s], l);
  if (of_digits)
    look_for_lost_digits(w, i, watched, lanes, bits);
  if (of_numbers)
    look_at_lanes(w, i, watched, of_numbers, bits);
}

} // namespace

WatchedNumbers watched_numbers(std::string_view opcode, ptx::Type result, const ptx::Type *sources,
                               uint8_t source_count) {
  WatchedNumbers watched;
  std::string_view mnemonic = opcode.substr(0, opcode.find('.'));
  std::string_view last = opcode.substr(opcode.rfind('.') + 1);
  const bool pairs = last == "f32x2";
  // Formats that PTX keeps as bits may hold a NaN of their own.
  const bool of_bits = mnemonic == "cvt" && ptx::type_from_name(last) == ptx::Type::none;
  if (std::find(std::begin(makers), std::end(makers), mnemonic) == std::end(makers) || of_bits ||
      source_count > WatchedNumbers::most_sources)
    return watched;
  auto type = [&](ptx::Type of) {
    return pairs && of == ptx::Type::b64 ? NumberType::f32x2 : number_type(of);
  };
  watched.result = type(result);
  watched.is_watched = is_floating(watched.result);
  watched.subtracts = mnemonic == "add" || mnemonic == "sub" || mnemonic == "fma" || mnemonic == "mad";
  watched.source_count = source_count;
  for (uint32_t s = 0; s < watched.source_count; ++s)
    watched.sources[s] = type(sources[s]);
  return watched;
}

WatchedNumbers watched_numbers(const MatrixForm &form) {
  WatchedNumbers watched;
  auto of = [](MatrixElement element) {
    switch (element) {
    case MatrixElement::f16:
      return NumberType::f16x2;
    case MatrixElement::bf16:
      return NumberType::bf16x2;
    case MatrixElement::tf32:
      return NumberType::f32;
    case MatrixElement::f64:
      return NumberType::f64;
    default:
      return NumberType::u32;
    }
  };
  watched.sources[0] = of(form.a_element);
  watched.sources[1] = of(form.b_element);
  if (form.of_warpgroup || !is_floating(watched.sources[0]) || !is_floating(watched.sources[1]))
    return watched;
  const bool wide = form.a_element == MatrixElement::f64;
  watched.sources[2] = wide ? NumberType::f64 : form.half_c ? NumberType::f16x2 : NumberType::f32;
  watched.result = wide ? NumberType::f64 : form.half_d ? NumberType::f16x2 : NumberType::f32;
  watched.is_watched = watched.is_product = true;
  return watched;
}

uint8_t overwritten_sources(const Instruction &i, const WatchedNumbers &watched) {
  const uint32_t rows[] = {i.a, i.b, i.c, i.extra};
  auto end = [](uint32_t row, NumberType type) { return row + format_of(type).bytes * lanes_per_warp; };
  uint32_t found = 0;
  for (uint32_t s = 0; s < watched.source_count && !watched.is_product; ++s)
    found |= uint32_t{rows[s] < end(i.destination, watched.result) &&
                      i.destination < end(rows[s], watched.sources[s])}
             << s;
  return static_cast<uint8_t>(found);
}

// What most instructions do is here and keeps nothing on the stack, so that it ends with a jump.
const Instruction *watch_numbers(Warp &w, const Instruction *i) {
  const WatchedNumbers &watched = w.program->watched[static_cast<size_t>(i - w.program->code.data())];
  if (watched.is_product)
    return watch_product(w, i, watched);
  if (watched.overwritten)
    keep_sources(w, i, watched);
  const Instruction *next = watched.handler(w, i);
  if (looks_at_all(w, watched) || may_be_not_finite(w.row<uint8_t>(i->destination), watched.result))
    look(w, i, watched);
  return watched.follow(w, next);
}

} // namespace emulator
