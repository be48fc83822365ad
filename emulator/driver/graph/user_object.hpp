// User objects: things of the program that live as long as the graphs that use them.
#pragma once

#include "handles.hpp"

#include <map>

namespace emulator::driver {

struct UserObject {
  void *pointer = nullptr;
  CUhostFn destroy = nullptr;
  uint64_t references = 0; // the program's and the graphs'
};

// CUDA_ERROR_INVALID_VALUE for a handle that is not alive, and for a count of references that cannot be.
std::shared_ptr<UserObject> object_of(CUuserObject handle, unsigned count);

// Takes references away. At none the destructor is called, on the thread of host functions, and the handle
// ends.
void release(const std::shared_ptr<UserObject> &object, uint64_t count);

// The references that one graph, executable graph or launch holds. Made, copied and ended under the driver's
// lock.
class UserObjectReferences {
public:
  UserObjectReferences() = default;
  UserObjectReferences(const UserObjectReferences &other);
  UserObjectReferences &operator=(UserObjectReferences other);
  ~UserObjectReferences();

  void add(const std::shared_ptr<UserObject> &object, uint64_t count);
  // CUDA_ERROR_INVALID_VALUE when fewer are held.
  void remove(const std::shared_ptr<UserObject> &object, uint64_t count);

private:
  std::map<std::shared_ptr<UserObject>, uint64_t> held_;
};

} // namespace emulator::driver
