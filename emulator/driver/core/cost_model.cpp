#include "cost_model.hpp"

#include "settings.hpp"

#include <algorithm>
#include <cmath>

namespace emulator::driver {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): a statistically good bijection, so the n-th draw needs no state.
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

double uniform(uint64_t seed, uint64_t number) {
  return (static_cast<double>(mixed(mixed(seed) + number) >> 11) + 0.5) * 0x1p-53;
}

// A factor around 1, cut at four deviations so that a time is never absurd.
double factor(double deviation, uint64_t number) {
  if (deviation <= 0)
    return 1.0;
  uint64_t seed = static_cast<uint64_t>(settings().noise_seed);
  double radius = std::sqrt(-2.0 * std::log(uniform(seed, 2 * number)));
  double angle = 2.0 * 3.14159265358979323846 * uniform(seed, 2 * number + 1);
  double normal = std::clamp(radius * std::cos(angle), -4.0, 4.0);
  return std::max(0.05, 1.0 + deviation * normal);
}

// No launch has this number, so the draw of the process is none of theirs.
constexpr uint64_t process_draw = uint64_t{1} << 62;

double noise_factor(uint64_t launch_number) {
  return factor(settings().noise, launch_number) * factor(settings().process_noise, process_draw);
}

const cost::MatrixRates &rates_of(int sm) {
  const cost::MatrixRates *found = cost::matrix_rates;
  for (const cost::MatrixRates &row : cost::matrix_rates)
    found = row.sm <= sm ? &row : found;
  return *found;
}

} // namespace

uint64_t kernel_ns(const std::string &kernel, const LaunchCounters &counters, const GridShape &grid,
                   uint32_t multiprocessors, uint64_t launch_number) {
  uint64_t blocks = std::max<uint64_t>(grid.blocks, 1);
  // Blocks do equal work, so the multiprocessor with the most of them ends last: it has this share of all.
  uint64_t most_blocks = (blocks + multiprocessors - 1) / multiprocessors;
  double share = static_cast<double>(most_blocks) / static_cast<double>(blocks);
  // Its warps take turns.
  double warps = static_cast<double>(std::min<uint64_t>(most_blocks, std::max(grid.resident_blocks, 1u)) *
                                     grid.warps_per_block);
  double issue_per_cycle = std::min(cost::issue_per_cycle, warps / cost::cycles_per_instruction_of_a_warp);
  auto of_class = [&](InstructionClass c) {
    return static_cast<double>(counters.warp_class[static_cast<size_t>(c)]);
  };
  double slow = of_class(InstructionClass::float64) + of_class(InstructionClass::conversion) +
                of_class(InstructionClass::special_function) + of_class(InstructionClass::atomic);
  double weighted = static_cast<double>(counters.warp_instructions) + (cost::slow_class_weight - 1) * slow;
  double compute = weighted * share / issue_per_cycle / cost::clock_ghz;
  const cost::MatrixRates &rates = rates_of(settings().compute_capability.sm());
  double matrix_cycles = 0;
  for (size_t kind = 0; kind < matrix_kinds; ++kind)
    matrix_cycles += static_cast<double>(counters.matrix_products[kind]) / rates.products_per_cycle[kind];
  double matrix = matrix_cycles * share / cost::clock_ghz;
  uint64_t wavefronts = 0, requests = 0;
  for (const SharedCounters &kind : counters.shared)
    wavefronts += kind.wavefronts;
  wavefronts += counters.descriptors.wavefronts;
  // One pass over the banks each cycle.
  double shared = static_cast<double>(wavefronts) * share / cost::clock_ghz;
  double bytes = static_cast<double>(counters.sectors() * cost::sector_bytes);
  double memory = bytes * share / cost::bytes_per_ns_per_multiprocessor;
  for (const GlobalCounters &kind : counters.global)
    requests += kind.requests;
  double latency =
      cost::memory_latency_ns * static_cast<double>(requests) * share / (warps * cost::requests_of_a_warp);
  double start = cost::block_ns * static_cast<double>(most_blocks);
  double total = cost::launch_ns + start + std::max({compute, matrix, shared, memory, latency});
  const auto &slowdown = settings().slowdown;
  if (slowdown.kernel && std::regex_search(kernel, *slowdown.kernel))
    total *= slowdown.factor;
  return static_cast<uint64_t>(std::llround(total * noise_factor(launch_number)));
}

uint64_t copy_ns(uint64_t bytes, bool over_host_link) {
  // Inside the device both the read and the write use the memory's bandwidth.
  double rate = over_host_link ? cost::host_bytes_per_ns
                               : cost::bytes_per_ns_per_multiprocessor *
                                     static_cast<double>(settings().multiprocessors) / 2;
  return static_cast<uint64_t>(std::llround(cost::copy_ns + static_cast<double>(bytes) / rate));
}

} // namespace emulator::driver
