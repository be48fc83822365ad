// atom and red: lanes take their turn in ascending order. Kernels with atomics run on one thread. While
// kernels of other streams run, and for those that name the host as well, each access is atomic for others,
// too.
#include "exec/operations/addressing.hpp"
#include "exec/operations/half_functions.hpp"

namespace emulator::EMULATOR_ISA {

namespace {

struct AtomicAdd {
  template <typename T> static T apply(T old, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return canonical(old + b);
    else
      return static_cast<T>(static_cast<bits_of<T>>(old) + static_cast<bits_of<T>>(b));
  }
};
struct AtomicMinimum {
  template <typename T> static T apply(T old, T b) { return b < old ? b : old; }
};
struct AtomicMaximum {
  template <typename T> static T apply(T old, T b) { return b > old ? b : old; }
};
struct AtomicAnd {
  template <typename T> static T apply(T old, T b) { return old & b; }
};
struct AtomicOr {
  template <typename T> static T apply(T old, T b) { return old | b; }
};
struct AtomicXor {
  template <typename T> static T apply(T old, T b) { return old ^ b; }
};
struct AtomicExchange {
  template <typename T> static T apply(T, T b) { return b; }
};
struct AtomicIncrement {
  template <typename T> static T apply(T old, T b) { return old >= b ? 0 : old + 1; }
};
struct AtomicDecrement {
  template <typename T> static T apply(T old, T b) { return old == 0 || old > b ? b : old - 1; }
};
struct AtomicCompareAndSwap {
  template <typename T> static T apply(T old, T b, T c) { return old == b ? c : old; }
};

// The halves of a pair each on their own.
template <typename F> struct AtomicHalf {
  template <typename T> static T apply(T old, T b) {
    if constexpr (sizeof(T) == 2) {
      return F::template apply<T>(old, b);
    } else {
      using R = std::conditional_t<std::is_same_v<T, f16x2>, f16, bf16>;
      auto part = [&](u32 shift) {
        R r = F::template apply<R>(R{static_cast<u16>(old.bits >> shift)},
                                   R{static_cast<u16>(b.bits >> shift)});
        return u32{r.bits} << shift;
      };
      return T{part(16) | part(0)};
    }
  }
};

// Nobody but the thread that runs the cluster reaches shared memory.
inline bool is_own_shared(const Warp &w, const Instruction *i, u64 address) {
  return i->space == ptx::Space::shared || address - w.shared_base < w.shared_bytes;
}

// While it lives, no other launch begins, where it says `holds`.
class Exclusive {
public:
  Exclusive(const Launch &launch, const Instruction *i) : launch_(launch) {
    if (i->of_system || i->space == ptx::Space::shared || !launch.is_alone.load(std::memory_order_relaxed))
      return;
    launch.in_atomic = true;
    holds = launch.is_alone;
    if (!holds)
      launch.in_atomic = false;
  }
  ~Exclusive() {
    if (holds)
      launch_.in_atomic.store(false, std::memory_order_release);
  }
  bool holds = false;

private:
  const Launch &launch_;
};

template <typename T, typename Next> T exchange_with(u64 address, bool alone, Next next) {
  using Bits = bits_of<T>;
  Bits *place = reinterpret_cast<Bits *>(address);
  if (alone) {
    Bits old = __atomic_load_n(place, __ATOMIC_RELAXED);
    __atomic_store_n(place, bit_cast<Bits>(next(bit_cast<T>(old))), __ATOMIC_RELEASE);
    return bit_cast<T>(old);
  }
  Bits old = __atomic_load_n(place, __ATOMIC_RELAXED), now;
  // What stays as it is need not be written: a maximum mostly does.
  while ((now = bit_cast<Bits>(next(bit_cast<T>(old)))) != old &&
         !__atomic_compare_exchange_n(place, &old, now, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
  return bit_cast<T>(old);
}

// In parts as wide as those that rows are written in, so that none waits for several.
template <typename T> void copy_row(T *to, const T *from) {
  typedef u8 Part __attribute__((vector_size(32)));
  for (size_t k = 0; k < lanes_per_warp * sizeof(T) / sizeof(Part); ++k) {
    Part part;
    std::memcpy(&part, reinterpret_cast<const u8 *>(from) + k * sizeof part, sizeof part);
    std::memcpy(reinterpret_cast<u8 *>(to) + k * sizeof part, &part, sizeof part);
  }
}

template <typename T, typename Next> const Instruction *each_lane(Warp &w, const Instruction *i, Next next) {
  Addresses at;
  Reach fresh;
  const Reach &r = reach(w, i, fresh, at, sizeof(T), AccessKind::atomic);
  T *to = i->destination == no_offset ? nullptr : w.row<T>(i->destination);
  Exclusive exclusive(*w.launch, i);
  // Where all lanes are of one kind, and nobody else is there.
  bool shared = i->space == ptx::Space::shared, whole = r.active == ~u32{0};
  bool alone = shared || (i->space == ptx::Space::global && exclusive.holds);
  if (whole && alone && r.pattern == Pattern::contiguous) {
    // By way of rows of its own, which nothing else can be.
    alignas(64) T old[lanes_per_warp], now[lanes_per_warp];
    T *place = reinterpret_cast<T *>(r.lowest + static_cast<u64>(i->immediate));
    copy_row(old, place);
    EACH_LANE(l) now[l] = next(l, shared, old[l]);
    copy_row(place, now);
    if (to)
      copy_row(to, old);
    return i + 1;
  }
  spread(i, r, at, sizeof(T));
  auto exchange = [&](u32 l, bool own, bool undisturbed) {
    T old = exchange_with<T>(at.address[l], undisturbed, [&](T value) { return next(l, own, value); });
    if (to)
      to[l] = old;
  };
  if (whole && alone) {
    for (u32 l = 0; l < lanes_per_warp; ++l)
      exchange(l, shared, true);
    return i + 1;
  }
  for (u32 lanes = w.active; lanes; lanes &= lanes - 1) {
    u32 l = static_cast<u32>(__builtin_ctz(lanes));
    bool own = is_own_shared(w, i, at.address[l]);
    exchange(l, own, own || exclusive.holds);
  }
  return i + 1;
}

// Adding to an f32 in global memory flushes subnormal numbers, in shared memory not (PTX ISA, atom).
template <typename F, typename T> T next_value(bool in_shared, T old, T b) {
  if constexpr (std::is_same_v<F, AtomicAdd> && std::is_same_v<T, f32>)
    if (!in_shared)
      return flush(F::template apply<T>(flush(old), flush(b)));
  return F::template apply<T>(old, b);
}

// The sources may lie in the destination's row: each lane reads its own before it writes.
template <typename F, typename T> const Instruction *atomic2(Warp &w, const Instruction *i) {
  const T *b = w.row<T>(i->b);
  return each_lane<T>(w, i,
                      [b](u32 l, bool in_shared, T old) { return next_value<F, T>(in_shared, old, b[l]); });
}
template <typename F, typename T> const Instruction *atomic3(Warp &w, const Instruction *i) {
  const T *b = w.row<T>(i->b);
  const T *c = w.row<T>(i->c);
  return each_lane<T>(w, i, [b, c](u32 l, bool, T old) { return F::template apply<T>(old, b[l], c[l]); });
}

// Neighbours in memory. Program::extra holds the rows of the old values, then those of the sources.
template <typename F, typename T> const Instruction *atomic_vector(Warp &w, const Instruction *i) {
  constexpr u32 most = 8;
  u32 elements = i->extra_count;
  Addresses at;
  prepare(w, i, at, elements * static_cast<u32>(sizeof(T)), AccessKind::atomic);
  const uint32_t *rows = w.program->extra.data() + i->extra;
  Exclusive exclusive(*w.launch, i);
  for (u32 lanes = w.active; lanes; lanes &= lanes - 1) {
    u32 l = static_cast<u32>(__builtin_ctz(lanes));
    T b[most];
    for (u32 e = 0; e < elements; ++e)
      b[e] = w.row<T>(rows[elements + e])[l];
    for (u32 e = 0; e < elements; ++e) {
      u64 address = at.address[l] + e * sizeof(T);
      bool own = is_own_shared(w, i, address);
      T old = exchange_with<T>(address, own || exclusive.holds,
                               [&](T value) { return next_value<F, T>(own, value, b[e]); });
      if (rows[e] != no_offset)
        w.row<T>(rows[e])[l] = old;
    }
  }
  return i + 1;
}

template <typename F, typename... T> void add_atomic2(OperationTable &t, const char *name, Types<T...>) {
  (t.add("atom." + std::string(name) + "." + std::string(ptx::name_of(type_of<T>)),
         {atomic2<F, T>, type_of<T>, {type_of<T>}, 1}),
   ...);
}
template <typename T> void enter_bits(OperationTable &t, const char *name, Handler handler, uint8_t sources) {
  t.add("atom." + std::string(name) + ".b" + std::to_string(8 * sizeof(T)),
        {handler, type_of<T>, {type_of<T>, type_of<T>}, sources});
}
template <typename F, typename... T> void add_bits2(OperationTable &t, const char *name, Types<T...>) {
  (enter_bits<T>(t, name, atomic2<F, T>, 1), ...);
}
template <typename F, typename... T> void add_vector(OperationTable &t, const char *name, Types<T...>) {
  (t.add("atom.vector." + std::string(name) + "." + std::string(ptx::name_of(type_of<T>)),
         {atomic_vector<F, T>, type_of<T>, {type_of<T>}, 1}),
   ...);
}
template <typename F, typename... T> void add_bits3(OperationTable &t, const char *name, Types<T...>) {
  (enter_bits<T>(t, name, atomic3<F, T>, 2), ...);
}

} // namespace

void add_atomic(OperationTable &t) {
#define ATOMIC2(form, function, ...) add_atomic2<function>(t, form, Types<__VA_ARGS__>{});
#define ATOMIC_VECTOR(form, function, ...) add_vector<function>(t, form, Types<__VA_ARGS__>{});
#define ATOMIC_BITS2(form, function, ...) add_bits2<function>(t, form, Types<__VA_ARGS__>{});
#define ATOMIC_BITS3(form, function, ...) add_bits3<function>(t, form, Types<__VA_ARGS__>{});
#include "exec/operations/operations.def"
}

} // namespace emulator::EMULATOR_ISA
