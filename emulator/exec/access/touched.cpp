#include "exec/access/touched.hpp"

#include <algorithm>

#include "exec/access/access_costs.hpp"
#include "exec/block/cluster.hpp"

namespace emulator {

namespace {

void mark(TouchedPages &pages, uint64_t address, uint64_t bytes) {
  while (bytes != 0) {
    uint64_t offset = address % touched_page_bytes, here = std::min(bytes, touched_page_bytes - offset);
    auto &bits = pages[address / touched_page_bytes];
    for (uint64_t at = offset; at < offset + here;) {
      uint64_t in_word = at % 64, count = std::min(64 - in_word, offset + here - at);
      bits[at / 64] |= (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << in_word;
      at += count;
    }
    address += here;
    bytes -= here;
  }
}

} // namespace

void note_touched(Warp &w, const Instruction *i, uint64_t address, uint64_t bytes, bool write) {
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
    bytes = w.shared_bytes;
  }
  const ptx::SourceLine &source = w.program->source[static_cast<size_t>(i - w.program->code.data())];
  mark(w.worker->touched[{source.text, source.ptx_line, write, space}], address, bytes);
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
    uint64_t address = place[first_lane(lanes)];
    if (kind != AccessKind::store)
      note_touched(w, i, address, bytes, false);
    if (kind != AccessKind::load)
      note_touched(w, i, address, bytes, true);
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

} // namespace emulator
