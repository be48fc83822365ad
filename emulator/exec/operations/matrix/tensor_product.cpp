// tcgen05.mma: D += A * B with D in tensor memory. Products are exact, those of block scales too as far as
// f32 reaches: an element and its factor become one f32. A sum of f32 begins with D and takes the products in
// the order of k, each added with one rounding to nearest; f16 results are rounded once more, at the end.
// Integers are exact.
#include <algorithm>
#include <cstdio>

#include "exec/block/cluster.hpp"
#include "exec/block/issue.hpp"
#include "exec/operations/matrix/loops.hpp"
#include "exec/operations/matrix/shared_matrix.hpp"
#include "exec/operations/matrix/tensor_elements.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

using Form = TensorProductForm;

constexpr u32 all_lanes = TensorMemory::lanes, quarter_lanes = TensorMemory::lanes_of_warp;
constexpr u32 rows_at_once = 8;

// What the instruction descriptor says.
struct Shape {
  u32 m, n, k; // k: elements that a row holds, in a sparse A of twice as many
  u32 chunks;  // of 16 bytes, in which it holds them
  TensorElements a, b;
  bool negates_a, negates_b, columns_a, columns_b, saturates, powers;
  u32 d_type, selector, scale_a_byte, scale_b_byte;
  u32 a_code;
  bool scaled;
  u32 factors; // of a row
};

// One block's share. Lane L of D has row row_of(L) of the block's rows, and the columns of one of `parts`.
struct DataPaths {
  u32 rows, parts;
  bool half; // 16 of each 32 lanes
  u32 first_lane;

  bool uses(u32 lane) const { return !half || (lane % 32 >= first_lane && lane % 32 < first_lane + 16); }
  u32 row_of(u32 lane) const { return half ? lane / 32 * 16 + lane % 16 : lane % rows; }
  u32 part_of(u32 lane) const { return half ? 0 : lane / rows; }
};

struct Product {
  Warp &w;
  const Instruction *i;
  const Form &form;
  u32 thread;
  Shape shape;
  DataPaths paths;
  Block *blocks[2];
  u32 block_count = 1;
  u64 distances[2] = {};    // of each block, to what of its shared memory this product reads
  u64 values[Form::places]; // of the operands, when it was issued
  bool adds;

  Product(Warp &warp, const Instruction *instruction, const Form &f, u32 lane)
      : w(warp), i(instruction), form(f), thread(lane), blocks{warp.block, nullptr} {
    for (u32 place = 0; place < Form::places; ++place)
      values[place] = !has(place) ? 0 : is_wide(place) ? in_row<u64>(place) : in_row<u32>(place);
    adds = w.predicate(w.program->extra[i->extra + Form::adds]) >> thread & 1;
    if (form.pair) {
      Block *peer = w.block->cluster->peer_of(*w.block);
      if (!peer)
        refuse("tcgen05 with cta_group::2 by a block that has no other to form a pair with");
      bool first = w.block->cluster->rank_of(*w.block) % 2 == 0;
      blocks[0] = first ? w.block : peer;
      blocks[1] = first ? peer : w.block;
      block_count = 2;
    }
    for (u32 h = 0; h < block_count; ++h)
      distances[h] = w.block->cluster->distance_to_fenced(*blocks[h]);
    read_shape();
    find_paths();
  }

  [[noreturn]] void refuse(const std::string &why) const {
    fail(w, i, LaunchStatus::illegal_instruction, why, thread);
  }
  bool has(u32 place) const { return w.program->extra[i->extra + place] != no_offset; }
  bool is_wide(u32 place) const {
    return place == Form::b || place == Form::zero_columns || (place == Form::a && !form.tensor_a);
  }
  template <typename T> T in_row(u32 place) const {
    return place == Form::adds ? T{0} : w.row<T>(w.program->extra[i->extra + place])[thread];
  }
  template <typename T> T operand(u32 place) const { return static_cast<T>(values[place]); }
  TensorAddress address(Form::Place place, s32 offset) const {
    return TensorAddress(operand<u32>(place) + static_cast<u32>(offset));
  }

