#include "entry.hpp"

#include "core/settings.hpp"
#include "print_buffer.hpp"

#include <map>
#include <pthread.h>
#include <set>

namespace emulator::driver {
namespace {

std::atomic<bool> forked{false};
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

void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

bool in_forked_child() { return forked; }

bool is_default_stream(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

CUresult admit(const char *function, Needs needs, CUstream stream) {
  if (CUresult scripted = scripted_failure(function))
    return scripted;
  if (needs == Needs::nothing)
    return CUDA_SUCCESS;
  // A forked child shares neither threads nor device state with its parent: documented as unusable.
  if (forked || !driver().initialised) {
    // Seen of NVIDIA's 535, 550 and 555: once cuInit has found no device, streams are looked at first.
    bool no_such_stream = driver().without_device && !is_default_stream(stream);
    return no_such_stream ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_NOT_INITIALIZED;
  }
  if (host_function_depth > 0)
    return CUDA_ERROR_NOT_PERMITTED;
  flush_prints(function, true);
  return CUDA_SUCCESS;
}

Context *admitted_context(const char *function, Needs needs) {
  if (needs != Needs::nothing && driver().refuse_call)
    driver().refuse_call(function);
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

int not_implemented(const char *function) {
  static std::mutex *mutex = new std::mutex;
  static auto *named = new std::set<std::string>;
  try {
    std::lock_guard<std::mutex> guard(*mutex);
    if (named->insert(function).second)
      tell(std::string(function) + " is not implemented");
  } catch (const std::bad_alloc &) {
    // The answer is the same without the words.
  }
  return enter(function, Needs::initialised, [](Call &) { fail(CUDA_ERROR_NOT_SUPPORTED); });
}

} // namespace emulator::driver
