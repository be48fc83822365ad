#include "exec/copies/combine.hpp"

#include <cstring>
#include <type_traits>

#include "exec/operations/half_functions.hpp"

namespace emulator::asynchronous {

using namespace EMULATOR_ISA; // of both builds either gives the same bits

namespace {

template <typename T> T combine(Operator op, T old, T value) {
  switch (op) {
  case Operator::add:
    if constexpr (std::is_floating_point_v<T>) {
      return old + value;
    } else {
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(old) + static_cast<Bits>(value));
    }
  case Operator::minimum:
    return value < old ? value : old;
  case Operator::maximum:
    return value > old ? value : old;
  default:
    break;
  }
  if constexpr (std::is_unsigned_v<T>) {
    switch (op) {
    case Operator::increment:
      return old >= value ? T{0} : static_cast<T>(old + 1);
    case Operator::decrement:
      return old == 0 || old > value ? value : static_cast<T>(old - 1);
    case Operator::bit_and:
      return old & value;
    case Operator::bit_or:
      return old | value;
    case Operator::bit_xor:
      return old ^ value;
    default:
      break;
    }
  }
  return value;
}

template <typename T> void combine_at(Operator op, uint64_t to, const void *from) {
  T old, value;
  std::memcpy(&old, reinterpret_cast<const void *>(to), sizeof old);
  std::memcpy(&value, from, sizeof value);
  old = combine<T>(op, old, value);
  std::memcpy(reinterpret_cast<void *>(to), &old, sizeof old);
}

// Subnormal numbers are kept (.noftz); a number wins over NaN.
template <typename T> void combine_halves(Operator op, uint64_t to, const void *from) {
  T old, value;
  std::memcpy(&old, reinterpret_cast<const void *>(to), sizeof old);
  std::memcpy(&value, from, sizeof value);
  T result = op == Operator::add       ? AddHalf::apply(old, value)
             : op == Operator::minimum ? MinimumHalf::apply(old, value)
                                       : MaximumHalf::apply(old, value);
  std::memcpy(reinterpret_cast<void *>(to), &result, sizeof result);
}

} // namespace

void combine_element(Operator op, ptx::Type type, uint64_t to, const void *from) {
  switch (type) {
  case ptx::Type::s32:
    return combine_at<int32_t>(op, to, from);
  case ptx::Type::s64:
    return combine_at<int64_t>(op, to, from);
  case ptx::Type::f32:
    return combine_at<float>(op, to, from);
  case ptx::Type::f64:
    return combine_at<double>(op, to, from);
  case ptx::Type::f16:
    return combine_halves<f16>(op, to, from);
  case ptx::Type::bf16:
    return combine_halves<bf16>(op, to, from);
  default:
    break;
  }
  switch (ptx::size_bytes(type)) {
  case 1:
    return combine_at<uint8_t>(op, to, from);
  case 2:
    return combine_at<uint16_t>(op, to, from);
  case 8:
    return combine_at<uint64_t>(op, to, from);
  default:
    return combine_at<uint32_t>(op, to, from);
  }
}

bool can_combine(Operator op, ptx::Type type) {
  if (type == ptx::Type::f16 || type == ptx::Type::bf16)
    return op == Operator::add || op == Operator::minimum || op == Operator::maximum;
  return ptx::size_bytes(type) >= 4;
}

} // namespace emulator::asynchronous
