#include "exec/access/access.hpp"

#include <algorithm>

#include "exec/access/touched.hpp"
#include "exec/block/cluster.hpp"
#include "exec/check/undefined/watch.hpp"
#include "exec/interface/hexadecimal.hpp"

namespace emulator {

namespace {

bool inside(uint64_t base, uint64_t end, uint64_t address, uint64_t bytes) {
  return address >= base && address <= end && end - address >= bytes;
}

std::string space_name(ptx::Space space) {
  switch (space) {
  case ptx::Space::shared:
    return "shared memory";
  case ptx::Space::local:
    return "local memory";
  case ptx::Space::parameter:
    return "parameter memory";
  default:
    return "memory";
  }
}

} // namespace

void misaligned(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, uint32_t bytes) {
  uint64_t shown = i->space == ptx::Space::shared  ? address - w.shared_base
                   : i->space == ptx::Space::local ? address - w.local_base - lane * w.local_stride
                                                   : address;
  std::string what = "misaligned address: " + std::to_string(bytes) + " bytes at " + hexadecimal(shown) +
                     " in " + space_name(i->space);
  std::string nearest = shown == address ? w.launch->memory->describe(address) : "";
  if (!nearest.empty())
    what += ": " + nearest;
  fail(w, i, LaunchStatus::misaligned_address, what, lane);
}

void check_access(Warp &w, const Instruction *i, uint32_t lane, uint64_t address, uint32_t bytes,
                  bool write) {
  const Launch &launch = *w.launch;
  if (launch.request->record_touched)
    note_touched(w, i, lane, address, bytes, write);
  if (write && w.shadow && !follows_access(w, i))
    w.shadow->memory->written(address, bytes);
  ptx::Space space = i->space;
  bool generic = space == ptx::Space::generic;
  uint64_t local = w.local_base + lane * w.local_stride;
  if (space == ptx::Space::shared || generic) {
    if (inside(w.shared_base, w.shared_base + w.shared_bytes, address, bytes))
      return;
    if (!generic)
      fail(w, i, LaunchStatus::illegal_address,
           std::string(write ? "illegal write of " : "illegal read of ") + std::to_string(bytes) +
               " bytes at " + hexadecimal(address - w.shared_base) +
               " in shared memory, where the block has " + std::to_string(launch.shared_bytes) + " bytes" +
               (w.shared_bytes == launch.shared_bytes
                    ? ""
                    : ", of which a GPU makes " + std::to_string(w.shared_bytes)),
           lane);
  }
  if (space == ptx::Space::local || generic) {
    if (inside(local, local + w.local_stride, address, bytes))
      return;
    if (!generic)
      fail(w, i, LaunchStatus::illegal_address,
           std::string(write ? "illegal write of " : "illegal read of ") + std::to_string(bytes) +
               " bytes at " + hexadecimal(address - local) + " in local memory, where a thread has " +
               std::to_string(w.local_stride) + " bytes",
           lane);
  }
  auto in_buffer = [&](const uint8_t *buffer, uint64_t buffer_bytes) {
    uint64_t base = reinterpret_cast<uint64_t>(buffer);
    return buffer_bytes != 0 && inside(base, base + buffer_bytes, address, bytes);
  };
  if ((!write && in_buffer(launch.parameters, launch.parameter_bytes)) ||
      in_buffer(launch.workspace.data(), launch.workspace.size()))
    return;
  if (generic && w.block->cluster->block_at(address, bytes))
    return; // of another block of the cluster
  Range range = launch.memory->find(address);
  if (range.end > range.base && inside(range.base, range.end, address, bytes) && (range.writable || !write)) {
    // Services have no memory site of their own.
    if (i->element_bytes != 0)
      w.ranges[i->site] = {range.base, range.end, range.writable};
    return;
  }
  std::string what = std::string("illegal ") + (write ? "write" : "read") + " of " + std::to_string(bytes) +
                     " bytes at " + hexadecimal(address);
  if (range.end > range.base && inside(range.base, range.end, address, bytes))
    what += " in memory that kernels may only read";
  std::string nearest =
      inside(w.local_base, w.local_base + w.local_stride * lanes_per_warp, address, bytes)
          ? "the local memory of another thread, where a thread has " + std::to_string(w.local_stride) +
                " bytes"
      : inside(range.base, range.end, address, 1) && !inside(range.base, range.end, address, bytes)
          ? "its last byte is " + launch.memory->describe(address + bytes - 1)
          : launch.memory->describe(address);
  if (!nearest.empty())
    what += ": " + nearest;
  fail(w, i, LaunchStatus::illegal_address, what, lane);
}

void check_lanes(Warp &w, const Instruction *i, const Reach &reach, const uint64_t *addresses, uint32_t bytes,
                 bool write) {
  uint64_t lowest = reach.lowest + static_cast<uint64_t>(i->immediate);
  for (uint32_t lanes = reach.active; lanes; lanes &= lanes - 1) {
    uint32_t l = static_cast<uint32_t>(__builtin_ctz(lanes));
    uint64_t address = addresses                              ? addresses[l]
                       : reach.pattern == Pattern::uniform    ? lowest
                       : reach.pattern == Pattern::contiguous ? lowest + uint64_t{l} * bytes
                                                              : lowest + reach.offset[l];
    if (address & (bytes - 1))
      misaligned(w, i, l, address, bytes);
    check_access(w, i, l, address, bytes, write);
  }
}

namespace {
constexpr uint64_t sector_bytes = 32;

void add_request(Warp &w, uint64_t bytes, uint64_t sectors, AccessKind kind) {
  GlobalCounters &c = w.counters->global[static_cast<size_t>(kind)];
  c.requests += 1;
  c.bytes += bytes;
  c.sectors += sectors;
  c.least_sectors += std::min((bytes + sector_bytes - 1) / sector_bytes, sectors);
}
} // namespace

void count_global_range(Warp &w, uint64_t begin, uint64_t end, uint64_t bytes, bool write) {
  add_request(w, bytes, (end - 1) / sector_bytes - begin / sector_bytes + 1,
              write ? AccessKind::store : AccessKind::load);
}

// Aligned accesses of up to 32 bytes stay inside one sector.
void count_global(Warp &w, const uint64_t *addresses, uint32_t lanes, uint32_t bytes, AccessKind kind) {
  if (lanes == 0)
    return;
  uint64_t asked = uint64_t{bytes} * static_cast<uint32_t>(__builtin_popcount(lanes));
  uint64_t sectors[lanes_per_warp];
  uint32_t count = 0;
  for (; lanes; lanes &= lanes - 1)
    sectors[count++] = addresses[__builtin_ctz(lanes)] / sector_bytes;
  std::sort(sectors, sectors + count);
  add_request(w, asked, static_cast<uint64_t>(std::unique(sectors, sectors + count) - sectors), kind);
}

void count_global_accesses(Warp &w, std::vector<uint64_t> &addresses, uint32_t bytes, AccessKind kind) {
  if (addresses.empty())
    return;
  uint64_t asked = uint64_t{bytes} * addresses.size();
  for (uint64_t &address : addresses)
    address /= sector_bytes;
  std::sort(addresses.begin(), addresses.end());
  auto end = std::unique(addresses.begin(), addresses.end());
  add_request(w, asked, static_cast<uint64_t>(end - addresses.begin()), kind);
}

bool is_remote_shared(const Warp &w, uint64_t address) {
  return w.block->cluster->blocks.size() > 1 && w.block->cluster->block_at(address, 1) != nullptr;
}

} // namespace emulator
