#include "conditional.hpp"

#include "entry/entry.hpp"
#include "graph/graph.hpp"
#include "memory/allocations.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

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
