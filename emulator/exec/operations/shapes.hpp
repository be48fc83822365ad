// How a function on scalars becomes a handler on rows of 32 lanes. Included by files that are built once for
// each instruction set, each time in another namespace, so nothing here may be an ordinary inline function of
// namespace emulator.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "exec/operations/table.hpp"
#include "exec/warp/warp.hpp"

#ifndef EMULATOR_ISA
#define EMULATOR_ISA baseline
#endif

#if defined(__clang__)
#define EACH_LANE(l)                                                                                         \
  _Pragma("clang loop vectorize(assume_safety)") for (uint32_t l = 0; l < lanes_per_warp; ++l)
#else
#define EACH_LANE(l) _Pragma("GCC ivdep") for (uint32_t l = 0; l < lanes_per_warp; ++l)
#endif

namespace emulator::EMULATOR_ISA {

using u8 = uint8_t;
using s8 = int8_t;
using u16 = uint16_t;
using s16 = int16_t;
using u32 = uint32_t;
using s32 = int32_t;
using u64 = uint64_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;
// Half-precision values travel as their bits, in types of their own.
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct f16x2 {
  u32 bits;
};
struct bf16x2 {
  u32 bits;
};

template <typename T> inline constexpr ptx::Type type_of = ptx::Type::none;
template <> inline constexpr ptx::Type type_of<u8> = ptx::Type::u8;
template <> inline constexpr ptx::Type type_of<s8> = ptx::Type::s8;
template <> inline constexpr ptx::Type type_of<u16> = ptx::Type::u16;
template <> inline constexpr ptx::Type type_of<s16> = ptx::Type::s16;
template <> inline constexpr ptx::Type type_of<u32> = ptx::Type::u32;
template <> inline constexpr ptx::Type type_of<s32> = ptx::Type::s32;
template <> inline constexpr ptx::Type type_of<u64> = ptx::Type::u64;
template <> inline constexpr ptx::Type type_of<s64> = ptx::Type::s64;
template <> inline constexpr ptx::Type type_of<f32> = ptx::Type::f32;
template <> inline constexpr ptx::Type type_of<f64> = ptx::Type::f64;
template <> inline constexpr ptx::Type type_of<f16> = ptx::Type::f16;
template <> inline constexpr ptx::Type type_of<bf16> = ptx::Type::bf16;
template <> inline constexpr ptx::Type type_of<f16x2> = ptx::Type::f16x2;
template <> inline constexpr ptx::Type type_of<bf16x2> = ptx::Type::bf16x2;
template <> inline constexpr ptx::Type type_of<bool> = ptx::Type::pred;

// A tag for a list of types.
template <typename... T> struct Types {};

template <size_t Bytes> struct UnsignedOf;
template <> struct UnsignedOf<1> {
  using type = u8;
};
template <> struct UnsignedOf<2> {
  using type = u16;
};
template <> struct UnsignedOf<4> {
  using type = u32;
};
template <> struct UnsignedOf<8> {
  using type = u64;
};
template <typename T> using bits_of = typename UnsignedOf<sizeof(T)>::type;

template <typename To, typename From> inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <typename T> [[gnu::noinline]] void blend_row(T *destination, const T *values, u32 lanes) {
  EACH_LANE(l) destination[l] = (lanes >> l & 1) ? values[l] : destination[l];
}

inline u32 blend_bits(u32 destination, u32 values, u32 lanes) {
  return (destination & ~lanes) | (values & lanes);
}

// Lanes that do not exist are written too: it costs nothing and keeps the loop whole. Rows are equal or
// disjoint.
template <typename R> struct Output {
  Warp &warp;
  R *destination;
  R *row;
  Output(Warp &w, uint32_t offset) : warp(w), destination(w.row<R>(offset)) {
    row = w.active == w.existing ? destination : reinterpret_cast<R *>(w.spare_row);
  }
  void store() {
    using Bits = bits_of<R>;
    if (row != destination)
      blend_row(reinterpret_cast<Bits *>(destination), reinterpret_cast<const Bits *>(row), warp.active);
  }
};

// Writes neighbouring lanes at once, lane(0) and so on. A row that is written in smaller parts is not read at
// once without a wait.
template <typename R> constexpr u32 lanes_at_once = sizeof(R) == 8 ? 4 : 8;
template <typename R, typename Lane> [[gnu::always_inline]] inline void put_lanes(R *row, Lane lane) {
  typedef R Lanes __attribute__((vector_size(lanes_at_once<R> * sizeof(R))));
  Lanes lanes;
  if constexpr (lanes_at_once<R> == 4)
    lanes = Lanes{lane(0), lane(1), lane(2), lane(3)};
  else
    lanes = Lanes{lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7)};
  std::memcpy(row, &lanes, sizeof lanes);
}

// The last thing that a handler of an instruction without branches does: it goes on with the next one by a
// jump. Handlers that keep something on their stack return instead, and so does control::stop.
[[gnu::always_inline]] inline const Instruction *follow(Warp &w, const Instruction *i) {
  return i->follow(w, i + 1);
}

