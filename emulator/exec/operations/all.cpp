// All families of operations of one build.
#include "exec/operations/all.hpp"
#include "exec/operations/shapes.hpp"

namespace emulator::EMULATOR_ISA {

void add_operations(OperationTable &table) {
  add_integer(table);
  add_floating(table);
  add_compare(table);
  add_convert(table);
  add_half(table);
  add_convert_half(table);
  add_convert_narrow(table);
  add_memory(table);
  add_products(table);
  add_atomic(table);
  add_lanes(table);
  add_matrix_moves(table);
  add_multiply(table);
  add_tensor_product(table);
}

} // namespace emulator::EMULATOR_ISA
