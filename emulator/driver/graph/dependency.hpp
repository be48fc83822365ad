// One edge towards a node that is still to come: the node it depends on, and the edge's annotation.
#pragma once

#include "handles.hpp"

#include <cstring>

namespace emulator::driver {

struct GraphDependency {
  std::shared_ptr<GraphNode> node;
  CUgraphEdgeData edge{};
};

inline bool equal(const CUgraphEdgeData &a, const CUgraphEdgeData &b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// Zeroed data: an ordinary dependency. Functions that cannot show other data answer CUDA_ERROR_LOSSY_QUERY.
inline bool is_default(const CUgraphEdgeData &edge) { return equal(edge, CUgraphEdgeData{}); }

} // namespace emulator::driver
