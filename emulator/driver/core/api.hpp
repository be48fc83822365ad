// The driver API as the headers declare it, every historic version included, with its symbols exported.
// The compiler therefore checks each definition in this folder against the header's prototype.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>

extern "C" {
// Functions that older headers lack, or that stand in another header.
#if CUDA_VERSION < 12080
CUresult CUDAAPI cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd);
#endif
#if CUDA_VERSION < 12050
CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel);
#endif
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);
}
#pragma GCC visibility pop
