// The modelled clock: nanoseconds from counted work. Deterministic, the same on every machine; never a
// measurement. docs/cpu-driver.md states the formulas and where the constants come from.
#pragma once

#include "exec/interface/counters.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace emulator::driver {

namespace cost {
constexpr double clock_ghz = 1.5;       // multiprocessor clock
constexpr double issue_per_cycle = 4.0; // warp instructions each multiprocessor starts per cycle
constexpr double bytes_per_ns_per_multiprocessor = 25; // device memory bandwidth, GB/s, per multiprocessor
// What hides latency: a warp starts an instruction every 4 cycles at best, and has 4 requests to memory under
// way.
constexpr double cycles_per_instruction_of_a_warp = 4.0;
constexpr double requests_of_a_warp = 4.0;
constexpr double memory_latency_ns = 500.0;
constexpr double host_bytes_per_ns = 25.0; // host link, GB/s
constexpr double launch_ns = 2000;         // fixed part of a kernel
constexpr double block_ns = 20;            // start of one block, spread over the multiprocessors
constexpr double copy_ns = 1000;           // fixed part of a copy or a fill
constexpr uint64_t sector_bytes = 32;
constexpr double slow_class_weight =
    4.0; // float64, conversion, special_function, atomic: a quarter of the rate
// Products of matrices that a multiprocessor finishes in a cycle, by MatrixKind: the peak rates of dense
// matrices that NVIDIA's papers of each generation give, divided by multiprocessors and clock. A kind that a
// generation has not is as fast as the next wider one. Compute capabilities from `sm` on, to the next row.
struct MatrixRates {
  int sm;
  double products_per_cycle[matrix_kinds];
};
constexpr MatrixRates matrix_rates[] = {
    // half, tf32, float64, float8, float4, int8, int4, bit
    {0, {512, 512, 32, 512, 512, 1024, 2048, 8192}},        // V100, T4
    {80, {1024, 512, 64, 1024, 1024, 2048, 4096, 16384}},   // A100
    {86, {512, 128, 2, 1024, 1024, 1024, 2048, 8192}},      // RTX 3090, L40
    {90, {2048, 1024, 128, 4096, 4096, 4096, 4096, 4096}},  // H100
    {100, {4096, 2048, 64, 8192, 16384, 8192, 8192, 8192}}, // B200
    {120, {512, 128, 2, 1024, 2048, 1024, 1024, 1024}},     // RTX 5090
};
} // namespace cost

// How a grid meets the multiprocessors.
struct GridShape {
  uint64_t blocks = 1;
  uint32_t warps_per_block = 1;
  uint32_t resident_blocks = 1; // that fit on one multiprocessor at once
};

// What a launch's time is made of, in nanoseconds: its start, that of its blocks, and the largest of the
// others.
struct KernelTime {
  double launch = 0, blocks = 0;
  double compute = 0, matrix = 0, shared = 0, memory = 0, latency = 0;
  double work() const { return std::max({compute, matrix, shared, memory, latency}); }
};
KernelTime parts_of_time(const LaunchCounters &counters, const GridShape &grid, uint32_t multiprocessors);

// Calls f(name, nanoseconds) for every part.
template <typename Function> void visit(const KernelTime &time, Function f) {
  f("launch", time.launch);
  f("blocks", time.blocks);
  f("compute", time.compute);
  f("matrix", time.matrix);
  f("shared", time.shared);
  f("memory", time.memory);
  f("latency", time.latency);
}

// Modelled time of one launch in nanoseconds, with REPLAY_EMULATOR_SLOWDOWN and _NOISE applied.
// `launch_number` counts the launches of the process from 0 and picks the noise.
uint64_t kernel_ns(const std::string &kernel, const KernelTime &time, uint64_t launch_number);

// Modelled time of a copy; over the host link when either side is host memory.
uint64_t copy_ns(uint64_t bytes, bool over_host_link);

} // namespace emulator::driver
