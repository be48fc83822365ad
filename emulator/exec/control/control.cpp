#include "exec/control/control.hpp"

#include <cfenv>
#include <chrono>

#include "exec/block/cluster.hpp"
#include "exec/control/services.hpp"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace emulator {

namespace {

// Sets the direction in which the processor rounds, until it goes out of scope.
class RoundingScope {
public:
  explicit RoundingScope(Rounding rounding) {
#if defined(__x86_64__)
    // Bits 13 and 14 of MXCSR: nearest, down, up, zero, the order of the enumeration.
    saved_ = _mm_getcsr();
    _mm_setcsr((saved_ & ~0x6000u) | static_cast<unsigned>(rounding) << 13);
#else
    constexpr int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    saved_ = std::fegetround();
    std::fesetround(modes[static_cast<int>(rounding)]);
#endif
    asm volatile("" ::: "memory");
  }
  ~RoundingScope() {
    asm volatile("" ::: "memory");
#if defined(__x86_64__)
    _mm_setcsr(saved_);
#else
    std::fesetround(saved_);
#endif
  }
  RoundingScope(const RoundingScope &) = delete;
  RoundingScope &operator=(const RoundingScope &) = delete;

private:
#if defined(__x86_64__)
  unsigned saved_;
#else
  int saved_;
#endif
};

uint32_t lanes_with_guard(Warp &w, const Instruction *i) {
  uint32_t p = w.predicate(i->guard);
  return w.active & (i->guard_negated ? ~p : p);
}

// The active lanes whose value is that of the first active one.
template <typename T> uint32_t lanes_with(const Warp &w, const T *values) {
  uint32_t same = 0;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1)
    same |= static_cast<uint32_t>(values[first_lane(lanes)] == values[first_lane(w.active)])
            << first_lane(lanes);
  return same;
}

// What a service gives back is written, although no instruction stores it.
void note_returned(const Warp &w, const Callee &callee) {
  for (const ParameterBytes &back : callee.returns)
    for (uint32_t lanes = w.shadow ? w.active : 0; lanes; lanes &= lanes - 1)
      w.shadow->memory->written(
          w.local_base + first_lane(lanes) * w.local_stride + w.local_offset + back.offset, back.size_bytes);
}

} // namespace

namespace control {

const Instruction *stop(Warp &, const Instruction *i) { return i; }

const Instruction *guarded(Warp &w, const Instruction *i) {
  uint32_t group = w.active;
  if (i->guard != no_offset) {
    w.active = lanes_with_guard(w, i);
    if (w.active == 0) {
      w.active = group;
      // Those that would share its addresses must not take older ones for them.
      if (i->slot != 0)
        w.worker->reach.set_known(i->slot, false);
      return i + 1;
    }
  }
  const Instruction *next;
  if (i->rounding == Rounding::nearest) {
    next = i->inner(w, i);
  } else {
    RoundingScope scope(i->rounding);
    next = i->inner(w, i);
  }
  w.active = w.current.lanes; // it may have split the group
  return next;
}

const Instruction *fall_through(Warp &w, const Instruction *i) {
  w.account(i);
  return w.go_to(i + 1);
}

const Instruction *join(Warp &w, const Instruction *i) {
  int32_t record = w.current.join;
  if (record >= 0) {
    const Join &top = w.joins[static_cast<size_t>(record)];
    if (top.at == i && top.frame == w.current.frame)
      return w.arrive(i);
  }
  return i + 1;
}

const Instruction *branch(Warp &w, const Instruction *i) {
  w.account(i);
  if (i->guard == no_offset)
    return w.go_to(i->target);
  uint32_t taken = lanes_with_guard(w, i);
  if (taken == w.active)
    return w.go_to(i->target);
  if (taken == 0)
    return w.go_to(i + 1);
  return w.diverge(i, taken, i->target, i + 1);
}

const Instruction *branch_table(Warp &w, const Instruction *i) {
  w.account(i);
  const std::vector<const Instruction *> &table = w.program->tables[static_cast<size_t>(i->immediate)];
  const uint32_t *index = w.row<uint32_t>(i->a);
  uint32_t lane = first_lane(w.active);
  if (index[lane] >= table.size())
    fail(w, i, LaunchStatus::illegal_instruction,
         "brx.idx with index " + std::to_string(index[lane]) + " of " + std::to_string(table.size()) +
             " targets",
         lane);
  uint32_t same = lanes_with(w, index);
  const Instruction *target = table[index[lane]];
  // Lanes that go elsewhere come back to this instruction; the one before it has accounted for the branch.
  return same == w.active ? w.go_to(target) : w.diverge(i, same, target, i);
}

const Instruction *exit(Warp &w, const Instruction *i) {
  w.account(i);
  uint32_t leaving = w.active_lanes();
  w.exit_lanes();
  w.block->threads_left(leaving);
  w.block->cluster->threads_left();
  return nullptr;
}

const Instruction *trap(Warp &w, const Instruction *i) {
  fail(w, i, LaunchStatus::illegal_instruction, "trap or brkpt", first_lane(w.active));
}

const Instruction *unsupported(Warp &w, const Instruction *i) {
  fail(w, i, LaunchStatus::illegal_instruction,
       "an instruction that is not supported: " + w.program->info.unsupported, first_lane(w.active));
}

const Instruction *call(Warp &w, const Instruction *i) {
  const Callee &callee = w.program->callees[static_cast<size_t>(i->immediate)];
  w.account(i);
  switch (callee.kind) {
  case CalleeKind::function:
    return w.enter_function(w.program->functions[callee.function], callee, i + 1);
  case CalleeKind::indirect: {
    const uint64_t *address = w.row<uint64_t>(i->a);
    uint64_t target = address[first_lane(w.active)];
    uint32_t same = lanes_with(w, address);
    const FunctionCode *function = function_at(w, target);
    if (!function)
      fail(w, i, LaunchStatus::illegal_instruction, "a call of an address that is no function",
           first_lane(w.active));
    if (same != w.active)
      return w.diverge(i, w.active & ~same, i, i);
    return w.enter_function(*function, callee, i + 1);
  }
  default:
    run_service(w, i, callee);
    note_returned(w, callee);
    return w.go_to(i + 1);
  }
}

const Instruction *return_from(Warp &w, const Instruction *i) {
  w.account(i);
  return w.leave_function();
}

const Instruction *barrier(Warp &w, const Instruction *i) {
  w.account(i);
  return w.block->arrive(w, i);
}

const Instruction *cluster_barrier(Warp &w, const Instruction *i) {
  w.account(i);
  w.current.next = i;
  if (i->immediate & 1)
    w.block->cluster->arrive(w);
  // Another lane of the warp may have arrived while this one has not: each waits for its own arrival.
  if ((i->immediate & 2) && (w.active & w.at_cluster_barrier))
    return w.wait_at_barrier(i, waits_for_cluster);
  return w.go_to(i + 1);
}

const Instruction *clock(Warp &w, const Instruction *i) {
  // Cycles are modelled as instructions of this worker, so that equal launches read equal clocks.
  uint64_t cycles = w.counters->warp_instructions + ++w.worker->clock_reads;
  auto now_ns = [] {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                     std::chrono::system_clock::now().time_since_epoch())
                                     .count());
  };
  uint64_t value = 0;
  bool wide = false;
  switch (static_cast<Special>(i->immediate)) {
  case Special::clock:
    value = cycles & 0xffffffff;
    break;
  case Special::clock_hi:
    value = cycles >> 32;
    break;
  case Special::clock64:
    value = cycles, wide = true;
    break;
  case Special::globaltimer:
    value = now_ns(), wide = true;
    break;
  case Special::globaltimer_lo:
    value = now_ns() & 0xffffffff;
    break;
  default:
    value = now_ns() >> 32;
    break;
  }
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    if (wide)
      w.row<uint64_t>(i->destination)[first_lane(lanes)] = value;
    else
      w.row<uint32_t>(i->destination)[first_lane(lanes)] = static_cast<uint32_t>(value);
  }
  return i + 1;
}

