#include "exec/access/access_costs.hpp"

#include <algorithm>
#include <string_view>

#include "exec/warp/readable_name.hpp"

namespace emulator {

namespace {

void add(GlobalCounters &to, const GlobalCounters &more) {
  to.requests += more.requests;
  to.bytes += more.bytes;
  to.sectors += more.sectors;
  to.least_sectors += more.least_sectors;
}

void add(SharedCounters &to, const SharedCounters &more) {
  to.requests += more.requests;
  to.bytes += more.bytes;
  to.wavefronts += more.wavefronts;
  to.bank_conflicts += more.bank_conflicts;
}

uint64_t passes(const AccessCost &cost) { return cost.global.sectors + cost.shared.wavefronts; }

} // namespace

void begin_cost(Warp &w, AccessKind kind) {
  size_t k = static_cast<size_t>(kind);
  w.worker->before = {w.counters->global[k], w.counters->shared[k]};
}

void end_cost(Warp &w, const Instruction *i, AccessKind kind) {
  size_t k = static_cast<size_t>(kind);
  const GlobalCounters &global = w.counters->global[k], &global_before = w.worker->before.global;
  const SharedCounters &shared = w.counters->shared[k], &shared_before = w.worker->before.shared;
  NotedCost &noted = w.worker->costs[static_cast<size_t>(i - w.program->code.data())];
  noted.kind = kind;
  add(noted.global,
      {global.requests - global_before.requests, global.bytes - global_before.bytes,
       global.sectors - global_before.sectors, global.least_sectors - global_before.least_sectors});
  add(noted.shared,
      {shared.requests - shared_before.requests, shared.bytes - shared_before.bytes,
       shared.wavefronts - shared_before.wavefronts, shared.bank_conflicts - shared_before.bank_conflicts});
}

AccessCosts costs_of(const Worker &worker) {
  AccessCosts found;
  const Program &program = *worker.launch->program;
  for (size_t at = 0; at < worker.costs.size(); ++at) {
    const NotedCost &noted = worker.costs[at];
    if (noted.global.requests == 0 && noted.shared.requests == 0)
      continue;
    const ptx::SourceLine &source = program.source[at];
    AccessCost &cost = found[{source.text, source.ptx_line, noted.kind}];
    cost.file = source.file;
    cost.line = source.line;
    add(cost.global, noted.global);
    add(cost.shared, noted.shared);
  }
  return found;
}

void add(AccessCosts &to, const AccessCosts &more) {
  for (const auto &[key, cost] : more) {
    AccessCost &sum = to[key];
    sum.file = cost.file;
    sum.line = cost.line;
    add(sum.global, cost.global);
    add(sum.shared, cost.shared);
  }
}

std::vector<NamedAccess> dearest(const AccessCosts &costs, const ptx::Module &module) {
  std::vector<NamedAccess> found;
  for (const auto &[key, cost] : costs)
    found.push_back({key, cost, "", ""});
  std::stable_sort(found.begin(), found.end(), [](const NamedAccess &a, const NamedAccess &b) {
    return passes(a.cost) > passes(b.cost);
  });
  if (found.size() > most_accesses)
    found.resize(most_accesses);
  std::map<std::pair<uint32_t, uint32_t>, std::vector<NamedAccess *>> by_line; // text, line
  for (NamedAccess &access : found) {
    auto [text, line, kind] = access.key;
    by_line[{text, line}].push_back(&access);
    if (text < module.texts.size())
      if (auto file = module.texts[text].files.find(access.cost.file); file != module.texts[text].files.end())
        access.file = without_folders(file->second);
  }
  uint32_t text = 0, number = 0; // the line that begins at `begin`
  size_t begin = 0;
  for (auto &[place, accesses] : by_line) {
    if (place.first >= module.texts.size())
      break;
    if (number == 0 || text != place.first)
      text = place.first, number = 1, begin = 0;
    std::string_view all = module.texts[text].text;
    for (; number < place.second && begin < all.size(); ++number)
      begin = next_line(all, begin);
    std::string line = readable_line(all, begin);
    for (NamedAccess *access : accesses)
      access->instruction = line;
  }
  return found;
}

} // namespace emulator
