// mma, wmma.mma and wgmma. f16 results are rounded once more, at the end; integers are exact, f64 is a chain
// of fma. The registers of a fragment become matrices of one type, and every shape is the same loop over
// them.
#include <algorithm>

#include "exec/operations/matrix/deferred_product.hpp"
#include "exec/operations/matrix/elements.hpp"
#include "exec/operations/matrix/factors.hpp"
#include "exec/operations/matrix/loops.hpp"
#include "exec/operations/matrix/shared_matrix.hpp"
#include "exec/operations/matrix/whole_warp.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

constexpr u32 most_b = 16384, most_c = 4096; // elements of an operand

// Calls then(lane's first element in its register, row, column, elements) for each lane, the last with a
// constant.
template <u32 Elements, typename F>
[[gnu::always_inline]] inline void for_each_lane_of(const Fragment &f, u32 r, F then) {
  u32 row = f.tile[r].row, column = f.tile[r].column, step = f.step;
  for (u32 g = 0; g < 8; ++g)
    for (u32 t = 0; t < 4; ++t)
      then((g * 4 + t) * Elements, row + g, column + t * step, std::integral_constant<u32, Elements>());
}
// Only floats are packed: T is what an element becomes.
template <typename T, typename F>
[[gnu::always_inline]] inline void for_each_lane(const Fragment &f, u32 r, F then) {
  if constexpr (!std::is_same_v<T, f32>)
    return for_each_lane_of<1>(f, r, then);
  switch (f.elements) {
  case 1:
    return for_each_lane_of<1>(f, r, then);
  case 2:
    return for_each_lane_of<2>(f, r, then);
  case 4:
    return for_each_lane_of<4>(f, r, then);
  default:
    return for_each_lane_of<8>(f, r, then);
  }
}

// The elements of register r, lane by lane, to their places; and back.
template <typename T> void scatter(const Fragment &f, u32 r, const T *values, T *matrix, u32 pitch) {
  for_each_lane<T>(f, r, [=](u32 from, u32 row, u32 column, auto elements) {
    std::memcpy(matrix + row * pitch + column, values + from, elements * sizeof(T));
  });
}
template <typename T>
void scatter_transposed(const Fragment &f, u32 r, const T *values, T *matrix, u32 pitch) {
  for_each_lane<T>(f, r, [=](u32 from, u32 row, u32 column, auto elements) {
    for (u32 e = 0; e < elements; ++e)
      matrix[(column + e) * pitch + row] = values[from + e];
  });
}
template <typename T> void gather(const Fragment &f, u32 r, T *values, const T *matrix, u32 pitch) {
  for_each_lane<T>(f, r, [=](u32 to, u32 row, u32 column, auto elements) {
    std::memcpy(values + to, matrix + row * pitch + column, elements * sizeof(T));
  });
}