  void read_shape() {
    u32 bits = operand<u32>(Form::descriptor);
    shape.scaled = form.scales != 0;
    bool four_bits = form.kind == TensorKind::mxf4 || form.kind == TensorKind::mxf4nvf4;
    shape.a_code = bits >> 7 & 7;
    shape.a = elements_of(form.kind, shape.a_code, form.tensor_a);
    shape.b = elements_of(form.kind, bits >> 10 & (four_bits ? 3 : 7), false);
    shape.negates_a = bits >> 13 & 1;
    shape.negates_b = bits >> 14 & 1;
    shape.columns_a = bits >> 15 & 1;
    shape.columns_b = bits >> 16 & 1;
    shape.n = (bits >> 17 & 63) * 8;
    shape.m = shape.scaled ? (bits >> 27 & 3) * 128 : (bits >> 24 & 31) * 16;
    shape.d_type = shape.scaled ? 1 : bits >> 4 & 3;
    shape.saturates = !shape.scaled && (bits >> 3 & 1);
    shape.selector = bits & 3;
    shape.powers = bits >> 23 & 1;
    shape.scale_b_byte = bits >> 4 & 3;
    shape.scale_a_byte = bits >> 29 & 3;
    bool integers = form.kind == TensorKind::i8;
    bool halves = form.kind == TensorKind::f8f6f4 || (form.kind == TensorKind::f16 && shape.a_code == 0);
    bool d_fits = integers ? shape.d_type == 2 : shape.d_type == 1 || (shape.d_type == 0 && halves);
    if (shape.a.count == 0 || shape.b.count == 0 || !d_fits)
      refuse("an instruction descriptor with types that this kind of tcgen05.mma does not have: " +
             hex(bits));
    if (form.kind == TensorKind::f16 && (bits >> 10 & 7) != shape.a_code)
      refuse("an instruction descriptor with different types of A and B: " + hex(bits));
    if ((bits >> 2 & 1) != form.sparse)
      refuse("an instruction descriptor that disagrees with the instruction about a sparse A: " + hex(bits));
    if (integers && (shape.negates_a || shape.negates_b))
      refuse("an instruction descriptor that negates integers: " + hex(bits));
    if (four_bits && (shape.columns_a || shape.columns_b))
      refuse("an instruction descriptor that transposes elements of 4 bits: " + hex(bits));
    // Of 4 bits, K may be 96, three blocks of what are two in 64.
    bool longer = four_bits && bits >> 31;
    if (longer && form.sparse)
      refuse("an instruction descriptor with K = 96 of a sparse A: " + hex(bits));
    shape.chunks = longer ? 3 : 2;
    shape.k = shape.chunks * shape.a.count;
    shape.factors = form.scales * shape.chunks / 2;
    require_size(bits, integers);
  }

  void require_size(u32 bits, bool integers) const {
    u32 m = shape.m, n = shape.n, step = form.pair ? 16 : 8;
    bool fits;
    if (form.weights_stationary) {
      fits = (m == 32 || m == 64 || m == 128) && (n == 64 || n == 128 || (n == 256 && !form.sparse));
    } else {
      u32 least = form.pair ? 128 : 64, most = 2 * least;
      fits = n >= step && n <= 256 && n % step == 0 && (m == least || m == most);
      if (shape.scaled)
        fits = fits && m >= 128 && !(form.pair && form.sparse && m != 256);
      if (integers)
        fits = fits && (form.pair ? n % 32 == 0 : n <= 32 || n % 16 == 0);
    }
    if (!fits)
      refuse("an instruction descriptor with a shape of M " + std::to_string(m) + " and N " +
             std::to_string(n) + ", which this kind of tcgen05.mma does not have: " + hex(bits));
  }

