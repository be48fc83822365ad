#include "exec/sampling/sample.hpp"

#include <algorithm>
#include <cstring>

#include "exec/sampling/exact_sum.hpp"

namespace emulator {

namespace {

constexpr double far_away = 1125899906842624.0; // 2^50 texels
constexpr uint32_t not_a_number = 0x7fffffff;

// NaN is 0; what is beyond every image stays beyond it.
int64_t floor_of(double value) {
  if (!(value == value))
    return 0;
  value = std::clamp(value, -far_away, far_away);
  int64_t whole = static_cast<int64_t>(value);
  return whole - (static_cast<double>(whole) > value ? 1 : 0);
}

// In units of 1/256, to nearest.
int64_t fixed_point(double value) {
  double scaled = value * 256;
  int64_t whole = floor_of(scaled);
  return whole + (scaled - static_cast<double>(whole) >= 0.5 ? 1 : 0);
}

int64_t modulo(int64_t value, int64_t by) { return (value % by + by) % by; }

// One texel that a filter weighs. Without a place it has the border's colour.
struct Tap {
  const void *texel = nullptr;
  uint64_t weight = 0;
};

// What a cube map's direction becomes: a face, and coordinates on it (CUDA C++ Programming Guide, "Cubemap
// Textures"). Where two components are as large as each other, x goes before y before z, which is not
// documented.
struct OnFace {
  uint32_t face;
  double s, t, m;
};

template <typename T> OnFace face_of(T x, T y, T z) {
  T ax = x < 0 ? -x : x, ay = y < 0 ? -y : y, az = z < 0 ? -z : z;
  auto made = [](uint32_t face, T s, T t, T m) {
    return OnFace{face, static_cast<double>(s), static_cast<double>(t), static_cast<double>(m)};
  };
  if (ax >= ay && ax >= az)
    return x >= 0 ? made(0, -z, -y, ax) : made(1, z, -y, ax);
  if (ay >= az)
    return y >= 0 ? made(2, x, z, ay) : made(3, x, -z, ay);
  return z >= 0 ? made(4, x, -y, az) : made(5, -x, -y, az);
}

// The texel of another face that lies beyond the edge of this one. Where three faces meet, the texel that
// does not exist is one of its neighbours.
void cross_edge(uint32_t &face, int64_t &i, int64_t &j, int64_t n) {
  int64_t s = 2 * i + 1 - n, t = 2 * j + 1 - n;
  const int64_t directions[6][3] = {{n, -t, -s}, {-n, -t, s}, {s, n, t},
                                    {s, -n, -t}, {s, -t, n},  {-s, -t, -n}};
  OnFace to = face_of(directions[face][0], directions[face][1], directions[face][2]);
  int64_t m = static_cast<int64_t>(to.m);
  auto index = [&](double c) { return std::min((static_cast<int64_t>(c) + m) * n / (2 * m), n - 1); };
  face = to.face;
  i = index(to.s);
  j = index(to.t);
}

class Reader {
public:
  Reader(const Texture &texture, const Lookup &lookup, uint32_t level, Footprint &footprint)
      : texture_(texture), lookup_(lookup), level_(texture.image.levels[level]), footprint_(footprint) {
    const Image &image = texture.image;
    dimensions_ = is_cube(lookup.geometry) ? 2 : dimensions_of(lookup.geometry);
    uint32_t groups = is_cube(lookup.geometry) ? image.layers / 6 : image.layers;
    uint32_t group = is_array(lookup.geometry) ? std::min(lookup.layer, groups - 1) : 0;
    slice_ = group;
    const float *c = lookup.coordinate;
    double place[3] = {c[0], c[1], c[2]};
    if (is_cube(lookup.geometry)) {
      OnFace on = face_of(c[0], c[1], c[2]);
      face_ = on.face;
      slice_ = 6 * group;
      place[0] = (on.s / on.m + 1) / 2;
      place[1] = (on.t / on.m + 1) / 2;
    }
    bool scales = texture.sampler.normalised || is_cube(lookup.geometry);
    for (uint32_t d = 0; d < dimensions_; ++d) {
      mode_[d] = texture.sampler.mode[d];
      // Documented: these two are for normalised coordinates.
      if (!scales && (mode_[d] == AddressMode::wrap || mode_[d] == AddressMode::mirror))
        mode_[d] = AddressMode::clamp;
      double u = scales ? place[d] * level_.extent[d] : place[d];
      // Coordinates as large as that have no fraction and come round to the beginning.
      bool repeats = mode_[d] == AddressMode::wrap || mode_[d] == AddressMode::mirror;
      u_[d] = repeats && (u >= far_away || u <= -far_away) ? 0 : u;
    }
  }

