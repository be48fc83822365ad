// Streams and graphs that write a value into memory or wait for one.
#pragma once

#include "scheduler.hpp"

namespace emulator::driver {

constexpr size_t most_memory_operations = 256; // of one batch; cuStreamBatchMemOp's documented limit

// Validates one operation and gives its work: a marker where order alone does it.
std::shared_ptr<Work> memory_value_work(Context &context, const CUstreamBatchMemOpParams &operation);

} // namespace emulator::driver
