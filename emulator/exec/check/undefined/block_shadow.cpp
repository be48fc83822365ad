#include "exec/check/undefined/block_shadow.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "exec/check/undefined/watch.hpp"

namespace emulator {

namespace {

constexpr uint64_t most_bytes_looked_at = 2048;

} // namespace

bool ShadowMemory::may_be_undefined(uint64_t address, uint64_t bytes) const {
  if (const uint8_t *bits = own(address, bytes))
    return bytes > most_bytes_looked_at || any_bit(bits, bytes);
  return global->may_be_undefined(address, bytes);
}

void ShadowMemory::put(uint64_t address, const void *bits, uint32_t bytes) const {
  if (uint8_t *here = own(address, bytes))
    std::memcpy(here, bits, bytes);
  else if (!any_bit(static_cast<const uint8_t *>(bits), bytes) || !map->find(address).is_followed)
    global->written(address, bytes);
  else
    global->put(address, bits, bytes);
}

void ShadowMemory::copy(uint64_t from, uint64_t to, uint64_t bytes) const {
  const uint8_t *source = own(from, bytes);
  uint8_t *target = own(to, bytes);
  if (source && target)
    std::memmove(target, source, bytes);
  else if (source)
    global->put_all(to, source, bytes, map->find(to).is_followed);
  else if (target)
    global->take(from, target, bytes);
  else
    global->copy(from, to, bytes, map->find(to).is_followed);
}

BlockShadow::Zeroed BlockShadow::zeroed(uint64_t bytes) {
  Zeroed memory(static_cast<uint8_t *>(std::calloc(std::max<uint64_t>(bytes, 1), 1)), std::free);
  if (!memory)
    throw std::bad_alloc();
  return memory;
}

BlockShadow::BlockShadow(std::vector<Warp> &warps, const Launch &launch)
    : launch_(launch), warps_(warps.size()) {
  const uint64_t register_bytes = launch.program->register_bytes;
  const Warp &first = warps.front();
  states_ = register_bytes / 4 + 1;
  memory_.global = &global_shadow();
  memory_.map = launch.memory;
  memory_.shared = {first.shared_base, first.shared_bytes, nullptr, "shared"};
  memory_.local = {first.local_base, first.local_stride * lanes_per_warp * warps.size(), nullptr, "local"};
  auto take = [&](uint64_t bytes) { return storage_.emplace_back(zeroed(bytes)).get(); };
  memory_.shared.bits = take(memory_.shared.bytes);
  memory_.local.bits = take(memory_.local.bytes);
  for (size_t k = 0; k < warps.size(); ++k) {
    Shadow &shadow = warps_[k];
    shadow.memory = &memory_;
    shadow.registers = take(register_bytes);
    shadow.state = take(states_);
    shadow.origins = reinterpret_cast<ShadowOrigin *>(take(states_ * sizeof(ShadowOrigin)));
    warps[k].shadow = &shadow;
  }
}

void BlockShadow::start() {
  std::memset(memory_.shared.bits, 0xff, memory_.shared.bytes);
  std::memset(memory_.local.bits, 0xff, memory_.local.bytes);
  for (Shadow &shadow : warps_) {
    std::memset(shadow.state, 0, states_);
    shadow.dirty = 0;
    shadow.one_by_one = false;
    for (const RowRange &row : launch_.program->undefined_rows) {
      std::memset(shadow.registers + row.offset, 0xff, row.row_bytes);
      shadow.set_state(row.offset, Shadow::is_undefined);
      shadow.origins[row.offset / 4] = ShadowOrigin{};
    }
  }
}

void BlockShadow::access(Warp &w, const Instruction *i, const Reach &reach, uint64_t lowest,
                         const uint64_t *addresses, uint32_t bytes, AccessKind kind) {
  Shadow &shadow = *w.shadow;
  if (!follows_access(w, i)) { // nothing else will tell what it wrote
    if (kind == AccessKind::load)
      return;
    uint64_t places[lanes_per_warp];
    lane_addresses(reach, lowest, addresses, bytes, places);
    for (uint32_t lanes = reach.active; lanes; lanes &= lanes - 1)
      memory_.written(places[first_lane(lanes)], bytes);
    return;
  }
  shadow.is_noted = true;
  shadow.lanes = reach.active;
  shadow.lowest = lowest;
  // Lanes that are far apart are looked at one by one.
  shadow.span = reach.pattern == Pattern::far_apart ? UINT64_MAX : reach.span;
  lane_addresses(reach, lowest, addresses, bytes, shadow.addresses);
}

} // namespace emulator
