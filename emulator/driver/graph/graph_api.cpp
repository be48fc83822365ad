// Graphs as a whole, and the edges between their nodes.
#include "entry/entry.hpp"
#include "graph.hpp"

using namespace emulator::driver;

namespace {

CUgraphNode handle(GraphNode *node) { return handle_of<CUgraphNode>(node); }

// The convention of every function that lists nodes: without an array the count alone is given, with one the
// rest of it is filled with null.
void put_nodes(const std::vector<GraphNode *> &nodes, CUgraphNode *out, size_t *count) {
  require(count != nullptr, CUDA_ERROR_INVALID_VALUE);
  if (!out) {
    *count = nodes.size();
    return;
  }
  for (size_t i = 0; i < *count; ++i)
    out[i] = i < nodes.size() ? handle(nodes[i]) : nullptr;
  *count = std::min(*count, nodes.size());
}

// The same for edges. `lossless` is whether the function can show their data at all.
void put_edges(const std::vector<GraphNode::Edge> &edges, CUgraphNode *out, CUgraphEdgeData *data,
               size_t *count) {
  require(count != nullptr && (!data || out), CUDA_ERROR_INVALID_VALUE);
  if (out && !data)
    for (const auto &edge : edges)
      require(is_default(edge.data), CUDA_ERROR_LOSSY_QUERY);
  if (data)
    for (size_t i = 0; i < *count; ++i)
      data[i] = i < edges.size() ? edges[i].data : CUgraphEdgeData{};
  std::vector<GraphNode *> nodes;
  for (const auto &edge : edges)
    nodes.push_back(edge.node);
  put_nodes(nodes, out, count);
}

CUresult get_edges(const char *function, CUgraph graph_handle, CUgraphNode *from, CUgraphNode *to,
                   CUgraphEdgeData *data, size_t *count) {
  return enter(function, Needs::initialised, [&](Call &) {
    auto graph = graph_of(graph_handle);
    require(count != nullptr && !from == !to && (!data || from), CUDA_ERROR_INVALID_VALUE);
    std::vector<GraphNode::Edge> edges;
    std::vector<GraphNode *> sources;
    for (const auto &node : graph->nodes)
      for (const auto &edge : node->dependencies) {
        edges.push_back({node.get(), edge.data});
        sources.push_back(edge.node);
      }
    size_t room = *count;
    put_edges(edges, to, data, count);
    if (from)
      put_nodes(sources, from, &room);
  });
}

CUresult change_edges(const char *function, CUgraph graph_handle, const CUgraphNode *from,
                      const CUgraphNode *to, const CUgraphEdgeData *data, size_t count, bool adds) {
  return enter(function, Needs::initialised, [&](Call &) {
    auto graph = graph_of(graph_handle);
    if (count == 0)
      return; // documented: the arrays are ignored
    require(from != nullptr && to != nullptr, CUDA_ERROR_INVALID_VALUE);
    require(adds || !graph->has_memory_nodes, CUDA_ERROR_INVALID_VALUE);
    size_t done = 0;
    auto change = [&](size_t i, bool add) {
      auto source = node_of(from[i]), target = node_of(to[i]);
      require(source->graph == graph.get() && target->graph == graph.get(), CUDA_ERROR_INVALID_VALUE);
      (add ? add_edge : remove_edge)(*source, *target, data ? data[i] : CUgraphEdgeData{});
    };
    try {
      for (; done < count; ++done)
        change(done, adds);
    } catch (...) { // all or none
      while (done-- > 0)
        change(done, !adds);
      throw;
    }
  });
}

CUresult get_dependencies(const char *function, CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data,
                          size_t *count, std::vector<GraphNode::Edge> GraphNode::*edges) {
  return enter(function, Needs::initialised,
               [&](Call &) { put_edges((*node_of(node)).*edges, out, data, count); });
}

GraphNode *find_in_clone(const Graph &graph, const GraphNode &original) {
  for (const auto &node : graph.nodes) {
    if (node->cloned_from == original.identifier)
      return node.get();
    if (auto *child = dynamic_cast<const ChildGraphOperation *>(node->operation.get()))
      if (auto *found = find_in_clone(*child->graph, original))
        return found;
  }
  return nullptr;
}

} // namespace

CUresult CUDAAPI cuGraphCreate(CUgraph *phGraph, unsigned int flags) {
  return enter("cuGraphCreate", Needs::initialised, [&](Call &) {
    require(phGraph != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    *phGraph = handle_of<CUgraph>(new_graph().get());
  });
}

CUresult CUDAAPI cuGraphDestroy(CUgraph hGraph) {
  return enter("cuGraphDestroy", Needs::initialised, [&](Call &) {
    auto graph = graph_of(hGraph);
    require(!graph->owned_by_node && !is_captured_into(*graph), CUDA_ERROR_INVALID_VALUE);
    destroy_graph(*graph);
  });
}

CUresult CUDAAPI cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph) {
  return enter("cuGraphClone", Needs::initialised, [&](Call &) {
    require(phGraphClone != nullptr, CUDA_ERROR_INVALID_VALUE);
    *phGraphClone = handle_of<CUgraph>(clone(*graph_of(originalGraph)).get());
  });
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                                        CUgraph hClonedGraph) {
  return enter("cuGraphNodeFindInClone", Needs::initialised, [&](Call &) {
    require(phNode != nullptr, CUDA_ERROR_INVALID_VALUE);
    auto original = node_of(hOriginalNode);
    auto *found = find_in_clone(*graph_of(hClonedGraph), *original);
    require(found != nullptr, CUDA_ERROR_INVALID_VALUE);
    *phNode = handle(found);
  });
}

