// The live handles of graphs and of what belongs to them.
#pragma once

#include "device/driver.hpp"

namespace emulator::driver {

struct Graph;
struct GraphNode;
struct GraphExecutable;
struct UserObject;

struct GraphHandles {
  Handles<Graph, CUgraph> graphs;
  Handles<GraphNode, CUgraphNode> nodes;
  Handles<GraphExecutable, CUgraphExec> executables;
  Handles<UserObject, CUuserObject> user_objects;
};

// Like `driver()`: one, under the same lock, and never destroyed.
GraphHandles &graph_handles();

} // namespace emulator::driver
