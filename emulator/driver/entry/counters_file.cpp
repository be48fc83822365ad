#include "counters_file.hpp"

#include "core/settings.hpp"
#include "json_lines.hpp"

#include <unistd.h>

namespace emulator::driver {
namespace {

std::string triple(const Dim3 &size) {
  return "[" + std::to_string(size.x) + "," + std::to_string(size.y) + "," + std::to_string(size.z) + "]";
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
  append_line("counters", settings().counters, line);
}

} // namespace emulator::driver
