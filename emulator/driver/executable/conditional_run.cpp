#include "conditional_run.hpp"

#include "graph/node/conditional.hpp"

namespace emulator::driver {
namespace {

Outcome run_all(const ExecutableGraph &graph);

Outcome run_conditional(const ExecutableNode &node) {
  const auto &operation = static_cast<const ConditionalOperation &>(*node.operation);
  if (operation.kind != CU_GRAPH_COND_TYPE_WHILE) {
    unsigned value = operation.condition->value();
    size_t body = operation.kind == CU_GRAPH_COND_TYPE_SWITCH ? value : value ? 0 : 1;
    return body < node.bodies.size() ? run_all(*node.bodies[body]) : Outcome{};
  }
  Outcome total;
  while (total.error == CUDA_SUCCESS && operation.condition->value()) {
    Outcome outcome = run_all(*node.bodies[0]);
    total.cost_ns += outcome.cost_ns;
    total.error = outcome.error;
  }
  return total;
}

ExecutableGraph copy_of(const ExecutableGraph &graph);

// Operations never change, so they are shared.
ExecutableNode copy_of(const ExecutableNode &node) {
  ExecutableNode copy;
  copy.operation = node.operation;
  copy.enabled = node.enabled;
  if (node.inside)
    copy.inside = std::make_unique<ExecutableGraph>(copy_of(*node.inside));
  for (const auto &body : node.bodies)
    copy.bodies.push_back(std::make_unique<ExecutableGraph>(copy_of(*body)));
  return copy;
}

ExecutableGraph copy_of(const ExecutableGraph &graph) {
  ExecutableGraph copy;
  for (const auto &node : graph.nodes)
    copy.nodes.push_back(copy_of(node));
  copy.order = graph.order;
  copy.user_objects = graph.user_objects;
  copy.conditions = graph.conditions;
  return copy;
}

Outcome run_node(const ExecutableNode &node) {
  if (!node.enabled)
    return {};
  if (node.operation->type() == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    return run_conditional(node);
  if (node.inside)
    return run_all(*node.inside);
  Works works;
  try {
    Lock lock(driver().mutex);
    require_launchable(*node.operation); // memory may have gone since the launch
    works = node.operation->works();
  } catch (const Error &error) {
    return {error.code, 0};
  }
  Outcome total;
  for (const auto &work : works) {
    Outcome outcome = work->run ? work->run() : Outcome{};
    total.cost_ns += outcome.cost_ns;
    total.error = outcome.error;
    if (total.error != CUDA_SUCCESS)
      break;
  }
  return total;
}

Outcome run_all(const ExecutableGraph &graph) {
  for (const auto &condition : graph.conditions)
    if (condition->assigns_default)
      condition->assign();
  Outcome total;
  for (size_t index : graph.order) {
    Outcome outcome = run_node(graph.nodes[index]);
    total.cost_ns += outcome.cost_ns;
    total.error = outcome.error;
    if (total.error != CUDA_SUCCESS)
      break;
  }
  return total;
}

} // namespace

std::function<Outcome()> conditional_work(const ExecutableNode &node) {
  auto copy = std::make_shared<ExecutableNode>(copy_of(node));
  return [copy]() -> Outcome { return run_conditional(*copy); };
}

} // namespace emulator::driver
