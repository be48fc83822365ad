#include "exec/textures/textures.hpp"

#include <algorithm>
#include <cstring>

#include "exec/access/access.hpp"
#include "exec/copies/asynchronous.hpp"
#include "exec/interface/hexadecimal.hpp"

namespace emulator::textures {

namespace {

const ImageForm &form_of(const Warp &w, const Instruction *i) {
  return w.program->images[static_cast<size_t>(i->immediate)];
}

uint32_t row_of(const Warp &w, const Instruction *i, uint32_t place) {
  return w.program->extra[i->extra + place];
}

bool has(const Warp &w, const Instruction *i, uint32_t place) { return row_of(w, i, place) != no_offset; }

template <typename T>
T operand(Warp &w, const Instruction *i, uint32_t place, uint32_t lane, T otherwise = T{}) {
  return has(w, i, place) ? w.row<T>(row_of(w, i, place))[lane] : otherwise;
}

void give(Warp &w, const Instruction *i, uint32_t number, uint32_t lane, uint64_t bits, uint32_t size) {
  if (!has(w, i, value + number))
    return;
  uint8_t *row = w.registers + row_of(w, i, value + number);
  std::memcpy(row + lane * size, &bits, size);
}

[[noreturn]] void illegal(Warp &w, const Instruction *i, uint32_t lane, const std::string &what) {
  fail(w, i, LaunchStatus::illegal_address, what, lane);
}

// Memory that the program can free is looked up; that of an array is kept by whoever reads it.
void require_memory(Warp &w, const Instruction *i, uint32_t lane, const Image &image) {
  if (!image.checked)
    return;
  const ImageLevel &level = image.levels[0];
  uint64_t bytes = (level.extent[1] - 1) * level.row_bytes + uint64_t{level.extent[0]} * image.format.bytes();
  Range range = w.launch->memory->find(level.base);
  if (range.end <= range.base || range.end - level.base < bytes)
    illegal(w, i, lane,
            "illegal read through a texture whose memory is gone: " + w.launch->memory->describe(level.base));
}

template <typename Object, typename Find>
const Object &object_of(Warp &w, const Instruction *i, uint32_t lane,
                        std::unordered_map<uint64_t, std::shared_ptr<const Object>> &known, Find find) {
  uint64_t number = operand<uint64_t>(w, i, handle, lane);
  auto found = known.find(number);
  if (found != known.end())
    return *found->second;
  std::string problem;
  auto object = find(number, problem);
  if (!object)
    illegal(w, i, lane, "illegal handle " + hexadecimal(number) + ": " + problem);
  require_memory(w, i, lane, object->image);
  return *(known[number] = std::move(object));
}

const Texture &texture_of(Warp &w, const Instruction *i, uint32_t lane) {
  const Texture &texture =
      object_of<Texture>(w, i, lane, w.worker->textures, [&](uint64_t number, std::string &problem) {
        return w.launch->memory->texture(number, problem);
      });
  return texture;
}

const Surface &surface_of(Warp &w, const Instruction *i, uint32_t lane) {
  return object_of<Surface>(w, i, lane, w.worker->surfaces, [&](uint64_t number, std::string &problem) {
    return w.launch->memory->surface(number, problem);
  });
}

void require_shape(Warp &w, const Instruction *i, uint32_t lane, const Image &image, Geometry geometry) {
  const char *is = mismatch(image, geometry);
  if (is)
    fail(w, i, LaunchStatus::illegal_instruction,
         std::string("the image that this instruction reaches has ") + is, lane);
}

Lookup lookup_of(Warp &w, const Instruction *i, const ImageForm &form, const Texture &texture,
                 uint32_t lane) {
  Lookup lookup;
  lookup.geometry = form.geometry;
  lookup.integers = form.integers;
  lookup.layer = operand<uint32_t>(w, i, layer, lane);
  for (uint32_t d = 0; d < 3; ++d) {
    if (form.integers)
      lookup.index[d] = operand<int32_t>(w, i, coordinate + d, lane);
    else
      lookup.coordinate[d] = operand<float>(w, i, coordinate + d, lane);
    lookup.offset[d] = operand<int32_t>(w, i, offset + d, lane);
  }
  if (form.level == LevelKind::given) {
    lookup.has_level = true;
    lookup.level = static_cast<double>(operand<float>(w, i, level, lane));
  } else if (form.level == LevelKind::gradients) {
    float dx[3], dy[3];
    for (uint32_t d = 0; d < 3; ++d) {
      dx[d] = operand<float>(w, i, change_x + d, lane);
      dy[d] = operand<float>(w, i, change_y + d, lane);
    }
    lookup.has_level = true;
    lookup.level = level_of(texture, form.geometry, lookup, dx, dy);
  }
  return lookup;
}

void give_channels(Warp &w, const Instruction *i, uint32_t lane, const ImageForm &form,
                   const Texture &texture, const Channels &channels) {
  bool halves = form.type == ptx::Type::f16 || form.type == ptx::Type::f16x2;
  if (halves && texture.gives_integers())
    fail(w, i, LaunchStatus::illegal_instruction, "halves of a texture that gives integers", lane);
  if (form.type == ptx::Type::f16x2) {
    for (uint32_t pair = 0; pair < 2; ++pair)
      give(w, i, pair, lane,
           uint32_t{half_of(channels.bits[2 * pair])} | uint32_t{half_of(channels.bits[2 * pair + 1])} << 16,
           4);
  } else {
    for (uint32_t c = 0; c < 4; ++c)
      give(w, i, c, lane, halves ? half_of(channels.bits[c]) : channels.bits[c], halves ? 2 : 4);
  }
  // Every texture is resident: there are no sparse arrays.
  if (has(w, i, resident))
    w.predicate(row_of(w, i, resident)) |= uint32_t{1} << lane;
}

template <typename Read> const Instruction *each_lookup(Warp &w, const Instruction *i, Read read) {
  const ImageForm &form = form_of(w, i);
  std::vector<uint64_t> addresses;
  uint32_t texel_bytes = 0;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    const Texture &texture = texture_of(w, i, lane);
    require_shape(w, i, lane, texture.image, form.geometry);
    if (texture.image.linear_memory && !form.integers)
      fail(w, i, LaunchStatus::illegal_instruction, "linear memory has integer coordinates only (tex1Dfetch)",
           lane);
    Footprint footprint;
    give_channels(w, i, lane, form, texture,
                  read(texture, lookup_of(w, i, form, texture, lane), form, footprint));
    addresses.insert(addresses.end(), footprint.address, footprint.address + footprint.count);
    texel_bytes = texture.image.format.bytes();
  }
  count_global_accesses(w, addresses, texel_bytes, AccessKind::load);
  return i + 1;
}

// Channel data types and orders as OpenCL numbers them (PTX ISA, "Channel Data Type and Channel Order
// Fields").
uint32_t data_type_of(const TexelFormat &format) {
  uint32_t size = format.channel_bytes == 1 ? 0 : format.channel_bytes == 2 ? 1 : 2;
  switch (format.kind) {
  case TexelKind::signed_normalised:
    return 0x10D0 + size;
  case TexelKind::unsigned_normalised:
    return 0x10D2 + size;
  case TexelKind::signed_integer:
    return 0x10D7 + size;
  case TexelKind::unsigned_integer:
    return 0x10DA + size;
  default:
    return size == 1 ? 0x10DD : 0x10DE;
  }
}

uint32_t answer(const Image &image, const Sampler *sampler, ImageQuery query, uint32_t at_level) {
  const ImageLevel &level = image.levels[std::min<size_t>(at_level, image.levels.size() - 1)];
  switch (query) {
  case ImageQuery::width:
    return level.extent[0];
  case ImageQuery::height:
    return image.dimensions > 1 ? level.extent[1] : 0;
  case ImageQuery::depth:
    return image.dimensions > 2 ? level.extent[2] : 0;
  case ImageQuery::channel_data_type:
    return data_type_of(image.format);
  case ImageQuery::channel_order:
    return image.format.channels == 1 ? 0x10B0 : image.format.channels == 2 ? 0x10B2 : 0x10B5;
  case ImageQuery::normalised_coordinates:
    return sampler && sampler->normalised;
  case ImageQuery::array_size:
    return image.array_layers;
  case ImageQuery::levels:
    return static_cast<uint32_t>(image.levels.size());
  case ImageQuery::samples:
    return 1;
  case ImageQuery::memory_layout:
    return image.linear_memory || image.checked;
  case ImageQuery::filter_mode:
    return sampler && sampler->linear;
  case ImageQuery::force_unnormalised:
    return sampler && !sampler->normalised;
  default:
    break;
  }
  // enum { wrap, mirror, clamp_ogl, clamp_to_edge, clamp_to_border }
  static constexpr uint32_t numbers[] = {0, 3, 1, 4};
  size_t d = static_cast<size_t>(query) - static_cast<size_t>(ImageQuery::address_mode_0);
  return sampler ? numbers[static_cast<size_t>(sampler->mode[d])] : 0;
}

// Where one lane of a surface access is. `inside` is false for what .zero leaves out.
uint64_t surface_address(Warp &w, const Instruction *i, uint32_t lane, const ImageForm &form,
                         const Surface &surface, uint32_t bytes, bool &inside) {
  const Image &image = surface.image;
  const ImageLevel &level = image.levels[0];
  int64_t x = operand<int32_t>(w, i, coordinate, lane), y = operand<int32_t>(w, i, coordinate + 1, lane),
          z = operand<int32_t>(w, i, coordinate + 2, lane);
  int64_t slice = is_array(form.geometry) ? int64_t{operand<uint32_t>(w, i, layer, lane)} : z;
  if (form.formatted)
    x *= image.format.bytes();
  int64_t row_bytes = int64_t{level.extent[0]} * image.format.bytes();
  int64_t slices = is_array(form.geometry) ? int64_t{image.layers} : int64_t{level.extent[2]};
  int64_t last_x = row_bytes - int64_t{bytes}, last_y = level.extent[1] - 1, last_z = slices - 1;
  inside = x >= 0 && x <= last_x && y >= 0 && y <= last_y && slice >= 0 && slice <= last_z;
  if (!inside && form.boundary == Boundary::trap)
    illegal(w, i, lane,
            "illegal access of a surface: " + std::to_string(bytes) + " bytes at byte " + std::to_string(x) +
                " of row " + std::to_string(y) + ", slice or layer " + std::to_string(slice) +
                ", where it has " + std::to_string(row_bytes) + " bytes, " + std::to_string(last_y + 1) +
                " rows and " + std::to_string(slices) + " slices or layers");
  if (!inside && (form.boundary == Boundary::zero || last_x < 0))
    return 0;
  inside = true;
  x = std::clamp<int64_t>(x, 0, last_x);
  y = std::clamp<int64_t>(y, 0, last_y);
  slice = std::clamp<int64_t>(slice, 0, last_z);
  uint64_t address = level.base + static_cast<uint64_t>(slice) * level.slice_bytes +
                     static_cast<uint64_t>(y) * level.row_bytes + static_cast<uint64_t>(x);
  uint32_t alignment = form.formatted ? image.format.bytes() : bytes;
  if (address % alignment != 0)
    misaligned(w, i, lane, static_cast<uint64_t>(x), alignment);
  return address;
}

// A surface knows layers as a two-dimensional array whether they are faces or not.
void require_surface_shape(Warp &w, const Instruction *i, uint32_t lane, const Image &image,
                           Geometry geometry) {
  Image plain;
  plain.dimensions = image.dimensions;
  plain.layered = image.layered || image.cubemap;
  require_shape(w, i, lane, plain, geometry);
}

template <typename Access>
const Instruction *each_access(Warp &w, const Instruction *i, AccessKind kind, Access access) {
  const ImageForm &form = form_of(w, i);
  std::vector<uint64_t> addresses;
  uint32_t bytes = 0;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    const Surface &surface = surface_of(w, i, lane);
    require_surface_shape(w, i, lane, surface.image, form.geometry);
    bytes = form.formatted ? surface.image.format.bytes() : form.elements * ptx::size_bytes(form.type);
    bool inside;
    uint64_t address = surface_address(w, i, lane, form, surface, bytes, inside);
    if (inside)
      addresses.push_back(address);
    access(form, surface, lane, reinterpret_cast<uint8_t *>(inside ? address : 0));
  }
  count_global_accesses(w, addresses, bytes, kind);
  return i + 1;
}

} // namespace