// Registers of an operand are in the program's list of extras: D, A, B, C, one after the other; of wgmma
// descriptors instead of A or B, D once more as C, and the predicate of C.
struct Operands {
  const uint32_t *d, *a, *b, *c;
  u64 a_descriptor = 0, b_descriptor = 0;
  u64 memory_distance = 0; // from shared memory to what is read of it
  bool adds = true;        // C, or the sum begins with 0
  Operands(Warp &w, const Instruction *i, const MatrixForm &form)
      : d(w.program->extra.data() + i->extra), a(d + form.d.registers), b(a + form.a.registers),
        c(b + form.b.registers) {
    if (!form.of_warpgroup)
      return;
    a_descriptor = form.shared_a ? *w.row<u64>(a[0]) : 0;
    b_descriptor = *w.row<u64>(b[0]);
    adds = w.predicate(c[form.c.registers]) != 0;
  }
  SharedMatrix shared_a(Warp &w, const MatrixForm &form) const {
    return {w, a_descriptor, !form.columns_a, memory_distance};
  }
  SharedMatrix shared_b(Warp &w, const MatrixForm &form) const {
    return {w, b_descriptor, !form.columns_b, memory_distance};
  }
  // Each warp reads its rows of A; B counts once for the warpgroup, with its first warp. Rows of chunks, or
  // units of rows with a chunk in each column: look(matrix, first, lines, pieces).
  template <typename Look> void for_each_shared(Warp &w, const MatrixForm &form, Look look) const {
    constexpr u32 row_chunks = 2;
    u32 of_group = w.index % 4, unit_rows = tile_rows;
    if (form.shared_a && form.columns_a)
      look(shared_a(w, form), of_group * form.m / unit_rows, form.m / unit_rows, form.held_k());
    else if (form.shared_a)
      look(shared_a(w, form), of_group * form.m, form.m, row_chunks);
    if (of_group == 0 && form.columns_b)
      look(shared_b(w, form), 0, form.n / unit_rows, form.k);
    else if (of_group == 0)
      look(shared_b(w, form), 0, form.n, row_chunks * form.k / form.held_k());
  }
  void count_descriptors(Warp &w, const MatrixForm &form) const {
    for_each_shared(w, form, [&](const SharedMatrix &matrix, u32 first, u32 lines, u32 pieces) {
      matrix.by_rows ? matrix.count_rows(w, first, lines, pieces)
                     : matrix.count_columns(w, first, lines, pieces);
    });
  }
  // From now on until a wait for its group the product reads them.
  void check_descriptors(Warp &w, const Instruction *i, const MatrixForm &form) const {
    BlockChecks &checks = *w.block->checks;
    const u32 product = checks.begin_product(w, i);
    for_each_shared(w, form, [&](const SharedMatrix &matrix, u32 first, u32 lines, u32 pieces) {
      matrix.for_each_chunk(first, lines, pieces,
                            [&](u64 address) { checks.copies(w, 0, address, chunk_bytes, false, product); });
    });
  }
  // Registers after those of C: metadata, factors.
  const uint32_t *more(const MatrixForm &form) const {
    return c + form.c.registers + (form.of_warpgroup ? 1 : 0);
  }
};

template <typename Place>
void widen_registers(Warp &w, MatrixElement element, const Fragment &f, const uint32_t *registers,
                     Place place) {
  alignas(64) f32 values[8 * lanes_per_warp];
  for (u32 r = 0; r < f.distinct; ++r) {
    widen_words(element, w.row<u32>(registers[r]), lanes_per_warp, values);
    place(r, values);
  }
}
template <typename Place>
void widen_shared(Warp &w, const Instruction *i, MatrixElement element, const Fragment &f,
                  const SharedMatrix &from, u32 first_row, Place place) {
  alignas(64) f32 values[8 * lanes_per_warp];
  u32 lanes[lanes_per_warp];
  for (u32 t = 0; t < f.distinct; ++t) {
    from.read_tile(w, i, first_row + f.tile[t].row, f.tile[t].column, 4u / f.elements, lanes);
    widen_words(element, lanes, lanes_per_warp, values);
    place(t, values);
  }
}

// b with the elements of a row of B, those of one k, side by side.
void widen_operands(Warp &w, const Instruction *i, const MatrixForm &form, const Operands &at, f32 *a,
                    f32 *b) {
  auto put_a = [&](u32 r, const f32 *values) { scatter(form.a, r, values, a, form.held_k()); };
  auto put_b = [&](u32 r, const f32 *values) { scatter_transposed(form.b, r, values, b, form.n); };
  if (form.shared_a)
    widen_shared(w, i, form.a_element, form.a, at.shared_a(w, form), w.index % 4 * form.m, put_a);
  else
    widen_registers(w, form.a_element, form.a, at.a, put_a);
  if (form.shared_b)
    widen_shared(w, i, form.b_element, form.b, at.shared_b(w, form), 0, put_b);
  else
    widen_registers(w, form.b_element, form.b, at.b, put_b);
  for (u32 k = 0; form.negated && k < form.m * form.held_k(); ++k)
    a[k] = -a[k];
}

