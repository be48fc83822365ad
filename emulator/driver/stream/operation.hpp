// What a stream is asked to do. An operation never changes once it is made: whoever runs it again and again
// (the nodes of a graph, the launches of it that are under way) shares it.
#pragma once

#include "scheduler.hpp"

namespace emulator::driver {

using Works = std::vector<std::shared_ptr<Work>>;

// One work that does this, and nothing besides.
inline Works one_work(std::function<Outcome()> run) {
  Works works(1);
  works.front() = std::make_shared<Work>();
  works.front()->run = std::move(run);
  return works;
}

struct Operation {
  virtual ~Operation() = default;
  // The kind, as CUDA numbers kinds.
  virtual CUgraphNodeType type() const = 0;
  // Where it runs. Null: in the context of the stream.
  virtual Context *context() const { return nullptr; }
  // Throws when it cannot be done: memory that is not there, say.
  virtual void check() const {}
  // The works of one run, which follow one another; none, where nothing is to be done. Throws as `check`
  // does.
  virtual Works works() const = 0;
  // The same for the run that the call itself asks for: what the program may change when the call has
  // returned has been read then.
  virtual Works works_at_call() const { return works(); }
};

using OperationPointer = std::shared_ptr<const Operation>;

} // namespace emulator::driver
