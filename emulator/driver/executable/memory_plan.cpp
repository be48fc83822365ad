#include "memory_plan.hpp"

#include <algorithm>

namespace emulator::driver {

static bool contains(const std::vector<std::shared_ptr<GraphMemory>> &all,
                     const std::shared_ptr<GraphMemory> &one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

MemoryPlan::MemoryPlan(const GraphExecutable &executable) {
  add(executable.graph);
  bool frees = executable.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  for (const auto &memory : allocated_)
    if (memory->outstanding()) {
      require(frees, CUDA_ERROR_INVALID_VALUE);
      left_over_.push_back(memory);
    }
  for (const auto &memory : freed_)
    require(memory->outstanding() || contains(allocated_, memory), CUDA_ERROR_INVALID_VALUE);
}

void MemoryPlan::add(const ExecutableGraph &graph) {
  for (const auto &node : graph.nodes) {
    if (auto *allocate = dynamic_cast<const AllocateOperation *>(node.operation.get()))
      allocated_.push_back(allocate->memory);
    if (auto *free = dynamic_cast<const FreeOperation *>(node.operation.get()))
      freed_.push_back(free->memory);
    if (node.inside)
      add(*node.inside);
  }
}

void MemoryPlan::free_left_over(Work &entry) {
  if (left_over_.empty())
    return;
  for (const auto &memory : left_over_)
    memory->issue_free();
  entry.run = [left_over = left_over_]() -> Outcome {
    Lock lock(driver().mutex);
    for (const auto &memory : left_over)
      memory->end();
    return {};
  };
}

void MemoryPlan::note_launch() {
  for (const auto &memory : allocated_)
    memory->issue_allocation();
  for (const auto &memory : freed_)
    memory->issue_free();
}

std::vector<std::shared_ptr<GraphMemory>> MemoryPlan::used() const {
  auto all = allocated_;
  all.insert(all.end(), freed_.begin(), freed_.end());
  return all;
}

} // namespace emulator::driver
