#include "executable.hpp"

#include "conditional_run.hpp"
#include "entry/entry.hpp"
#include "graph/node/conditional.hpp"
#include "memory_plan.hpp"
#include "stream/recorder.hpp"

#include <algorithm>

namespace emulator::driver {
namespace {

void fill(ExecutableGraph &target, const Graph &graph, GraphNode **offender) {
  target.order = topological_order(graph);
  if (target.order.size() != graph.nodes.size()) {
    std::vector<bool> ordered(graph.nodes.size());
    for (size_t index : target.order)
      ordered[index] = true;
    auto first = std::find(ordered.begin(), ordered.end(), false) - ordered.begin();
    *offender = graph.nodes[static_cast<size_t>(first)].get();
    fail(CUDA_ERROR_INVALID_VALUE);
  }
  std::unordered_map<const GraphNode *, size_t> index;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    index[graph.nodes[i].get()] = i;
  target.nodes.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode &node = *graph.nodes[i];
    ExecutableNode &made = target.nodes[i];
    made.identifier = node.identifier;
    made.operation = node.operation;
    made.exit = node.dependents.empty();
    for (const auto &edge : node.dependencies)
      made.after.push_back(index[edge.node]);
    if (auto *child = dynamic_cast<const ChildGraphOperation *>(node.operation.get())) {
      made.inside = std::make_unique<ExecutableGraph>();
      fill(*made.inside, *child->graph, offender);
    }
    if (auto *conditional = dynamic_cast<const ConditionalOperation *>(node.operation.get()))
      for (const auto &body : conditional->bodies) {
        require_body(*body);
        made.bodies.push_back(std::make_unique<ExecutableGraph>());
        fill(*made.bodies.back(), *body, offender);
      }
  }
  target.user_objects = graph.user_objects;
  target.conditions = graph.conditions;
}

void list_nodes(GraphExecutable &executable, ExecutableGraph &graph) {
  for (auto &node : graph.nodes) {
    executable.by_node[node.identifier] = &node;
    if (node.inside)
      list_nodes(executable, *node.inside);
    for (const auto &body : node.bodies)
      list_nodes(executable, *body);
  }
}

void require_launchable(const ExecutableGraph &graph) {
  for (const auto &node : graph.nodes) {
    if (node.enabled)
      emulator::driver::require_launchable(*node.operation);
    if (node.inside)
      require_launchable(*node.inside);
    for (const auto &body : node.bodies)
      require_launchable(*body);
  }
}

// Spreads one launch over streams of its own, so that branches run, and take modelled time, side by side. A
// node goes into the stream of one of its dependencies if that is still the stream's newest work: streams
// then order nothing that the graph does not.
class Launch {
public:
  explicit Launch(const std::shared_ptr<Stream> &stream) : stream_(stream) {}

  // The works after which all of the graph is done. `entry` comes before all of it.
  Works add(const ExecutableGraph &graph, const std::shared_ptr<Work> &begin) {
    auto entry = assign_conditions(graph, begin);
    Works ends(graph.nodes.size());
    for (size_t index : graph.order) {
      const ExecutableNode &node = graph.nodes[index];
      Works after;
      for (size_t earlier : node.after)
        after.push_back(ends[earlier]);
      if (after.empty())
        after.push_back(entry);
      ends[index] = node.inside ? add_inside(*node.inside, after) : add_node(node, after);
    }
    Works exits;
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      if (graph.nodes[i].exit)
        exits.push_back(ends[i]);
    return exits;
  }

private:
  // The works after each other in one stream, after everything in `after`. The last of them; a marker where
  // there are none: what depends on them still follows what is before.
  std::shared_ptr<Work> chain(const Works &works, const Works &after, Context &context) {
    auto stream = branch(after, context);
    auto before = after;
    for (const auto &work : works.empty() ? Works{std::make_shared<Work>()} : works) {
      work->after.insert(work->after.end(), before.begin(), before.end());
      before = {work};
      enqueue(stream, work, false);
    }
    return before.front();
  }

  std::shared_ptr<Work> chain(std::function<Outcome()> run, const Works &after, Context &context) {
    auto work = std::make_shared<Work>();
    work->run = std::move(run);
    return chain({work}, after, context);
  }

