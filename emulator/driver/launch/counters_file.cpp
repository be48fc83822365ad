#include "counters_file.hpp"
#include "entry/entry.hpp"

#include "core/settings.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace emulator::driver {
namespace {

std::string path_of_process() {
  std::string path = settings().counters;
  for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
    std::string process = std::to_string(getpid());
    path.replace(at, 2, process);
    at += process.size();
  }
  return path;
}

// A kernel's name comes from a PTX text and may hold anything.
std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      out.push_back('\\');
    if (c < 0x20 || c >= 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out.push_back(static_cast<char>(c));
    }
  }
  return out + "\"";
}

std::string triple(const Dim3 &size) {
  return "[" + std::to_string(size.x) + "," + std::to_string(size.y) + "," + std::to_string(size.z) + "]";
}

void complain(const std::string &path) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    tell("counters are not written to " + path + ": " + std::strerror(errno));
}

} // namespace

void append_counters(const std::string &kernel, const LaunchRequest &request, const LaunchResult &result,
                     uint64_t launch_number, uint64_t modelled_ns) {
  if (settings().counters.empty())
    return;
  std::string line = "{\"schema\":\"replay.emulator.counters/1\",\"process\":" + std::to_string(getpid()) +
                     ",\"launch\":" + std::to_string(launch_number) + ",\"kernel\":" + quoted(kernel) +
                     ",\"grid\":" + triple(request.grid) + ",\"block\":" + triple(request.block) +
                     ",\"dynamic_shared_bytes\":" + std::to_string(request.dynamic_shared_bytes) +
                     ",\"ok\":" + (result.status == LaunchStatus::ok ? "true" : "false") +
                     ",\"modelled_ns\":" + std::to_string(modelled_ns) + ",\"counters\":{";
  // What was counted before a launch failed depends on the threads that ran it, and is not told.
  if (result.status == LaunchStatus::ok) {
    bool first = true;
    visit(result.counters, [&](const auto &name, uint64_t value) {
      line += first ? "\"" : ",\"";
      first = false;
      for (size_t p = 0; p < 3 && name.parts[p]; ++p)
        line += (p ? "_" : "") + std::string(name.parts[p]);
      line += "\":" + std::to_string(value);
    });
  }
  line += "}}\n";
  // Opened for each line: cheap beside a launch, and right after a fork and after the file was moved away.
  // One write to a file opened with O_APPEND: lines of several threads and processes do not mix.
  std::string path = path_of_process();
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    return complain(path);
  ssize_t written = write(file, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size()))
    complain(path);
  close(file);
}

} // namespace emulator::driver
