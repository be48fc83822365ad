// setp: one bit a lane. The combination with a second predicate (.and, .or, .xor) and the inverted result are
// operations on predicates that decoding appends. selp and mov live here too: they choose without computing.
#include "exec/operations/half_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

struct Equal {
  template <typename T> static bool apply(T a, T b) { return a == b; }
};
struct Less {
  template <typename T> static bool apply(T a, T b) { return a < b; }
};
struct LessEqual {
  template <typename T> static bool apply(T a, T b) { return a <= b; }
};
struct Greater {
  template <typename T> static bool apply(T a, T b) { return a > b; }
};
struct GreaterEqual {
  template <typename T> static bool apply(T a, T b) { return a >= b; }
};
// `ne` is false for NaN, unlike the operator of C.
struct NotEqual {
  template <typename T> static bool apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a < b || a > b;
    else
      return a != b;
  }
};
struct EqualUnordered {
  template <typename T> static bool apply(T a, T b) { return !(a < b || a > b); }
};
struct NotEqualUnordered {
  template <typename T> static bool apply(T a, T b) { return a != b; }
};
struct LessUnordered {
  template <typename T> static bool apply(T a, T b) { return !(a >= b); }
};
struct LessEqualUnordered {
  template <typename T> static bool apply(T a, T b) { return !(a > b); }
};
struct GreaterUnordered {
  template <typename T> static bool apply(T a, T b) { return !(a <= b); }
};
struct GreaterEqualUnordered {
  template <typename T> static bool apply(T a, T b) { return !(a < b); }
};
struct BothNumbers {
  template <typename T> static bool apply(T a, T b) { return is_number(a) && is_number(b); }
};
struct EitherNan {
  template <typename T> static bool apply(T a, T b) { return !is_number(a) || !is_number(b); }
};

template <typename F> struct Flushed {
  static bool apply(f32 a, f32 b) { return F::apply(flush(a), flush(b)); }
};

template <typename T> bits_of<T> magnitude_bits(T a) {
  return static_cast<bits_of<T>>(bit_cast<bits_of<T>>(a) & ~sign_bit<T>);
}
template <typename T> constexpr bits_of<T> infinity_bits = infinity_of<T>;
template <typename T> constexpr bits_of<T> least_normal = bits_of<T>{1} << Layout<T>::fraction_bits;
struct Finite {
  template <typename T> static bool apply(T a) { return magnitude_bits(a) < infinity_bits<T>; }
};
struct Infinite {
  template <typename T> static bool apply(T a) { return magnitude_bits(a) == infinity_bits<T>; }
};
struct Number {
  template <typename T> static bool apply(T a) { return magnitude_bits(a) <= infinity_bits<T>; }
};
struct NotANumber {
  template <typename T> static bool apply(T a) { return magnitude_bits(a) > infinity_bits<T>; }
};
// Zero is neither.
struct Normal {
  template <typename T> static bool apply(T a) {
    return magnitude_bits(a) < infinity_bits<T> && magnitude_bits(a) >= least_normal<T>;
  }
};
struct Subnormal {
  template <typename T> static bool apply(T a) {
    return magnitude_bits(a) != 0 && magnitude_bits(a) < least_normal<T>;
  }
};
template <typename F, typename T> const Instruction *test(Warp &w, const Instruction *i) {
  const T *a = w.row<T>(i->a);
  u32 bits = 0;
  EACH_LANE(l) bits |= F::apply(a[l]) ? u32{1} << l : 0;
  u32 &d = w.predicate(i->destination);
  d = blend_bits(d, bits, w.active);
  return i + 1;
}
template <typename F> void add_test(OperationTable &t, const std::string &form) {
  t.add(form + ".f32", {test<F, f32>, ptx::Type::pred, {ptx::Type::f32}, 1});
  t.add(form + ".f64", {test<F, f64>, ptx::Type::pred, {ptx::Type::f64}, 1});
}

template <typename F, bool Flush> struct OfHalves {
  template <typename R> static bool apply(R a, R b) {
    return Flush ? F::apply(widen(flush_half(a)), widen(flush_half(b))) : F::apply(widen(a), widen(b));
  }
};
template <typename F> void add_half_order(OperationTable &t, const std::string &order) {
  using ptx::Type;
  t.add("setp." + order + ".f16", {compare<OfHalves<F, false>, f16>, Type::pred, {Type::f16, Type::f16}, 2});
  t.add("setp." + order + ".ftz.f16",
        {compare<OfHalves<F, true>, f16>, Type::pred, {Type::f16, Type::f16}, 2});
  t.add("setp." + order + ".bf16",
        {compare<OfHalves<F, false>, bf16>, Type::pred, {Type::bf16, Type::bf16}, 2});
}

template <typename F, typename T> void add_order(OperationTable &t, const std::string &order) {
  ptx::Type type = type_of<T>;
  auto enter = [&](const std::string &suffix, Handler handler) {
    t.add("setp." + order + "." + suffix, {handler, ptx::Type::pred, {type, type}, 2});
  };
  enter(std::string(ptx::name_of(type)), compare<F, T>);
  if constexpr (std::is_same_v<T, f32>)
    enter("ftz.f32", compare<Flushed<F>, f32>);
  // eq and ne do not see a sign, and bits compare as unsigned; lo ls hi hs are unsigned by name (decoding
  // maps them).
  bool equality = order == "eq" || order == "ne";
  if constexpr (std::is_unsigned_v<T>) {
    std::string width = std::to_string(8 * sizeof(T));
    if (equality) {
      enter("s" + width, compare<F, T>);
      enter("b" + width, compare<F, T>);
    }
  }
}
template <typename F, typename... T> void add_orders(OperationTable &t, const char *order, Types<T...>) {
  (add_order<F, T>(t, order), ...);
}

template <typename T> const Instruction *select(Warp &w, const Instruction *i) {
  Output<T> out(w, i->destination);
  T *d = out.row;
  const T *a = w.row<T>(i->a);
  const T *b = w.row<T>(i->b);
  u32 p = w.predicate(i->c);
  EACH_LANE(l) d[l] = (p >> l & 1) ? a[l] : b[l];
  out.store();
  return i + 1;
}

template <typename T> const Instruction *move(Warp &w, const Instruction *i) {
  Output<T> out(w, i->destination);
  T *d = out.row;
  const T *a = w.row<T>(i->a);
  EACH_LANE(l) d[l] = a[l];
  out.store();
  return i + 1;
}

const Instruction *move_predicate(Warp &w, const Instruction *i) {
  u32 &d = w.predicate(i->destination);
  d = blend_bits(d, w.predicate(i->a), w.active);
  return i + 1;
}

template <typename T> void add_moves(OperationTable &t, const std::vector<std::string> &names) {
  for (const std::string &name : names) {
    ptx::Type type = ptx::type_from_name(name);
    t.add("selp." + name, {select<T>, type, {type, type, ptx::Type::pred}, 3});
    t.add("mov." + name, {move<T>, type, {type}, 1});
  }
}

} // namespace

void add_compare(OperationTable &t) {
#define ORDER(form, function, ...) add_orders<function>(t, form, Types<__VA_ARGS__>{});
#define TEST(form, function) add_test<function>(t, form);
#define HALF_ORDER(form, function) add_half_order<function>(t, form);
#define MOVE(bits, ...) add_moves<bits>(t, {__VA_ARGS__});
#include "exec/operations/operations.def"
  t.add("mov.pred", {move_predicate, ptx::Type::pred, {ptx::Type::pred}, 1});
}

} // namespace emulator::EMULATOR_ISA
