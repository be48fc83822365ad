// Handlers that decide which instruction follows. One build serves all processors.
#pragma once

#include "exec/warp/warp.hpp"

namespace emulator::control {

const Instruction *stop(Warp &w, const Instruction *i);    // answers `i`: what Instruction::follow ends with
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
const Instruction *cluster_barrier(Warp &w, const Instruction *i); // immediate: 1 arrive, 2 wait, 3 both
const Instruction *clock(Warp &w, const Instruction *i);           // immediate: Special
const Instruction *allocate_stack(Warp &w, const Instruction *i);  // a: bytes, immediate: alignment
const Instruction *save_stack(Warp &w, const Instruction *i);
const Instruction *restore_stack(Warp &w, const Instruction *i);
const Instruction *no_operation(Warp &w, const Instruction *i);
const Instruction *wait_for_prerequisite(Warp &w, const Instruction *i); // griddepcontrol.wait
const Instruction *fence(Warp &w, const Instruction *i);                 // where a launch is checked
const Instruction *set_registers(Warp &w, const Instruction *i);         // likewise
const Instruction *yield(Warp &w, const Instruction *i);                 // nanosleep: lets others run

} // namespace emulator::control
