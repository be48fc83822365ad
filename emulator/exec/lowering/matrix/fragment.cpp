#include "exec/lowering/matrix/fragment.hpp"

#include <algorithm>

namespace emulator {

namespace {

struct ElementName {
  std::string_view name;
  MatrixElement element;
};
constexpr ElementName element_names[] = {
    {"f16", MatrixElement::f16},   {"bf16", MatrixElement::bf16}, {"tf32", MatrixElement::tf32},
    {"f64", MatrixElement::f64},   {"e4m3", MatrixElement::e4m3}, {"e5m2", MatrixElement::e5m2},
    {"e3m2", MatrixElement::e3m2}, {"e2m3", MatrixElement::e2m3}, {"e2m1", MatrixElement::e2m1},
    {"s8", MatrixElement::s8},     {"u8", MatrixElement::u8},     {"s4", MatrixElement::s4},
    {"u4", MatrixElement::u4},     {"b1", MatrixElement::b1},
};

} // namespace

bool find_element(std::string_view name, MatrixElement &element) {
  auto found = std::find_if(std::begin(element_names), std::end(element_names),
                            [&](const ElementName &entry) { return entry.name == name; });
  if (found == std::end(element_names))
    return false;
  element = found->element;
  return true;
}

Fragment make_fragment(uint32_t rows, uint32_t columns, uint32_t block_rows, uint32_t elements,
                       uint32_t tile_registers, uint32_t registers) {
  constexpr uint32_t tile_rows = 8, lanes_of_a_row = 4;
  Fragment result;
  result.elements = static_cast<uint8_t>(elements);
  result.step = static_cast<uint8_t>(elements * tile_registers);
  uint32_t count = 0;
  for (uint32_t block = 0; block < rows; block += block_rows)
    for (uint32_t column = 0; column < columns; column += lanes_of_a_row * result.step)
      for (uint32_t row = 0; row < block_rows; row += tile_rows)
        for (uint32_t r = 0; r < tile_registers && count < Fragment::most_registers; ++r)
          result.tile[count++] = {static_cast<uint8_t>(block + row),
                                  static_cast<uint8_t>(column + r * elements)};
  result.distinct = static_cast<uint8_t>(count);
  result.registers = static_cast<uint8_t>(registers ? registers : count);
  return result;
}

} // namespace emulator
