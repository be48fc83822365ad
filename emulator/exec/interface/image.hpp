// What textures and surfaces are, as the driver tells the executor: memory with a shape, and how it is read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace emulator {

enum class TexelKind : uint8_t {
  unsigned_integer,
  signed_integer,
  floating, // 16 or 32 bits
  unsigned_normalised,
  signed_normalised,
};

struct TexelFormat {
  TexelKind kind = TexelKind::unsigned_integer;
  uint8_t channel_bytes = 1; // 1, 2 or 4
  uint8_t channels = 1;      // 1, 2 or 4

  uint32_t bytes() const { return uint32_t{channel_bytes} * channels; }
  bool is_integer() const { return kind == TexelKind::unsigned_integer || kind == TexelKind::signed_integer; }
};

struct ImageLevel {
  uint64_t base = 0;
  uint32_t extent[3] = {1, 1, 1}; // 1 in a dimension that the image has not
  uint64_t row_bytes = 0;         // from a row to the next
  uint64_t slice_bytes = 0;       // from a slice, a layer or a face to the next
};

struct Image {
  TexelFormat format;
  uint8_t dimensions = 1; // of a layer
  bool layered = false;
  bool cubemap = false;
  bool gather = false;        // made for it
  bool linear_memory = false; // no array: one row of any length
  bool checked = false;       // memory that the program may free: looked up before it is read
  uint32_t layers = 1;        // of cubemaps: faces
  uint32_t array_layers = 0;  // what queries of the array's size say
  std::vector<ImageLevel> levels;
  std::shared_ptr<const void> keeps; // what must stay as long as somebody reads here
};

enum class AddressMode : uint8_t { wrap, clamp, mirror, border };

struct Sampler {
  AddressMode mode[3] = {AddressMode::clamp, AddressMode::clamp, AddressMode::clamp};
  bool linear = false;
  bool normalised = false; // coordinates
  bool promotes = false;   // integers of 8 and 16 bits are read as fractions
  bool srgb = false;
  bool seamless = false;
  bool linear_levels = false;
  float level_bias = 0;
  float least_level = 0;
  float most_level = 0;
  uint32_t border[4] = {0, 0, 0, 0}; // bits of floats
};

struct Texture {
  Image image;
  Sampler sampler;

  // What the program gets: the texel's own integers, or floats.
  bool gives_integers() const {
    return image.format.is_integer() && !(sampler.promotes && image.format.channel_bytes < 4);
  }
};

struct Surface {
  Image image; // of one level
};

} // namespace emulator