  Tap nearest() {
    int64_t index[3] = {0, 0, 0};
    for (uint32_t d = 0; d < dimensions_; ++d)
      index[d] = (lookup_.integers ? lookup_.index[d] : floor_of(u_[d])) + lookup_.offset[d];
    return tap(index, 1);
  }

  // The lower corner of the texels that a linear filter weighs, and the weights of the upper ones, of 256.
  void corner(int64_t (&index)[3], uint32_t (&upper)[3]) const {
    for (uint32_t d = 0; d < 3; ++d) {
      int64_t fixed = d < dimensions_ ? fixed_point(u_[d]) - 128 : 0;
      index[d] = (fixed >> 8) + (d < dimensions_ ? lookup_.offset[d] : 0);
      upper[d] = static_cast<uint32_t>(fixed & 255);
    }
  }

  // Two, four or eight texels; their weights add up to 256 to the power of the dimensions.
  uint32_t weighed(Tap *taps) {
    int64_t low[3];
    uint32_t upper[3];
    corner(low, upper);
    uint32_t count = 0;
    for (uint32_t which = 0; which < 1u << dimensions_; ++which) {
      int64_t index[3] = {0, 0, 0};
      uint64_t weight = 1;
      for (uint32_t d = 0; d < dimensions_; ++d) {
        uint32_t high = which >> d & 1;
        index[d] = low[d] + high;
        weight *= high ? upper[d] : 256 - upper[d];
      }
      // A texel without a weight is not read: what it holds, infinities included, does not matter.
      if (weight != 0)
        taps[count++] = tap(index, weight);
    }
    return count;
  }

  uint32_t dimensions() const { return dimensions_; }

  Tap tap(const int64_t (&at)[3], uint64_t weight) {
    int64_t index[3] = {at[0], at[1], at[2]};
    uint32_t face = face_;
    bool border = false;
    if (is_cube(lookup_.geometry) && texture_.sampler.seamless) {
      int64_t n = level_.extent[0];
      if (index[0] < 0 || index[0] >= n || index[1] < 0 || index[1] >= n)
        cross_edge(face, index[0], index[1], n);
    } else {
      for (uint32_t d = 0; d < dimensions_; ++d)
        border |= !resolve(index[d], d);
    }
    if (border)
      return {nullptr, weight};
    uint64_t slice = dimensions_ == 3 ? static_cast<uint64_t>(index[2]) : uint64_t{slice_} + face;
    uint64_t row = dimensions_ == 1 ? 0 : static_cast<uint64_t>(index[1]);
    uint64_t address = level_.base + slice * level_.slice_bytes + row * level_.row_bytes +
                       static_cast<uint64_t>(index[0]) * texture_.image.format.bytes();
    footprint_.address[footprint_.count++] = address;
    return {reinterpret_cast<const void *>(address), weight};
  }

private:
  // False when the border's colour is meant.
  bool resolve(int64_t &index, uint32_t d) const {
    int64_t n = level_.extent[d];
    if (index >= 0 && index < n)
      return true;
    if (texture_.image.linear_memory)
      return false; // zero
    switch (mode_[d]) {
    case AddressMode::wrap:
      index = modulo(index, n);
      return true;
    case AddressMode::mirror:
      index = modulo(index, 2 * n);
      index = index < n ? index : 2 * n - 1 - index;
      return true;
    case AddressMode::border:
      return false;
    default:
      index = std::clamp<int64_t>(index, 0, n - 1);
      return true;
    }
  }

