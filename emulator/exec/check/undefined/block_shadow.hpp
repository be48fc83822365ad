// The shadows of one block: of its memory, and of the registers of its warps.
#pragma once

#include <memory>
#include <vector>

#include "exec/warp/warp.hpp"

namespace emulator {

class BlockShadow {
public:
  // What nobody touches of them takes no memory.
  BlockShadow(std::vector<Warp> &warps, const Launch &launch);
  void start();
  // Memory is about to be accessed, from `lowest` on. addresses: of lanes that are far apart, or any number.
  void access(Warp &warp, const Instruction *i, const Reach &reach, uint64_t lowest,
              const uint64_t *addresses, uint32_t bytes, AccessKind kind);

private:
  using Zeroed = std::unique_ptr<uint8_t, void (*)(void *)>;
  Zeroed zeroed(uint64_t bytes);

  const Launch &launch_;
  ShadowMemory memory_;
  std::vector<Shadow> warps_;
  std::vector<Zeroed> storage_;
  uint64_t states_ = 0; // of one warp
};

} // namespace emulator
