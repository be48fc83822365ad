#include "log.hpp"

#include "core/settings.hpp"
#include "entry.hpp"

#include <unistd.h>

#if CUDA_VERSION >= 12090

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

using namespace emulator::driver;

namespace {

constexpr size_t kept_bytes = 25600; // documented as the largest size of the buffer
constexpr char truncated[] = "(older messages are lost)\n";

struct Callback {
  CUlogsCallback function;
  void *data;
};

// Its own lock, because messages are written with and without the driver's.
struct Log {
  std::mutex mutex;
  std::deque<std::string> messages; // each ends in a newline
  uint32_t first = 0;               // the iterator of messages.front()
  size_t bytes = 0;
  std::map<uintptr_t, Callback> callbacks;
  uintptr_t next_callback = 1;
};

Log &log() {
  static Log *only = new Log;
  return *only;
}

// What comes at and after `from`, at most `room` bytes: the newest messages, with a line in front when older
// ones are left out. Called with the log's lock held.
std::string text_from(uint32_t from, size_t room) {
  const Log &kept = log();
  uint32_t end = kept.first + static_cast<uint32_t>(kept.messages.size());
  uint32_t at = std::clamp(from, kept.first, end);
  bool complete = from >= kept.first;
  size_t bytes = 0;
  for (uint32_t i = at; i < end; ++i)
    bytes += kept.messages[i - kept.first].size();
  for (; at < end && bytes + (complete ? 0 : std::strlen(truncated)) > room; ++at) {
    bytes -= kept.messages[at - kept.first].size();
    complete = false;
  }
  if (at == end)
    return "";
  std::string text = complete ? "" : truncated;
  for (; at < end; ++at)
    text += kept.messages[at - kept.first];
  return text;
}

uint32_t newest() { return log().first + static_cast<uint32_t>(log().messages.size()); }

void log_error(const std::string &message) {
  std::vector<Callback> callbacks;
  {
    std::lock_guard<std::mutex> guard(log().mutex);
    Log &kept = log();
    kept.messages.push_back(message.substr(0, kept_bytes / 4) + "\n");
    kept.bytes += kept.messages.back().size();
    for (; kept.bytes > kept_bytes; ++kept.first) {
      kept.bytes -= kept.messages.front().size();
      kept.messages.pop_front();
    }
    for (const auto &item : kept.callbacks)
      callbacks.push_back(item.second);
  }
  InsideHostFunction inside;
  std::string text = message;
  for (const auto &callback : callbacks)
    callback.function(callback.data, CU_LOG_LEVEL_ERROR, text.data(), text.size());
}

} // namespace

CUresult CUDAAPI cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData,
                                        CUlogsCallbackHandle *callback_out) {
  return enter("cuLogsRegisterCallback", Needs::nothing, [&](Call &) {
    require(callbackFunc != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::lock_guard<std::mutex> guard(log().mutex);
    uintptr_t handle = log().next_callback++;
    log().callbacks[handle] = {callbackFunc, userData};
    if (callback_out)
      *callback_out = reinterpret_cast<CUlogsCallbackHandle>(handle);
  });
}

CUresult CUDAAPI cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return enter("cuLogsUnregisterCallback", Needs::nothing, [&](Call &) {
    std::lock_guard<std::mutex> guard(log().mutex);
    require(log().callbacks.erase(reinterpret_cast<uintptr_t>(callback)) == 1, CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult CUDAAPI cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags) {
  return enter("cuLogsCurrent", Needs::nothing, [&](Call &) {
    require(iterator_out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    std::lock_guard<std::mutex> guard(log().mutex);
    *iterator_out = newest();
  });
}

CUresult CUDAAPI cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile, unsigned int flags) {
  return enter("cuLogsDumpToFile", Needs::nothing, [&](Call &) {
    require(pathToFile != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    std::lock_guard<std::mutex> guard(log().mutex);
    std::string text = text_from(iterator ? *iterator : 0, SIZE_MAX);
    std::FILE *file = std::fopen(pathToFile, "we");
    require(file != nullptr, CUDA_ERROR_INVALID_VALUE);
    size_t written = std::fwrite(text.data(), 1, text.size(), file);
    bool sound = std::fclose(file) == 0 && written == text.size();
    require(sound, CUDA_ERROR_OPERATING_SYSTEM);
    if (iterator)
      *iterator = newest();
  });
}

CUresult CUDAAPI cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags) {
  return enter("cuLogsDumpToMemory", Needs::nothing, [&](Call &) {
    require(buffer != nullptr && size != nullptr && *size > 0 && flags == 0, CUDA_ERROR_INVALID_VALUE);
    std::lock_guard<std::mutex> guard(log().mutex);
    uint32_t from = iterator ? *iterator : 0;
    std::string text = text_from(from, *size - 1);
    buffer[0] = 0;
    bool nothing_to_say = std::max(from, log().first) >= newest();
    *size = text.size();
    require(!text.empty() || nothing_to_say, CUDA_ERROR_INVALID_VALUE); // documented: room for no message
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    if (iterator)
      *iterator = newest();
  });
}

#else

static void log_error(const std::string &) {}

#endif

void emulator::driver::tell(const std::string &line, Kept kept) {
  if (kept == Kept::in_log)
    log_error(line);
  if (settings().quiet)
    return;
  std::string text = "replay CPU driver: " + line + "\n";
  // One write, so that lines of several threads and processes do not mix. Nothing can be done if it fails.
  [[maybe_unused]] ssize_t written = write(2, text.data(), text.size());
}
