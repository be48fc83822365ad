// Handlers that decide which instruction follows. One build serves all processors.
#pragma once

#include "exec/machine/warp.hpp"

namespace emulator::control {

const Instruction *guarded(Warp &w, const Instruction *i); // a guard, a rounding mode, or both around `inner`
const Instruction *fall_through(Warp &w, const Instruction *i); // ends a basic block: accounts for it
const Instruction *join(Warp &w, const Instruction *i);
const Instruction *branch(Warp &w, const Instruction *i);       // guard: predicate, or none
const Instruction *branch_table(Warp &w, const Instruction *i); // a: index row, immediate: table
const Instruction *exit(Warp &w, const Instruction *i);
const Instruction *trap(Warp &w, const Instruction *i);
const Instruction *unsupported(Warp &w, const Instruction *i);
const Instruction *call(Warp &w,
                        const Instruction *i); // immediate: callee; a: row of addresses when indirect
const Instruction *return_from(Warp &w, const Instruction *i);
const Instruction *barrier(Warp &w, const Instruction *i); // a: id, b: threads or none, c: predicate of .red
const Instruction *clock(Warp &w, const Instruction *i);   // immediate: Special
// Address of something in the frame: immediate, in the local space or (wide_address) generic.
const Instruction *local_address(Warp &w, const Instruction *i);
const Instruction *to_generic(Warp &w, const Instruction *i); // cvta: a, space
const Instruction *from_generic(Warp &w, const Instruction *i);
const Instruction *is_space(Warp &w, const Instruction *i); // immediate: shared memory of the cluster counts
const Instruction *allocate_stack(Warp &w, const Instruction *i); // a: bytes, immediate: alignment
const Instruction *save_stack(Warp &w, const Instruction *i);
const Instruction *restore_stack(Warp &w, const Instruction *i);
const Instruction *no_operation(Warp &w, const Instruction *i);
const Instruction *yield(Warp &w, const Instruction *i); // nanosleep: lets others run

// What Instruction::immediate of a barrier says.
enum class BarrierKind : uint8_t { sync, arrive, reduce_and, reduce_or, reduce_popc };

} // namespace emulator::control

namespace emulator {
bool is_warp_barrier(const Instruction &i);
}
