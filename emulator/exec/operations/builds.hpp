#pragma once

#include "exec/operations/table.hpp"

namespace emulator {

// Built once; handlers fit the processor this runs on.
const OperationTable &operation_table();

} // namespace emulator
