// The driver API as the headers declare it, every historic version included, with its symbols exported.
// The compiler therefore checks each definition in this folder against the header's prototype.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop
