// tcgen05: what the names of an instruction say, beside its operands. Operands are rows in Program::extra.
#pragma once

#include <cstdint>

namespace emulator {

// How tcgen05.ld and .st spread tensor memory over a warp (tensor_memory/moves.cpp). Shapes of 16 lanes give
// a register to 32 threads, and so have two columns for each; `halves` has its columns twice, in two places.
enum class TensorShape : uint8_t { lanes32_bits32, lanes16_bits64, lanes16_bits128, lanes16_bits256, halves };
enum class TensorReduction : uint8_t { none, minimum, maximum };
enum class TensorValue : uint8_t { f32, u32, s32 };

struct TensorMoveForm {
  TensorShape shape = TensorShape::lanes32_bits32;
  uint32_t registers = 1;
  int32_t address_offset = 0; // an immediate beside the register that has the address
  uint32_t split = 0;         // halves: columns between the first and the second
  bool packed = false;        // two columns of 16 bits in a register
  // ld.red: the row after the registers receives the least or greatest of each lane.
  TensorReduction reduction = TensorReduction::none;
  TensorValue value = TensorValue::f32;
  bool absolute = false, keeps_nan = false;
};

enum class TensorKind : uint8_t { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };

struct TensorProductForm {
  TensorKind kind = TensorKind::f16;
  bool pair = false; // cta_group::2
  bool weights_stationary = false;
  bool sparse = false;
  bool tensor_a = false;  // A in tensor memory
  bool shifts_a = false;  // .ashift
  uint8_t scales = 0;     // of a row: scale_vec::NX; 0: none
  uint8_t shift_of_d = 0; // D counts 2^-this
  int32_t offset_of_d = 0, offset_of_a = 0,
          offset_of_metadata = 0; // immediates beside registers with addresses
  int32_t offset_of_scale_a = 0, offset_of_scale_b = 0;

  // Places of operands, `no_offset` where there is none.
  enum Place : uint32_t {
    d,
    a,
    b,
    descriptor,
    adds,
    metadata,
    scale_a,
    scale_b,
    zero_columns,
    mask,
    places = 17
  };
};

// tcgen05.cp: which lanes of tensor memory receive a row, and of what.
struct TensorCopyForm {
  uint16_t rows = 128; // of the matrix in shared memory
  uint16_t row_bytes = 32;
  // Row r goes to lane r % run + r / run * step, and for each c in copies to c * copy_step further.
  uint8_t run = 128, step = 128;
  uint8_t copies = 1, copy_step = 0;
  uint8_t element_bits = 0;   // 6, 4: decompressed to bytes
  int32_t address_offset = 0; // an immediate beside the register that has the address
  bool pair = false;
};

} // namespace emulator
