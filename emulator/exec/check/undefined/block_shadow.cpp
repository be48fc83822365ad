#include "exec/check/undefined/block_shadow.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace emulator {

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
    for (const RowRange &row : launch_.program->undefined_rows) {
      std::memset(shadow.registers + row.offset, 0xff, row.row_bytes);
      shadow.state[row.offset / 4] = Shadow::is_undefined;
      shadow.origins[row.offset / 4] = ShadowOrigin{};
    }
  }
}

void BlockShadow::access(Warp &w, const Instruction *i, uint32_t lanes, const uint64_t *addresses,
                         uint32_t bytes, AccessKind kind) {
  Shadow &shadow = *w.shadow;
  shadow.lanes = lanes;
  shadow.bytes = bytes;
  const ShadowKind form = w.program->shadows[static_cast<size_t>(i - w.program->code.data())].kind;
  // An atomic operation that is followed still needs what was there.
  const bool writes =
      kind == AccessKind::store ||
      (kind == AccessKind::atomic && form != ShadowKind::atomic && form != ShadowKind::exchange);
  for (; lanes; lanes &= lanes - 1) {
    uint32_t l = first_lane(lanes);
    shadow.addresses[l] = addresses[l];
    if (writes)
      memory_.written(addresses[l], bytes);
  }
}

} // namespace emulator
