#include "graph.hpp"

#include "graph/node/conditional.hpp"

#include "graph/node/memory_nodes.hpp"

#include <algorithm>
#include <queue>
#include <unordered_map>

namespace emulator::driver {
namespace {

bool is_memory_node(const Operation &operation) {
  return operation.type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC || operation.type() == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

// Documented with CUgraphDependencyType and CU_GRAPH_KERNEL_NODE_PORT_*.
void require_edge(const GraphNode &from, const GraphNode &to, const CUgraphEdgeData &data) {
  require(from.graph == to.graph && &from != &to, CUDA_ERROR_INVALID_VALUE);
  for (unsigned char byte : data.reserved)
    require(byte == 0, CUDA_ERROR_INVALID_VALUE);
  require(data.to_port == 0, CUDA_ERROR_INVALID_VALUE); // no node type has other incoming ports
  bool kernels = from.operation->type() == CU_GRAPH_NODE_TYPE_KERNEL &&
                 to.operation->type() == CU_GRAPH_NODE_TYPE_KERNEL;
  switch (data.type) {
  case CU_GRAPH_DEPENDENCY_TYPE_DEFAULT:
    require(data.from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT ||
                (data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER &&
                 from.operation->type() == CU_GRAPH_NODE_TYPE_KERNEL),
            CUDA_ERROR_INVALID_VALUE);
    return;
  case CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC:
    require(kernels && (data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
                        data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER),
            CUDA_ERROR_INVALID_VALUE);
    return;
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
}

std::vector<GraphNode::Edge>::iterator find(std::vector<GraphNode::Edge> &edges, const GraphNode &node) {
  return std::find_if(edges.begin(), edges.end(), [&](const auto &edge) { return edge.node == &node; });
}

} // namespace

GraphHandles &graph_handles() {
  static GraphHandles *only = new GraphHandles;
  return *only;
}

std::shared_ptr<Graph> new_graph() {
  auto graph = std::make_shared<Graph>();
  graph->identifier = driver().next_identifier++;
  graph_handles().graphs.add(graph);
  return graph;
}

std::shared_ptr<Graph> graph_of(CUgraph handle) {
  return graph_handles().graphs.get(handle, CUDA_ERROR_INVALID_VALUE);
}

std::shared_ptr<GraphNode> node_of(CUgraphNode handle) {
  return graph_handles().nodes.get(handle, CUDA_ERROR_INVALID_VALUE);
}

void add_edge(GraphNode &from, GraphNode &to, const CUgraphEdgeData &data) {
  require_edge(from, to, data);
  require(find(to.dependencies, from) == to.dependencies.end(), CUDA_ERROR_INVALID_VALUE);
  to.dependencies.push_back({&from, data});
  from.dependents.push_back({&to, data});
}

void remove_edge(GraphNode &from, GraphNode &to, const CUgraphEdgeData &data) {
  auto edge = find(to.dependencies, from);
  require(edge != to.dependencies.end() && equal(edge->data, data), CUDA_ERROR_INVALID_VALUE);
  to.dependencies.erase(edge);
  from.dependents.erase(find(from.dependents, to));
}

std::vector<GraphDependency> dependencies_of(const Graph &graph, const CUgraphNode *nodes,
                                             const CUgraphEdgeData *edges, size_t count) {
  require(count == 0 || nodes != nullptr, CUDA_ERROR_INVALID_VALUE);
  // More than there are cannot be without a duplicate; said first, so that no count is followed into the
  // void.
  require(count <= graph.nodes.size(), CUDA_ERROR_INVALID_VALUE);
  std::vector<GraphDependency> dependencies;
  for (size_t i = 0; i < count; ++i) {
    auto node = node_of(nodes[i]);
    require(node->graph == &graph, CUDA_ERROR_INVALID_VALUE);
    dependencies.push_back({node, edges ? edges[i] : CUgraphEdgeData{}});
  }
  return dependencies;
}

std::shared_ptr<GraphNode> add_node(Graph &graph, OperationPointer operation,
                                    const std::vector<GraphDependency> &dependencies) {
  require(!(graph.owned_by_node && is_memory_node(*operation)), CUDA_ERROR_INVALID_VALUE);
  auto node = std::make_shared<GraphNode>();
  node->graph = &graph;
  node->operation = std::move(operation);
  for (const auto &dependency : dependencies) {
    require_edge(*dependency.node, *node, dependency.edge);
    require(find(node->dependencies, *dependency.node) == node->dependencies.end(), CUDA_ERROR_INVALID_VALUE);
    node->dependencies.push_back({dependency.node.get(), dependency.edge});
  }
  auto *allocate = dynamic_cast<const AllocateOperation *>(node->operation.get());
  auto *free = dynamic_cast<const FreeOperation *>(node->operation.get());
  if (free)
    free->memory->require_free_in(graph);
  // Nothing below fails: the node is in the graph or nothing has happened.
  if (allocate)
    allocate->memory->note_allocation_in(graph);
  if (free)
    free->memory->note_free_in(graph);
  for (const auto &edge : node->dependencies)
    edge.node->dependents.push_back({node.get(), edge.data});
  node->identifier = driver().next_identifier++;
  node->number = graph.next_number++;
  graph.has_memory_nodes = graph.has_memory_nodes || is_memory_node(*node->operation);
  graph.nodes.push_back(node);
  graph_handles().nodes.add(node);
  return node;
}

void destroy_node(GraphNode &node) {
  Graph &graph = *node.graph;
  for (const auto &edge : node.dependencies)
    edge.node->dependents.erase(find(edge.node->dependents, node));
  for (const auto &edge : node.dependents)
    edge.node->dependencies.erase(find(edge.node->dependencies, node));
  if (auto *child = dynamic_cast<const ChildGraphOperation *>(node.operation.get()))
    destroy_graph(*child->graph);
  if (auto *conditional = dynamic_cast<const ConditionalOperation *>(node.operation.get()))
    for (const auto &body : conditional->bodies)
      destroy_graph(*body);
  graph_handles().nodes.remove(&node);
  auto &nodes = graph.nodes;
  nodes.erase(
      std::find_if(nodes.begin(), nodes.end(), [&](const auto &item) { return item.get() == &node; }));
}

void destroy_graph(Graph &graph) {
  auto kept = graph.shared_from_this();
  for (const auto &node : graph.nodes) {
    if (auto *child = dynamic_cast<const ChildGraphOperation *>(node->operation.get()))
      destroy_graph(*child->graph);
    if (auto *conditional = dynamic_cast<const ConditionalOperation *>(node->operation.get()))
      for (const auto &body : conditional->bodies)
        destroy_graph(*body);
    graph_handles().nodes.remove(node.get());
    node->dependencies.clear();
    node->dependents.clear();
  }
  graph.nodes.clear();
  graph.conditions.clear();
  graph.user_objects = {};
  graph_handles().graphs.remove(&graph);
}

bool is_captured_into(const Graph &graph) {
  return graph.captures > 0 || std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto &node) {
           auto *child = dynamic_cast<const ChildGraphOperation *>(node->operation.get());
           auto *conditional = dynamic_cast<const ConditionalOperation *>(node->operation.get());
           return (child && is_captured_into(*child->graph)) ||
                  (conditional && std::any_of(conditional->bodies.begin(), conditional->bodies.end(),
                                              [](const auto &body) { return is_captured_into(*body); }));
         });
}

std::shared_ptr<Graph> clone(const Graph &graph) {
  // Documented for both.
  require(!graph.has_memory_nodes && !has_conditional_nodes(graph), CUDA_ERROR_INVALID_VALUE);
  auto copy = new_graph();
  copy->cloned_from = graph.identifier;
  copy->user_objects = graph.user_objects;
  std::unordered_map<const GraphNode *, std::shared_ptr<GraphNode>> copies;
  try {
    for (const auto &node : graph.nodes) {
      OperationPointer operation = node->operation;
      if (auto *child = dynamic_cast<const ChildGraphOperation *>(operation.get())) {
        operation = make_child(*child->graph);
        static_cast<const ChildGraphOperation &>(*operation).graph->owned_by_node = true;
      }
      auto added = add_node(*copy, operation, {});
      added->cloned_from = node->identifier;
      copies[node.get()] = added;
    }
  } catch (...) {
    destroy_graph(*copy);
    throw;
  }
  // Each list in its own order: cuGraphExecUpdate pairs nodes by it.
  for (const auto &node : graph.nodes) {
    for (const auto &edge : node->dependencies)
      copies[node.get()]->dependencies.push_back({copies[edge.node].get(), edge.data});
    for (const auto &edge : node->dependents)
      copies[node.get()]->dependents.push_back({copies[edge.node].get(), edge.data});
  }
  return copy;
}

std::vector<size_t> topological_order(const Graph &graph) {
  std::unordered_map<const GraphNode *, size_t> index;
  std::vector<size_t> missing(graph.nodes.size()), order;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    index[graph.nodes[i].get()] = i;
    missing[i] = graph.nodes[i]->dependencies.size();
    if (missing[i] == 0)
      ready.push(i);
  }
  while (!ready.empty()) {
    size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const auto &edge : graph.nodes[next]->dependents)
      if (--missing[index[edge.node]] == 0)
        ready.push(index[edge.node]);
  }
  return order;
}

} // namespace emulator::driver