void multiply_as_floats(Warp &w, const Instruction *i, const MatrixForm &form, const Operands &at) {
  alignas(64) f32 a[most_a], b[most_b], c[most_c], values[8 * lanes_per_warp];
  widen_operands(w, i, form, at, a, b);
  bool adds = at.adds;
  std::fill_n(c, adds ? 0 : form.m * form.n, 0.0f);
  for (u32 r = 0; adds && r < form.c.distinct; ++r) {
    if (form.half_c)
      widen_halves<f16>(w.row<u32>(at.c[r]), lanes_per_warp, values);
    else
      std::memcpy(values, w.row<f32>(at.c[r]), sizeof(f32) * lanes_per_warp);
    scatter(form.c, r, values, c, form.n);
  }
  const uint32_t *more = at.more(form);
  if (form.scale != MatrixScale::none) {
    multiply_scaled(w, i, form, more, a, b, c);
  } else if (form.a_element == MatrixElement::bf16 || form.a_element == MatrixElement::tf32) {
    multiply_all<false>(w, form, more, a, b, c);
  } else {
    multiply_all<true>(w, form, more, a, b, c);
  }
  for (u32 r = 0; r < form.d.distinct; ++r) {
    gather(form.d, r, values, c, form.n);
    if (form.half_d) {
      u16 *halves = w.row<u16>(at.d[r]);
      EACH_HALF(h) halves[h] = narrow<f16>(values[h]).bits;
    } else {
      f32 *to = w.row<f32>(at.d[r]);
      EACH_LANE(l) to[l] = canonical(values[l]);
    }
  }
}

// Adds sums, from 0, to the integers of C.
void add_integers(Warp &w, const MatrixForm &form, const Operands &at, const s32 *sums) {
  s32 values[lanes_per_warp];
  bool adds = at.adds;
  for (u32 r = 0; r < form.d.distinct; ++r) {
    gather(form.d, r, values, sums, form.n);
    const s32 *c = w.row<s32>(at.c[r]);
    s32 *d = w.row<s32>(at.d[r]);
    for (u32 l = 0; l < lanes_per_warp; ++l) {
      s64 sum = s64{adds ? c[l] : 0} + values[l];
      if (form.saturate)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
      d[l] = static_cast<s32>(sum);
    }
  }
}

// Of up to 128 products of bytes: below 2^24, where f32 has every integer.
void multiply_integers(Warp &w, const Instruction *i, const MatrixForm &form, const Operands &at) {
  alignas(64) f32 a[most_a], b[most_b], c[most_c];
  s32 sums[most_c];
  widen_operands(w, i, form, at, a, b);
  std::fill_n(c, form.m * form.n, 0.0f);
  multiply_all<true>(w, form, at.more(form), a, b, c);
  for (u32 p = 0; p < form.m * form.n; ++p)
    sums[p] = static_cast<s32>(c[p]);
  add_integers(w, form, at, sums);
}

// Words of 32 elements.
void multiply_bits(Warp &w, const Instruction *i, const MatrixForm &form, const Operands &at) {
  u32 a[most_a], b[most_b], lanes[lanes_per_warp], words = form.k / 32;
  s32 sums[most_c];
  auto put = [&](const Fragment &f, const uint32_t *registers, u32 *matrix) {
    for (u32 r = 0; r < f.distinct; ++r)
      scatter(f, r, w.row<u32>(registers[r]), matrix, words);
  };
  auto put_shared = [&](const Fragment &f, const SharedMatrix &from, u32 first_row, u32 *matrix) {
    for (u32 t = 0; t < f.distinct; ++t) {
      from.read_tile(w, i, first_row + f.tile[t].row, f.tile[t].column, sizeof(u32), lanes);
      scatter(f, t, lanes, matrix, words);
    }
  };
  form.shared_a ? put_shared(form.a, at.shared_a(w, form), w.index % 4 * form.m, a) : put(form.a, at.a, a);
  form.shared_b ? put_shared(form.b, at.shared_b(w, form), 0, b) : put(form.b, at.b, b);
  for (u32 row = 0; row < form.m; ++row)
    for (u32 column = 0; column < form.n; ++column) {
      s32 sum = 0;
      for (u32 p = 0; p < words; ++p) {
        u32 x = a[row * words + p], y = b[column * words + p];
        sum += __builtin_popcount(form.and_bits ? x & y : x ^ y);
      }
      sums[row * form.n + column] = sum;
    }
  add_integers(w, form, at, sums);
}

