#include "exec/check/block_checks.hpp"

#include <algorithm>

#include "exec/check/findings.hpp"
#include "exec/check/numbers.hpp"

namespace emulator {

namespace {

constexpr size_t warps_of_group = 4;

bool has_products_that_are_not_watched(const Program &program) {
  return !program.tensor_products.empty() ||
         std::any_of(program.matrices.begin(), program.matrices.end(), [](const MatrixForm &form) {
           return form.a_element < MatrixElement::s8 && !watched_numbers(form).is_watched;
         });
}

} // namespace

std::vector<Unchecked> unchecked(const Launch &launch) {
  const LaunchRequest &request = *launch.request;
  std::vector<Unchecked> found;
  const bool in_clusters = uint64_t{request.cluster.x} * request.cluster.y * request.cluster.z > 1;
  if (request.checks & bit_of(Check::init) && in_clusters)
    found.push_back({Check::init, "its blocks form clusters, and may write each other's shared memory"});
  if (request.checks & bit_of(Check::numbers) && has_products_that_are_not_watched(*launch.program))
    found.push_back({Check::numbers, "it has products of matrices whose operands are not looked at (wgmma, "
                                     "tcgen05, or elements of 8 bits and less)"});
  if (!(request.checks & bit_of(Check::race)) || launch.shared_bytes == 0)
    return found;
  if (!launch.program->asynchronous.empty())
    found.push_back({Check::race, "it uses " + launch.program->asynchronous +
                                      ", whose order with other accesses is not followed"});
  else if (in_clusters)
    found.push_back({Check::race, "its blocks form clusters, and may use each other's shared memory"});
  return found;
}

std::unique_ptr<BlockChecks> BlockChecks::create(const Launch &launch, std::vector<Warp> &warps) {
  const uint64_t base = warps.front().shared_base, bytes = warps.front().shared_bytes;
  auto checks = std::make_unique<BlockChecks>();
  checks->looks_at_lanes_ = launch.request->checks & bit_of(Check::sync);
  const std::vector<Unchecked> left_out = unchecked(launch);
  auto looks_for = [&](Check check) {
    return launch.request->checks & bit_of(check) &&
           std::none_of(left_out.begin(), left_out.end(),
                        [check](const Unchecked &one) { return one.check == check; });
  };
  if (checks->looks_at_lanes_)
    checks->set_registers_.resize(warps.size());
  checks->looks_for_races_ = bytes != 0 && looks_for(Check::race);
  if (looks_for(Check::init))
    checks->shadow_ = std::make_unique<BlockShadow>(warps, launch);
  if (checks->looks_for_races_) {
    checks->clocks_.prepare(launch.threads_per_block);
    checks->races_.prepare(launch, base, bytes, checks->clocks_);
  }
  return checks->looks_for_races_ || checks->looks_at_lanes_ || checks->shadow_ ? std::move(checks) : nullptr;
}

void BlockChecks::start(uint64_t block) {
  block_ = block;
  for (auto &of_warp : set_registers_)
    of_warp.clear();
  if (shadow_)
    shadow_->start();
  if (!looks_for_races_)
    return;
  clocks_.begin_block();
  races_.start(block);
}

void BlockChecks::report(const Warp &w, const Instruction *i, FindingKind kind, uint32_t lanes) {
  uint32_t place = static_cast<uint32_t>(i - w.program->code.data()),
           thread = w.index * lanes_per_warp + first_lane(lanes);
  note(w.worker->found, {Check::sync, kind, place, place, false, true},
       {block_, thread, thread, "", 0, 0, count_lanes(lanes)});
}

void BlockChecks::compare_places(const Warp &w, uint32_t id) {
  const Instruction *first = nullptr;
  bool differ = false;
  for (const WaitingGroup &group : w.waiting) {
    if (group.barrier != static_cast<int32_t>(id) || !group.instruction->is_aligned)
      continue;
    differ |= first && group.instruction != first;
    first = group.instruction;
  }
  for (const WaitingGroup &group : w.waiting)
    if (differ && group.barrier == static_cast<int32_t>(id) && group.instruction->is_aligned)
      report(w, group.instruction, FindingKind::divergent_barrier, group.participants);
}

void BlockChecks::end(const std::vector<Warp> &warps) {
  for (size_t first = 0; first < set_registers_.size(); first += warps_of_group) {
    const size_t last = std::min<size_t>(first + warps_of_group, set_registers_.size());
    for (size_t turn = 0;; ++turn) {
      const Instruction *known = nullptr;
      size_t came = 0;
      bool differ = false;
      for (size_t w = first; w < last; ++w) {
        if (turn >= set_registers_[w].size())
          continue;
        const Instruction *asked = set_registers_[w][turn];
        differ |= known && asked->immediate != known->immediate;
        known = asked;
        ++came;
      }
      if (!came)
        break;
      for (size_t w = first; w < last; ++w)
        if ((differ || came != last - first) && turn < set_registers_[w].size())
          report(warps[w], set_registers_[w][turn], FindingKind::registers_differ, warps[w].existing);
    }
  }
}

void BlockChecks::join(Warp &w, const Instruction *i, const uint32_t *masks) {
  if (!looks_at_lanes_)
    return;
  uint32_t outside = 0, differ = 0;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t l = first_lane(lanes), one = uint32_t{1} << l;
    outside |= masks[l] & one ? 0 : one;
    for (uint32_t named = masks[l] & w.active; named; named &= named - 1)
      differ |= masks[first_lane(named)] == masks[l] ? 0 : one;
  }
  if (outside)
    report(w, i, FindingKind::outside_its_mask, outside);
  if (differ &= ~outside)
    report(w, i, FindingKind::masks_differ, differ);
}