// Never that of another node, also when this one is gone.
CUresult CUDAAPI cuGraphNodeGetToolsId(CUgraphNode hNode, unsigned long long *toolsNodeId) {
  return enter("cuGraphNodeGetToolsId", Needs::initialised, [&](Call &) {
    require(toolsNodeId != nullptr, CUDA_ERROR_INVALID_VALUE);
    *toolsNodeId = node_of(hNode)->identifier;
  });
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type) {
  return enter("cuGraphNodeGetType", Needs::initialised, [&](Call &) {
    require(type != nullptr, CUDA_ERROR_INVALID_VALUE);
    *type = node_of(hNode)->operation->type();
  });
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode hNode) {
  return enter("cuGraphDestroyNode", Needs::initialised, [&](Call &) {
    auto node = node_of(hNode);
    // Documented: not in graphs with memory nodes, and not while a capture is in progress.
    require(!node->graph->has_memory_nodes && !is_captured_into(*node->graph), CUDA_ERROR_INVALID_VALUE);
    destroy_node(*node);
  });
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes) {
  return enter("cuGraphGetNodes", Needs::initialised, [&](Call &) {
    std::vector<GraphNode *> all;
    for (const auto &node : graph_of(hGraph)->nodes)
      all.push_back(node.get());
    put_nodes(all, nodes, numNodes);
  });
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes) {
  return enter("cuGraphGetRootNodes", Needs::initialised, [&](Call &) {
    std::vector<GraphNode *> roots;
    for (const auto &node : graph_of(hGraph)->nodes)
      if (node->dependencies.empty())
        roots.push_back(node.get());
    put_nodes(roots, rootNodes, numRootNodes);
  });
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges) {
  return get_edges("cuGraphGetEdges", hGraph, from, to, nullptr, numEdges);
}

CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                                    CUgraphEdgeData *edgeData, size_t *numEdges) {
  return get_edges("cuGraphGetEdges_v2", hGraph, from, to, edgeData, numEdges);
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                            size_t *numDependencies) {
  return get_dependencies("cuGraphNodeGetDependencies", hNode, dependencies, nullptr, numDependencies,
                          &GraphNode::dependencies);
}

CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                               CUgraphEdgeData *edgeData, size_t *numDependencies) {
  return get_dependencies("cuGraphNodeGetDependencies_v2", hNode, dependencies, edgeData, numDependencies,
                          &GraphNode::dependencies);
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                              size_t *numDependentNodes) {
  return get_dependencies("cuGraphNodeGetDependentNodes", hNode, dependentNodes, nullptr, numDependentNodes,
                          &GraphNode::dependents);
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                                 CUgraphEdgeData *edgeData, size_t *numDependentNodes) {
  return get_dependencies("cuGraphNodeGetDependentNodes_v2", hNode, dependentNodes, edgeData,
                          numDependentNodes, &GraphNode::dependents);
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                        size_t numDependencies) {
  return change_edges("cuGraphAddDependencies", hGraph, from, to, nullptr, numDependencies, true);
}

CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                           const CUgraphEdgeData *edgeData, size_t numDependencies) {
  return change_edges("cuGraphAddDependencies_v2", hGraph, from, to, edgeData, numDependencies, true);
}

CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                           size_t numDependencies) {
  return change_edges("cuGraphRemoveDependencies", hGraph, from, to, nullptr, numDependencies, false);
}

CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                              const CUgraphEdgeData *edgeData, size_t numDependencies) {
  return change_edges("cuGraphRemoveDependencies_v2", hGraph, from, to, edgeData, numDependencies, false);
}

// ---- user objects

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                         unsigned int flags) {
  return enter("cuGraphRetainUserObject", Needs::initialised, [&](Call &) {
    auto target = graph_of(graph);
    auto held = object_of(object, count);
    require(flags == 0 || flags == CU_GRAPH_USER_OBJECT_MOVE, CUDA_ERROR_INVALID_VALUE);
    require(flags == 0 || count <= held->references, CUDA_ERROR_INVALID_VALUE);
    if (flags == 0)
      held->references += count;
    target->user_objects.add(held, count);
  });
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  return enter("cuGraphReleaseUserObject", Needs::initialised, [&](Call &) {
    auto target = graph_of(graph);
    target->user_objects.remove(object_of(object, count), count);
  });
}
