// The names that nothing else here defines: each is there, so that programs that mention it start, says once
// on stderr that it was called, and answers cudaErrorNotSupported. They are weak, so a real definition takes
// their place.
//
// No CUDA header is included: the definitions have no parameters, which on these machines may be called with
// any.
#include <atomic>

namespace emulator::runtime {

int answer_not_supported(const char *function, std::atomic<bool> &told);

} // namespace emulator::runtime

#define NAME(name)                                                                                           \
  extern "C" __attribute__((weak, visibility("default"))) int name() {                                       \
    static std::atomic<bool> told{false};                                                                    \
    return emulator::runtime::answer_not_supported(#name, told);                                             \
  }
#if RUNTIME_MAJOR == 12
#define NAME_12(name) NAME(name)
#define NAME_13(name)
#else
#define NAME_12(name)
#define NAME_13(name) NAME(name)
#endif

#include "names.inc"
