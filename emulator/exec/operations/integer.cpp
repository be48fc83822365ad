// Handlers on integers and bits, and the carry chains, whose shape nothing else has.
#include "exec/operations/bit_functions.hpp"
#include "exec/operations/integer_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

// Extended-precision arithmetic: the carry is a predicate, at offset `extra`, read and written there.
template <typename T, bool Subtracts, bool Reads, bool Writes>
const Instruction *carry_chain(Warp &w, const Instruction *i) {
  Output<T> out(w, i->destination);
  const T *a = w.row<T>(i->a);
  const T *b = w.row<T>(i->b);
  u32 in = Reads ? w.predicate(i->extra) : 0;
  u32 carry = 0;
  for (u32 l = 0; l < lanes_per_warp; ++l) {
    T addend = Subtracts ? static_cast<T>(~b[l]) : b[l];
    // a - b is a + ~b + 1: the borrow is the carry inverted.
    T one = Subtracts ? static_cast<T>(!(in >> l & 1)) : static_cast<T>(in >> l & 1);
    T sum = static_cast<T>(a[l] + addend);
    bool overflow = sum < a[l];
    T total = static_cast<T>(sum + one);
    overflow |= total < sum;
    out.row[l] = total;
    carry |= static_cast<u32>(Subtracts ? !overflow : overflow) << l;
  }
  out.store();
  if (Writes) {
    u32 &p = w.predicate(i->extra);
    p = blend_bits(p, carry, w.active);
  }
  return i + 1;
}

template <typename T, bool High, bool Reads, bool Writes>
const Instruction *multiply_carry(Warp &w, const Instruction *i) {
  Output<T> out(w, i->destination);
  const T *a = w.row<T>(i->a);
  const T *b = w.row<T>(i->b);
  const T *c = w.row<T>(i->c);
  using U = unsigned_of<T>;
  u32 in = Reads ? w.predicate(i->extra) : 0;
  u32 carry = 0;
  for (u32 l = 0; l < lanes_per_warp; ++l) {
    U product =
        static_cast<U>(High ? MultiplyHigh::apply<T>(a[l], b[l])
                            : static_cast<T>(Multiply::apply<U>(static_cast<U>(a[l]), static_cast<U>(b[l]))));
    U sum = static_cast<U>(product + static_cast<U>(c[l]));
    bool overflow = sum < product;
    U total = static_cast<U>(sum + (in >> l & 1));
    overflow |= total < sum;
    out.row[l] = static_cast<T>(total);
    carry |= static_cast<u32>(overflow) << l;
  }
  out.store();
  if (Writes) {
    u32 &p = w.predicate(i->extra);
    p = blend_bits(p, carry, w.active);
  }
  return i + 1;
}

template <typename T> void add_carry(OperationTable &t, const char *type) {
  ptx::Type id = type_of<T>;
  std::string suffix = std::string(".") + type;
  using U = unsigned_of<T>;
  t.add("add.cc" + suffix, {carry_chain<U, false, false, true>, id, {id, id}, 2});
  t.add("addc" + suffix, {carry_chain<U, false, true, false>, id, {id, id}, 2});
  t.add("addc.cc" + suffix, {carry_chain<U, false, true, true>, id, {id, id}, 2});
  t.add("sub.cc" + suffix, {carry_chain<U, true, false, true>, id, {id, id}, 2});
  t.add("subc" + suffix, {carry_chain<U, true, true, false>, id, {id, id}, 2});
  t.add("subc.cc" + suffix, {carry_chain<U, true, true, true>, id, {id, id}, 2});
  t.add("mad.lo.cc" + suffix, {multiply_carry<T, false, false, true>, id, {id, id, id}, 3});
  t.add("mad.hi.cc" + suffix, {multiply_carry<T, true, false, true>, id, {id, id, id}, 3});
  t.add("madc.lo" + suffix, {multiply_carry<T, false, true, false>, id, {id, id, id}, 3});
  t.add("madc.hi" + suffix, {multiply_carry<T, true, true, false>, id, {id, id, id}, 3});
  t.add("madc.lo.cc" + suffix, {multiply_carry<T, false, true, true>, id, {id, id, id}, 3});
  t.add("madc.hi.cc" + suffix, {multiply_carry<T, true, true, true>, id, {id, id, id}, 3});
}