const Instruction *sample(Warp &w, const Instruction *i) {
  return each_lookup(w, i,
                     [](const Texture &texture, const Lookup &lookup, const ImageForm &,
                        Footprint &footprint) { return emulator::sample(texture, lookup, footprint); });
}

const Instruction *gather(Warp &w, const Instruction *i) {
  return each_lookup(
      w, i, [](const Texture &texture, const Lookup &lookup, const ImageForm &form, Footprint &footprint) {
        return emulator::gather(texture, lookup, form.channel, footprint);
      });
}

const Instruction *query(Warp &w, const Instruction *i) {
  const ImageForm &form = form_of(w, i);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes), at = operand<uint32_t>(w, i, level, lane);
    uint32_t result;
    if (form.of_surface) {
      result = answer(surface_of(w, i, lane).image, nullptr, form.query, 0);
    } else {
      const Texture &texture = texture_of(w, i, lane);
      result = answer(texture.image, &texture.sampler, form.query, at);
    }
    give(w, i, 0, lane, result, 4);
  }
  return i + 1;
}

const Instruction *load(Warp &w, const Instruction *i) {
  auto read = [&](const ImageForm &form, const Surface &surface, uint32_t lane, const uint8_t *at) {
    uint32_t size = ptx::size_bytes(form.type);
    if (form.formatted) {
      Texture texture;
      texture.image.format = surface.image.format;
      Channels channels{{0, 0, 0, 0}};
      if (at)
        channels = texture.gives_integers() ? read_raw(surface.image.format, at) : read_float(texture, at);
      for (uint32_t e = 0; e < form.elements; ++e)
        give(w, i, e, lane, channels.bits[e], 4);
      return;
    }
    for (uint32_t e = 0; e < form.elements; ++e) {
      uint64_t bits = 0;
      if (at)
        std::memcpy(&bits, at + e * size, size);
      give(w, i, e, lane, bits, size);
    }
  };
  return each_access(w, i, AccessKind::load, read);
}

