// What is inside of a conditional node runs as one piece of work, node after node: which nodes there are to
// run is known only when the node's turn comes. Its modelled time is the sum of its nodes'.
#pragma once

#include "executable.hpp"

namespace emulator::driver {

// What the node's turn means. Of the node as it is now: the launch is not affected by later updates.
std::function<Outcome()> conditional_work(const ExecutableNode &node);

} // namespace emulator::driver
