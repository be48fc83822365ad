// Bit operations on scalars.
#pragma once

#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

struct And {
  template <typename R> static R apply(R a, R b) { return static_cast<R>(a & b); }
};
struct Or {
  template <typename R> static R apply(R a, R b) { return static_cast<R>(a | b); }
};
struct Xor {
  template <typename R> static R apply(R a, R b) { return static_cast<R>(a ^ b); }
};
struct Not {
  template <typename R> static R apply(R a) { return static_cast<R>(~a); }
};
struct LogicalNot {
  template <typename R> static R apply(R a) { return a == 0 ? 1 : 0; }
};
// Distances beyond the width shift everything out.
struct ShiftLeft {
  template <typename R> static R apply(R a, u32 distance) {
    constexpr u32 width = 8 * sizeof(R);
    return distance < width
               ? static_cast<R>(static_cast<std::common_type_t<R, u32>>(a) << (distance & (width - 1)))
               : R{0};
  }
};
struct ShiftRight {
  template <typename R> static R apply(R a, u32 distance) {
    constexpr u32 width = 8 * sizeof(R);
    if constexpr (std::is_signed_v<R>)
      return static_cast<R>(a >> (distance < width ? distance : width - 1));
    else
      return distance < width ? static_cast<R>(a >> (distance & (width - 1))) : R{0};
  }
};
// Both words as one of 64 bits, b above a.
struct FunnelLeftWrap {
  template <typename R> static R apply(u32 a, u32 b, u32 c) {
    return static_cast<u32>(((u64{b} << 32 | a) << (c & 31)) >> 32);
  }
};
struct FunnelLeftClamp {
  template <typename R> static R apply(u32 a, u32 b, u32 c) {
    return static_cast<u32>(((u64{b} << 32 | a) << (c < 32 ? c : 32)) >> 32);
  }
};
struct FunnelRightWrap {
  template <typename R> static R apply(u32 a, u32 b, u32 c) {
    return static_cast<u32>((u64{b} << 32 | a) >> (c & 31));
  }
};
struct FunnelRightClamp {
  template <typename R> static R apply(u32 a, u32 b, u32 c) {
    return static_cast<u32>((u64{b} << 32 | a) >> (c < 32 ? c : 32));
  }
};
struct CountOnes {
  template <typename R> static R apply(u32 a) { return static_cast<R>(__builtin_popcount(a)); }
  template <typename R> static R apply(u64 a) { return static_cast<R>(__builtin_popcountll(a)); }
};
struct CountLeadingZeros {
  template <typename R> static R apply(u32 a) { return a ? static_cast<R>(__builtin_clz(a)) : 32; }
  template <typename R> static R apply(u64 a) { return a ? static_cast<R>(__builtin_clzll(a)) : 64; }
};
// The most significant bit that differs from the sign; all ones when there is none.
struct FindBit {
  template <typename R> static R apply(u64 a) { return a ? static_cast<R>(63 - __builtin_clzll(a)) : ~R{0}; }
  template <typename R> static R apply(u32 a) { return apply<R>(u64{a}); }
  template <typename R> static R apply(s64 a) { return apply<R>(static_cast<u64>(a < 0 ? ~a : a)); }
  template <typename R> static R apply(s32 a) { return apply<R>(static_cast<s64>(a)); }
};
struct FindBitDistance {
  template <typename R, typename A> static R apply(A a) {
    R bit = FindBit::apply<R>(a);
    return bit == ~R{0} ? bit : static_cast<R>(8 * sizeof(A) - 1) - bit;
  }
};
struct ReverseBits {
  static u32 reverse(u32 x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
    return x >> 16 | x << 16;
  }
  template <typename R> static R apply(u32 a) { return reverse(a); }
  template <typename R> static R apply(u64 a) {
    return u64{reverse(static_cast<u32>(a))} << 32 | reverse(static_cast<u32>(a >> 32));
  }
};
// Position and length are taken modulo 256; bits beyond the width read as the sign.
struct ExtractField {
  template <typename R> static R apply(R a, u32 position, u32 length) {
    constexpr u32 width = 8 * sizeof(R);
    u32 p = position & 0xff, n = length & 0xff;
    if (n == 0)
      return 0;
    using U = std::make_unsigned_t<R>;
    R fill = std::is_signed_v<R> && a < 0 ? static_cast<R>(~R{0}) : R{0};
    // As specified, the sign is that of bit min(position + length - 1, width - 1).
    u32 top = p + n - 1 < width - 1 ? p + n - 1 : width - 1;
    bool sign = std::is_signed_v<R> && (static_cast<U>(a) >> top & 1);
    U shifted = p < width ? static_cast<U>(a >> p) : static_cast<U>(fill);
    if (n >= width)
      return static_cast<R>(shifted);
    U mask = static_cast<U>((U{1} << n) - 1);
    U field = shifted & mask;
    return static_cast<R>(sign ? field | static_cast<U>(~mask) : field);
  }
};
struct InsertField {
  template <typename R> static R apply(R field, R base, u32 position, u32 length) {
    constexpr u32 width = 8 * sizeof(R);
    u32 p = position & 0xff, n = length & 0xff;
    if (n == 0 || p >= width)
      return base;
    R ones = n >= width ? ~R{0} : static_cast<R>((R{1} << n) - 1);
    R mask = static_cast<R>(ones << p);
    return static_cast<R>((base & ~mask) | (static_cast<R>(field << p) & mask));
  }
};
struct MaskClamp {
  template <typename R> static R apply(u32 position, u32 length) {
    u64 ones = length >= 32 ? 0xffffffffu : (u64{1} << length) - 1;
    return position >= 32 ? 0 : static_cast<u32>(ones << position);
  }
};
struct MaskWrap {
  template <typename R> static R apply(u32 position, u32 length) {
    return MaskClamp::apply<R>(position & 31, length & 31);
  }
};
struct ZeroExtendClamp {
  template <typename R> static R apply(u32 a, u32 n) {
    return n >= 32 ? a : a & static_cast<u32>((u64{1} << n) - 1);
  }
};
struct ZeroExtendWrap {
  template <typename R> static R apply(u32 a, u32 n) { return ZeroExtendClamp::apply<R>(a, n & 31); }
};
struct SignExtendClamp {
  template <typename R> static R apply(s32 a, u32 n) {
    if (n >= 32)
      return a;
    if (n == 0)
      return 0;
    return static_cast<s32>(static_cast<u32>(a) << (32 - n)) >> (32 - n);
  }
};
struct SignExtendWrap {
  template <typename R> static R apply(s32 a, u32 n) { return SignExtendClamp::apply<R>(a, n & 31); }
};

