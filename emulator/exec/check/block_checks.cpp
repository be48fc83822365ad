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

bool forms_clusters(const LaunchRequest &request) { return blocks_per_cluster(request) > 1; }

// Why shared memory is not looked at.
std::string why_no_shared_races(const Launch &launch) {
  if (launch.shared_bytes == 0)
    return "";
  if (!launch.program->unfollowed.empty())
    return why_not_followed(launch.program->unfollowed);
  return forms_clusters(*launch.request) ? "its blocks form clusters, and may use each other's shared memory"
                                         : "";
}

} // namespace

std::vector<Unchecked> unchecked(const Launch &launch) {
  const LaunchRequest &request = *launch.request;
  std::vector<Unchecked> found;
  const bool in_clusters = forms_clusters(request);
  if (request.checks & bit_of(Check::init) && in_clusters)
    found.push_back({Check::init, "its blocks form clusters, and may write each other's shared memory"});
  if (request.checks & bit_of(Check::numbers) && has_products_that_are_not_watched(*launch.program))
    found.push_back({Check::numbers, "it has products of matrices whose operands are not looked at (wgmma, "
                                     "tcgen05, or elements of 8 bits and less)"});
  if (!(request.checks & bit_of(Check::race)))
    return found;
  const std::string of_shared = why_no_shared_races(launch), of_global = why_no_global_races(launch);
  if (!of_shared.empty())
    found.push_back({Check::race, of_shared});
  if (!of_global.empty() && of_global != of_shared)
    found.push_back({Check::race, of_global});
  return found;
}

std::unique_ptr<BlockChecks> BlockChecks::create(const Launch &launch, std::vector<Warp> &warps,
                                                 GlobalRaces *between) {
  const uint64_t base = warps.front().shared_base, bytes = warps.front().shared_bytes;
  const uint32_t wanted = launch.request->checks;
  auto checks = std::make_unique<BlockChecks>();
  checks->looks_at_lanes_ = wanted & bit_of(Check::sync);
  checks->looks_at_shared_ =
      (wanted & bit_of(Check::race)) && bytes != 0 && why_no_shared_races(launch).empty();
  checks->between_ = between;
  checks->follows_order_ = checks->looks_at_shared_ || between;
  if (checks->looks_at_lanes_)
    checks->set_registers_.resize(warps.size());
  if ((wanted & bit_of(Check::init)) && !forms_clusters(*launch.request))
    checks->shadow_ = std::make_unique<BlockShadow>(warps, launch);
  if (checks->follows_order_)
    checks->clocks_.prepare(launch.threads_per_block);
  if (checks->looks_at_shared_)
    checks->races_.prepare(launch, base, bytes, checks->clocks_);
  if (checks->looks_at_shared_)
    checks->product_groups_.resize(warps.size());
  if (between)
    between->prepare(checks->global_, checks->clocks_);
  return checks->follows_order_ || checks->looks_at_lanes_ || checks->shadow_ ? std::move(checks) : nullptr;
}

void BlockChecks::start(uint64_t block) {
  block_ = block;
  for (auto &of_warp : set_registers_)
    of_warp.clear();
  if (shadow_)
    shadow_->start();
  if (!follows_order_)
    return;
  clocks_.begin_block();
  if (looks_at_shared_) {
    races_.start(block);
    product_groups_.assign(product_groups_.size(), 0);
  }
  if (between_)
    global_.order.start(block);
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
  if (!follows_order_)
    return;
  const uint32_t lanes = reach.active;
  const bool reads = kind != AccessKind::store, writes = kind != AccessKind::load;
  const bool strong = kind == AccessKind::atomic || i->order != 0;
  if (!strong && looks_at_shared_ && races_.is_alone(w, i, reach, lowest, bytes, kind))
    return;
  uint64_t places[lanes_per_warp];
  lane_addresses(reach, lowest, addresses, bytes, places);
  addresses = places;
  if (strong)
    races_.settle();
  auto read_strongly = [&](uint32_t lane) {
    const uint32_t thread = w.index * lanes_per_warp + lane;
    clocks_.read_strongly(thread, addresses[lane]);
    if (between_)
      global_.order.read_in_block(thread, addresses[lane]);
  };
  for (uint32_t rest = strong && reads ? lanes : 0; rest; rest &= rest - 1)
    read_strongly(first_lane(rest));
  if (between_)
    between_->access(w, i, lanes, addresses, bytes, kind, clocks_, global_);
  if (looks_at_shared_)
    races_.access(w, i, lanes, addresses, bytes, kind, strong);
  for (uint32_t rest = strong && writes ? lanes : 0; rest; rest &= rest - 1) {
    const uint32_t thread = w.index * lanes_per_warp + first_lane(rest);
    if (reads && rest != lanes) // after the lanes before it, which may have written the same word
      read_strongly(first_lane(rest));
    clocks_.write_strongly(thread, addresses[first_lane(rest)], i->order & releases);
    if (between_)
      global_.order.write_in_block(thread, addresses[first_lane(rest)], i->order & releases);
  }
}

void BlockChecks::fence(const Warp &w, bool among_block) {
  races_.settle();
  for (uint32_t lanes = follows_order_ ? w.active : 0; lanes; lanes &= lanes - 1) {
    uint32_t thread = w.index * lanes_per_warp + first_lane(lanes);
    clocks_.fence(thread);
    if (between_)
      global_.order.fence(thread, among_block);
  }
}

