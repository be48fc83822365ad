// What one launch means for the memory of its graph.
#pragma once

#include "executable.hpp"
#include "graph/node/memory_nodes.hpp"

namespace emulator::driver {

class MemoryPlan {
public:
  // CUDA_ERROR_INVALID_VALUE when memory of an earlier launch has not been freed and the flags do not say to.
  explicit MemoryPlan(const GraphExecutable &executable);
  void free_left_over(Work &entry);
  void note_launch();
  std::vector<std::shared_ptr<GraphMemory>> used() const;

private:
  void add(const ExecutableGraph &graph);

  std::vector<std::shared_ptr<GraphMemory>> allocated_, freed_, left_over_;
};

} // namespace emulator::driver