  // The work after which the graph's nodes may begin.
  std::shared_ptr<Work> assign_conditions(const ExecutableGraph &graph, const std::shared_ptr<Work> &begin) {
    if (graph.conditions.empty())
      return begin;
    auto assign = [conditions = graph.conditions]() -> Outcome {
      for (const auto &condition : conditions)
        if (condition->assigns_default)
          condition->assign();
      return {};
    };
    return chain(assign, {begin}, *stream_->context);
  }

  std::shared_ptr<Work> add_node(const ExecutableNode &node, const Works &after) {
    Context *own = node.operation->context();
    Context &context = own ? *own : *stream_->context;
    if (!node.bodies.empty())
      return chain(conditional_work(node), after, context);
    return chain(node.enabled ? node.operation->works() : Works{}, after, context);
  }

  std::shared_ptr<Work> add_inside(const ExecutableGraph &graph, const Works &after) {
    auto entry = chain(Works{}, after, *stream_->context);
    auto exits = add(graph, entry);
    if (exits.empty())
      exits.push_back(entry);
    return chain(Works{}, exits, *stream_->context);
  }

  std::shared_ptr<Stream> branch(const Works &after, Context &context) {
    for (const auto &earlier : after) {
      auto stream = earlier->stream; // null when it has run already: nothing is to be gained
      if (stream && stream->context == &context && stream->last == earlier)
        return stream;
    }
    return new_stream(context, CU_STREAM_NON_BLOCKING, stream_->priority); // its works keep it alive
  }

  std::shared_ptr<Stream> stream_;
};

} // namespace

std::shared_ptr<GraphExecutable> instantiate(Graph &graph, unsigned long long flags, GraphNode **offender) {
  constexpr unsigned long long known =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  require((flags & ~known) == 0, CUDA_ERROR_INVALID_VALUE);
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
    require(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH), CUDA_ERROR_INVALID_VALUE);
    tell("graphs that are launched from the device are not implemented");
    fail(CUDA_ERROR_NOT_SUPPORTED);
  }
  require(!graph.owned_by_node && !is_captured_into(graph), CUDA_ERROR_INVALID_VALUE);
  // One at a time, as documented.
  if (graph.has_memory_nodes || has_conditional_nodes(graph)) {
    auto other = graph.executable.lock();
    require(!other || !graph_handles().executables.find(handle_of<CUgraphExec>(other.get())),
            CUDA_ERROR_INVALID_VALUE);
  }
  auto executable = std::make_shared<GraphExecutable>();
  fill(executable->graph, graph, offender);
  list_nodes(*executable, executable->graph);
  executable->flags = flags & ~static_cast<unsigned long long>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  executable->identifier = driver().next_identifier++;
  graph.executable = executable;
  return executable;
}

OperationPointer child_of(const ExecutableGraph &executable) {
  auto operation = std::make_shared<ChildGraphOperation>();
  operation->graph = new_graph();
  operation->graph->owned_by_node = true;
  std::vector<std::shared_ptr<GraphNode>> made;
  try {
    for (const auto &node : executable.nodes) {
      require(node.bodies.empty(), CUDA_ERROR_INVALID_VALUE); // conditional nodes: not in a child graph
      made.push_back(add_node(*operation->graph,
                              node.inside    ? child_of(*node.inside)
                              : node.enabled ? node.operation
                                             : std::make_shared<EmptyOperation>(),
                              {}));
    }
    for (size_t i = 0; i < made.size(); ++i)
      for (size_t earlier : executable.nodes[i].after)
        add_edge(*made[earlier], *made[i], {});
  } catch (...) { // memory nodes: a graph that has them cannot be a child this way
    destroy_graph(*operation->graph);
    throw;
  }
  return operation;
}

void launch(Lock &lock, GraphExecutable &executable, const std::shared_ptr<Stream> &stream) {
  refuse_recorded(*stream);
  // Everything that can go wrong goes wrong before the first work is in a queue.
  require_launchable(executable.graph);
  MemoryPlan memory(executable);
  auto entry = std::make_shared<Work>();
  if (executable.last)
    entry->after.push_back(executable.last);
  memory.free_left_over(*entry);
  enqueue(stream, entry);
  auto end = std::make_shared<Work>();
  end->after = Launch(stream).add(executable.graph, entry);
  // The program may let go of graph, memory and objects while the launch is under way.
  end->run = [objects = std::make_shared<UserObjectReferences>(executable.graph.user_objects),
              used = memory.used()]() -> Outcome { return {}; };
  enqueue(stream, end);
  executable.last = end;
  memory.note_launch();
  settle(lock);
}

} // namespace emulator::driver
