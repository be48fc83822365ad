// cvt to and from the formats of 8, 6 and 4 bits, which exist as pairs only, and cvt.pack.
#include "exec/operations/narrow_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

// .rn.satfinite
template <typename T, bool Relu> u32 narrowest(f32 x) {
  constexpr u32 largest = Layout<T>::largest;
  constexpr u32 sign_at = Layout<T>::exponent_bits + Layout<T>::fraction_bits;
  u32 sign = bit_cast<u32>(x) >> 31;
  u32 code = nearest_code<T>(x);
  code = code < largest ? code : largest;
  code = Relu && sign ? 0 : code | sign << sign_at;
  return is_number(x) ? code : Layout<T>::nan;
}
// The bits of one element in a pair: 6-bit formats have two zero bits in front.
template <typename T> constexpr u32 element_bits = std::is_same_v<T, e2m1> ? 4 : 8;
template <typename T> using pair_bits = std::conditional_t<std::is_same_v<T, e2m1>, u8, u16>;

template <typename T, bool Relu> struct FromFloats {
  template <typename R> static R apply(f32 a, f32 b) {
    return static_cast<R>(narrowest<T, Relu>(a) << element_bits<T> | narrowest<T, Relu>(b));
  }
};
template <typename T, typename Half, bool Relu> struct FromHalves {
  template <typename R, typename Pair> static R apply(Pair a) {
    return FromFloats<T, Relu>::template apply<R>(widen(Half{static_cast<u16>(a.bits >> 16)}),
                                                  widen(Half{static_cast<u16>(a.bits)}));
  }
};
template <typename T, bool Relu> struct ToHalves {
  template <typename R, typename A> static R apply(A a) {
    auto one = [](u32 code) {
      f16 half = narrow<f16>(widest<T>(code));
      return u32{(Relu ? relu(half) : half).bits};
    };
    return R{one(a >> element_bits<T>) << 16 | one(a)};
  }
};

// To bf16, times a power of two, which is 1 where the instruction names none.
constexpr u16 powers_of_one = 0x7f7f;
template <typename T, bool Relu, bool Finite> struct ToScaled {
  template <typename R, typename A> static R apply(A a, u16 powers) {
    auto one = [](f64 value, u32 power) {
      bf16 half = narrow<bf16>(value * power_of(power), Rounding::nearest, Finite);
      return u32{(Relu ? relu(half) : half).bits};
    };
    return R{one(widest<T>(a >> element_bits<T>), powers >> 8) << 16 | one(widest<T>(a), powers & 0xff)};
  }
  template <typename R, typename A> static R apply(A a) { return apply<R>(a, powers_of_one); }
};

// s2f6: a number of 64ths from -128 to 127; it has no infinity and no NaN.
struct s2f6;
template <> f32 widest<s2f6>(u32 code) { return static_cast<f32>(static_cast<s8>(code)) / 64; }
template <bool Relu> u32 fixed_code(f32 x, u32 power) {
  constexpr f64 anchor = 6755399441055744.0; // 1.5 * 2^52: next to it whole numbers end
  f64 value = static_cast<f64>(x) / power_of(power) * 64;
  value = value < 127 ? value : 127; // NaN, too
  value = value > (Relu ? 0 : -128) ? value : (Relu ? 0 : -128);
  return static_cast<u32>(static_cast<s32>(value + anchor - anchor)) & 0xff;
}
template <bool Relu> struct ToFixed {
  template <typename R> static R apply(f32 a, f32 b, u16 powers) {
    return static_cast<R>(fixed_code<Relu>(a, powers >> 8) << 8 | fixed_code<Relu>(b, powers & 0xff));
  }
  template <typename R> static R apply(f32 a, f32 b) { return apply<R>(a, b, powers_of_one); }
  template <typename R> static R apply(bf16x2 a, u16 powers) {
    return apply<R>(widen(bf16{static_cast<u16>(a.bits >> 16)}), widen(bf16{static_cast<u16>(a.bits)}),
                    powers);
  }
  template <typename R> static R apply(bf16x2 a) { return apply<R>(a, powers_of_one); }
};

