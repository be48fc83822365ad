#pragma once

#include "exec/operations/table.hpp"

namespace emulator {

// The two builds of the same source files (see CMakeLists.txt); each adds all families.
namespace baseline {
void add_operations(OperationTable &table);
}
namespace avx2 {
void add_operations(OperationTable &table);
}

} // namespace emulator
