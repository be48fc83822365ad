// The scalar types of PTX and the state spaces of its variables.
#pragma once

#include <cstdint>
#include <string_view>

namespace emulator::ptx {

enum class Type : uint8_t {
  none,
  pred,
  b8,
  u8,
  s8,
  b16,
  u16,
  s16,
  f16,
  bf16,
  b32,
  u32,
  s32,
  f32,
  f16x2,
  bf16x2,
  b64,
  u64,
  s64,
  f64,
  b128,
};

enum class Space : uint8_t { generic, global, constant, shared, local, parameter };

struct TypeName {
  Type type;
  std::string_view name;
  uint32_t size_bytes;
};

// One line per type, in the order of the enumeration.
inline constexpr TypeName type_names[] = {
    {Type::none, "none", 0},  {Type::pred, "pred", 0}, {Type::b8, "b8", 1},       {Type::u8, "u8", 1},
    {Type::s8, "s8", 1},      {Type::b16, "b16", 2},   {Type::u16, "u16", 2},     {Type::s16, "s16", 2},
    {Type::f16, "f16", 2},    {Type::bf16, "bf16", 2}, {Type::b32, "b32", 4},     {Type::u32, "u32", 4},
    {Type::s32, "s32", 4},    {Type::f32, "f32", 4},   {Type::f16x2, "f16x2", 4}, {Type::bf16x2, "bf16x2", 4},
    {Type::b64, "b64", 8},    {Type::u64, "u64", 8},   {Type::s64, "s64", 8},     {Type::f64, "f64", 8},
    {Type::b128, "b128", 16},
};

inline Type type_from_name(std::string_view name) {
  for (const TypeName &entry : type_names)
    if (entry.name == name && entry.type != Type::none)
      return entry.type;
  return Type::none;
}

// 0 for predicates, which have no address.
inline uint32_t size_bytes(Type type) { return type_names[static_cast<size_t>(type)].size_bytes; }
inline std::string_view name_of(Type type) { return type_names[static_cast<size_t>(type)].name; }
inline bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}
inline bool is_float(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64;
}

} // namespace emulator::ptx