const Instruction *allocate_stack(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t alignment = static_cast<uint64_t>(i->immediate);
    uint64_t place = (w.stack_top[lane] + alignment - 1) / alignment * alignment;
    uint64_t bytes = w.row<uint64_t>(i->a)[lane];
    const Launch &launch = *w.launch;
    if (bytes > launch.local_bytes || place + bytes > launch.local_bytes)
      fail(w, i, LaunchStatus::stack_overflow,
           "stack overflow: alloca of " + std::to_string(bytes) + " bytes, where a thread has " +
               std::to_string(launch.local_bytes - launch.frame_bytes) +
               " for it (cuCtxSetLimit, CU_LIMIT_STACK_SIZE)",
           lane);
    w.stack_top[lane] = static_cast<uint32_t>(place + bytes);
    w.row<uint64_t>(i->destination)[lane] = place;
  }
  return i + 1;
}

const Instruction *save_stack(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1)
    w.row<uint64_t>(i->destination)[first_lane(lanes)] = w.stack_top[first_lane(lanes)];
  return i + 1;
}

const Instruction *restore_stack(Warp &w, const Instruction *i) {
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t top = w.row<uint64_t>(i->a)[lane];
    if (top < w.launch->frame_bytes || top > w.stack_top[lane])
      fail(w, i, LaunchStatus::illegal_instruction, "stackrestore of what stacksave has not given", lane);
    w.stack_top[lane] = static_cast<uint32_t>(top);
  }
  return i + 1;
}

const Instruction *no_operation(Warp &, const Instruction *i) { return i + 1; }

const Instruction *wait_for_prerequisite(Warp &w, const Instruction *i) {
  w.account(i);
  return w.worker->awaits_prerequisite ? w.wait_at_barrier(i, waits_for_prerequisite) : w.go_to(i + 1);
}

const Instruction *fence(Warp &w, const Instruction *i) {
  if (w.block->checks)
    w.block->checks->fence(w);
  return i + 1;
}

const Instruction *set_registers(Warp &w, const Instruction *i) {
  if (w.block->checks)
    w.block->checks->set_registers(w, i);
  return i + 1;
}

const Instruction *yield(Warp &w, const Instruction *i) {
  w.account(i);
  w.credit = -1;
  return w.go_to(i + 1);
}

} // namespace control

} // namespace emulator