void BlockChecks::access(Warp &w, const Instruction *i, const Reach &reach, uint64_t lowest,
                         const uint64_t *addresses, uint32_t bytes, AccessKind kind) {
  if (shadow_)
    shadow_->access(w, i, reach, lowest, addresses, bytes, kind);
  if (!looks_for_races_)
    return;
  const uint32_t lanes = reach.active;
  const bool reads = kind != AccessKind::store, writes = kind != AccessKind::load;
  const bool strong = kind == AccessKind::atomic || i->order != 0;
  for (uint32_t rest = strong && reads ? lanes : 0; rest; rest &= rest - 1)
    clocks_.read_strongly(w.index * lanes_per_warp + first_lane(rest), addresses[first_lane(rest)]);
  races_.access(w, i, lanes, addresses, bytes, kind);
  for (uint32_t rest = strong && writes ? lanes : 0; rest; rest &= rest - 1)
    clocks_.write_strongly(w.index * lanes_per_warp + first_lane(rest), addresses[first_lane(rest)],
                           i->order & releases);
}

void BlockChecks::fence(const Warp &w) {
  for (uint32_t lanes = looks_for_races_ ? w.active : 0; lanes; lanes &= lanes - 1)
    clocks_.fence(w.index * lanes_per_warp + first_lane(lanes));
}

void BlockChecks::complete(const std::vector<Warp> &warps, uint32_t id, bool of_all) {
  for (const Warp &warp : warps)
    if (looks_at_lanes_)
      compare_places(warp, id);
  if (!looks_for_races_)
    return;
  if (of_all) {
    clocks_.begin_phase();
    return;
  }
  auto for_each_waiting = [&](auto move) {
    for (const Warp &warp : warps)
      for (const WaitingGroup &group : warp.waiting)
        if (group.barrier == static_cast<int32_t>(id))
          (clocks_.*move)(id, warp.index, group.participants);
  };
  for_each_waiting(&Clocks::arrive);
  for_each_waiting(&Clocks::leave);
  clocks_.end_barrier(id);
}

} // namespace emulator
