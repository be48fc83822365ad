#include "driver.hpp"

#include "array/array.hpp"
#include "array/reference.hpp"
#include "array/texture.hpp"
#include "device/context.hpp"
#include "device/device.hpp"
#include "graph/executable.hpp"
#include "graph/graph.hpp"
#include "graph/user_object.hpp"
#include "launch/function.hpp"
#include "launch/print_buffer.hpp"
#include "memory/allocations.hpp"
#include "memory/pool.hpp"
#include "memory/virtual_memory.hpp"
#include "module/linker.hpp"
#include "module/module.hpp"
#include "stream/capture.hpp"
#include "stream/event.hpp"
#include "stream/scheduler.hpp"

#include <cstring>
#include <map>
#include <pthread.h>

namespace emulator::driver {
namespace {

std::atomic<bool> in_forked_child{false};
thread_local int per_thread_default_depth = 0;
thread_local int host_function_depth = 0;

// Counts calls of functions named in REPLAY_EMULATOR_FAIL. Its own lock: it is asked before the driver's.
CUresult scripted_failure(const char *function) {
  const auto &failures = settings().fail;
  if (failures.empty())
    return CUDA_SUCCESS;
  auto found = failures.find(function);
  if (found == failures.end())
    return CUDA_SUCCESS;
  static std::mutex *mutex = new std::mutex;
  static auto *counts = new std::map<std::string, uint64_t>;
  std::lock_guard<std::mutex> guard(*mutex);
  auto error = found->second.find(++(*counts)[function]);
  return error == found->second.end() ? CUDA_SUCCESS : static_cast<CUresult>(error->second);
}

} // namespace

Driver::Driver() : allocations(std::make_unique<Allocations>()) {
  for (uint64_t ordinal = 0; ordinal < settings().devices; ++ordinal)
    devices.push_back(std::make_unique<Device>(static_cast<int>(ordinal)));
  pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });
}

Driver &driver() {
  static Driver *only = new Driver;
  return *only;
}

std::mutex &driver_mutex() { return driver().mutex; }

Device &device_of(CUdevice ordinal) {
  auto &devices = driver().devices;
  require(ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size(), CUDA_ERROR_INVALID_DEVICE);
  return *devices[static_cast<size_t>(ordinal)];
}

CUresult admit(const char *function, Needs needs) {
  if (CUresult scripted = scripted_failure(function))
    return scripted;
  if (needs == Needs::nothing)
    return CUDA_SUCCESS;
  // A forked child shares neither threads nor device state with its parent: documented as unusable.
  if (in_forked_child)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (!driver().initialised)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (host_function_depth > 0)
    return CUDA_ERROR_NOT_PERMITTED;
  flush_prints(function, true);
  return CUDA_SUCCESS;
}

Context *admitted_context(const char *function, Needs needs) {
  if (needs != Needs::nothing && !driver().captures.empty())
    refuse_while_capturing(function);
  if (needs < Needs::context)
    return nullptr;
  Context *context = current_context();
  require(context != nullptr, CUDA_ERROR_INVALID_CONTEXT);
  require(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  if (needs >= Needs::healthy)
    require(context->error == CUDA_SUCCESS, context->error);
  return context;
}

CUresult leave(const char *function, CUresult result) {
  flush_prints(function, false);
  if (settings().trace) {
    const char *name = nullptr;
    cuGetErrorName(result, &name);
    tell(std::string(function) + " -> " + (name ? name : std::to_string(static_cast<int>(result))),
         Kept::nowhere);
  }
  return result;
}

PerThreadDefaultStream::PerThreadDefaultStream() { ++per_thread_default_depth; }
PerThreadDefaultStream::~PerThreadDefaultStream() { --per_thread_default_depth; }
bool PerThreadDefaultStream::active() { return per_thread_default_depth > 0; }

InsideHostFunction::InsideHostFunction() { ++host_function_depth; }
InsideHostFunction::~InsideHostFunction() { --host_function_depth; }

} // namespace emulator::driver

using namespace emulator::driver;

CUresult CUDAAPI cuInit(unsigned int Flags) {
  if (CUresult scripted = admit("cuInit", Needs::nothing))
    return leave("cuInit", scripted);
  if (Flags != 0)
    return leave("cuInit", CUDA_ERROR_INVALID_VALUE);
  if (!settings().problem.empty()) {
    tell(settings().problem);
    return leave("cuInit", CUDA_ERROR_INVALID_VALUE);
  }
  if (in_forked_child)
    return leave("cuInit", CUDA_ERROR_NOT_INITIALIZED);
  if (driver().devices.empty())
    return leave("cuInit", CUDA_ERROR_NO_DEVICE);
  if (!driver().initialised && !claim_own_range())
    return leave("cuInit", CUDA_ERROR_OUT_OF_MEMORY);
  driver().initialised = true;
  return leave("cuInit", CUDA_SUCCESS);
}

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion) {
  return enter("cuDriverGetVersion", Needs::nothing, [&](Call &) {
    require(driverVersion != nullptr, CUDA_ERROR_INVALID_VALUE);
    *driverVersion = static_cast<int>(settings().driver_version);
  });
}
