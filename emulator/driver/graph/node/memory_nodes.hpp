// Memory that a graph allocates: its address is fixed when the node is made and stays until the last graph
// that uses it has ended; what is at the address may be touched from the run of the allocation node to the
// run of a free.
#pragma once

#include "memory/allocations.hpp"
#include "operations.hpp"

#include <set>

namespace emulator::driver {

class GraphMemory final : public KeptMemory {
public:
  static std::shared_ptr<GraphMemory> make(Context &context, size_t bytes);
  ~GraphMemory() override;

  const std::shared_ptr<Allocation> allocation;

  // As the nodes that free it allow: once in the graph that allocates it, or only in others.
  void note_allocation_in(const Graph &graph);
  void require_free_in(const Graph &graph) const;
  void note_free_in(const Graph &graph);

  // A launch that allocates it, then a free.
  bool outstanding() const override { return outstanding_; }
  void issue_allocation();
  void issue_free() override;

  void begin(); // what runs of an allocation, under the driver's lock
  void end() override;

private:
  explicit GraphMemory(std::shared_ptr<Allocation> made);

  uint64_t owner_ = 0;       // identifier of the graph that allocates it
  std::set<uint64_t> freed_; // identifiers of graphs with a free node
  bool outstanding_ = false;
  bool live_ = false;
  std::shared_ptr<KeptMemory> kept_; // itself, while the program could still free it
};

} // namespace emulator::driver
