// One texel: from memory to four channels, and back.
#pragma once

#include "exec/interface/image.hpp"

namespace emulator {

// Red, green, blue, alpha. Channels that the format has not are 0, 0, 0 and 1.
struct Channels {
  uint32_t bits[4];
};

// A channel as a number: `value` divided by the texture's divisor, or bits that are no number.
struct Fraction {
  double value = 0;
  uint32_t bits = 0;
  bool is_number = true;
};

// The texel's own integers, extended by their sign, or its floats as f32.
Channels read_raw(const TexelFormat &format, const void *texel);
// As floats: fractions of integers where the format or the sampler says so.
Channels read_float(const Texture &texture, const void *texel);

// For filters: channels that a texture gives as floats, exactly. `divisor` is the same for all texels.
uint32_t divisor_of(const Texture &texture);
Fraction exact_channel(const Texture &texture, const void *texel, uint32_t channel);
// A number that is a float (the border's colour).
Fraction exact_float(uint32_t bits, uint32_t divisor);

// sust.p: 32-bit values become the format's channels. Integers too large for a channel become its largest
// one, which is not yet seen on a GPU (GT-TEXTURES).
void write_texel(const TexelFormat &format, void *texel, const uint32_t *values, uint32_t count);

uint16_t half_of(uint32_t float_bits); // f32 to f16, to nearest even
uint32_t float_of(uint16_t half_bits);

} // namespace emulator