const Instruction *store(Warp &w, const Instruction *i) {
  auto write = [&](const ImageForm &form, const Surface &surface, uint32_t lane, uint8_t *at) {
    if (!at)
      return;
    uint32_t size = ptx::size_bytes(form.type);
    if (form.formatted) {
      uint32_t values[4] = {};
      for (uint32_t e = 0; e < form.elements; ++e)
        values[e] = operand<uint32_t>(w, i, value + e, lane);
      write_texel(surface.image.format, at, values, form.elements);
      return;
    }
    for (uint32_t e = 0; e < form.elements; ++e)
      std::memcpy(at + e * size, w.registers + row_of(w, i, value + e) + lane * size, size);
  };
  return each_access(w, i, AccessKind::store, write);
}

const Instruction *reduce(Warp &w, const Instruction *i) {
  auto combine = [&](const ImageForm &form, const Surface &surface, uint32_t lane, uint8_t *at) {
    if (!at)
      return;
    ptx::Type type = form.type;
    uint32_t size = ptx::size_bytes(type);
    if (form.formatted) {
      const TexelFormat &format = surface.image.format;
      if (format.bytes() != size || !format.is_integer())
        fail(w, i, LaunchStatus::illegal_instruction, "a reduction into texels of another size or kind",
             lane);
      bool with_sign = format.kind == TexelKind::signed_integer;
      type = size == 8 ? (with_sign ? ptx::Type::s64 : ptx::Type::u64)
                       : (with_sign ? ptx::Type::s32 : ptx::Type::u32);
    }
    asynchronous::combine_element(static_cast<asynchronous::Operator>(form.reduction), type,
                                  reinterpret_cast<uint64_t>(at),
                                  w.registers + row_of(w, i, value) + lane * size);
  };
  return each_access(w, i, AccessKind::atomic, combine);
}

const Instruction *is_type(Warp &w, const Instruction *i) {
  const ImageForm &form = form_of(w, i);
  const MemoryMap &memory = *w.launch->memory;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    uint32_t lane = first_lane(lanes);
    uint64_t number = operand<uint64_t>(w, i, handle, lane);
    std::string problem;
    bool is = form.opaque == ptx::Opaque::texture   ? memory.texture(number, problem) != nullptr
              : form.opaque == ptx::Opaque::surface ? memory.surface(number, problem) != nullptr
                                                    : false;
    uint32_t &row = w.predicate(row_of(w, i, resident));
    row = is ? row | uint32_t{1} << lane : row & ~(uint32_t{1} << lane);
  }
  return i + 1;
}

} // namespace emulator::textures
