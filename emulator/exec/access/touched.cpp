#include "exec/access/touched.hpp"

#include <algorithm>
#include <cstring>

#include "exec/access/access_costs.hpp"
#include "exec/block/cluster.hpp"
#include "exec/check/stored.hpp"

namespace emulator {

namespace {

// Whether any of the bytes had not been touched before.
bool mark(TouchedPages &pages, uint64_t address, uint64_t bytes) {
  bool is_new = false;
  while (bytes != 0) {
    uint64_t offset = address % touched_page_bytes, here = std::min(bytes, touched_page_bytes - offset);
    auto &bits = pages[address / touched_page_bytes];
    for (uint64_t at = offset; at < offset + here;) {
      uint64_t in_word = at % 64, count = std::min(64 - in_word, offset + here - at);
      uint64_t now = (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << in_word;
      is_new |= (now & ~bits[at / 64]) != 0;
      bits[at / 64] |= now;
      at += count;
    }
    address += here;
    bytes -= here;
  }
  return is_new;
}

// Lanes of one access whose addresses are equally far apart become one.
void add_toucher(std::vector<Toucher> &to, const Toucher &now) {
  if (!to.empty()) {
    Toucher &last = to.back();
    const uint32_t count = count_lanes(last.lanes);
    const auto stride = static_cast<int64_t>(now.base - last.base) / static_cast<int64_t>(count);
    if (last.block == now.block && last.warp == now.warp && last.bytes == now.bytes &&
        now.lanes > last.lanes && stride == static_cast<int32_t>(stride) &&
        now.base == last.base + static_cast<uint64_t>(stride) * count &&
        (count == 1 || stride == last.stride)) {
      last.stride = static_cast<int32_t>(stride);
      last.lanes |= now.lanes;
      return;
    }
  }
  to.push_back(now);
}

void keep_values(TouchedValues &to, const Warp &w, const Instruction *i, uint32_t lane, uint64_t address,
                 uint32_t bytes, bool write) {
  const bool is_store = write && i->element_bytes != 0 && i->lane_bytes != 0;
  const uint64_t offset = address % touched_page_bytes;
  bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, touched_page_bytes - offset));
  std::memcpy(&to.before[offset], reinterpret_cast<const void *>(address), bytes);
  if (is_store)
    stored(w, i, lane, 0, bytes, &to.after[offset]);
  for (uint64_t at = offset; is_store && at < offset + bytes; ++at)
    to.is_after_known[at / 64] |= uint64_t{1} << at % 64;
}

} // namespace

void note_touched(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, uint32_t bytes,
                  bool write) {
  const Launch &launch = *w.launch;
  TouchedSpace space = TouchedSpace::global;
  if (address - w.shared_base < w.shared_bytes) {
    space = TouchedSpace::shared;
    address -= w.shared_base;
  } else if (w.local_stride != 0 && address - w.local_base < w.local_stride * lanes_per_warp) {
    space = TouchedSpace::local;
    address = (address - w.local_base) % w.local_stride;
  } else if (address - reinterpret_cast<uint64_t>(launch.parameters) < launch.parameter_bytes ||
             address - reinterpret_cast<uint64_t>(launch.workspace.data()) < launch.workspace.size()) {
    return;
  } else if (w.block->cluster->block_at(address, 1)) { // of another block: which byte of it does not matter
    space = TouchedSpace::shared;
    address = 0;
    bytes = static_cast<uint32_t>(w.shared_bytes);
  }
  const ptx::SourceLine &source = w.program->source[static_cast<size_t>(i - w.program->code.data())];
  const TouchedKey key{source.text, source.ptx_line, write, space};
  const WatchedPages *watched = launch.request->watched;
  if (!mark(w.worker->touched[key], address, bytes) || !watched || space != TouchedSpace::global)
    return;
  TouchedSite &site = w.worker->sites[key];
  add_toucher(site.touchers, {address, w.block->index, w.index, uint32_t{1} << lane, bytes, 0});
  if (uint64_t page = address / touched_page_bytes; (*watched)[write].count(page))
    keep_values(site.values[page], w, i, lane, address, bytes, write);
}

void note_reach(Warp &w, const Instruction *i, const Reach &reach, const uint64_t *addresses, uint32_t bytes,
                AccessKind kind) {
  if (w.launch->request->record_costs)
    end_cost(w, i, kind);
  BlockChecks *checks = w.block->checks.get();
  const uint64_t lowest = reach.lowest + static_cast<uint64_t>(i->immediate);
  if (checks)
    checks->access(w, i, reach, lowest, addresses, bytes, kind);
  if (!w.launch->request->record_touched)
    return;
  uint64_t place[lanes_per_warp];
  lane_addresses(reach, lowest, addresses, bytes, place);
  for (uint32_t lanes = reach.active; lanes; lanes &= lanes - 1) {
    const uint32_t lane = first_lane(lanes);
    if (kind != AccessKind::store)
      note_touched(w, i, lane, place[lane], bytes, false);
    if (kind != AccessKind::load)
      note_touched(w, i, lane, place[lane], bytes, true);
  }
}

void add(Touched &to, const Touched &more) {
  for (const auto &[key, pages] : more)
    for (const auto &[page, bits] : pages) {
      auto &sum = to[key][page];
      for (size_t k = 0; k < bits.size(); ++k)
        sum[k] |= bits[k];
    }
}

void add(TouchedSites &to, const TouchedSites &more) {
  for (const auto &[key, site] : more)
    to.try_emplace(key, site); // of a kernel that launches itself, the first
}

} // namespace emulator
