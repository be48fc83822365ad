#include "conditional.hpp"

#include "device/context.hpp"
#include "executable.hpp"
#include "memory/allocations.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

// Collects what nodes would put into a stream.
struct Collected final : Emitter {
  std::shared_ptr<Work> add(std::shared_ptr<Work> work) override {
    works.push_back(work);
    return work;
  }
  std::vector<std::shared_ptr<Work>> works;
};

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
  Collected collected;
  try {
    Lock lock(driver().mutex);
    node.operation->require_launchable(); // memory may have gone since the launch
    node.operation->emit(collected);
  } catch (const Error &error) {
    return {error.code, 0};
  }
  Outcome total;
  for (const auto &work : collected.works) {
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

bool may_be_inside(CUgraphNodeType type) {
  switch (type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
  case CU_GRAPH_NODE_TYPE_MEMCPY:
  case CU_GRAPH_NODE_TYPE_MEMSET:
  case CU_GRAPH_NODE_TYPE_GRAPH:
  case CU_GRAPH_NODE_TYPE_EMPTY:
  case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    return true;
  default:
    return false;
  }
}

} // namespace

Condition::Condition(Context &of, unsigned value, bool assigns)
    : context(&of), default_value(value), assigns_default(assigns),
      allocation(allocate_device(of, sizeof(unsigned), MemoryKind::device)) {}

Condition::~Condition() { release(allocation); }

CUgraphConditionalHandle Condition::handle() const { return allocation->base; }

unsigned Condition::value() const {
  return __atomic_load_n(reinterpret_cast<const unsigned *>(allocation->base), __ATOMIC_ACQUIRE);
}

void Condition::assign() const { *reinterpret_cast<unsigned *>(allocation->base) = default_value; }

void ConditionalOperation::require_launchable() const { require_alive(*condition->context); }

// Documented: its parameters cannot change; the nodes inside follow the rules of their kind.
CUgraphExecUpdateResult ConditionalOperation::exchangeable(const Operation &next) const {
  const auto &other = static_cast<const ConditionalOperation &>(next);
  return kind == other.kind && bodies.size() == other.bodies.size()
             ? CU_GRAPH_EXEC_UPDATE_SUCCESS
             : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

OperationPointer make_conditional(CUDA_CONDITIONAL_NODE_PARAMS &parameters, const Graph &graph) {
  std::shared_ptr<Condition> condition;
  for (const Graph *in = &graph; in && !condition; in = in->outer)
    for (const auto &known : in->conditions)
      if (known->handle() == parameters.handle)
        condition = known;
  require(condition && !condition->used, CUDA_ERROR_INVALID_VALUE);
  require(!parameters.ctx ||
              driver().contexts.get(parameters.ctx, CUDA_ERROR_INVALID_VALUE).get() == condition->context,
          CUDA_ERROR_INVALID_VALUE);
  switch (parameters.type) {
  case CU_GRAPH_COND_TYPE_IF:
    require(parameters.size == 1 || parameters.size == 2, CUDA_ERROR_INVALID_VALUE);
    break;
  case CU_GRAPH_COND_TYPE_WHILE:
    require(parameters.size == 1, CUDA_ERROR_INVALID_VALUE);
    break;
  case CU_GRAPH_COND_TYPE_SWITCH:
    require(parameters.size > 0 && parameters.size <= 1u << 16, CUDA_ERROR_INVALID_VALUE);
    break;
  default:
    fail(CUDA_ERROR_INVALID_VALUE);
  }
  auto operation = std::make_shared<ConditionalOperation>();
  operation->condition = condition;
  operation->kind = parameters.type;
  for (unsigned body = 0; body < parameters.size; ++body) {
    operation->bodies.push_back(new_graph());
    operation->bodies.back()->owned_by_node = true;
    operation->bodies.back()->outer = &graph;
    operation->handles.push_back(handle_of<CUgraph>(operation->bodies.back().get()));
  }
  condition->used = true;
  parameters.phGraph_out = operation->handles.data();
  return operation;
}

bool has_conditional_nodes(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto &node) {
    auto *child = dynamic_cast<const ChildGraphOperation *>(node->operation.get());
    return node->operation->type() == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
           (child && has_conditional_nodes(*child->graph));
  });
}

void require_body(const Graph &graph) {
  for (const auto &node : graph.nodes) {
    require(may_be_inside(node->operation->type()), CUDA_ERROR_INVALID_VALUE);
    if (auto *child = dynamic_cast<const ChildGraphOperation *>(node->operation.get()))
      require_body(*child->graph);
  }
}

std::function<Outcome()> conditional_work(const ExecutableNode &node) {
  auto copy = std::make_shared<ExecutableNode>(copy_of(node));
  return [copy]() -> Outcome { return run_conditional(*copy); };
}

} // namespace emulator::driver

using namespace emulator::driver;

CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
                                                CUcontext ctx, unsigned int defaultLaunchValue,
                                                unsigned int flags) {
  return enter("cuGraphConditionalHandleCreate", Needs::initialised, [&](Call &) {
    require(pHandle_out != nullptr && (flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT) == 0, CUDA_ERROR_INVALID_VALUE);
    auto graph = graph_of(hGraph);
    auto condition = std::make_shared<Condition>(node_context(ctx), defaultLaunchValue, flags != 0);
    graph->conditions.push_back(condition);
    *pHandle_out = condition->handle();
  });
}
