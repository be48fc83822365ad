#include "exec/warp/warp.hpp"

#include <algorithm>
#include <cstring>

#include "exec/warp/readable_name.hpp"

namespace emulator {

namespace {

// A group gives way to others after so many instructions. Lanes that have waited at a join for as many stop
// waiting: they may hold the lock that the others spin on. Counted from their arrival and large enough that
// ordinary divergent code meets again first, which much code relies on where it has no __syncwarp (a GPU
// meets again, too).
constexpr int64_t instructions_per_turn = 2000;

} // namespace

void Warp::start(uint32_t lanes) {
  existing = live = lanes;
  at_cluster_barrier = 0;
  run_before = 0;
  std::fill_n(stack_top, lanes_per_warp, launch->frame_bytes);
  ready.clear();
  waiting.clear();
  joins.clear();
  frames.clear();
  frames.emplace_back();
  frames[0].lanes = lanes;
  frames[0].function = &program->functions[0];
  if (lanes != 0)
    ready.push_back({program->code.data(), lanes, -1, 0});
}

void Warp::set_lanes(uint32_t lanes) {
  current.lanes = active = lanes;
  active_count = active_lanes();
}

void Warp::begin_slice() {
  slice = budget;
  if (program->communicates) {
    slice = std::min(slice, instructions_per_turn);
    for (const Join &join : joins)
      if (join.arrived != 0)
        slice = std::min(slice, std::max<int64_t>(join.since + instructions_per_turn - run_before, 1));
  }
  credit = slice;
}

void Warp::end_slice() {
  budget -= slice - credit;
  run_before += slice - credit;
  slice = credit = 0;
}

void Warp::enter(const Group &group) {
  current = group;
  worker->reach.known = 0;
  set_lanes(group.lanes);
  local_offset = frames[static_cast<size_t>(group.frame)].local_offset;
  begin_slice();
}

void Warp::run(int64_t instructions, uint64_t steps) {
  budget = instructions;
  const bool in_steps = steps != 0;
  while (budget > 0 && !ready.empty() && (!in_steps || steps > 0)) {
    Group group = ready.back();
    ready.pop_back();
    enter(group);
    const Instruction *i = group.next;
    if (in_steps)
      run_steps(i, steps);
    else
      while (i)
        i = i->handler(*this, i);
    end_slice();
  }
}

// Runs the group for what is left of `steps`. One that has not come to a stop then waits for its next turn.
void Warp::run_steps(const Instruction *next, uint64_t &steps) {
  while (next && steps > 0) {
    --steps;
    next = next->handler(*this, next);
  }
  if (next == nullptr)
    return;
  current.next = next;
  if (program->communicates) {
    // Slices this short never end by themselves, so others are let on here, as turn() does.
    detach_joins(now() - instructions_per_turn);
    ready.insert(ready.begin(), current);
  } else {
    ready.push_back(current);
  }
}

const Instruction *Warp::turn(const Instruction *next) {
  end_slice();
  if (program->communicates)
    detach_joins(run_before - instructions_per_turn);
  if (budget > 0 && (ready.empty() || !program->communicates)) {
    begin_slice();
    return next;
  }
  current.next = next;
  // After all others: they are taken from the back.
  ready.insert(ready.begin(), current);
  return nullptr;
}

int32_t Warp::new_join(const Instruction *at) {
  Join join{at, active, 0, current.join, current.frame, 0};
  for (size_t j = 0; j < joins.size(); ++j) {
    if (joins[j].expected == 0) {
      joins[j] = join;
      return static_cast<int32_t>(j);
    }
  }
  joins.push_back(join);
  return static_cast<int32_t>(joins.size() - 1);
}

const Instruction *Warp::diverge(const Instruction *i, uint32_t taken, const Instruction *target,
                                 const Instruction *fall_through) {
  ++counters->divergent_branches;
  uint32_t rest = active & ~taken;
  int32_t record = current.join;
  if (i->join) {
    // A loop that lanes leave one by one keeps one record.
    bool same = record >= 0 && joins[static_cast<size_t>(record)].at == i->join &&
                joins[static_cast<size_t>(record)].frame == current.frame;
    if (!same)
      record = new_join(i->join);
    current.join = record;
    Join &join = joins[static_cast<size_t>(record)];
    if (target == i->join) {
      wait_at_join(join, taken);
      set_lanes(rest);
      return go_to(fall_through);
    }
    if (fall_through == i->join) {
      wait_at_join(join, rest);
      set_lanes(taken);
      return go_to(target);
    }
  }
  split_off(taken, target);
  return go_to(fall_through);
}

void Warp::split_off(uint32_t lanes, const Instruction *next) {
  ready.push_back({next, lanes, current.join, current.frame});
  set_lanes(current.lanes & ~lanes);
}

void Warp::wait_at_join(Join &join, uint32_t lanes) {
  if (join.arrived == 0)
    join.since = now();
  join.arrived |= lanes;
}

const Instruction *Warp::arrive(const Instruction *i) {
  Join &join = joins[static_cast<size_t>(current.join)];
  wait_at_join(join, active);
  if (join.arrived != join.expected)
    return nullptr;
  uint32_t lanes = join.arrived;
  current.join = join.parent;
  join = Join{};
  set_lanes(lanes);
  return i;
}

void Warp::remove_from_joins(uint32_t lanes) {
  for (int32_t j = current.join; j >= 0;) {
    Join &join = joins[static_cast<size_t>(j)];
    int32_t parent = join.parent;
    join.expected &= ~lanes;
    if (join.expected == 0) {
      join = Join{};
    } else if (join.arrived == join.expected) {
      ready.push_back({join.at, join.arrived, join.parent, join.frame});
      join = Join{};
    }
    j = parent;
  }
}

bool Warp::detach_joins(int64_t latest) {
  bool any = false;
  for (Join &join : joins) {
    if (join.arrived == 0 || join.since > latest)
      continue;
    any = true;
    ready.push_back({join.at, join.arrived, join.parent, join.frame});
    join.expected &= ~join.arrived;
    join.arrived = 0;
    if (join.expected == 0)
      join = Join{};
  }
  return any;
}

void Warp::exit_lanes() {
  uint32_t lanes = active;
  live &= ~lanes;
  remove_from_joins(lanes);
  for (int32_t f = current.frame; f >= 0;) {
    Frame &frame = frames[static_cast<size_t>(f)];
    int32_t parent = frame.parent;
    frame.lanes &= ~lanes;
    f = parent;
  }
  match_waiting();
}

const Instruction *Warp::wait_for_lanes(const Instruction *i, uint32_t named) {
  current.next = i;
  waiting.push_back({current, i, active, named, waits_for_lanes, {}});
  match_waiting();
  return nullptr;
}

const Instruction *Warp::wait_at_barrier(const Instruction *i, int32_t barrier) {
  current.next = i + 1;
  // Member by member, at its place: a copy of what was just written in parts would wait for it.
  WaitingGroup &group = waiting.emplace_back();
  group.group.next = i + 1;
  group.group.lanes = current.lanes;
  group.group.join = current.join;
  group.group.frame = current.frame;
  group.instruction = i;
  group.participants = active;
  group.barrier = barrier;
  return nullptr;
}

// Groups that wait at one instruction for each other execute it together, then go on apart. Each names one
// set of lanes; a group that names another waits for others.
void Warp::match_waiting() {
  for (size_t k = 0; k < waiting.size(); ++k) {
    if (waiting[k].barrier != waits_for_lanes)
      continue;
    const Instruction *i = waiting[k].instruction;
    Handler handler = i->inner ? i->inner : i->handler;
    uint32_t named = waiting[k].named & live;
    auto belongs = [&](const WaitingGroup &other) {
      if (other.barrier != waits_for_lanes || (other.named & live) != named)
        return false;
      // __syncwarp in both arms of an if is one barrier; other operations meet at one instruction.
      return other.instruction == i || (i->is_warp_barrier && other.instruction->is_warp_barrier);
    };
    uint32_t together = 0;
    for (const WaitingGroup &other : waiting)
      if (belongs(other))
        together |= other.participants;
    if (named & ~together)
      continue;
    active = together;
    handler(*this, i);
    std::vector<WaitingGroup> rest;
    for (WaitingGroup &other : waiting) {
      if (belongs(other)) {
        other.group.next = other.instruction + 1;
        ready.push_back(other.group);
      } else {
        rest.push_back(other);
      }
    }
    waiting = std::move(rest);
    k = static_cast<size_t>(-1);
  }
}

const Instruction *Warp::enter_function(const FunctionCode &function, const Callee &callee,
                                        const Instruction *back) {
  uint64_t caller_offset = local_offset;
  const FunctionCode &caller = program->functions[callee.caller];
  uint64_t offset = caller_offset + caller.local_bytes;
  uint32_t frame_bytes = launch->frame_bytes;
  if (offset + function.local_bytes > frame_bytes)
    fail(*this, back - 1, LaunchStatus::stack_overflow,
         "stack overflow: calls need more than the " + std::to_string(frame_bytes) +
             " bytes of local memory of a thread (cuCtxSetLimit, CU_LIMIT_STACK_SIZE)",
         first_lane(active));
  // A declaration may promise a result that the definition does not give, as the linkers of PTX allow: such a
  // result is not defined.
  if (callee.arguments.size() != function.parameters.size())
    fail(*this, back - 1, LaunchStatus::illegal_instruction, "a call with the wrong number of arguments",
         first_lane(active));
  size_t slot = 0;
  while (slot < frames.size() && frames[slot].lanes != 0)
    ++slot;
  if (slot == frames.size())
    frames.emplace_back();
  Frame &frame = frames[slot];
  frame.lanes = active;
  frame.parent = current.frame;
  frame.callee = &callee;
  frame.function = &function;
  frame.back = back;
  frame.local_offset = static_cast<uint32_t>(offset);
  if (program->frame_bytes != program->local_bytes)
    frame.stack_tops.assign(stack_top, stack_top + lanes_per_warp);
  frame.saved_rows.clear();
  if (callee.save_rows)
    for (const RowRange &row : caller.rows)
      frame.saved_rows.insert(frame.saved_rows.end(), registers + row.offset,
                              registers + row.offset + row.row_bytes);
  for (size_t p = 0; p < function.parameters.size(); ++p) {
    uint32_t bytes = std::min(function.parameters[p].size_bytes, callee.arguments[p].size_bytes);
    for (uint32_t lanes = active; lanes; lanes &= lanes - 1) {
      uint64_t base = local_base + first_lane(lanes) * local_stride;
      std::memcpy(reinterpret_cast<void *>(base + offset + function.parameters[p].offset),
                  reinterpret_cast<const void *>(base + caller_offset + callee.arguments[p].offset), bytes);
      if (shadow)
        shadow->memory->copy(base + caller_offset + callee.arguments[p].offset,
                             base + offset + function.parameters[p].offset, bytes);
    }
  }
  current.frame = static_cast<int32_t>(slot);
  local_offset = offset;
  return go_to(&program->code[function.first_instruction]);
}

const Instruction *Warp::leave_function() {
  Frame &frame = frames[static_cast<size_t>(current.frame)];
  const Frame &parent = frames[static_cast<size_t>(frame.parent)];
  const Callee &callee = *frame.callee;
  for (size_t r = 0; r < std::min(callee.returns.size(), frame.function->returns.size()); ++r) {
    uint32_t bytes = std::min(frame.function->returns[r].size_bytes, callee.returns[r].size_bytes);
    for (uint32_t lanes = active; lanes; lanes &= lanes - 1) {
      uint64_t base = local_base + first_lane(lanes) * local_stride;
      std::memcpy(
          reinterpret_cast<void *>(base + parent.local_offset + callee.returns[r].offset),
          reinterpret_cast<const void *>(base + frame.local_offset + frame.function->returns[r].offset),
          bytes);
      if (shadow)
        shadow->memory->copy(base + frame.local_offset + frame.function->returns[r].offset,
                             base + parent.local_offset + callee.returns[r].offset, bytes);
    }
  }
  if (callee.save_rows) {
    const uint8_t *saved = frame.saved_rows.data();
    for (const RowRange &range : program->functions[callee.caller].rows) {
      uint8_t *to = registers + range.offset;
      if (shadow) // what it was is not kept
        shadow->set_state(range.offset, 0);
      if (range.row_bytes == 4) {
        uint32_t bits;
        std::memcpy(&bits, saved, 4);
        uint32_t &p = predicate(range.offset);
        p = (p & ~active) | (bits & active);
      } else {
        uint32_t lane_bytes = range.row_bytes / lanes_per_warp;
        for (uint32_t lanes = active; lanes; lanes &= lanes - 1)
          std::memcpy(to + first_lane(lanes) * lane_bytes, saved + first_lane(lanes) * lane_bytes,
                      lane_bytes);
      }
      saved += range.row_bytes;
    }
  }
  if (!frame.stack_tops.empty())
    for (uint32_t lanes = active; lanes; lanes &= lanes - 1)
      stack_top[first_lane(lanes)] = frame.stack_tops[first_lane(lanes)];
  const Instruction *back = frame.back;
  current.frame = frame.parent;
  local_offset = parent.local_offset;
  frame.lanes &= ~active;
  return go_to(back);
}

void fail(const Warp &w, const Instruction *i, LaunchStatus status, const std::string &what, uint32_t lane) {
  const Program &program = *w.program;
  const ptx::SourceLine &source = program.source[static_cast<size_t>(i - program.code.data())];
  const Dim3 &n = w.launch->request->block;
  uint32_t linear = w.index * lanes_per_warp + lane;
  std::string message =
      what + "\n  in kernel " + readable_name(program.info.name) + ", " + place_of(*w.launch->module, source);
  const uint32_t *position = w.position;
  auto triple = [](uint64_t x, uint64_t y, uint64_t z) {
    return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
  };
  message += ", block " + triple(position[0], position[1], position[2]);
  message += ", thread " + triple(linear % n.x, linear / n.x % n.y, linear / n.x / n.y);
  throw Fault{status, message};
}

} // namespace emulator