// .rs of four, two at a time: those above are done. Both take the same random bits, the first from the last
// on.
template <typename T, bool Relu> u32 narrowest_by_bits(f32 x, u32 random) {
  u32 sign = bit_cast<u32>(x) >> 31;
  u32 code = code_by_bits<T>(x, random, 16, Layout<T>::largest);
  code = Relu && sign ? 0 : code | sign << (Layout<T>::exponent_bits + Layout<T>::fraction_bits);
  return is_number(x) ? code : Layout<T>::nan;
}
template <typename T, bool Relu> struct TwoByBits {
  template <typename R> static R apply(f32 a, f32 b, u32 random, R above) {
    u32 bits = element_bits<T> == 4 ? (random >> 8 & 0xff00) | (random & 0xff) : random & 0xffff;
    u32 turned = 0;
    for (u32 k = 0; k < 16; ++k)
      turned |= (bits >> k & 1) << (15 - k);
    return static_cast<R>(u32{above} << (2 * element_bits<T>) |
                          narrowest_by_bits<T, Relu>(a, turned) << element_bits<T> |
                          narrowest_by_bits<T, Relu>(b, bits));
  }
};

// ue8m0: the exponent of |x| as f32 has it. Subnormal numbers and zero give 2^-127, whose code is 0.
template <bool Finite> u32 exponent_code(u32 bits, bool up) {
  u32 magnitude = bits & 0x7fffffff;
  u32 code = magnitude >> 23;
  bool more = up && (magnitude & 0x7fffff) && magnitude > 0x00400000 && magnitude < 0x7f800000;
  code += more ? 1 : 0;
  code = Finite && code > 0xfe ? 0xfe : code;
  return magnitude > 0x7f800000 ? 0xff : code;
}
template <bool Finite> const Instruction *to_exponents(Warp &w, const Instruction *i) {
  Output<u16> out(w, i->destination);
  const u32 *a = w.row<u32>(i->a);
  const u32 *b = w.row<u32>(i->b);
  bool up = i->rounding == Rounding::up;
  for (u32 l = 0; l < lanes_per_warp; ++l)
    out.row[l] = static_cast<u16>(exponent_code<Finite>(a[l], up) << 8 | exponent_code<Finite>(b[l], up));
  out.store();
  return i + 1;
}
template <bool Finite> const Instruction *halves_to_exponents(Warp &w, const Instruction *i) {
  Output<u16> out(w, i->destination);
  const u32 *a = w.row<u32>(i->a);
  bool up = i->rounding == Rounding::up;
  for (u32 l = 0; l < lanes_per_warp; ++l)
    out.row[l] = static_cast<u16>(exponent_code<Finite>(a[l] & 0xffff0000, up) << 8 |
                                  exponent_code<Finite>(a[l] << 16, up));
  out.store();
  return i + 1;
}
struct FromExponents {
  template <typename R, typename A> static R apply(A a) {
    auto one = [](u32 code) { return code == 0xff ? u32{nan_bits} : code ? code << 7 : u32{0x40}; };
    return R{one(a >> 8) << 16 | one(a & 0xff)};
  }
};

// cvt.pack.sat: a above b; where bits are left, c above both.
template <int Low, int High, u32 Bits> struct Pack {
  static u32 clamped(s32 x) {
    return static_cast<u32>(x < Low ? Low : x > High ? High : x) & ((u32{1} << Bits) - 1);
  }
  template <typename R> static R apply(s32 a, s32 b) { return clamped(a) << Bits | clamped(b); }
  template <typename R> static R apply(s32 a, s32 b, u32 c) { return apply<R>(a, b) | c << (2 * Bits % 32); }
};

// To bf16x2, with or without factors.
template <typename T, bool Relu, bool Finite, typename Bits>
void add_to_scaled(OperationTable &t, const std::string &name, ptx::Type type) {
  using F = ToScaled<T, Relu, Finite>;
  std::string form = std::string("cvt") + (Relu ? ".relu" : "") + (Finite ? ".satfinite" : "");
  std::string types = ".bf16x2." + name + "x2";
  t.add(form + types, {unary<F, bf16x2, Bits>, ptx::Type::bf16x2, {type}, 1});
  t.add(form + ".scaled::n2::ue8m0" + types,
        {binary<F, bf16x2, Bits, u16>, ptx::Type::bf16x2, {type, ptx::Type::b16}, 2});
}

