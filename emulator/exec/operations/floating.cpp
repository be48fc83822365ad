// Handlers on f32 and f64. Directed rounding is a mode of the processor that `guarded` sets around them, so
// every loop here reads its operands from memory and writes its results to memory.
#include "exec/operations/float_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

template <typename F, bool Flush, bool Saturate, typename R>
void add_float1(OperationTable &t, const std::string &form) {
  t.add(form, {unary<Modified<F, Flush, Saturate>, R, R>, type_of<R>, {type_of<R>}, 1});
}
template <typename F, bool Flush, bool Saturate, typename R>
void add_float2(OperationTable &t, const std::string &form) {
  t.add(form, {binary<Modified<F, Flush, Saturate>, R, R, R>, type_of<R>, {type_of<R>, type_of<R>}, 2});
}
template <typename F, bool Flush, bool Saturate, typename R>
void add_float3(OperationTable &t, const std::string &form) {
  t.add(form, {ternary<Modified<F, Flush, Saturate>, R, R, R, R>,
               type_of<R>,
               {type_of<R>, type_of<R>, type_of<R>},
               3});
}

template <typename F, typename R, typename... S>
void add_shaped(OperationTable &t, const char *form, Types<R, S...>) {
  Handler handler = nullptr;
  if constexpr (sizeof...(S) == 1)
    handler = unary<F, R, S...>;
  else
    handler = binary<F, R, S...>;
  t.add(form, {handler, type_of<R>, {type_of<S>...}, sizeof...(S)});
}

} // namespace

void add_floating(OperationTable &t) {
#define FLOAT2(form, function)                                                                               \
  add_float2<function, false, false, f32>(t, form ".f32");                                                   \
  add_float2<function, true, false, f32>(t, form ".ftz.f32");                                                \
  add_float2<function, false, true, f32>(t, form ".sat.f32");                                                \
  add_float2<function, true, true, f32>(t, form ".ftz.sat.f32");                                             \
  add_float2<function, false, false, f64>(t, form ".f64");
#define FLOAT3(form, function)                                                                               \
  add_float3<function, false, false, f32>(t, form ".f32");                                                   \
  add_float3<function, true, false, f32>(t, form ".ftz.f32");                                                \
  add_float3<function, false, true, f32>(t, form ".sat.f32");                                                \
  add_float3<function, true, true, f32>(t, form ".ftz.sat.f32");                                             \
  add_float3<function, false, false, f64>(t, form ".f64");
#define FLUSHED1(form, function)                                                                             \
  add_float1<function, false, false, f32>(t, form ".f32");                                                   \
  add_float1<function, true, false, f32>(t, form ".ftz.f32");                                                \
  add_float1<function, false, false, f64>(t, form ".f64");
#define FLUSHED2(form, function)                                                                             \
  add_float2<function, false, false, f32>(t, form ".f32");                                                   \
  add_float2<function, true, false, f32>(t, form ".ftz.f32");                                                \
  add_float2<function, false, false, f64>(t, form ".f64");
#define APPROXIMATE1(form, function)                                                                         \
  add_float1<function, false, false, f32>(t, form ".f32");                                                   \
  add_float1<function, true, false, f32>(t, form ".ftz.f32");
#define APPROXIMATE2(form, function)                                                                         \
  add_float2<function, false, false, f32>(t, form ".f32");                                                   \
  add_float2<function, true, false, f32>(t, form ".ftz.f32");
#define EXTREME2(form, function)                                                                             \
  add_float2<function, false, false, f32>(t, form ".f32");                                                   \
  add_float2<function, true, false, f32>(t, form ".ftz.f32");
#define EXTREME3(form, function)                                                                             \
  add_float3<function, false, false, f32>(t, form ".f32");                                                   \
  add_float3<function, true, false, f32>(t, form ".ftz.f32");
#define FLOAT_SHAPED(form, function, ...) add_shaped<function>(t, form, Types<__VA_ARGS__>{});
#include "exec/operations/operations.def"
}

} // namespace emulator::EMULATOR_ISA
