// Element formats of arrays: the runtime counts bits for each channel, the driver names a format.
#pragma once

#include "core/error.hpp"

namespace emulator::runtime {

struct ChannelFormat {
  CUarray_format format;
  unsigned channels;
};

// Throws cudaErrorInvalidChannelDescriptor for bits that no array can have.
ChannelFormat format_of(const cudaChannelFormatDesc &description);
cudaChannelFormatDesc description_of(CUarray_format format, unsigned channels);

// Bytes of one channel.
size_t bytes_of(CUarray_format format);

} // namespace emulator::runtime
