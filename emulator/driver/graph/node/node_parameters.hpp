// CUgraphNodeParams, the tagged union that describes a node of any kind, as an operation.
#pragma once

#include "operations.hpp"

namespace emulator::driver {

// `present` is the operation that the new one replaces, whose attributes stay; null for a new node.
// Parameters that are outputs (addresses, child graphs) are written. `graph` is where the node goes; null for
// an executable one.
OperationPointer operation_of(CUgraphNodeParams &parameters, const Operation *present, const Graph *graph);

// Replaces the operation of a node. A child graph node's graph cannot be replaced.
void set_operation(GraphNode &node, OperationPointer operation);

} // namespace emulator::driver
