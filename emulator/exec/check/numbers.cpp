#include "exec/check/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "exec/check/findings.hpp"
#include "exec/warp/warp.hpp"

namespace emulator {

namespace {

// What can give something that is not finite for what is. What else has floating point takes such a value
// from where it was before.
constexpr std::string_view makers[] = {"add",   "sub", "mul", "mad", "fma", "div",  "rcp", "sqrt",
                                       "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "cvt"};

struct Format {
  uint8_t bytes;     // of a lane
  uint8_t part_bits; // of one of its values
  uint8_t exponent_bits, fraction_bits;
};
Format format_of(NumberType type) {
  switch (type) {
  case NumberType::f16:
    return {2, 16, 5, 10};
  case NumberType::bf16:
    return {2, 16, 8, 7};
  case NumberType::f16x2:
    return {4, 16, 5, 10};
  case NumberType::bf16x2:
    return {4, 16, 8, 7};
  case NumberType::f32:
    return {4, 32, 8, 23};
  case NumberType::f32x2:
    return {8, 32, 8, 23};
  case NumberType::f64:
    return {8, 64, 11, 52};
  case NumberType::byte:
    return {1, 8, 0, 0};
  case NumberType::s16:
  case NumberType::u16:
    return {2, 16, 0, 0};
  case NumberType::s32:
  case NumberType::u32:
    return {4, 32, 0, 0};
  default:
    return {8, 64, 0, 0};
  }
}

bool is_floating(NumberType type) { return type >= NumberType::f16; }
uint32_t parts_of(const Format &format) { return 8u * format.bytes / format.part_bits; }
uint64_t part(uint64_t bits, const Format &format, uint32_t number) {
  uint64_t shifted = bits >> (number * format.part_bits);
  return format.part_bits == 64 ? shifted : shifted & ((uint64_t{1} << format.part_bits) - 1);
}
uint64_t exponent_mask(const Format &format) {
  return ((uint64_t{1} << format.exponent_bits) - 1) << format.fraction_bits;
}
bool is_finite(uint64_t value, const Format &format) {
  return format.exponent_bits == 0 || (value & exponent_mask(format)) != exponent_mask(format);
}
bool is_nan(uint64_t value, const Format &format) {
  return !is_finite(value, format) && (value & ((uint64_t{1} << format.fraction_bits) - 1)) != 0;
}

// Of a finite number.
double value_of(uint64_t value, const Format &format) {
  const uint64_t fraction = value & ((uint64_t{1} << format.fraction_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>((value & exponent_mask(format)) >> format.fraction_bits);
  const uint64_t whole = exponent == 0 ? 0 : uint64_t{1} << format.fraction_bits;
  const double size =
      std::ldexp(static_cast<double>(fraction | whole), std::max(exponent, 1) - bias - format.fraction_bits);
  return value >> (format.part_bits - 1) ? -size : size;
}

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

uint64_t read(Warp &w, uint32_t row, NumberType type, uint32_t lane) {
  uint32_t bytes = format_of(type).bytes;
  uint64_t bits = 0;
  std::memcpy(&bits, w.row<uint8_t>(row) + size_t{lane} * bytes, bytes);
  return bits;
}

// The lanes whose value, or a part of it, is not finite.
uint32_t not_finite(Warp &w, uint32_t row, NumberType type) {
  const Format format = format_of(type);
  uint32_t lanes = 0;
  if (format.exponent_bits == 0 || row == no_offset)
    return 0;
  if (format.part_bits == 32 && format.bytes == 4) {
    const uint32_t *values = w.row<uint32_t>(row);
    for (uint32_t l = 0; l < lanes_per_warp; ++l)
      lanes |= uint32_t{(values[l] & 0x7f800000) == 0x7f800000} << l;
    return lanes;
  }
  for (uint32_t l = 0; l < lanes_per_warp; ++l) {
    uint64_t bits = read(w, row, type, l);
    for (uint32_t p = 0; p < parts_of(format); ++p)
      lanes |= uint32_t{!is_finite(part(bits, format, p), format)} << l;
  }
  return lanes;
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

const Instruction *watch_numbers(Warp &w, const Instruction *i) {
  const WatchedNumbers &watched = w.program->watched[static_cast<size_t>(i - w.program->code.data())];
  if (watched.is_product)
    return watch_product(w, i, watched);
  // What it reads may be where it writes.
  Sources sources;
  const uint32_t rows[] = {i->a, i->b, i->c, i->extra};
  for (uint32_t s = 0; s < watched.source_count; ++s)
    for (uint32_t l = 0; l < lanes_per_warp; ++l)
      sources.bits[s][l] = read(w, rows[s], watched.sources[s], l);
  uint32_t lanes = w.active;
  if (i->guard != no_offset)
    lanes &= i->guard_negated ? ~w.predicate(i->guard) : w.predicate(i->guard);
  const Instruction *next = watched.handler(w, i);
  const uint32_t checks = w.launch->request->checks;
  if (checks & bit_of(Check::cancellation) && watched.subtracts)
    look_for_lost_digits(w, i, watched, lanes, sources);
  if (!(checks & bit_of(Check::numbers)))
    return next;
  if (lanes &= not_finite(w, i->destination, watched.result))
    look_at_lanes(w, i, watched, lanes, sources);
  return next;
}

std::string number_text(NumberType type, uint64_t bits) {
  const Format format = format_of(type);
  std::string text;
  for (uint32_t p = 0; p < parts_of(format); ++p) {
    uint64_t value = part(bits, format, p);
    text += p == 0 ? "" : ", ";
    if (!is_floating(type)) {
      bool is_signed = type == NumberType::s16 || type == NumberType::s32 || type == NumberType::s64;
      uint32_t unused = 64 - format.part_bits;
      text +=
          is_signed ? std::to_string(static_cast<int64_t>(value << unused) >> unused) : std::to_string(value);
      continue;
    }
    if (!is_finite(value, format)) {
      text += is_nan(value, format) ? "nan" : value >> (format.part_bits - 1) ? "-inf" : "inf";
      continue;
    }
    char written[32];
    std::snprintf(written, sizeof written, "%.*g",
                  format.part_bits == 64   ? 17
                  : format.part_bits == 32 ? 9
                                           : 5,
                  value_of(value, format));
    text += written;
  }
  return parts_of(format) > 1 ? "(" + text + ")" : text;
}

} // namespace emulator
