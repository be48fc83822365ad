// The driver's messages about errors. CUDA 13 gave the runtime functions for them.
#include "core/entry.hpp"

#if CUDART_VERSION >= 13000

// clang-format off
FORWARD(cudaLogsRegisterCallback,
        (cudaLogsCallback_t callbackFunc, void *userData, cudaLogsCallbackHandle *callback_out),
        cuLogsRegisterCallback, (reinterpret_cast<CUlogsCallback>(callbackFunc), userData, callback_out))
FORWARD(cudaLogsUnregisterCallback, (cudaLogsCallbackHandle callback), cuLogsUnregisterCallback, (callback))
FORWARD(cudaLogsCurrent, (cudaLogIterator *iterator_out, unsigned int flags), cuLogsCurrent, (iterator_out, flags))
FORWARD(cudaLogsDumpToFile, (cudaLogIterator *iterator, const char *pathToFile, unsigned int flags),
        cuLogsDumpToFile, (iterator, pathToFile, flags))
FORWARD(cudaLogsDumpToMemory, (cudaLogIterator *iterator, char *buffer, size_t *size, unsigned int flags),
        cuLogsDumpToMemory, (iterator, buffer, size, flags))

#endif
