#include "zstd.hpp"

#include <dlfcn.h>

namespace emulator::driver {
namespace {

// As libzstd declares them, in every version from 1.4.0 on.
struct Zstd {
  size_t (*decompress)(void *to, size_t room, const void *from, size_t bytes);
  size_t (*find_frame_compressed_size)(const void *from, size_t bytes);
  unsigned (*is_error)(size_t result);
  const char *(*get_error_name)(size_t result);
};

template <typename Function> bool find_function(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

const Zstd *zstd() {
  static const Zstd *only = []() -> const Zstd * {
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    auto *made = new Zstd;
    bool complete =
        library && find_function(library, "ZSTD_decompress", made->decompress) &&
        find_function(library, "ZSTD_findFrameCompressedSize", made->find_frame_compressed_size) &&
        find_function(library, "ZSTD_isError", made->is_error) &&
        find_function(library, "ZSTD_getErrorName", made->get_error_name);
    return complete ? made : nullptr;
  }();
  return only;
}

} // namespace

bool has_zstd() { return zstd() != nullptr; }

const char *decode_zstd_frame(const uint8_t *input, size_t bytes, std::string &output) {
  size_t frame = zstd()->find_frame_compressed_size(input, bytes);
  size_t unpacked =
      zstd()->is_error(frame) ? frame : zstd()->decompress(output.data(), output.size(), input, frame);
  if (zstd()->is_error(unpacked))
    return zstd()->get_error_name(unpacked);
  return unpacked == output.size() ? nullptr : "it unpacks to another size than it claims";
}

} // namespace emulator::driver
