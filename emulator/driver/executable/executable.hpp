// An executable graph: a copy of a graph's operations and order, ready to be launched again and again.
#pragma once

#include "graph/graph.hpp"

#include <unordered_map>

namespace emulator::driver {

struct ExecutableGraph;

struct ExecutableNode {
  uint64_t identifier = 0; // of the node it was made from
  OperationPointer operation;
  std::vector<size_t> after; // indices of the nodes it depends on, in the order of their edges
  bool exit = true;          // nothing depends on it
  bool enabled = true;
  std::unique_ptr<ExecutableGraph> inside;              // a child graph node's
  std::vector<std::unique_ptr<ExecutableGraph>> bodies; // a conditional node's
};

struct ExecutableGraph {
  std::vector<ExecutableNode> nodes; // in the order in which the graph's nodes were made
  std::vector<size_t> order;         // topological
  UserObjectReferences user_objects;
  std::vector<std::shared_ptr<Condition>> conditions;
};

struct GraphExecutable {
  ExecutableGraph graph;
  unsigned long long flags = 0;
  uint64_t identifier = 0;
  std::shared_ptr<Work> last; // the end of the newest launch: launches follow one another
  // By the identifier of the node it was made from; child graphs' nodes as well.
  std::unordered_map<uint64_t, ExecutableNode *> by_node;
};

// Throws CUDA_ERROR_INVALID_VALUE. `offender` is then a node of a cycle, if that was the reason.
std::shared_ptr<GraphExecutable> instantiate(Graph &graph, unsigned long long flags, GraphNode **offender);

// One launch: its works enter the queues together and follow what is in the stream.
void launch(Lock &lock, GraphExecutable &executable, const std::shared_ptr<Stream> &stream);

// The executable graph as a child graph node: what launching it in a capturing stream becomes.
OperationPointer child_of(const ExecutableGraph &executable);

// Whether an executable graph's node may exchange its operation for `next`, of the same type.
CUgraphExecUpdateResult exchangeable(const Operation &present, const Operation &next);

// Why an update was not made, as cuGraphExecUpdate reports it.
struct UpdateAnswer {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  GraphNode *node = nullptr;
  GraphNode *from = nullptr;
};
// Gives the executable graph the operations of `graph`, all or none.
UpdateAnswer update(ExecutableGraph &executable, const Graph &graph, unsigned long long flags);

} // namespace emulator::driver
