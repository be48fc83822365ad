// The live handles of one kind. A handle is the object's address; one that is not in the table is refused, so
// a destroyed or invented handle is an error code and never a crash. A destroyed handle does not come back as
// a new object's soon: programs that use one after its end are what people come here to find.
#pragma once

#include "error.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>

namespace emulator::driver {

template <typename Object, typename Handle> class Handles {
public:
  Handle add(std::shared_ptr<Object> object) {
    Object *address = object.get();
    live_[address] = std::move(object);
    return reinterpret_cast<Handle>(address);
  }

  // Null when the handle is not alive.
  std::shared_ptr<Object> find(Handle handle) const {
    auto found = live_.find(reinterpret_cast<const void *>(handle));
    return found == live_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> get(Handle handle, CUresult otherwise = CUDA_ERROR_INVALID_HANDLE) const {
    auto object = find(handle);
    require(object != nullptr, otherwise);
    return object;
  }

  void remove(const Object *object) {
    auto found = live_.find(object);
    if (found != live_.end())
      retire(found);
  }

  template <typename Predicate> void remove_if(Predicate &&predicate) {
    for (auto item = live_.begin(); item != live_.end();)
      item = predicate(*item->second) ? retire(item) : std::next(item);
  }

  template <typename Visitor> void for_each(Visitor &&visitor) const {
    for (const auto &item : live_)
      visitor(item.second);
  }

private:
  using Table = std::unordered_map<const void *, std::shared_ptr<Object>>;
  static constexpr size_t kept_addresses = 65536;

  typename Table::iterator retire(typename Table::iterator item) {
    // A weak pointer to what make_shared made keeps its memory, and so its address, though the object is
    // gone.
    retired_.push_back(item->second);
    if (retired_.size() > kept_addresses)
      retired_.pop_front();
    return live_.erase(item);
  }

  Table live_;
  std::deque<std::weak_ptr<Object>> retired_;
};

// Objects whose handles are numbers: textures and surfaces. A number is given out once in a process, to one
// object of either kind. They are above 2^32, so that one that is kept in memory is not taken for a count.
class HandleNumbers {
public:
  static uint64_t next() {
    static std::atomic<uint64_t> last{uint64_t{1} << 40};
    return ++last;
  }
};

template <typename Object, typename Handle> class NumberedHandles {
public:
  Handle add(std::shared_ptr<Object> object) {
    Handle handle = HandleNumbers::next();
    live_[handle] = std::move(object);
    return handle;
  }

  // Null when the handle is not alive.
  std::shared_ptr<Object> find(Handle handle) const {
    auto found = live_.find(handle);
    return found == live_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> get(Handle handle, CUresult otherwise = CUDA_ERROR_INVALID_HANDLE) const {
    auto object = find(handle);
    require(object != nullptr, otherwise);
    return object;
  }

  void remove(Handle handle) { live_.erase(handle); }

  template <typename Predicate> void remove_if(Predicate &&predicate) {
    for (auto item = live_.begin(); item != live_.end();)
      item = predicate(*item->second) ? live_.erase(item) : std::next(item);
  }

private:
  std::unordered_map<Handle, std::shared_ptr<Object>> live_;
};

template <typename Handle, typename Object> Handle handle_of(Object *object) {
  return reinterpret_cast<Handle>(object);
}

} // namespace emulator::driver
