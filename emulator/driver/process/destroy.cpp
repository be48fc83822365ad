#include "destroy.hpp"

#include "array/array.hpp"
#include "array/texture.hpp"
#include "capture/capture.hpp"
#include "device/device.hpp"
#include "memory/allocations.hpp"
#include "memory/pool.hpp"
#include "module/function.hpp"
#include "module/module.hpp"
#include "module/reference.hpp"
#include "stream/event.hpp"
#include "stream/scheduler.hpp"

namespace emulator::driver {

void destroy_context(Lock &lock, Context &context) {
  end_captures(context);
  drain(lock, context);
  auto owned = [&context](const auto &object) { return object.context == &context; };
  driver().events.remove_if(owned);
  driver().streams.remove_if(owned);
  driver().functions.remove_if(
      [&](const Function &function) { return function.module->context == &context; });
  driver().libraries.for_each([&](const auto &library) { library->modules.erase(&context); });
  driver().modules.remove_if(owned);
  driver().texture_objects.remove_if(owned);
  driver().surface_objects.remove_if(owned);
  driver().texture_references.remove_if(owned);
  driver().surface_references.remove_if(owned);
  driver().mipmapped_arrays.remove_if(owned);
  driver().arrays.remove_if(owned);
  for (const auto &allocation : allocations().all())
    if (allocation->context == &context)
      release(allocation);
  settle_pools(context.device);
  context.legacy_stream.reset();
  context.per_thread_streams.clear();
  context.blocking_streams.clear();
  context.ended.clear();
  context.marker_stream.reset();
  context.holding.clear();
  context.peers.clear();
  context.memory.reset();
  context.alive = false;
  if (!context.primary) {
    driver().ended_contexts.push_back(context.shared_from_this());
    driver().contexts.remove(&context);
  }
}

} // namespace emulator::driver
