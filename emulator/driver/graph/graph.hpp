// A graph under construction: nodes, and the edges between them. Guarded by the driver's lock.
#pragma once

#include "dependency.hpp"
#include "graph/node/operations.hpp"
#include "user_object.hpp"

#include <string>

namespace emulator::driver {

struct Condition;

struct GraphNode : std::enable_shared_from_this<GraphNode> {
  struct Edge {
    GraphNode *node;
    CUgraphEdgeData data;
  };

  Graph *graph = nullptr;
  OperationPointer operation;
  uint64_t identifier = 0;        // unique in the process
  uint64_t cloned_from = 0;       // the identifier of the node that this one was copied from
  unsigned number = 0;            // in its graph, from 0
  std::vector<Edge> dependencies; // in the order in which the edges were made
  std::vector<Edge> dependents;   // the same edges, seen from the other end
};

struct Graph : std::enable_shared_from_this<Graph> {
  uint64_t identifier = 0;
  uint64_t cloned_from = 0;
  std::vector<std::shared_ptr<GraphNode>> nodes; // in the order in which they were made
  bool owned_by_node = false;                    // the graph of a child graph node, or a conditional one's
  const Graph *outer = nullptr;                  // of a conditional node's graph: the one that has the node
  bool has_memory_nodes = false;                 // an allocation or free node was added at any time
  unsigned next_number = 0;
  unsigned captures = 0;                     // capture sequences that put nodes into it
  std::weak_ptr<GraphExecutable> executable; // the newest; memory nodes allow one at a time
  UserObjectReferences user_objects;
  std::vector<std::shared_ptr<Condition>> conditions; // handles made for it
};

std::shared_ptr<Graph> new_graph();
// CUDA_ERROR_INVALID_VALUE for handles that are not alive.
std::shared_ptr<Graph> graph_of(CUgraph handle);
std::shared_ptr<GraphNode> node_of(CUgraphNode handle);

// Adds a node that depends on `dependencies`, which must be nodes of the graph, each once.
std::shared_ptr<GraphNode> add_node(Graph &graph, OperationPointer operation,
                                    const std::vector<GraphDependency> &dependencies);
// The dependencies that an API function was given. `edges` may be null.
std::vector<GraphDependency> dependencies_of(const Graph &graph, const CUgraphNode *nodes,
                                             const CUgraphEdgeData *edges, size_t count);

// Throws CUDA_ERROR_INVALID_VALUE when the edge exists, when there is no such edge, or when it cannot be.
void add_edge(GraphNode &from, GraphNode &to, const CUgraphEdgeData &data);
void remove_edge(GraphNode &from, GraphNode &to, const CUgraphEdgeData &data);
void destroy_node(GraphNode &node);
// Ends the graph's handles, and those of the graphs inside.
void destroy_graph(Graph &graph);

// Whether a capture puts nodes into it, or into a graph inside. Neither may end then.
bool is_captured_into(const Graph &graph);

// A copy that shares nothing which can change. Throws CUDA_ERROR_INVALID_VALUE when memory nodes forbid it.
std::shared_ptr<Graph> clone(const Graph &graph);

// Every node after those it depends on, otherwise in the order in which they were made; as indices into
// `nodes`. Shorter than `nodes` when there is a cycle.
std::vector<size_t> topological_order(const Graph &graph);

} // namespace emulator::driver
