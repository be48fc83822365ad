// Arithmetic on f16, bf16 and their pairs, on pairs of f32 and of 16-bit integers, and the instructions that
// add a half to an f32.
#include "exec/operations/half_functions.hpp"
#include "exec/operations/integer_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

template <typename F, typename M, typename... R>
void add_half1(OperationTable &t, const char *name, Types<R...>) {
  using G = Adjusted<F, M>;
  auto both = [&](auto zero) {
    using T = decltype(zero);
    using Pair = typename PairOf<T>::type;
    t.add(form_of<T>(name), {unary<G, T, T>, type_of<T>, {type_of<T>}, 1});
    t.add(form_of<Pair>(name), {paired1<Pair, G, T>, type_of<Pair>, {type_of<Pair>}, 1});
  };
  (both(R{}), ...);
}
template <typename F, typename M, typename... R>
void add_half2(OperationTable &t, const char *name, Types<R...>) {
  using G = Adjusted<F, M>;
  auto both = [&](auto zero) {
    using T = decltype(zero);
    using Pair = typename PairOf<T>::type;
    constexpr ptx::Type type = type_of<T>, pair = type_of<Pair>;
    t.add(form_of<T>(name), {binary<G, T, T, T>, type, {type, type}, 2});
    t.add(form_of<Pair>(name), {paired2<Pair, G, T>, pair, {pair, pair}, 2});
  };
  (both(R{}), ...);
}
template <typename F, typename M, typename... R>
void add_half3(OperationTable &t, const char *name, Types<R...>) {
  using G = Adjusted<F, M>;
  auto both = [&](auto zero) {
    using T = decltype(zero);
    using Pair = typename PairOf<T>::type;
    constexpr ptx::Type type = type_of<T>, pair = type_of<Pair>;
    t.add(form_of<T>(name), {ternary<G, T, T, T, T>, type, {type, type, type}, 3});
    t.add(form_of<Pair>(name), {paired3<Pair, G, T>, pair, {pair, pair, pair}, 3});
  };
  (both(R{}), ...);
}

// add.f32.f16 d, a, c: a is a half. The rounding is that of the f32 operation.
template <typename F, bool Saturate> struct Mixed {
  template <typename R, typename A> static R apply(A a, R c) {
    return Modified<F, false, Saturate>::template apply<R>(widen(a), c);
  }
  template <typename R, typename A> static R apply(A a, A b, R c) {
    return Modified<F, false, Saturate>::template apply<R>(widen(a), widen(b), c);
  }
};
template <typename F, bool Saturate, typename... A>
void add_mixed2(OperationTable &t, const std::string &name, Types<A...>) {
  (t.add(name + ".f32." + std::string(ptx::name_of(type_of<A>)),
         {binary<Mixed<F, Saturate>, f32, A, f32>, ptx::Type::f32, {type_of<A>, ptx::Type::f32}, 2}),
   ...);
}
template <typename F, bool Saturate, typename... A>
void add_mixed3(OperationTable &t, const std::string &name, Types<A...>) {
  (t.add(name + ".f32." + std::string(ptx::name_of(type_of<A>)), {ternary<Mixed<F, Saturate>, f32, A, A, f32>,
                                                                  ptx::Type::f32,
                                                                  {type_of<A>, type_of<A>, ptx::Type::f32},
                                                                  3}),
   ...);
}

constexpr ptx::Type b64 = ptx::Type::b64;

template <typename F, bool Relu> struct IntegerPart {
  template <typename R> static R apply(R a, R b) {
    R r = F::template apply<R>(a, b);
    return Relu && r < R{0} ? R{0} : r;
  }
};

} // namespace

void add_half(OperationTable &t) {
#define HALF1(form, function, modifier, ...) add_half1<function, modifier>(t, form, Types<__VA_ARGS__>{});
#define HALF2(form, function, modifier, ...) add_half2<function, modifier>(t, form, Types<__VA_ARGS__>{});
#define HALF3(form, function, modifier, ...) add_half3<function, modifier>(t, form, Types<__VA_ARGS__>{});
#define MIXED2(form, function)                                                                               \
  add_mixed2<function, false>(t, form, Types<f16, bf16>{});                                                  \
  add_mixed2<function, true>(t, form ".sat", Types<f16, bf16>{});
#define MIXED3(form, function)                                                                               \
  add_mixed3<function, false>(t, form, Types<f16, bf16>{});                                                  \
  add_mixed3<function, true>(t, form ".sat", Types<f16, bf16>{});
#define PAIRED_FLOAT2(form, function)                                                                        \
  t.add(form ".f32x2", {paired2<u64, Modified<function, false, false>, f32>, b64, {b64, b64}, 2});           \
  t.add(form ".ftz.f32x2", {paired2<u64, Modified<function, true, false>, f32>, b64, {b64, b64}, 2});
#define PAIRED_FLOAT3(form, function)                                                                        \
  t.add(form ".f32x2", {paired3<u64, Modified<function, false, false>, f32>, b64, {b64, b64, b64}, 3});      \
  t.add(form ".ftz.f32x2", {paired3<u64, Modified<function, true, false>, f32>, b64, {b64, b64, b64}, 3});
#define PAIRED_INTEGER2(form, function, relu, type)                                                          \
  t.add(form "." #type "x2", {paired2<u32, IntegerPart<function, relu>, type>,                               \
                              ptx::Type::b32,                                                                \
                              {ptx::Type::b32, ptx::Type::b32},                                              \
                              2});
#include "exec/operations/operations.def"
}

} // namespace emulator::EMULATOR_ISA
