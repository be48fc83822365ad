// Texture lookups: from coordinates to texels, filtered. The formulas are those of the CUDA C++ Programming
// Guide ("Texture Fetching"); weights have 8 bits of fraction, as it says. How a GPU rounds them is not
// documented: here to nearest. Everything else is exact and rounded once.
#pragma once

#include "exec/sampling/texel.hpp"

namespace emulator {

enum class Geometry : uint8_t { one, two, three, one_array, two_array, cube, cube_array };

constexpr bool is_array(Geometry g) {
  return g == Geometry::one_array || g == Geometry::two_array || g == Geometry::cube_array;
}
constexpr bool is_cube(Geometry g) { return g == Geometry::cube || g == Geometry::cube_array; }
// Of coordinates, without the layer.
constexpr uint32_t dimensions_of(Geometry g) {
  return g == Geometry::one || g == Geometry::one_array   ? 1
         : g == Geometry::two || g == Geometry::two_array ? 2
                                                          : 3;
}

struct Lookup {
  Geometry geometry = Geometry::one;
  bool integers = false; // coordinates are indices of texels
  float coordinate[3] = {0, 0, 0};
  int32_t index[3] = {0, 0, 0};
  int32_t offset[3] = {0, 0, 0}; // in texels
  uint32_t layer = 0;
  bool has_level = false;
  double level = 0;
};

// The texels that a lookup read, for what they cost.
struct Footprint {
  static constexpr uint32_t most = 16;
  uint64_t address[most];
  uint32_t count = 0;
};

// nullptr when the image has the shape of the geometry, else what it is instead.
const char *mismatch(const Image &image, Geometry geometry);

Channels sample(const Texture &texture, const Lookup &lookup, Footprint &footprint);
// One channel of the four texels that a linear filter would weigh, counter-clockwise from the lower left.
Channels gather(const Texture &texture, const Lookup &lookup, uint32_t channel, Footprint &footprint);

// The level of detail of two derivatives, as if it were the same in all directions: the larger one counts.
double level_of(const Texture &texture, Geometry geometry, const Lookup &lookup, const float *dx,
                const float *dy);

} // namespace emulator