  const Texture &texture_;
  const Lookup &lookup_;
  const ImageLevel &level_;
  Footprint &footprint_;
  uint32_t dimensions_ = 1;
  uint32_t slice_ = 0, face_ = 0;
  AddressMode mode_[3] = {AddressMode::clamp, AddressMode::clamp, AddressMode::clamp};
  double u_[3] = {0, 0, 0};
};

const uint32_t *border_of(const Texture &texture) {
  static constexpr uint32_t zeros[4] = {0, 0, 0, 0};
  return texture.image.linear_memory ? zeros : texture.sampler.border;
}

Channels read_one(const Texture &texture, const Tap &tap) {
  if (!tap.texel) {
    Channels border;
    std::copy_n(border_of(texture), 4, border.bits);
    return border;
  }
  return texture.gives_integers() ? read_raw(texture.image.format, tap.texel)
                                  : read_float(texture, tap.texel);
}

// The weighed mean; the weights add up to 2^shift.
Channels mean(const Texture &texture, const Tap *taps, uint32_t count, uint32_t shift) {
  Channels result;
  uint32_t divisor = divisor_of(texture);
  double unit = 1.0 / static_cast<double>(uint64_t{1} << shift);
  for (uint32_t c = 0; c < 4; ++c) {
    ExactSum sum;
    bool positive_infinity = false, negative_infinity = false, nan = false;
    for (uint32_t t = 0; t < count; ++t) {
      Fraction one = taps[t].texel ? exact_channel(texture, taps[t].texel, c)
                                   : exact_float(border_of(texture)[c], divisor);
      if (!one.is_number) {
        nan |= (one.bits & 0x7fffff) != 0;
        positive_infinity |= one.bits == 0x7f800000;
        negative_infinity |= one.bits == 0xff800000;
        continue;
      }
      // The weight has up to 32 bits, the value up to 40: in two parts of 20, each product is exact.
      double weight = static_cast<double>(taps[t].weight) * unit;
      double upper = one.value * 8589934593.0;
      upper = upper - (upper - one.value);
      sum.add(weight * upper);
      sum.add(weight * (one.value - upper));
    }
    float value = sum.divided_by(divisor);
    std::memcpy(&result.bits[c], &value, sizeof value);
    if (nan || (positive_infinity && negative_infinity))
      result.bits[c] = not_a_number;
    else if (positive_infinity || negative_infinity)
      result.bits[c] = positive_infinity ? 0x7f800000 : 0xff800000;
  }
  return result;
}

// log2 of a positive number, by squaring: each step gives a bit of the fraction.
double log2_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  double result = static_cast<double>(static_cast<int64_t>(bits >> 52 & 0x7ff) - 1023);
  bits = (bits & 0xfffffffffffff) | uint64_t{1023} << 52;
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof mantissa);
  double place = 0.5;
  for (int digit = 0; digit < 26; ++digit, place /= 2) {
    mantissa *= mantissa;
    if (mantissa >= 2) {
      mantissa /= 2;
      result += place;
    }
  }
  return result;
}

} // namespace

const char *mismatch(const Image &image, Geometry geometry) {
  static constexpr const char *words[] = {
      "one dimension",          "two dimensions", "three dimensions",  "one-dimensional layers",
      "two-dimensional layers", "a cubemap",      "layers of cubemaps"};
  Geometry is = image.cubemap           ? image.layered ? Geometry::cube_array : Geometry::cube
                : image.layered         ? image.dimensions == 1 ? Geometry::one_array : Geometry::two_array
                : image.dimensions == 1 ? Geometry::one
                : image.dimensions == 2 ? Geometry::two
                                        : Geometry::three;
  // A single row is one dimension as well. Not yet seen on a GPU (GT-TEXTURES); Dr.Jit makes its
  // one-dimensional textures so.
  bool single_row = is == Geometry::two && !image.levels.empty() && image.levels[0].extent[1] == 1;
  return is == geometry || (single_row && geometry == Geometry::one) ? nullptr
                                                                     : words[static_cast<size_t>(is)];
}