template <typename F, typename... A> void add_widening2(OperationTable &t, const char *name, Types<A...>) {
  (t.add(form_of<A>(name), {binary<F, wide_of<A>, A, A>, type_of<wide_of<A>>, {type_of<A>, type_of<A>}, 2}),
   ...);
}
template <typename F, typename... A> void add_widening3(OperationTable &t, const char *name, Types<A...>) {
  (t.add(form_of<A>(name), {ternary<F, wide_of<A>, A, A, wide_of<A>>,
                            type_of<wide_of<A>>,
                            {type_of<A>, type_of<A>, type_of<wide_of<A>>},
                            3}),
   ...);
}

template <typename F, typename R, typename... S>
void add_shaped(OperationTable &t, const char *form, Types<R, S...>) {
  Handler handler = nullptr;
  if constexpr (sizeof...(S) == 1)
    handler = unary<F, R, S...>;
  else if constexpr (sizeof...(S) == 2)
    handler = binary<F, R, S...>;
  else if constexpr (sizeof...(S) == 3)
    handler = ternary<F, R, S...>;
  else
    handler = quaternary<F, R, S...>;
  t.add(form, {handler, type_of<R>, {type_of<S>...}, sizeof...(S)});
}

} // namespace

void add_integer(OperationTable &t) {
  using Narrow = Types<u16, s16, u32, s32>;
#define SIGNLESS1(form, function)                                                                            \
  under_all_names([&](auto zero, const char *type) {                                                         \
    using T = decltype(zero);                                                                                \
    t.add(std::string(form ".") + type, {unary<function, T, T>, type_of<T>, {type_of<T>}, 1});               \
  });
#define SIGNLESS2(form, function)                                                                            \
  under_all_names([&](auto zero, const char *type) {                                                         \
    using T = decltype(zero);                                                                                \
    t.add(std::string(form ".") + type,                                                                      \
          {binary<function, T, T, T>, type_of<T>, {type_of<T>, type_of<T>}, 2});                             \
  });
#define SIGNLESS3(form, function)                                                                            \
  under_all_names([&](auto zero, const char *type) {                                                         \
    using T = decltype(zero);                                                                                \
    t.add(std::string(form ".") + type,                                                                      \
          {ternary<function, T, T, T, T>, type_of<T>, {type_of<T>, type_of<T>, type_of<T>}, 3});             \
  });
#define TYPED1(form, function, ...) add_unary<function>(t, form, Types<__VA_ARGS__>{});
#define TYPED2(form, function, ...) add_binary<function>(t, form, Types<__VA_ARGS__>{});
#define TYPED3(form, function, ...) add_ternary<function>(t, form, Types<__VA_ARGS__>{});
#define WIDENING2(form, function) add_widening2<function>(t, form, Narrow{});
#define WIDENING3(form, function) add_widening3<function>(t, form, Narrow{});
#define SHAPED(form, function, ...) add_shaped<function>(t, form, Types<__VA_ARGS__>{});
#define PREDICATE1(form, function)                                                                           \
  t.add(form ".pred", {predicate_unary<function>, ptx::Type::pred, {ptx::Type::pred}, 1});
#define PREDICATE2(form, function)                                                                           \
  t.add(form ".pred", {predicate_binary<function>, ptx::Type::pred, {ptx::Type::pred, ptx::Type::pred}, 2});
#define CARRY(type) add_carry<type>(t, #type);
#include "exec/operations/operations.def"
}

} // namespace emulator::EMULATOR_ISA
