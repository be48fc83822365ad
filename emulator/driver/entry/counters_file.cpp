#include "counters_file.hpp"

#include "core/settings.hpp"
#include "json_lines.hpp"

#include <unistd.h>

namespace emulator::driver {
namespace {

std::string triple(const Dim3 &size) {
  return "[" + std::to_string(size.x) + "," + std::to_string(size.y) + "," + std::to_string(size.z) + "]";
}

std::string written(const NamedAccess &access) {
  const auto &[text, ptx_line, kind] = access.key;
  const GlobalCounters &global = access.cost.global;
  const SharedCounters &shared = access.cost.shared;
  std::string line = std::string("{\"kind\":\"") + access_kind_names[static_cast<size_t>(kind)] +
                     "\",\"instruction\":" + quoted(access.instruction) + ",\"file\":" + quoted(access.file);
  auto add = [&](const char *name, uint64_t value) {
    line += std::string(",\"") + name + "\":" + std::to_string(value);
  };
  add("text", text);
  add("ptx_line", ptx_line);
  add("line", access.cost.line);
  add("global_requests", global.requests);
  add("global_bytes", global.bytes);
  add("global_sectors", global.sectors);
  add("global_least_sectors", global.least_sectors);
  add("shared_requests", shared.requests);
  add("shared_bytes", shared.bytes);
  add("shared_wavefronts", shared.wavefronts);
  add("shared_bank_conflicts", shared.bank_conflicts);
  return line + "}";
}

} // namespace

void append_counters(const std::string &kernel, const LaunchRequest &request, const LaunchResult &result,
                     uint64_t launch_number, const KernelTime &time, uint64_t modelled_ns) {
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
  line += "},\"parts_ns\":{";
  if (result.status == LaunchStatus::ok)
    visit(time, [&, first = true](const char *name, double ns) mutable {
      line += std::string(first ? "\"" : ",\"") + name + "\":" + std::to_string(ns);
      first = false;
    });
  line += "},\"accesses\":[";
  if (result.status == LaunchStatus::ok)
    for (const NamedAccess &access : result.accesses)
      line += (&access == result.accesses.data() ? "" : ",") + written(access);
  line += "]}\n";
  append_line("counters", settings().counters, line);
}

} // namespace emulator::driver
