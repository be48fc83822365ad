// The border between the driver (handles, memory, streams) and the executor (PTX).
//
// The driver owns all memory and every handle; the executor owns what a PTX text means. Neither includes
// a private header of the other. Device memory is host memory: a device address is dereferenced as it is,
// once the MemoryMap has said that it lies inside an allocation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/interface/launch.hpp"

namespace emulator {

// Variables that stand for a texture, a sampler or a surface.
enum class OpaqueKind : uint8_t { none, texture, sampler, surface };

struct GlobalInfo {
  std::string name;
  uint64_t size_bytes;
  uint32_t alignment_bytes;
  bool is_managed;
  OpaqueKind opaque = OpaqueKind::none; // its bytes mean nothing, its address is its handle
};

// Called once per module-scope variable; returns its (host = device) address, zero-filled, or 0 when out of
// memory.
using PlaceGlobal = std::function<uint64_t(const GlobalInfo &)>;

// One translation unit as the caller has it. The name is for messages and may be empty.
struct PtxText {
  std::string name;
  std::string text;
};

enum class LoadProblem { none, syntax, unknown_version };

// One PTX text, or several linked with each other, parsed. Immutable; kernels are decoded on first use, so a
// 25 MB module loads quickly.
class Module {
public:
  virtual ~Module() = default;
  virtual const std::vector<GlobalInfo> &globals() const = 0;
  virtual const std::vector<std::string> &kernel_names() const = 0;

  // Parses and links PTX texts (no NUL needed) and checks the form of every body. Returns nullptr on an error
  // and puts "line N, column M: ..." into `log`.
  static std::shared_ptr<const Module> parse(std::vector<PtxText> texts, std::string &log,
                                             LoadProblem &problem);
  // One text by itself, before the others that it is linked with are known.
  static LoadProblem check(PtxText text, std::string &log);
};

// A Module with its globals placed in memory: what a CUmodule (or a CUlibrary in one context) is.
class Instance {
public:
  virtual ~Instance() = default;
  virtual const Module &module() const = 0;
  // 0 when there is no such variable.
  virtual uint64_t global_address(std::string_view name) const = 0;
  // nullptr when there is no such entry. Decodes the kernel on first use; the pointer lives as long as the
  // Instance.
  virtual const KernelInfo *kernel(std::string_view name) const = 0;
  // Runs to completion on the calling thread and on worker threads. Thread-safe.
  virtual LaunchResult launch(const KernelInfo &kernel, const LaunchRequest &request,
                              MemoryMap &memory) const = 0;

  // Places every global, writes initial values, resolves addresses in initialisers. nullptr and `log` on
  // failure.
  static std::unique_ptr<Instance> create(const std::shared_ptr<const Module> &module,
                                          const PlaceGlobal &place, std::string &log);
};

} // namespace emulator