// Apart from the handlers, which then need no frame on the stack: most never come here.
template <typename R> [[gnu::noinline]] const Instruction *keep_idle_lanes(Warp &w, const Instruction *i) {
  blend_row(w.row<R>(i->destination), reinterpret_cast<const R *>(w.spare_row), w.active);
  return follow(w, i);
}
template <typename R>
[[gnu::always_inline]] inline const Instruction *finish(Warp &w, const Instruction *i, const Output<R> &out) {
  return out.row == out.destination ? follow(w, i) : keep_idle_lanes<bits_of<R>>(w, i);
}

template <typename F, typename R, typename A> const Instruction *unary(Warp &w, const Instruction *i) {
  Output<R> out(w, i->destination);
  R *d = out.row;
  const A *a = w.row<A>(i->a);
  EACH_LANE(l) d[l] = F::template apply<R>(a[l]);
  return finish(w, i, out);
}

template <typename F, typename R, typename A, typename B>
const Instruction *binary(Warp &w, const Instruction *i) {
  Output<R> out(w, i->destination);
  R *d = out.row;
  const A *a = w.row<A>(i->a);
  const B *b = w.row<B>(i->b);
  EACH_LANE(l) d[l] = F::template apply<R>(a[l], b[l]);
  return finish(w, i, out);
}

template <typename F, typename R, typename A, typename B, typename C>
const Instruction *ternary(Warp &w, const Instruction *i) {
  Output<R> out(w, i->destination);
  R *d = out.row;
  const A *a = w.row<A>(i->a);
  const B *b = w.row<B>(i->b);
  const C *c = w.row<C>(i->c);
  EACH_LANE(l) d[l] = F::template apply<R>(a[l], b[l], c[l]);
  return finish(w, i, out);
}

template <typename F, typename R, typename A, typename B, typename C, typename D>
const Instruction *quaternary(Warp &w, const Instruction *i) {
  Output<R> out(w, i->destination);
  R *d = out.row;
  const A *a = w.row<A>(i->a);
  const B *b = w.row<B>(i->b);
  const C *c = w.row<C>(i->c);
  const D *e = w.row<D>(i->extra);
  EACH_LANE(l) d[l] = F::template apply<R>(a[l], b[l], c[l], e[l]);
  return finish(w, i, out);
}

// A comparison: rows in, one bit a lane out.
template <typename F, typename T> const Instruction *compare(Warp &w, const Instruction *i) {
  const T *a = w.row<T>(i->a);
  const T *b = w.row<T>(i->b);
  u32 bits = 0;
  EACH_LANE(l) bits |= F::apply(a[l], b[l]) ? u32{1} << l : 0;
  u32 &d = w.predicate(i->destination);
  d = blend_bits(d, bits, w.active);
  return follow(w, i);
}

// On predicates: all lanes at once.
template <typename F> const Instruction *predicate_unary(Warp &w, const Instruction *i) {
  u32 &d = w.predicate(i->destination);
  d = blend_bits(d, F::template apply<u32>(w.predicate(i->a)), w.active);
  return follow(w, i);
}
template <typename F> const Instruction *predicate_binary(Warp &w, const Instruction *i) {
  u32 &d = w.predicate(i->destination);
  d = blend_bits(d, F::template apply<u32>(w.predicate(i->a), w.predicate(i->b)), w.active);
  return follow(w, i);
}

template <typename T> std::string form_of(const char *name) {
  return std::string(name) + "." + std::string(ptx::name_of(type_of<T>));
}

template <typename F, typename... T> void add_unary(OperationTable &t, const char *name, Types<T...>) {
  (t.add(form_of<T>(name), {unary<F, T, T>, type_of<T>, {type_of<T>}, 1}), ...);
}
template <typename F, typename... T> void add_binary(OperationTable &t, const char *name, Types<T...>) {
  (t.add(form_of<T>(name), {binary<F, T, T, T>, type_of<T>, {type_of<T>, type_of<T>}, 2}), ...);
}
template <typename F, typename... T> void add_ternary(OperationTable &t, const char *name, Types<T...>) {
  (t.add(form_of<T>(name), {ternary<F, T, T, T, T>, type_of<T>, {type_of<T>, type_of<T>, type_of<T>}, 3}),
   ...);
}
// Operations that do not see a sign: one handler, entered under the names of all types of its size.
template <typename Add> void under_all_names(Add add) {
  add(u16{}, "u16"), add(u16{}, "s16"), add(u16{}, "b16");
  add(u32{}, "u32"), add(u32{}, "s32"), add(u32{}, "b32");
  add(u64{}, "u64"), add(u64{}, "s64"), add(u64{}, "b64");
}

void add_integer(OperationTable &table);
void add_floating(OperationTable &table);
void add_compare(OperationTable &table);
void add_convert(OperationTable &table);
void add_memory(OperationTable &table);
void add_products(OperationTable &table);
void add_atomic(OperationTable &table);
void add_lanes(OperationTable &table);
void add_matrix_moves(OperationTable &table);
void add_multiply(OperationTable &table);
void add_tensor_product(OperationTable &table);
void add_half(OperationTable &table);
void add_convert_half(OperationTable &table);
void add_convert_narrow(OperationTable &table);

} // namespace emulator::EMULATOR_ISA
