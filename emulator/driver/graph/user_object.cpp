#include "user_object.hpp"
#include "entry/entry.hpp"

#include "stream/scheduler.hpp"

#include <climits>

using namespace emulator::driver;

namespace emulator::driver {

void release(const std::shared_ptr<UserObject> &object, uint64_t count) {
  object->references -= std::min(count, object->references);
  if (object->references > 0)
    return;
  graph_handles().user_objects.remove(object.get());
  call_on_host_thread([object] { object->destroy(object->pointer); });
}

UserObjectReferences::UserObjectReferences(const UserObjectReferences &other) : held_(other.held_) {
  for (const auto &[object, count] : held_)
    object->references += count;
}

UserObjectReferences &UserObjectReferences::operator=(UserObjectReferences other) {
  held_.swap(other.held_);
  return *this;
}

UserObjectReferences::~UserObjectReferences() {
  for (const auto &[object, count] : held_)
    release(object, count);
}

void UserObjectReferences::add(const std::shared_ptr<UserObject> &object, uint64_t count) {
  held_[object] += count;
}

void UserObjectReferences::remove(const std::shared_ptr<UserObject> &object, uint64_t count) {
  auto found = held_.find(object);
  require(found != held_.end() && found->second >= count, CUDA_ERROR_INVALID_VALUE);
  if ((found->second -= count) == 0)
    held_.erase(found);
  release(object, count);
}

std::shared_ptr<UserObject> object_of(CUuserObject handle, unsigned count) {
  require(count > 0 && count <= INT_MAX, CUDA_ERROR_INVALID_VALUE);
  return graph_handles().user_objects.get(handle, CUDA_ERROR_INVALID_VALUE);
}

} // namespace emulator::driver

CUresult CUDAAPI cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                                    unsigned int initialRefcount, unsigned int flags) {
  return enter("cuUserObjectCreate", Needs::initialised, [&](Call &) {
    require(object_out != nullptr && destroy != nullptr && initialRefcount > 0 &&
                initialRefcount <= INT_MAX && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
            CUDA_ERROR_INVALID_VALUE);
    auto object = std::make_shared<UserObject>();
    object->pointer = ptr;
    object->destroy = destroy;
    object->references = initialRefcount;
    *object_out = graph_handles().user_objects.add(object);
  });
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject object, unsigned int count) {
  return enter("cuUserObjectRetain", Needs::initialised,
               [&](Call &) { object_of(object, count)->references += count; });
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject object, unsigned int count) {
  return enter("cuUserObjectRelease", Needs::initialised, [&](Call &) {
    auto held = object_of(object, count);
    require(count <= held->references, CUDA_ERROR_INVALID_VALUE);
    release(held, count);
  });
}