void BlockChecks::warp_barrier(const Warp &w, uint32_t lanes) {
  if (!follows_order_)
    return;
  races_.settle();
  clocks_.join_lanes(w.index, lanes);
  if (between_)
    global_.order.join_lanes(w.index, lanes);
}

uint32_t BlockChecks::begin_copy(const Warp &w, const Instruction *i, uint32_t lane, CopyEnd end,
                                 uint64_t mbarrier) {
  return looks_at_shared_
             ? races_.copies.issue(w.index * lanes_per_warp + lane,
                                   static_cast<uint32_t>(i - w.program->code.data()), end, mbarrier)
             : 0;
}

void BlockChecks::commit_copies(const Warp &w, CopyEnd end) {
  for (uint32_t lanes = looks_at_shared_ ? w.active : 0; lanes; lanes &= lanes - 1)
    races_.copies.commit(w.index * lanes_per_warp + first_lane(lanes), end);
}

void BlockChecks::wait_for_copies(const Warp &w, CopyEnd end, uint64_t groups) {
  for (uint32_t lanes = looks_at_shared_ ? w.active : 0; lanes; lanes &= lanes - 1)
    races_.copies.wait(w.index * lanes_per_warp + first_lane(lanes), end, groups);
}

void BlockChecks::wait_for_all_copies(const Warp &w, CopyEnd end) {
  for (uint32_t lanes = looks_at_shared_ ? w.active : 0; lanes; lanes &= lanes - 1)
    races_.copies.wait_for_all(w.index * lanes_per_warp + first_lane(lanes), end);
}

void BlockChecks::arrive_after_copies(const Warp &w, uint32_t lane, uint64_t mbarrier) {
  if (looks_at_shared_)
    races_.copies.arrive_after(w.index * lanes_per_warp + lane, mbarrier);
}

uint32_t BlockChecks::begin_product(const Warp &w, const Instruction *i) {
  if (!looks_at_shared_)
    return 0;
  const Clocks::GatePhase end{clocks_.current_phase(w.index / warps_of_group).gate,
                              product_groups_[w.index] + 1};
  return races_.copies.issue(w.index * lanes_per_warp, static_cast<uint32_t>(i - w.program->code.data()),
                             end);
}

void BlockChecks::wait_for_products(const Warp &w, uint64_t groups) {
  if (!looks_at_shared_ || product_groups_[w.index] <= groups)
    return;
  const uint64_t gate = w.index / warps_of_group; // no mbarrier is at such an address
  while (clocks_.current_phase(gate).number <= product_groups_[w.index] - groups)
    clocks_.complete_phase(gate);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1)
    clocks_.see_phase(w.index * lanes_per_warp + first_lane(lanes), gate);
}

void BlockChecks::clear(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, uint32_t bytes) {
  uint64_t addresses[lanes_per_warp];
  addresses[lane] = address;
  if (looks_at_shared_)
    races_.access(w, i, uint32_t{1} << lane, addresses, bytes, AccessKind::store, false);
}

void BlockChecks::touch_mbarrier(Warp &w, const Instruction *i, uint32_t lane, uint64_t address,
                                 AccessKind kind, bool strong) {
  uint64_t addresses[lanes_per_warp];
  addresses[lane] = address;
  if (!looks_at_shared_)
    return;
  races_.look_at_each();
  races_.access(w, i, uint32_t{1} << lane, addresses, 8, kind, strong);
}

void BlockChecks::begin_mbarrier(Warp &w, const Instruction *i, uint32_t lane, uint64_t address) {
  if (!follows_order_)
    return;
  touch_mbarrier(w, i, lane, address, AccessKind::store, false);
  clocks_.begin_gate(address);
}

// An arrival that nothing orders before is not told: pipelines of libcu++ end after match.any.sync, which
// waits for the lanes of a warp and orders no memory.
void BlockChecks::end_mbarrier(Warp &w, const Instruction *i, uint32_t lane, uint64_t address) {
  if (looks_at_shared_)
    races_.forget_arrivals(address);
  begin_mbarrier(w, i, lane, address);
}

void BlockChecks::arrive_at_mbarrier(Warp &w, const Instruction *i, uint32_t lane, uint64_t address,
                                     bool releases) {
  if (!follows_order_)
    return;
  const uint32_t thread = w.index * lanes_per_warp + lane;
  touch_mbarrier(w, i, lane, address, AccessKind::atomic, true);
  clocks_.arrive_at_gate(thread, address, releases);
  if (between_)
    global_.order.write_in_block(thread, address, releases);
}

void BlockChecks::see_phase(Warp &w, const Instruction *i, uint32_t lane, uint64_t mbarrier) {
  if (!follows_order_)
    return;
  const uint32_t thread = w.index * lanes_per_warp + lane;
  touch_mbarrier(w, i, lane, mbarrier, AccessKind::load, true);
  clocks_.see_phase(thread, mbarrier);
  if (between_)
    global_.order.read_in_block(thread, mbarrier);
}

void BlockChecks::complete(const std::vector<Warp> &warps, uint32_t id, bool of_all) {
  for (const Warp &warp : warps)
    if (looks_at_lanes_)
      compare_places(warp, id);
  if (!follows_order_)
    return;
  if (between_)
    global_.order.join_all();
  if (of_all) {
    clocks_.begin_phase();
    return;
  }
  races_.settle();
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
