#include "array_format.hpp"

namespace emulator::runtime {
namespace {

struct Format {
  CUarray_format format;
  cudaChannelFormatKind kind;
  int bits;
};

constexpr Format formats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, cudaChannelFormatKindUnsigned, 8},
    {CU_AD_FORMAT_UNSIGNED_INT16, cudaChannelFormatKindUnsigned, 16},
    {CU_AD_FORMAT_UNSIGNED_INT32, cudaChannelFormatKindUnsigned, 32},
    {CU_AD_FORMAT_SIGNED_INT8, cudaChannelFormatKindSigned, 8},
    {CU_AD_FORMAT_SIGNED_INT16, cudaChannelFormatKindSigned, 16},
    {CU_AD_FORMAT_SIGNED_INT32, cudaChannelFormatKindSigned, 32},
    {CU_AD_FORMAT_HALF, cudaChannelFormatKindFloat, 16},
    {CU_AD_FORMAT_FLOAT, cudaChannelFormatKindFloat, 32},
};

// Normalised integers: in both APIs 8 and 16 bits, unsigned and signed, each with 1, 2 and 4 channels in
// turn.
constexpr int first_normalised = cudaChannelFormatKindUnsignedNormalized8X1;
constexpr int first_normalised_format = CU_AD_FORMAT_UNORM_INT8X1;
constexpr int normalised_formats = 12;

bool is_normalised(CUarray_format format) {
  return format >= first_normalised_format && format < first_normalised_format + normalised_formats;
}
int normalised_bits(CUarray_format format) { return (format - first_normalised_format) / 3 % 2 ? 16 : 8; }

} // namespace

ChannelFormat format_of(const cudaChannelFormatDesc &description) {
  const int bits[] = {description.x, description.y, description.z, description.w};
  unsigned channels = 0;
  while (channels < 4 && bits[channels] > 0)
    ++channels;
  // Channels are equally wide, come without gaps, and are one, two or four.
  require(channels == 1 || channels == 2 || channels == 4, cudaErrorInvalidChannelDescriptor);
  for (unsigned i = 0; i < 4; ++i)
    require(bits[i] == (i < channels ? bits[0] : 0), cudaErrorInvalidChannelDescriptor);
  for (const Format &each : formats)
    if (each.kind == description.f && each.bits == bits[0])
      return {each.format, channels};
  int number = static_cast<int>(description.f) - first_normalised;
  if (number >= 0 && number < normalised_formats) {
    auto format = static_cast<CUarray_format>(first_normalised_format + number);
    if (normalised_bits(format) == bits[0] && channels == 1u << (number % 3))
      return {format, channels};
  }
  throw Failure{cudaErrorInvalidChannelDescriptor};
}

cudaChannelFormatDesc description_of(CUarray_format format, unsigned channels) {
  for (const Format &each : formats)
    if (each.format == format) {
      auto bits = [&](unsigned channel) { return channel < channels ? each.bits : 0; };
      return {bits(0), bits(1), bits(2), bits(3), each.kind};
    }
  if (is_normalised(format)) {
    auto bits = [&](unsigned channel) { return channel < channels ? normalised_bits(format) : 0; };
    auto kind = static_cast<cudaChannelFormatKind>(format - first_normalised_format + first_normalised);
    return {bits(0), bits(1), bits(2), bits(3), kind};
  }
  throw Failure{cudaErrorInvalidChannelDescriptor};
}

size_t bytes_of(CUarray_format format) {
  for (const Format &each : formats)
    if (each.format == format)
      return static_cast<size_t>(each.bits) / 8;
  if (is_normalised(format))
    return static_cast<size_t>(normalised_bits(format)) / 8;
  throw Failure{cudaErrorInvalidChannelDescriptor};
}

} // namespace emulator::runtime