  static std::string hex(u32 bits) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", bits);
    return text;
  }

  void find_paths() {
    u32 lane = address(Form::d, form.offset_of_d).lane;
    paths.rows = shape.m / block_count;
    bool split = form.weights_stationary || (form.pair && !form.sparse);
    paths.half = paths.rows == 64 && !split;
    paths.parts = paths.half ? 1 : all_lanes / paths.rows;
    paths.first_lane = lane;
    if (lane != 0 && !(paths.half && lane == 16))
      refuse("D at lane " + std::to_string(lane) + " of tensor memory: it must be " +
             (paths.half ? "0 or 16" : "0"));
    if (form.shifts_a && paths.rows != 128)
      refuse("tcgen05.mma with .ashift of fewer than 128 rows");
  }

  u32 columns_of_part() const { return shape.n / paths.parts; }

  SharedMatrix matrix_of(u32 of_block, Form::Place place) const {
    return SharedMatrix::of_tensor_core(w, i, thread, blocks[of_block]->warps[0], operand<u64>(place),
                                        distances[of_block]);
  }

  void count_descriptors() const {
    u32 all_k = shape.k * (form.sparse ? 2 : 1), a_count = shape.a.count, b_count = shape.b.count;
    for (u32 h = 0; h < block_count; ++h) {
      u32 columns = shape.n / block_count;
      if (!form.tensor_a && shape.columns_a)
        matrix_of(h, Form::a).count_columns(w, 0, paths.rows / a_count, shape.k);
      else if (!form.tensor_a)
        matrix_of(h, Form::a).count_rows(w, 0, paths.rows, shape.chunks);
      if (shape.columns_b)
        matrix_of(h, Form::b).count_columns(w, 0, (columns + b_count - 1) / b_count, all_k);
      else
        matrix_of(h, Form::b).count_rows(w, 0, columns, all_k / b_count);
    }
  }

  // Rows of A of one block, k elements each.
  void read_a(u32 of_block, f32 *a) const {
    u32 count = shape.a.count;
    SharedMatrix matrix = matrix_of(of_block, Form::a);
    f32 values[32];
    if (!shape.columns_a) {
      for (u32 row = 0; row < paths.rows; ++row)
        for (u32 chunk = 0; chunk < shape.chunks; ++chunk)
          shape.a.widen(chunk_at(matrix, matrix.place_in_row(row, chunk)), a + row * shape.k + chunk * count);
      return;
    }
    for (u32 unit = 0; unit < paths.rows / count; ++unit)
      for (u32 k = 0; k < shape.k; ++k) {
        shape.a.widen(chunk_at(matrix, matrix.place_in_column(unit, k)), values);
        for (u32 e = 0; e < count; ++e)
          a[(unit * count + e) * shape.k + k] = values[e];
      }
  }
  const u8 *chunk_at(const SharedMatrix &matrix, u64 place) const {
    return static_cast<const u8 *>(matrix.find(w, i, place, thread));
  }

  // B: for each part k rows of its columns, side by side. Each block of a pair has half of the columns.
  void read_b(f32 *b, u32 all_k) const {
    u32 count = shape.b.count, width = columns_of_part(), skipped = column_shift();
    u32 columns = shape.n / block_count + skipped;
    // Where the first k of a column goes, of zeros or not; each further one `width` after it.
    struct Place {
      f32 *first;
      bool zero;
      void put(u32 distance, f32 value) const { first[distance] = zero ? 0.0f : value; }
    };
    auto place_of = [&](u32 column) {
      if (column < skipped)
        return Place{nullptr, false};
      column -= skipped;
      return Place{b + size_t{column / width * all_k} * width + column % width, is_zero_column(column)};
    };
    f32 values[32];
    for (u32 half = 0; half < block_count; ++half) {
      SharedMatrix matrix = matrix_of(half, Form::b);
      u32 first = half * shape.n / block_count;
      for (u32 column = 0; !shape.columns_b && column < columns; ++column) {
        Place place = place_of(first + column);
        for (u32 chunk = 0; place.first && chunk < all_k / count; ++chunk) {
          shape.b.widen(chunk_at(matrix, matrix.place_in_row(column, chunk)), values);
          for (u32 e = 0; e < count; ++e)
            place.put((chunk * count + e) * width, values[e]);
        }
      }
      for (u32 unit = 0; shape.columns_b && unit * count < columns; ++unit) {
        Place places[32];
        u32 wanted = std::min(count, columns - unit * count);
        for (u32 e = 0; e < wanted; ++e)
          places[e] = place_of(first + unit * count + e);
        for (u32 k = 0; k < all_k; ++k) {
          shape.b.widen(chunk_at(matrix, matrix.place_in_column(unit, k)), values);
          for (u32 e = 0; e < wanted; ++e)
            if (places[e].first)
              places[e].put(k * width, values[e]);
        }
      }
    }
  }

  // The row of A for a lane of D: from the block's rows, or from the same lane of tensor memory.
  void read_row(Block &block, u32 lane, const f32 *of_shared, f32 *row) const {
    f32 held[64], *to = form.sparse ? held : row;
    if (form.tensor_a)
      read_tensor_row(block, lane, to);
    else
      std::copy_n(of_shared + paths.row_of(lane) * shape.k, shape.k, to);
    if (form.sparse)
      spread(block, lane, held, row);
  }
  void read_tensor_row(Block &block, u32 lane, f32 *row) const {
    TensorAddress at = address(Form::a, form.offset_of_a);
    if (at.lane != paths.first_lane)
      refuse("A at lane " + std::to_string(at.lane) + " of tensor memory, where D is at lane " +
             std::to_string(paths.first_lane));
    u32 from = form.shifts_a && lane + 1 < all_lanes ? lane + 1 : lane;
    auto *bytes =
        reinterpret_cast<const u8 *>(block.tensor().row(w, i, thread, from, at.column, shape.chunks * 4));
    for (u32 chunk = 0; chunk < shape.chunks; ++chunk)
      shape.a.widen(bytes + chunk * chunk_bytes, row + chunk * shape.a.count);
  }

  // A sparse row: what it holds goes to the places that 4 bits of metadata say, of 2 elements one, of 4 two,
  // of 8 two pairs. In one word for 8 such groups, whose halves lie in two lanes, or in two words of the
  // lane.
  void spread(Block &block, u32 lane, const f32 *held, f32 *row) const {
    TensorAddress at = address(Form::metadata, form.offset_of_metadata);
    u32 group = form.kind == TensorKind::tf32 ? 2 : shape.a.count == 32 ? 8 : 4, groups = 2 * shape.k / group;
    std::fill_n(row, 2 * shape.k, 0.0f);
    for (u32 g = 0; g < groups; ++g) {
      u32 bits;
      if (groups == 8) {
        u32 column = (at.column & ~1u) | shape.selector, from = (lane & ~8u) | (g / 4) * 8;
        bits = *block.tensor().row(w, i, thread, from, column, 1) >> (lane / 8 % 2 * 16 + g % 4 * 4);
      } else {
        bits = *block.tensor().row(w, i, thread, lane, at.column + g / 8, 1) >> g % 8 * 4;
      }
      u32 first = bits & 3, second = bits >> 2 & 3;
      if (group == 2) {
        if ((bits & 15) != 14 && (bits & 15) != 4)
          refuse_metadata(lane, bits);
        row[2 * g + first / 2] = held[g];
        continue;
      }
      if (first == second)
        refuse_metadata(lane, bits);
      u32 width = group / 4;
      for (u32 e = 0; e < width; ++e) {
        row[g * group + first * width + e] = held[g * group / 2 + e];
        row[g * group + second * width + e] = held[g * group / 2 + width + e];
      }
    }
  }
  [[noreturn]] void refuse_metadata(u32 lane, u32 bits) const {
    refuse("metadata of a sparse A that is not defined: " + std::to_string(bits & 15) + " for lane " +
           std::to_string(lane));
  }

  // Columns of B that are zero, of .ws: parts of M 128, 64, 32 have one, two, four masks.
  bool is_zero_column(u32 column) const {
    if (!has(Form::zero_columns))
      return false;
    u64 mask = operand<u64>(Form::zero_columns);
    if (!(mask >> 39 & 1))
      return false;
    u32 width = columns_of_part(), part = column / width;
    u32 zeros = (mask >> 40 & 0xff) + 1, used = (mask >> 48 & 0xff) + 1;
    u32 at = static_cast<u32>(column % width + (mask >> (8 * part) & 0xff)) % (zeros + used);
    return mask >> (32 + part) & 1 ? at < zeros : at >= used;
  }
  u32 column_shift() const {
    return has(Form::zero_columns) ? operand<u64>(Form::zero_columns) >> 56 & 63 : 0;
  }

  // The factor of block j of k for one row of A or column of B, whose `row` is counted from the first of its
  // lanes. After four bytes they go on after those of all rows, of which whole 128 have room.
  f32 scale(Block &block, TensorAddress at, u32 byte, u32 quarter, u32 row, u32 j, u32 rows) const {
    u32 further = (byte + j) / 4 * ((rows + all_lanes - 1) / all_lanes * (all_lanes / quarter_lanes));
    const u32 *cell = block.tensor().row(w, i, thread, quarter * quarter_lanes + row % quarter_lanes,
                                         at.column + row / quarter_lanes + further, 1);
    return scale_of(shape.powers ? MatrixScale::ue8m0 : MatrixScale::ue4m3,
                    *cell >> (8 * ((byte + j) % 4)) & 0xff);
  }

  void run() const {
    u32 all_k = shape.k * (form.sparse ? 2 : 1), width = columns_of_part();
    size_t a_size = size_t{paths.rows} * shape.k, b_size = size_t{shape.n} * all_k;
    std::vector<f32> &scratch = w.block->tensor().scratch;
    scratch.resize(a_size + 2 * b_size + rows_at_once * (all_k + width));
    f32 *shared_a = scratch.data(), *b = shared_a + a_size, *scaled_b = b + b_size, *a = scaled_b + b_size,
        *c = a + rows_at_once * all_k;
    read_b(b, all_k);
    bool negates = shape.negates_a != shape.negates_b;
    for (u32 h = 0; h < block_count; ++h) {
      Block &block = *blocks[h];
      if (!form.tensor_a)
        read_a(h, shared_a);
      for (u32 lane = 0; lane < all_lanes; lane += rows_at_once) {
        if (!paths.uses(lane))
          continue;
        u32 part = paths.part_of(lane);
        const f32 *of_part = b + size_t{part} * all_k * width;
        if (shape.scaled) {
          if (lane % quarter_lanes == 0)
            scale_b(block, lane / quarter_lanes, of_part, scaled_b, all_k);
          of_part = scaled_b;
        }
        for (u32 r = 0; r < rows_at_once; ++r) {
          f32 *row = a + r * all_k;
          read_row(block, lane + r, shared_a, row);
          if (shape.scaled)
            scale_row(block, lane + r, row, all_k);
          for (u32 k = 0; negates && k < all_k; ++k)
            row[k] = -row[k];
        }
        multiply(block, h, lane, a, of_part, c, width, all_k);
      }
    }
  }

  void scale_row(Block &block, u32 lane, f32 *row, u32 all_k) const {
    TensorAddress at = address(Form::scale_a, form.offset_of_scale_a);
    u32 of_one = all_k / shape.factors;
    for (u32 j = 0; j < shape.factors; ++j) {
      f32 factor =
          scale(block, at, shape.scale_a_byte, lane / quarter_lanes, paths.row_of(lane), j, paths.rows);
      for (u32 k = 0; k < of_one; ++k)
        row[j * of_one + k] *= factor;
    }
  }
  void scale_b(Block &block, u32 quarter, const f32 *b, f32 *scaled, u32 all_k) const {
    TensorAddress at = address(Form::scale_b, form.offset_of_scale_b);
    u32 of_one = all_k / shape.factors, width = columns_of_part();
    for (u32 column = 0; column < width; ++column)
      for (u32 j = 0; j < shape.factors; ++j) {
        f32 factor = scale(block, at, shape.scale_b_byte, quarter, column, j, width);
        for (u32 k = j * of_one; k < (j + 1) * of_one; ++k)
          scaled[k * width + column] = b[k * width + column] * factor;
      }
  }

  // 8 lanes of D from `lane` on.
  void multiply(Block &block, u32 rank, u32 lane, const f32 *a, const f32 *b, f32 *c, u32 width,
                u32 k) const {
    bool integers = form.kind == TensorKind::i8;
    u32 column = address(Form::d, form.offset_of_d).column;
    f32 factor = bit_cast<f32>((127u - form.shift_of_d) << 23);
    u32 *rows[rows_at_once];
    for (u32 r = 0; r < rows_at_once; ++r) {
      rows[r] = block.tensor().row(w, i, thread, lane + r, column, width);
      for (u32 j = 0; j < width; ++j)
        c[r * width + j] = !adds || integers   ? 0.0f
                           : shape.d_type == 0 ? widen(f16{static_cast<u16>(rows[r][j])}) * factor
                                               : bit_cast<f32>(rows[r][j]) * factor;
    }
    if (shape.a.exact() && shape.b.exact() && !shape.scaled)
      multiply_floats<true>(a, b, c, rows_at_once, width, k);
    else
      multiply_floats<false>(a, b, c, rows_at_once, width, k);
    for (u32 r = 0; r < rows_at_once; ++r) {
      if (is_masked(rank, lane + r))
        continue;
      for (u32 j = 0; j < width; ++j)
        rows[r][j] = integers            ? sum_of(rows[r][j], c[r * width + j], adds)
                     : shape.d_type == 0 ? narrow<f16>(c[r * width + j]).bits
                                         : bit_cast<u32>(canonical(c[r * width + j]));
    }
  }
  // Of up to 64 products of bytes: below 2^24, where f32 has every integer.
  u32 sum_of(u32 d, f32 products, bool adds) const {
    s64 sum = (adds ? s64{static_cast<s32>(d)} : 0) + static_cast<s64>(products);
    if (shape.saturates)
      sum = std::clamp<s64>(sum, INT32_MIN, INT32_MAX);
    return static_cast<u32>(sum);
  }
  bool is_masked(u32 rank, u32 lane) const {
    u32 place = Form::mask + rank * 4 + lane / 32;
    return has(place) && (operand<u32>(place) >> lane % 32 & 1);
  }
};

const Instruction *multiply_in_tensor_memory(Warp &w, const Instruction *i) {
  const Form &form = w.program->tensor_products[static_cast<size_t>(i->immediate)];
  for (u32 lanes = w.active; lanes; lanes &= lanes - 1) {
    Product product(w, i, form, first_lane(lanes));
    product.count_descriptors();
    issue_in_order(w, product.thread, Track::tensor, {}, [product] { product.run(); });
    MatrixKind kind = form.kind == TensorKind::f16    ? MatrixKind::half
                      : form.kind == TensorKind::tf32 ? MatrixKind::tf32
                      : form.kind == TensorKind::i8   ? MatrixKind::int8
                      : form.kind >= TensorKind::mxf4 ? MatrixKind::float4
                                                      : MatrixKind::float8;
    w.counters->matrix_products[static_cast<size_t>(kind)] +=
        u64{product.shape.m} * product.shape.n * product.shape.k;
  }
  return i + 1;
}

} // namespace

void add_tensor_product(OperationTable &t) {
  t.add("tcgen05.mma", {multiply_in_tensor_memory, ptx::Type::none, {}, 0});
}

} // namespace emulator::EMULATOR_ISA
