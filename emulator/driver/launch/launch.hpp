// What a launch asks for, before and after its attributes are applied.
#pragma once

#include "exec/interface/launch.hpp"
#include "stream/operation.hpp"

namespace emulator::driver {

struct LaunchShape {
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  CUevent completion_event = nullptr; // recorded when the kernel has run
};

using LaunchAttributes = std::map<int, CUlaunchAttributeValue>;

// A validated launch with its parameters copied. It keeps what it needs alive, even if the program unloads
// the module. A stream runs it once, a graph's node as often as the graph is launched.
struct KernelOperation : Operation, std::enable_shared_from_this<KernelOperation> {
  CUfunction handle = nullptr; // that was launched: possibly a CUkernel
  std::shared_ptr<LoadedModule> module;
  std::shared_ptr<Function> function;
  Context *where = nullptr;
  LaunchShape shape;
  std::vector<uint8_t> parameters;
  LaunchAttributes attributes; // as they were given

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_KERNEL; }
  Context *context() const override { return where; }
  Works works() const override;         // gives the launch its number
  Works works_at_call() const override; // in a stream: may begin before the one before it has ended

private:
  // `number`: of all launches of the process, from 0; `prerequisite`: as LaunchRequest has it
  Outcome run(uint64_t number, std::function<bool()> prerequisite = {}) const;
};

// A kernel node may be made with an empty grid, as tinygrad does, and given another before it runs. Not yet
// seen on a GPU (GT-EMPTY-GRID): the documentation says nothing of it.
enum class Grid { not_empty, may_be_empty };

// Validates a launch of the function in its own context. `parameters` and `extra` as cuLaunchKernel takes
// them.
std::shared_ptr<KernelOperation> prepare_launch(CUfunction handle, const std::shared_ptr<Function> &function,
                                                LaunchShape shape, LaunchAttributes attributes,
                                                void **parameters, void **extra,
                                                Grid allowed = Grid::not_empty);

// Reads and validates the attributes of a launch configuration.
LaunchShape shape_of(const CUlaunchConfig &config);
void apply_attribute(LaunchShape &shape, const CUlaunchAttribute &attribute);

// Largest number of blocks in a cluster of this kernel.
uint32_t largest_cluster(const Function &function);

// Completes the cluster from the kernel's own requirement and validates it.
void require_cluster(const Function &function, const Device &device, LaunchShape &shape);

} // namespace emulator::driver
