#include "exec/operations/builds.hpp"

#include <cstdlib>

#include "exec/operations/all.hpp"

namespace emulator {

const OperationTable &operation_table() {
  static const OperationTable table = [] {
    OperationTable result;
#ifdef EMULATOR_HAS_AVX2
    __builtin_cpu_init();
    // Tests run the operations of older processors on newer ones.
    bool baseline_only = std::getenv("REPLAY_EMULATOR_BASELINE") != nullptr;
    if (!baseline_only && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
      avx2::add_operations(result);
      return result;
    }
#endif
    baseline::add_operations(result);
    return result;
  }();
  return table;
}

} // namespace emulator
