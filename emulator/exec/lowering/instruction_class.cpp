// What each instruction counts as: the one place where an opcode is given its class. Classes are of PTX
// instructions; a GPU may need several machine instructions for one of them (an IEEE division, for example).
#include <unordered_map>

#include "exec/lowering/opcode.hpp"

namespace emulator {

using ptx::Type;

namespace {

using Class = InstructionClass;

// Mnemonics whose class does not depend on a type or a space.
const std::unordered_map<std::string_view, Class> by_mnemonic = {
    {"mov", Class::move},
    {"selp", Class::move},
    {"slct", Class::move},
    {"cvt", Class::conversion},
    {"cvta", Class::integer}, // address arithmetic
    {"isspacep", Class::integer},
    {"istypep", Class::integer},
    {"mapa", Class::integer},
    {"getctarank", Class::integer},
    {"atom", Class::atomic},
    {"red", Class::atomic},
    {"bra", Class::branch},
    {"brx", Class::branch},
    {"call", Class::control},
    {"ret", Class::control},
    {"exit", Class::control},
    {"trap", Class::control},
    {"brkpt", Class::control},
    {"nanosleep", Class::control},
    {"bar", Class::barrier},
    {"barrier", Class::barrier},
    {"mbarrier", Class::barrier},
    {"membar", Class::barrier},
    {"fence", Class::barrier},
    {"griddepcontrol", Class::barrier},
    {"shfl", Class::collective},
    {"vote", Class::collective},
    {"match", Class::collective},
    {"redux", Class::collective},
    {"elect", Class::collective},
    {"activemask", Class::collective},
    {"ex2", Class::special_function},
    {"lg2", Class::special_function},
    {"sin", Class::special_function},
    {"cos", Class::special_function},
    {"tanh", Class::special_function},
    {"mma", Class::matrix},
    {"movmatrix", Class::matrix},
    {"ldmatrix", Class::load_shared},
    {"stmatrix", Class::store_shared},
    {"prefetch", Class::other},
    {"prefetchu", Class::other},
    {"discard", Class::other},
    {"applypriority", Class::other},
    {"createpolicy", Class::other},
    {"pmevent", Class::other},
    {"setmaxnreg", Class::other},
    {"tensormap", Class::other},
    {"tex", Class::texture},
    {"tld4", Class::texture},
    {"txq", Class::texture},
    {"suld", Class::texture},
    {"sust", Class::texture},
    {"sured", Class::texture},
    {"suq", Class::texture},
};

bool has_space(const Opcode &opcode, std::string_view space) {
  for (std::string_view modifier : opcode.modifiers)
    if (modifier.substr(0, modifier.find("::")) == space)
      return true;
  return false;
}

Class memory_class(const Opcode &opcode, bool store) {
  if (has_space(opcode, "global"))
    return store ? Class::store_global : Class::load_global;
  if (has_space(opcode, "shared"))
    return store ? Class::store_shared : Class::load_shared;
  // Parameters of a call lie in the frame; those of a kernel are read like constants.
  if (has_space(opcode, "local") || (store && has_space(opcode, "param")))
    return store ? Class::store_local : Class::load_local;
  if (has_space(opcode, "const") || has_space(opcode, "param"))
    return Class::load_constant;
  return store ? Class::store_generic : Class::load_generic;
}

Class arithmetic_class(Type type) {
  switch (type) {
  case Type::none:
    return Class::other;
  case Type::f32:
    return Class::float32;
  case Type::f64:
    return Class::float64;
  default:
    return ptx::is_float(type) || type == Type::f16x2 || type == Type::bf16x2 ? Class::half : Class::integer;
  }
}

} // namespace

InstructionClass class_of(const Opcode &opcode) {
  auto fixed = by_mnemonic.find(opcode.mnemonic);
  if (fixed != by_mnemonic.end())
    return fixed->second;
  if (opcode.mnemonic == "ld" || opcode.mnemonic == "ldu")
    return memory_class(opcode, false);
  if (opcode.mnemonic == "st")
    return memory_class(opcode, true);
  if (opcode.mnemonic == "wmma" && !opcode.modifiers.empty() && opcode.modifiers[0] != "mma")
    return memory_class(opcode, opcode.modifiers[0] == "store");
  if (opcode.mnemonic == "wgmma" && !opcode.has("mma_async"))
    return Class::barrier;
  if (opcode.mnemonic == "wmma" || opcode.mnemonic == "wgmma")
    return Class::matrix;
  if (opcode.mnemonic == "tcgen05" || opcode.mnemonic == "clusterlaunchcontrol")
    return opcode.has("mma")                      ? Class::matrix
           : opcode.has("ld") || opcode.has("st") ? Class::move
                                                  : Class::barrier;
  if (opcode.mnemonic == "cp") {
    bool copies = has_space(opcode, "global") && has_space(opcode, "shared");
    return copies ? Class::load_global : opcode.has("async") ? Class::barrier : Class::other;
  }
  // The functions that a GPU approximates in a unit of their own, and what is built on them in single
  // precision.
  bool approximates = opcode.mnemonic == "rcp" || opcode.mnemonic == "sqrt" || opcode.mnemonic == "rsqrt" ||
                      opcode.mnemonic == "div";
  Type type = opcode.last_type();
  if (approximates && type == Type::f32)
    return Class::special_function;
  return arithmetic_class(type);
}

} // namespace emulator