template <typename T, bool Relu> void add_narrow(OperationTable &t, const std::string &name) {
  using ptx::Type;
  using Bits = pair_bits<T>;
  constexpr Type type = std::is_same_v<T, e2m1> ? Type::b8 : Type::b16;
  std::string relu = Relu ? ".relu" : "";
  std::string to = "cvt" + relu + ".satfinite." + name + "x2";
  t.add(to + ".f32", {binary<FromFloats<T, Relu>, Bits, f32, f32>, type, {Type::f32, Type::f32}, 2});
  t.add(to + ".f16x2", {unary<FromHalves<T, f16, Relu>, Bits, f16x2>, type, {Type::f16x2}, 1});
  t.add(to + ".bf16x2", {unary<FromHalves<T, bf16, Relu>, Bits, bf16x2>, type, {Type::bf16x2}, 1});
  t.add("cvt" + relu + ".f16x2." + name + "x2",
        {unary<ToHalves<T, Relu>, f16x2, Bits>, Type::f16x2, {type}, 1});
  add_to_scaled<T, Relu, false, Bits>(t, name, type);
  add_to_scaled<T, Relu, true, Bits>(t, name, type);
  using Four = std::conditional_t<std::is_same_v<T, e2m1>, u16, u32>;
  constexpr Type four = std::is_same_v<T, e2m1> ? Type::b16 : Type::b32;
  t.add("cvt.rs" + relu + ".satfinite." + name + "x4.f32",
        {quaternary<TwoByBits<T, Relu>, Four, f32, f32, u32, Four>,
         four,
         {Type::f32, Type::f32, Type::b32, four},
         4});
}

template <bool Relu> void add_fixed(OperationTable &t) {
  using ptx::Type;
  using F = ToFixed<Relu>;
  std::string form = std::string("cvt") + (Relu ? ".relu" : "") + ".satfinite", scaled = ".scaled::n2::ue8m0";
  t.add(form + ".s2f6x2.f32", {binary<F, u16, f32, f32>, Type::b16, {Type::f32, Type::f32}, 2});
  t.add(form + scaled + ".s2f6x2.f32",
        {ternary<F, u16, f32, f32, u16>, Type::b16, {Type::f32, Type::f32, Type::b16}, 3});
  t.add(form + ".s2f6x2.bf16x2", {unary<F, u16, bf16x2>, Type::b16, {Type::bf16x2}, 1});
  t.add(form + scaled + ".s2f6x2.bf16x2",
        {binary<F, u16, bf16x2, u16>, Type::b16, {Type::bf16x2, Type::b16}, 2});
  add_to_scaled<s2f6, Relu, false, u16>(t, "s2f6", Type::b16);
  add_to_scaled<s2f6, Relu, true, u16>(t, "s2f6", Type::b16);
}

template <int Low, int High, u32 Bits> void add_pack(OperationTable &t, const std::string &form) {
  using ptx::Type;
  using F = Pack<Low, High, Bits>;
  if constexpr (Bits == 16)
    t.add(form, {binary<F, u32, s32, s32>, Type::b32, {Type::s32, Type::s32}, 2});
  else
    t.add(form, {ternary<F, u32, s32, s32, u32>, Type::b32, {Type::s32, Type::s32, Type::b32}, 3});
}

} // namespace

void add_convert_narrow(OperationTable &t) {
  using ptx::Type;
#define NARROW(format)                                                                                       \
  add_narrow<format, false>(t, #format);                                                                     \
  add_narrow<format, true>(t, #format);
#define EXPONENTS(modifiers, finite)                                                                         \
  t.add("cvt" modifiers ".ue8m0x2.f32", {to_exponents<finite>, Type::b16, {Type::f32, Type::f32}, 2});       \
  t.add("cvt" modifiers ".ue8m0x2.bf16x2", {halves_to_exponents<finite>, Type::b16, {Type::bf16x2}, 1});
#define FIXED(modifiers) add_fixed<sizeof(modifiers) != 1>(t);
#define FROM_EXPONENTS(form) t.add(form, {unary<FromExponents, bf16x2, u16>, Type::bf16x2, {Type::b16}, 1});
#define PACK(form, low, high, bits) add_pack<low, high, bits>(t, form);
#include "exec/operations/operations.def"
}

} // namespace emulator::EMULATOR_ISA