void multiply_doubles(Warp &w, const MatrixForm &form, const Operands &at) {
  f64 a[most_a], b[most_a], c[most_a], values[lanes_per_warp];
  for (u32 r = 0; r < form.a.distinct; ++r)
    scatter(form.a, r, w.row<f64>(at.a[r]), a, form.k);
  for (u32 r = 0; r < form.b.distinct; ++r)
    scatter(form.b, r, w.row<f64>(at.b[r]), b, form.k);
  for (u32 r = 0; r < form.c.distinct; ++r)
    scatter(form.c, r, w.row<f64>(at.c[r]), c, form.n);
  for (u32 row = 0; row < form.m; ++row)
    for (u32 column = 0; column < form.n; ++column)
      for (u32 p = 0; p < form.k; ++p)
        c[row * form.n + column] =
            __builtin_fma(a[row * form.k + p], b[column * form.k + p], c[row * form.n + column]);
  for (u32 r = 0; r < form.d.distinct; ++r) {
    gather(form.d, r, values, c, form.n);
    f64 *to = w.row<f64>(at.d[r]);
    EACH_LANE(l) to[l] = canonical(values[l]);
  }
}

void perform(Warp &w, const Instruction *i, const MatrixForm &form, const Operands &at) {
  auto count = [&](MatrixKind kind) {
    w.counters->matrix_products[static_cast<size_t>(kind)] += u64{form.m} * form.n * form.held_k();
  };
  switch (form.a_element) {
  case MatrixElement::f64:
    count(MatrixKind::float64);
    multiply_doubles(w, form, at);
    break;
  case MatrixElement::b1:
    count(MatrixKind::bit);
    multiply_bits(w, i, form, at);
    break;
  case MatrixElement::s8:
  case MatrixElement::u8:
    count(MatrixKind::int8);
    multiply_integers(w, i, form, at);
    break;
  case MatrixElement::s4:
  case MatrixElement::u4:
    count(MatrixKind::int4);
    multiply_integers(w, i, form, at);
    break;
  default:
    count(form.a_element == MatrixElement::tf32          ? MatrixKind::tf32
          : form.a_element < MatrixElement::tf32         ? MatrixKind::half
          : form.a_element == MatrixElement::packed_e2m1 ? MatrixKind::float4
                                                         : MatrixKind::float8);
    multiply_as_floats(w, i, form, at);
  }
  for (u32 r = form.d.distinct; r < form.d.registers; ++r)
    std::memcpy(w.row<u32>(at.d[r]), w.row<u32>(at.d[r - form.d.distinct]), 4 * lanes_per_warp);
}

const Instruction *multiply(Warp &w, const Instruction *i) {
  const MatrixForm &form = w.program->matrices[static_cast<size_t>(i->immediate)];
  if (!has_whole_warp(w, i, form.of_warpgroup ? "wgmma" : "mma"))
    return nullptr;
  if (form.of_warpgroup && w.index / 4 * 4 + 4 > w.launch->warps_per_block)
    fail(w, i, LaunchStatus::illegal_instruction, "wgmma by fewer than the four warps of a warpgroup", 0);
  Operands at(w, i, form);
  if (form.of_warpgroup)
    at.count_descriptors(w, form);
  if (form.of_warpgroup && w.block->checks)
    at.check_descriptors(w, i, form);
  if (form.of_warpgroup && w.block->pending) {
    at.memory_distance = w.block->cluster->distance_to_fenced(*w.block);
    defer_product(w, form, at.a, at.d, at.adds, [&w, &form, i, at] { perform(w, i, form, at); });
  } else {
    perform(w, i, form, at);
  }
  return i + 1;
}

