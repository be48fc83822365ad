// What is counted while a kernel runs: exact, and equal for equal inputs whatever the number of worker
// threads. docs/cpu-driver.md says what each figure means; the names given to `visit` are those of the JSON
// it describes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

// CLASS(name): what a PTX instruction counts as. lowering/instruction_class.cpp says which is which.
#define EMULATOR_INSTRUCTION_CLASSES(CLASS)                                                                  \
  CLASS(integer)                                                                                             \
  CLASS(float32)                                                                                             \
  CLASS(float64)                                                                                             \
  CLASS(half)                                                                                                \
  CLASS(conversion)                                                                                          \
  CLASS(special_function)                                                                                    \
  CLASS(move)                                                                                                \
  CLASS(load_global)                                                                                         \
  CLASS(load_shared)                                                                                         \
  CLASS(load_local)                                                                                          \
  CLASS(load_constant)                                                                                       \
  CLASS(load_generic)                                                                                        \
  CLASS(store_global)                                                                                        \
  CLASS(store_shared)                                                                                        \
  CLASS(store_local)                                                                                         \
  CLASS(store_generic)                                                                                       \
  CLASS(atomic)                                                                                              \
  CLASS(texture)                                                                                             \
  CLASS(branch)                                                                                              \
  CLASS(control)                                                                                             \
  CLASS(barrier)                                                                                             \
  CLASS(collective)                                                                                          \
  CLASS(matrix)                                                                                              \
  CLASS(other)

enum class InstructionClass : uint8_t {
#define CLASS(name) name,
  EMULATOR_INSTRUCTION_CLASSES(CLASS)
#undef CLASS
};

#define CLASS(name) +1
constexpr size_t instruction_classes = 0 EMULATOR_INSTRUCTION_CLASSES(CLASS);
#undef CLASS

constexpr const char *instruction_class_names[] = {
#define CLASS(name) #name,
    EMULATOR_INSTRUCTION_CLASSES(CLASS)
#undef CLASS
};

// How an instruction reaches memory; indexes the arrays below.
enum class AccessKind : uint8_t { load, store, atomic };
constexpr size_t access_kinds = 3;
constexpr const char *access_kind_names[] = {"load", "store", "atomic"};

// What a warp multiplies matrices of, by the rates at which GPUs do.
enum class MatrixKind : uint8_t { half, tf32, float64, float8, float4, int8, int4, bit };
constexpr size_t matrix_kinds = 8;
constexpr const char *matrix_kind_names[] = {"half",   "tf32", "float64", "float8",
                                             "float4", "int8", "int4",    "bit"};

// A request is one access instruction of one warp that at least one lane executes.
struct GlobalCounters {
  uint64_t requests = 0;
  uint64_t bytes = 0;         // that lanes asked for
  uint64_t sectors = 0;       // distinct sectors of 32 bytes, request by request
  uint64_t least_sectors = 0; // had the lanes' bytes been adjacent and aligned, no more than `sectors`
};
struct SharedCounters {
  uint64_t requests;
  uint64_t bytes;
  uint64_t wavefronts;     // passes over the banks
  uint64_t bank_conflicts; // passes beyond those that the width of the access needs
};

// Matrices in shared memory that descriptors of wgmma and tcgen05 name.
struct DescriptorCounters {
  uint64_t bytes = 0;
  uint64_t wavefronts = 0; // passes over the banks
};
// Bulk copies, of tensors too: those into shared memory, and those out of it.
struct BulkCounters {
  uint64_t requests = 0; // copies
  uint64_t bytes = 0;    // in shared memory, of each block that receives them
};

struct LaunchCounters {
  uint64_t warp_instructions = 0;
  uint64_t thread_instructions = 0;
  uint64_t warp_class[instruction_classes] = {};
  uint64_t thread_class[instruction_classes] = {};
  uint64_t divergent_branches = 0;
  uint64_t matrix_products[matrix_kinds] = {}; // of two numbers
  GlobalCounters global[access_kinds];
  SharedCounters shared[access_kinds] = {};
  DescriptorCounters descriptors;
  BulkCounters bulk_loads, bulk_stores;

  uint64_t sectors() const { return global[0].sectors + global[1].sectors + global[2].sectors; }
};

// Calls f(name, value) for every counter; the name comes in up to three parts, to be joined with "_". `value`
// may be changed when `counters` may.
template <typename Counters, typename Function> void visit(Counters &counters, Function f) {
  struct Name {
    const char *parts[3];
  };
  f(Name{"warp_instructions"}, counters.warp_instructions);
  f(Name{"thread_instructions"}, counters.thread_instructions);
  f(Name{"divergent_branches"}, counters.divergent_branches);
  for (size_t c = 0; c < instruction_classes; ++c) {
    f(Name{"warp", instruction_class_names[c]}, counters.warp_class[c]);
    f(Name{"thread", instruction_class_names[c]}, counters.thread_class[c]);
  }
  for (size_t k = 0; k < matrix_kinds; ++k)
    f(Name{"matrix", matrix_kind_names[k], "products"}, counters.matrix_products[k]);
  for (size_t k = 0; k < access_kinds; ++k) {
    const char *kind = access_kind_names[k];
    auto &global = counters.global[k];
    auto &shared = counters.shared[k];
    f(Name{"global", kind, "requests"}, global.requests);
    f(Name{"global", kind, "bytes"}, global.bytes);
    f(Name{"global", kind, "sectors"}, global.sectors);
    f(Name{"global", kind, "least_sectors"}, global.least_sectors);
    f(Name{"shared", kind, "requests"}, shared.requests);
    f(Name{"shared", kind, "bytes"}, shared.bytes);
    f(Name{"shared", kind, "wavefronts"}, shared.wavefronts);
    f(Name{"shared", kind, "bank_conflicts"}, shared.bank_conflicts);
  }
  f(Name{"descriptor", "bytes"}, counters.descriptors.bytes);
  f(Name{"descriptor", "wavefronts"}, counters.descriptors.wavefronts);
  f(Name{"bulk", "load", "requests"}, counters.bulk_loads.requests);
  f(Name{"bulk", "load", "bytes"}, counters.bulk_loads.bytes);
  f(Name{"bulk", "store", "requests"}, counters.bulk_stores.requests);
  f(Name{"bulk", "store", "bytes"}, counters.bulk_stores.bytes);
}

// Adds every counter of `more`. A plain sum: LaunchCounters holds nothing but counters.
inline void add(LaunchCounters &to, const LaunchCounters &more) {
  static_assert(sizeof(LaunchCounters) % sizeof(uint64_t) == 0);
  uint64_t *sums = reinterpret_cast<uint64_t *>(&to);
  const uint64_t *values = reinterpret_cast<const uint64_t *>(&more);
  for (size_t k = 0; k < sizeof(LaunchCounters) / sizeof(uint64_t); ++k)
    sums[k] += values[k];
}

} // namespace emulator
