// Pairs the nodes of an executable graph with those of another graph, as documented with cuGraphExecUpdate:
// nodes that nothing depends on in the order in which they were made, then dependencies in the order of their
// edges.
#include "executable.hpp"
#include "graph/node/conditional.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

constexpr size_t unpaired = ~size_t{0};

struct Pairing {
  std::vector<GraphNode *> partner; // of each executable node
  std::unordered_map<const GraphNode *, size_t> of;
};

UpdateAnswer changed(GraphNode *node = nullptr, GraphNode *from = nullptr) {
  return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node, from};
}

UpdateAnswer pair_nodes(const ExecutableGraph &executable, const Graph &graph, Pairing &pairing) {
  if (executable.nodes.size() != graph.nodes.size())
    return changed();
  pairing.partner.assign(executable.nodes.size(), nullptr);
  std::vector<size_t> exits, open;
  for (size_t i = 0; i < executable.nodes.size(); ++i)
    if (executable.nodes[i].exit)
      exits.push_back(i);
  size_t next = 0;
  for (const auto &node : graph.nodes) {
    if (!node->dependents.empty())
      continue;
    if (next == exits.size())
      return changed(node.get());
    pairing.partner[exits[next]] = node.get();
    pairing.of[node.get()] = exits[next];
    open.push_back(exits[next++]);
  }
  if (next != exits.size())
    return changed();
  while (!open.empty()) {
    size_t index = open.back();
    open.pop_back();
    const ExecutableNode &old = executable.nodes[index];
    GraphNode &node = *pairing.partner[index];
    if (old.operation->type() != node.operation->type())
      return {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, &node, nullptr};
    if (old.after.size() != node.dependencies.size())
      return changed(&node);
    for (size_t i = 0; i < old.after.size(); ++i) {
      size_t earlier = old.after[i];
      GraphNode *dependency = node.dependencies[i].node;
      auto found = pairing.of.find(dependency);
      size_t paired = found == pairing.of.end() ? unpaired : found->second;
      if (paired == unpaired && !pairing.partner[earlier]) {
        pairing.partner[earlier] = dependency;
        pairing.of[dependency] = earlier;
        open.push_back(earlier);
      } else if (paired != earlier) {
        return changed(&node, dependency);
      }
    }
  }
  // A cycle hides nodes from the walk.
  bool all = std::all_of(pairing.partner.begin(), pairing.partner.end(), [](auto *node) { return node; });
  return all ? UpdateAnswer{} : changed();
}

int priority_of(const Operation &operation) {
  const auto &attributes = static_cast<const KernelOperation &>(operation).attributes;
  auto found = attributes.find(CU_LAUNCH_ATTRIBUTE_PRIORITY);
  return found == attributes.end() ? 0 : found->second.priority;
}

UpdateAnswer compare(const ExecutableGraph &executable, const Graph &graph, unsigned long long flags) {
  Pairing pairing;
  UpdateAnswer answer = pair_nodes(executable, graph, pairing);
  for (size_t i = 0; i < executable.nodes.size() && answer.result == CU_GRAPH_EXEC_UPDATE_SUCCESS; ++i) {
    const ExecutableNode &old = executable.nodes[i];
    GraphNode *node = pairing.partner[i];
    if (old.inside) {
      const auto &child = static_cast<const ChildGraphOperation &>(*node->operation);
      answer = compare(*old.inside, *child.graph, flags);
      continue;
    }
    auto *conditional = dynamic_cast<const ConditionalOperation *>(node->operation.get());
    for (size_t body = 0; conditional && body < std::min(old.bodies.size(), conditional->bodies.size());
         ++body)
      if (answer.result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
        answer = compare(*old.bodies[body], *conditional->bodies[body], flags);
    if (answer.result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      break;
    CUgraphExecUpdateResult result = exchangeable(*old.operation, *node->operation);
    bool priorities = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) &&
                      old.operation->type() == CU_GRAPH_NODE_TYPE_KERNEL;
    if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS && priorities &&
        priority_of(*old.operation) != priority_of(*node->operation))
      result = CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      answer = {result, node, nullptr};
  }
  return answer;
}

void exchange_all(ExecutableGraph &executable, const Graph &graph) {
  Pairing pairing;
  pair_nodes(executable, graph, pairing);
  for (size_t i = 0; i < executable.nodes.size(); ++i) {
    ExecutableNode &old = executable.nodes[i];
    old.operation = pairing.partner[i]->operation;
    if (old.inside)
      exchange_all(*old.inside, *static_cast<const ChildGraphOperation &>(*old.operation).graph);
    if (auto *conditional = dynamic_cast<const ConditionalOperation *>(old.operation.get()))
      for (size_t body = 0; body < old.bodies.size(); ++body)
        exchange_all(*old.bodies[body], *conditional->bodies[body]);
  }
  // Documented: the references of the new source replace those of the executable graph.
  executable.user_objects = graph.user_objects;
  executable.conditions = graph.conditions;
}

} // namespace

UpdateAnswer update(ExecutableGraph &executable, const Graph &graph, unsigned long long flags) {
  UpdateAnswer answer = compare(executable, graph, flags);
  if (answer.result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
    exchange_all(executable, graph);
  return answer;
}

} // namespace emulator::driver