// mma.m8n8k4 of f16: lanes 4 q to 4 q + 3, and those 16 above, hold a product of their own.
const Instruction *multiply_four(Warp &w, const Instruction *i) {
  const MatrixForm &form = w.program->matrices[static_cast<size_t>(i->immediate)];
  if (!has_whole_warp(w, i, "mma"))
    return nullptr;
  constexpr u32 size = 8, depth = 4;
  Operands at(w, i, form);
  alignas(64) f32 a[4][size * depth], b[4][depth * size], c[4][size * size], values[2 * lanes_per_warp];
  // Where lane l has its e-th element of A, of B without its columns, or of C.
  auto quarter = [](u32 l) { return l % 16 / 4; };
  auto line = [](u32 l, bool along, u32 e) { return l / 16 * 4 + (along ? e : l % 4); };
  auto place_of_half = [](u32 l, u32 e) { return (l / 16 * 4 + l % 4) * size + e; };
  auto place_of_float = [](u32 l, u32 e) {
    return (l / 16 * 4 + (l & 1) + (e & 2)) * size + (e & 4) + (l & 2) + (e & 1);
  };
  for (u32 r = 0; r < 2; ++r)
    for (u32 l = 0; l < lanes_per_warp; ++l)
      for (u32 h = 0; h < 2; ++h) {
        u32 e = 2 * r + h;
        auto element = [&](const uint32_t *registers) {
          return widen(f16{static_cast<u16>(w.row<u32>(registers[r])[l] >> (16 * h))});
        };
        a[quarter(l)][line(l, form.columns_a, e) * depth + (form.columns_a ? l % 4 : e)] = element(at.a);
        b[quarter(l)][(form.columns_b ? l % 4 : e) * size + line(l, form.columns_b, e)] = element(at.b);
      }
  for (u32 r = 0; r < form.c.registers; ++r) {
    u32 each = form.half_c ? 2 : 1;
    if (form.half_c)
      widen_halves<f16>(w.row<u32>(at.c[r]), lanes_per_warp, values);
    else
      std::memcpy(values, w.row<f32>(at.c[r]), sizeof(f32) * lanes_per_warp);
    for (u32 l = 0; l < lanes_per_warp; ++l)
      for (u32 h = 0; h < each; ++h)
        c[quarter(l)][form.half_c ? place_of_half(l, 2 * r + h) : place_of_float(l, r)] =
            values[each * l + h];
  }
  for (u32 q = 0; q < 4; ++q)
    multiply_floats<true>(a[q], b[q], c[q], size, size, depth);
  for (u32 r = 0; r < form.d.registers; ++r)
    for (u32 l = 0; l < lanes_per_warp; ++l) {
      const f32 *sums = c[quarter(l)];
      if (form.half_d)
        for (u32 h = 0; h < 2; ++h)
          w.row<u16>(at.d[r])[2 * l + h] = narrow<f16>(sums[place_of_half(l, 2 * r + h)]).bits;
      else
        w.row<f32>(at.d[r])[l] = canonical(sums[place_of_float(l, r)]);
    }
  w.counters->matrix_products[static_cast<size_t>(MatrixKind::half)] += 4 * size * size * depth;
  return i + 1;
}

} // namespace

void add_multiply(OperationTable &t) {
  t.add("mma", {multiply, ptx::Type::none, {}, 0});
  t.add("mma.m8n8k4", {multiply_four, ptx::Type::none, {}, 0});
}

} // namespace emulator::EMULATOR_ISA