Channels sample(const Texture &texture, const Lookup &lookup, Footprint &footprint) {
  const Sampler &sampler = texture.sampler;
  uint32_t levels = static_cast<uint32_t>(texture.image.levels.size());
  bool filters =
      sampler.linear && !lookup.integers && !texture.gives_integers() && !texture.image.linear_memory;
  uint32_t level = 0, above = 0;
  if (levels > 1) {
    double wanted = lookup.has_level ? lookup.level + static_cast<double>(sampler.level_bias) : 0;
    wanted = wanted == wanted ? wanted : 0;
    wanted = std::max(wanted, static_cast<double>(sampler.least_level));
    wanted = std::min(wanted, static_cast<double>(sampler.most_level));
    wanted = std::clamp(wanted, 0.0, static_cast<double>(levels - 1));
    if (sampler.linear_levels && !texture.gives_integers() && !lookup.integers) {
      int64_t fixed = fixed_point(wanted);
      level = static_cast<uint32_t>(fixed >> 8);
      above = static_cast<uint32_t>(fixed & 255);
    } else {
      level = static_cast<uint32_t>(floor_of(wanted + 0.5));
    }
  }
  Tap taps[Footprint::most];
  uint32_t count = 0, shift = 0;
  auto read = [&](uint32_t which, uint64_t weight) {
    Reader reader(texture, lookup, which, footprint);
    uint32_t first = count;
    if (filters)
      count += reader.weighed(taps + count);
    else
      taps[count++] = reader.nearest();
    for (uint32_t t = first; t < count; ++t)
      taps[t].weight *= weight;
    shift = filters ? 8 * reader.dimensions() : 0;
  };
  if (above == 0) {
    read(level, 1);
    if (!filters)
      return read_one(texture, taps[0]);
  } else {
    read(level, 256 - above);
    read(level + 1, above);
    shift += 8;
  }
  return mean(texture, taps, count, shift);
}

Channels gather(const Texture &texture, const Lookup &lookup, uint32_t channel, Footprint &footprint) {
  Reader reader(texture, lookup, 0, footprint);
  int64_t low[3];
  uint32_t upper[3];
  reader.corner(low, upper);
  static constexpr int64_t places[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
  Channels result;
  for (uint32_t p = 0; p < 4; ++p) {
    int64_t index[3] = {low[0] + places[p][0], low[1] + places[p][1], 0};
    result.bits[p] = read_one(texture, reader.tap(index, 1)).bits[channel];
  }
  return result;
}

double level_of(const Texture &texture, Geometry geometry, const Lookup &lookup, const float *dx,
                const float *dy) {
  const ImageLevel &base = texture.image.levels[0];
  auto squared_length = [&](const float *change) {
    double sum = 0;
    if (is_cube(geometry)) {
      // Of (s/m + 1) / 2, by the rule for quotients.
      const float *c = lookup.coordinate;
      OnFace at = face_of(c[0], c[1], c[2]);
      double d[3] = {change[0], change[1], change[2]};
      const double changes[6][3] = {{-d[2], -d[1], d[0]}, {d[2], -d[1], -d[0]}, {d[0], d[2], d[1]},
                                    {d[0], -d[2], -d[1]}, {d[0], -d[1], d[2]},  {-d[0], -d[1], -d[2]}};
      const double *on = changes[at.face];
      for (double component : {on[0] * at.m - at.s * on[2], on[1] * at.m - at.t * on[2]}) {
        double texels = component / (at.m * at.m) / 2 * base.extent[0];
        sum += texels * texels;
      }
      return sum;
    }
    for (uint32_t d = 0; d < dimensions_of(geometry); ++d) {
      double texels = static_cast<double>(change[d]) * (texture.sampler.normalised ? base.extent[d] : 1);
      sum += texels * texels;
    }
    return sum;
  };
  double largest = std::max(squared_length(dx), squared_length(dy));
  if (!(largest > 1e-300))
    return -1000; // no change: below every level
  return largest > 1e300 ? 1000 : log2_of(largest) / 2;
}

} // namespace emulator
