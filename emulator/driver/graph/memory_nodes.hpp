// Memory that a graph allocates: its address is fixed when the node is made and stays until the last graph
// that uses it has ended; what is at the address may be touched from the run of the allocation node to the
// run of a free.
#pragma once

#include "operations.hpp"

#include <set>

namespace emulator::driver {

struct Allocation;
struct ExecutableGraph;
struct GraphExecutable;

class GraphMemory : public std::enable_shared_from_this<GraphMemory> {
public:
  static std::shared_ptr<GraphMemory> make(Context &context, size_t bytes);
  ~GraphMemory();

  const std::shared_ptr<Allocation> allocation;

  // As the nodes that free it allow: once in the graph that allocates it, or only in others.
  void note_allocation_in(const Graph &graph);
  void require_free_in(const Graph &graph) const;
  void note_free_in(const Graph &graph);

  // What has been issued, though perhaps not yet run: a launch that allocates it, then a free.
  bool outstanding() const { return outstanding_; }
  void issue_allocation();
  void issue_free(); // CUDA_ERROR_INVALID_VALUE when it is not allocated

  // What runs. The driver's lock is held.
  void begin();
  void end();

private:
  explicit GraphMemory(std::shared_ptr<Allocation> made);

  uint64_t owner_ = 0;       // identifier of the graph that allocates it
  std::set<uint64_t> freed_; // identifiers of graphs with a free node
  bool outstanding_ = false;
  bool live_ = false;
  std::shared_ptr<GraphMemory> kept_; // itself, while the program could still free it
};

// What one launch means for the memory of its graph.
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