inline u32 byte_of(u64 both, u32 index) { return static_cast<u32>(both >> (8 * (index & 7)) & 0xff); }
inline u32 bytes(u32 b0, u32 b1, u32 b2, u32 b3) { return b0 | b1 << 8 | b2 << 16 | b3 << 24; }
struct Permute {
  template <typename R> static R apply(u32 a, u32 b, u32 selector) {
    u64 both = u64{b} << 32 | a;
    u32 result = 0;
    for (u32 k = 0; k < 4; ++k) {
      u32 nibble = selector >> (4 * k) & 15;
      u32 value = byte_of(both, nibble);
      if (nibble & 8)
        value = value & 0x80 ? 0xff : 0;
      result |= value << (8 * k);
    }
    return result;
  }
};
struct PermuteForward {
  template <typename R> static R apply(u32 a, u32 b, u32 c) {
    u64 both = u64{b} << 32 | a;
    u32 n = c & 3;
    return bytes(byte_of(both, n), byte_of(both, n + 1), byte_of(both, n + 2), byte_of(both, n + 3));
  }
};
struct PermuteBackward {
  template <typename R> static R apply(u32 a, u32 b, u32 c) {
    u64 both = u64{b} << 32 | a;
    u32 n = c & 3;
    return bytes(byte_of(both, n), byte_of(both, n - 1), byte_of(both, n - 2), byte_of(both, n - 3));
  }
};
struct PermuteReplicate8 {
  template <typename R> static R apply(u32 a, u32, u32 c) { return byte_of(a, c & 3) * 0x01010101u; }
};
struct PermuteEdgeLeft {
  template <typename R> static R apply(u32 a, u32, u32 c) {
    u32 n = c & 3;
    auto at = [&](u32 k) { return byte_of(a, k > n ? k : n); };
    return bytes(at(0), at(1), at(2), at(3));
  }
};
struct PermuteEdgeRight {
  template <typename R> static R apply(u32 a, u32, u32 c) {
    u32 n = c & 3;
    auto at = [&](u32 k) { return byte_of(a, k < n ? k : n); };
    return bytes(at(0), at(1), at(2), at(3));
  }
};
struct PermuteReplicate16 {
  template <typename R> static R apply(u32 a, u32, u32 c) {
    return (a >> (16 * (c & 1)) & 0xffff) * 0x00010001u;
  }
};
// Bit k of the table is the result for the inputs a = k>>2, b = k>>1, c = k.
struct Lookup3 {
  template <typename R> static R apply(u32 a, u32 b, u32 c, u32 table) {
    u32 result = 0;
    for (u32 k = 0; k < 8; ++k) {
      u32 minterm = (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
      result |= minterm & (0 - (table >> k & 1));
    }
    return result;
  }
};

template <typename A, typename B> u32 dot_bytes(u32 a, u32 b, u32 c) {
  for (u32 k = 0; k < 4; ++k)
    c += static_cast<u32>(static_cast<s32>(static_cast<A>(a >> (8 * k))) *
                          static_cast<s32>(static_cast<B>(b >> (8 * k))));
  return c;
}
struct DotBytesUnsigned {
  template <typename R> static R apply(u32 a, u32 b, u32 c) { return dot_bytes<u8, u8>(a, b, c); }
};
struct DotBytesSigned {
  template <typename R> static R apply(u32 a, u32 b, u32 c) { return dot_bytes<s8, s8>(a, b, c); }
};
struct DotBytesUnsignedSigned {
  template <typename R> static R apply(u32 a, u32 b, u32 c) { return dot_bytes<u8, s8>(a, b, c); }
};
struct DotBytesSignedUnsigned {
  template <typename R> static R apply(u32 a, u32 b, u32 c) { return dot_bytes<s8, u8>(a, b, c); }
};

// dp2a: 16-bit halves of a with the low or high two bytes of b.
template <typename A, typename B> u32 dot_halves(u32 a, u32 b, u32 c) {
  using Wide = std::conditional_t<std::is_signed_v<A>, s16, u16>;
  for (u32 k = 0; k < 2; ++k)
    c += static_cast<u32>(static_cast<s32>(static_cast<Wide>(a >> (16 * k))) *
                          static_cast<s32>(static_cast<B>(b >> (8 * k))));
  return c;
}
template <typename A, typename B, u32 Shift> struct DotHalves {
  template <typename R> static R apply(u32 a, u32 b, u32 c) { return dot_halves<A, B>(a, b >> Shift, c); }
};
using DotLowUnsigned = DotHalves<u16, u8, 0>;
using DotLowSigned = DotHalves<s16, s8, 0>;
using DotLowUnsignedSigned = DotHalves<u16, s8, 0>;
using DotLowSignedUnsigned = DotHalves<s16, u8, 0>;
using DotHighUnsigned = DotHalves<u16, u8, 16>;
using DotHighSigned = DotHalves<s16, s8, 16>;
using DotHighUnsignedSigned = DotHalves<u16, s8, 16>;
using DotHighSignedUnsigned = DotHalves<s16, u8, 16>;

// The position of the offset-th set bit from `base` on, upwards or, with a negative offset, downwards; an
// offset of 0 asks for `base` itself. No such bit: all ones.
struct FindSetBit {
  template <typename R> static R apply(u32 mask, u32 base, s32 offset) {
    u32 found = ~u32{0};
    s64 left = offset < 0 ? -s64{offset} : offset == 0 ? 1 : s64{offset};
    s32 step = offset < 0 ? -1 : 1;
    s32 end = offset == 0 ? static_cast<s32>(base & 31) + 1 : offset < 0 ? -1 : 32;
    for (s32 k = static_cast<s32>(base & 31); k != end; k += step)
      if (mask >> k & 1 && --left == 0)
        found = static_cast<u32>(k);
    return found;
  }
};

template <u32 Bits> u32 difference_of_parts(u32 a, u32 b, u32 k) {
  u32 mask = (u32{1} << Bits) - 1, x = a >> (Bits * k) & mask, y = b >> (Bits * k) & mask;
  return x > y ? x - y : y - x;
}
// Of the parts of a word: each in its place, or their sum added to c.
template <u32 Bits> struct AbsoluteDifferences {
  template <typename R> static R apply(u32 a, u32 b, u32) {
    u32 result = 0;
    for (u32 k = 0; k < 32 / Bits; ++k)
      result |= difference_of_parts<Bits>(a, b, k) << (Bits * k);
    return result;
  }
};
template <u32 Bits> struct SumOfAbsoluteDifferences {
  template <typename R> static R apply(u32 a, u32 b, u32 c) {
    for (u32 k = 0; k < 32 / Bits; ++k)
      c += difference_of_parts<Bits>(a, b, k);
    return c;
  }
};
using AbsoluteDifferences2 = AbsoluteDifferences<16>;
using AbsoluteDifferences4 = AbsoluteDifferences<8>;
using SumOfAbsoluteDifferences2 = SumOfAbsoluteDifferences<16>;
using SumOfAbsoluteDifferences4 = SumOfAbsoluteDifferences<8>;

} // namespace

} // namespace emulator::EMULATOR_ISA
