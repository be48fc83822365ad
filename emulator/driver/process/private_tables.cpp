// cuGetExportTable: private tables of the vendor's libraries. There are none here and never a dummy, so the
// answer is always "not found"; a program that cannot go on without them is told what to do.
#include "entry/entry.hpp"

#include <atomic>
#include <dlfcn.h>
#include <string>

using namespace emulator::driver;

namespace {

// The file that an address belongs to: a library's path, or the program's name as it was started.
std::string file_of(const void *address) {
  Dl_info info{};
  return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "this program";
}

bool starts_with(const std::string &text, const char *prefix) { return text.rfind(prefix, 0) == 0; }

// What to do about a caller that needs the tables; empty for libraries that work without.
std::string advice(const std::string &file) {
  std::string name = file.substr(file.rfind('/') + 1);
  for (const char *compiler :
       {"libnvrtc", "libnvJitLink", "libnvvm", "libnvptxcompiler", "libreplay_interposer"})
    if (starts_with(name, compiler))
      return "";
  std::string found =
      file + " asks for private tables of NVIDIA's driver, which the CPU driver does not have";
  if (starts_with(name, "libcudart.so")) {
    std::string own = file_of(reinterpret_cast<const void *>(&cuGetExportTable));
    return found + ": put " + own.substr(0, own.rfind('/') + 1) +
           " first in LD_LIBRARY_PATH, so that the CUDA runtime library there is taken instead";
  }
  return found + ": the CUDA runtime that is linked into it runs on a GPU alone; rebuild it with `nvcc "
                 "-cudart shared` or "
                 "use a GPU";
}

} // namespace

CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
  const void *caller = __builtin_return_address(0);
  return enter("cuGetExportTable", Needs::nothing, [&](Call &) {
    require(ppExportTable != nullptr && pExportTableId != nullptr, CUDA_ERROR_INVALID_VALUE);
    *ppExportTable = nullptr;
    static std::atomic<bool> told{false};
    if (std::string words = advice(file_of(caller)); !words.empty() && !told.exchange(true))
      tell(words);
    fail(CUDA_ERROR_NOT_FOUND);
  });
}
