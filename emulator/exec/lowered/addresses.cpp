// Memory accesses of a basic block that share a row of addresses: all but the first are spared finding out
// where the lanes are. Unrolled loops over tiles consist of little else.
#include <algorithm>
#include <unordered_map>

#include "exec/lowered/lowered.hpp"
#include "exec/warp/reach.hpp"

namespace emulator {

namespace {

// Accesses through one row, of one width and in one state space, that an address aligns or misaligns alike.
struct Sharing {
  uint32_t bytes = 0;
  ptx::Space space = ptx::Space::generic;
  bool wide = false;
  int64_t misalignment = 0;
  std::vector<uint32_t> members; // indices into the block
};

const Reference *address_of(const Lowered &lowered) {
  if (lowered.instruction.site == 0)
    return nullptr;
  for (const Reference &r : lowered.references)
    if (r.field == Field::a)
      return &r;
  return nullptr;
}

} // namespace

std::vector<SharedAddress> shared_addresses(const LoweredFunction &function, const BasicBlock &block) {
  std::vector<SharedAddress> result(block.end - block.begin);
  std::unordered_map<uint32_t, Sharing> open; // by the value that holds the addresses
  std::vector<Sharing> found;
  auto close = [&](Sharing &sharing) {
    if (sharing.members.size() > 1)
      found.push_back(std::move(sharing));
  };
  auto close_all = [&] {
    for (auto &[value, sharing] : open)
      close(sharing);
    open.clear();
  };
  for (uint32_t k = block.begin; k < block.end; ++k) {
    const Lowered &lowered = function.code[k];
    if (const Reference *address = address_of(lowered)) {
      const Instruction &i = lowered.instruction;
      uint32_t bytes = uint32_t{i.element_bytes} * (i.extra_count ? i.extra_count : 1);
      int64_t misalignment = i.immediate & (int64_t{bytes} - 1);
      Sharing &sharing = open[address->value];
      if (sharing.bytes != bytes || sharing.space != i.space || sharing.wide != i.wide_address ||
          sharing.misalignment != misalignment) {
        close(sharing);
        sharing = {bytes, i.space, i.wide_address, misalignment, {}};
      }
      sharing.members.push_back(k - block.begin);
    }
    // A call runs other code in between.
    if (lowered.accounts)
      close_all();
    for (const Reference &r : lowered.references)
      if (r.defines) {
        auto changed = open.find(r.value);
        if (changed != open.end()) {
          close(changed->second);
          open.erase(changed);
        }
      }
  }
  close_all();
  // A slot is free again after the last member; those that find none do without.
  std::sort(found.begin(), found.end(),
            [](const Sharing &x, const Sharing &y) { return x.members.front() < y.members.front(); });
  int64_t taken_until[reach_slots];
  std::fill_n(taken_until, reach_slots, -1);
  for (const Sharing &sharing : found)
    for (uint32_t s = 0; s < reach_slots; ++s) {
      if (taken_until[s] >= int64_t{sharing.members.front()})
        continue;
      taken_until[s] = sharing.members.back();
      for (uint32_t member : sharing.members)
        result[member] = {static_cast<uint8_t>(s + 1), member == sharing.members.front()};
      break;
    }
  return result;
}

} // namespace emulator
