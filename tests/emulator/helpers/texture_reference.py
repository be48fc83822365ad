"""An independent reference for texture lookups: exact rational arithmetic on lists of texels, rounded once.

The formulas are those of the CUDA C++ Programming Guide ("Texture Fetching", "Cubemap Textures"); what it leaves open
is what docs/cpu-driver.md says. Coordinates are bit patterns of f32, results are the four 32-bit words of `tex.v4`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import exact

WRAP, CLAMP, MIRROR, BORDER = range(4)
ONE = 0x3F800000

Texel = tuple[int, ...]  # the bits of each channel


@dataclass(frozen=True)
class Format:
    """kind: u, s (integers), f (floats), un, sn (normalised). `number` is the CUarray_format."""

    kind: str
    bits: int
    channels: int
    number: int

    @property
    def size_bytes(self) -> int:
        return self.bits // 8 * self.channels

    @property
    def signed(self) -> bool:
        return self.kind in ("s", "sn")

    def pack(self, texel: Texel) -> bytes:
        return b"".join(channel.to_bytes(self.bits // 8, "little") for channel in texel)


@dataclass(frozen=True)
class Level:
    """Texels by slice (layer, face), row and column."""

    width: int
    height: int
    slices: int
    texels: list[Texel]

    def at(self, x: int, y: int, z: int) -> Texel:
        return self.texels[(z * self.height + y) * self.width + x]


@dataclass
class Image:
    """`dimensions` of a layer; a cubemap has two."""

    format: Format
    dimensions: int
    levels: list[Level]
    layered: bool = False
    cubemap: bool = False
    linear: bool = False  # memory without an array
    modes: tuple[int, int, int] = (CLAMP, CLAMP, CLAMP)
    filters: bool = False
    normalised: bool = False
    promotes: bool = True
    srgb: bool = False
    seamless: bool = False
    filters_levels: bool = False
    bias: float = 0.0
    least: float = 0.0
    most: float = 100.0
    border: tuple[int, int, int, int] = field(default=(0, 0, 0, 0))

    @property
    def integers(self) -> bool:
        return self.format.kind in ("u", "s") and not (self.promotes and self.format.bits < 32)


def number_of(bits: int) -> Fraction | None:
    """The value of an f32; None for NaN, 0 beyond: infinities do not come as coordinates that are compared."""
    if exact.is_nan(bits, exact.F32) or exact.is_infinite(bits, exact.F32):
        return None
    return exact.value(bits, exact.F32)


def srgb_to_linear(code: int) -> Fraction:
    c = code / 255
    linear = c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
    return Fraction(struct.unpack("f", struct.pack("f", linear))[0])


def half_to_float(bits: int) -> int:
    if exact.is_nan(bits, exact.F16) or exact.is_infinite(bits, exact.F16):
        return (bits & 0x8000) << 16 | 0x7F800000 | (bits & 0x3FF) << 13
    negative = exact.negative(bits, exact.F16)
    return exact.rounded(exact.value(bits, exact.F16), exact.F32, zero_sign=negative)


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def channel_word(image: Image, texel: Texel, c: int) -> int:
    """What a lookup of one texel gives in a channel."""
    form = image.format
    if c >= form.channels:
        return 0 if c < 3 else 1 if image.integers else ONE
    bits = texel[c]
    if form.kind == "f":
        return half_to_float(bits) if form.bits == 16 else bits
    if image.integers:
        return (signed(bits, form.bits) if form.signed else bits) & 0xFFFFFFFF
    return exact.rounded(channel_value(image, texel, c), exact.F32)


def channel_value(image: Image, texel: Texel, c: int) -> Fraction:
    """As an exact number, for filters; finite."""
    form = image.format
    if c >= form.channels:
        return Fraction(c == 3)
    if form.kind == "f":
        value = number_of(channel_word(image, texel, c))
        assert value is not None
        return value
    if image.srgb and c < 3 and form.bits == 8 and not form.signed:
        return srgb_to_linear(texel[c])
    if not form.signed:
        return Fraction(texel[c], (1 << form.bits) - 1)
    largest = (1 << (form.bits - 1)) - 1
    return Fraction(max(signed(texel[c], form.bits), -largest), largest)


FACES = {  # face: which of (x, y, z) is the major axis, its sign, and s and t as (axis, sign)
    0: (0, 1, (2, -1), (1, -1)),
    1: (0, -1, (2, 1), (1, -1)),
    2: (1, 1, (0, 1), (2, 1)),
    3: (1, -1, (0, 1), (2, -1)),
    4: (2, 1, (0, 1), (1, -1)),
    5: (2, -1, (0, -1), (1, -1)),
}


def project(direction: Sequence[Fraction]) -> tuple[int, Fraction, Fraction]:
    """Face, and s/m and t/m on it."""
    sizes = [abs(c) for c in direction]
    axis = 0 if sizes[0] >= max(sizes) else 1 if sizes[1] >= sizes[2] else 2
    for face, (major, sign, (s, s_sign), (t, t_sign)) in FACES.items():
        if major == axis and (direction[axis] >= 0) == (sign > 0):
            return face, s_sign * direction[s] / sizes[axis], t_sign * direction[t] / sizes[axis]
    raise AssertionError


def direction_of(face: int, s: Fraction, t: Fraction) -> list[Fraction]:
    major, sign, (s_axis, s_sign), (t_axis, t_sign) = FACES[face]
    result = [Fraction(0)] * 3
    result[major], result[s_axis], result[t_axis] = Fraction(sign), s_sign * s, t_sign * t
    return result


def resolved(image: Image, mode: int, index: int, size: int) -> int | None:
    """The texel that an index stands for; None for the border."""
    if 0 <= index < size:
        return index
    if image.linear:
        return None
    if not image.normalised and not image.cubemap and mode in (WRAP, MIRROR):
        mode = CLAMP
    if mode == WRAP:
        return index % size
    if mode == MIRROR:
        index %= 2 * size
        return index if index < size else 2 * size - 1 - index
    if mode == BORDER:
        return None
    return min(max(index, 0), size - 1)


@dataclass(frozen=True)
class Place:
    """Where a lookup is in one level: coordinates in texels, and the slice or, of cubemaps, the first face."""

    level: Level
    coordinates: list[Fraction]
    slice: int
    face: int = 0


def place_of(image: Image, level: Level, coordinates: Sequence[int], layer: int) -> Place:
    values = [number_of(c) or Fraction(0) for c in coordinates]
    groups = level.slices // 6 if image.cubemap else level.slices
    first = min(layer, groups - 1) if image.layered else 0
    if image.cubemap:
        face, s, t = project(values)
        return Place(level, [(c + 1) / 2 * level.width for c in (s, t)], 6 * first, face)
    sizes = (level.width, level.height, level.slices)
    values = values[: image.dimensions]
    if image.normalised:
        values = [v * size for v, size in zip(values, sizes, strict=False)]
    return Place(level, values, first)


def texel_at(image: Image, place: Place, index: Sequence[int]) -> Texel | None:
    level = place.level
    sizes = (level.width, level.height, level.slices)
    if image.cubemap and image.seamless:
        n = level.width
        face, x, y = place.face, index[0], index[1]
        if not (0 <= x < n and 0 <= y < n):
            beyond = direction_of(face, Fraction(2 * x + 1 - n, n), Fraction(2 * y + 1 - n, n))
            face, s, t = project(beyond)
            x, y = (min(math.floor((c + 1) / 2 * n), n - 1) for c in (s, t))
        return level.at(x, y, place.slice + face)
    found = [resolved(image, image.modes[d], i, sizes[d]) for d, i in enumerate(index)]
    if None in found:
        return None
    x, y, z = [*found, 0, 0][:3]
    return level.at(x or 0, y or 0, (z or 0) if image.dimensions == 3 else place.slice + place.face)


def fixed(value: Fraction) -> int:
    """In units of 1/256, to nearest."""
    return math.floor(value * 256 + Fraction(1, 2))


def border_words(image: Image) -> Texel:
    return (0, 0, 0, 0) if image.linear else image.border


def weighed(image: Image, place: Place, offset: Sequence[int]) -> list[tuple[Fraction, Texel | None]]:
    dimensions = len(place.coordinates)
    corners = [fixed(c) - 128 for c in place.coordinates]
    result = []
    for which in range(1 << dimensions):
        weight, index = Fraction(1), []
        for d, corner in enumerate(corners):
            high = which >> d & 1
            index.append((corner >> 8) + high + offset[d])
            weight *= Fraction(corner & 255, 256) if high else 1 - Fraction(corner & 255, 256)
        if weight:
            result.append((weight, texel_at(image, place, index)))
    return result


def mean(image: Image, parts: list[tuple[Fraction, Texel | None]]) -> list[int]:
    words = []
    for c in range(4):
        total = Fraction(0)
        for weight, texel in parts:
            if texel is not None:
                total += weight * channel_value(image, texel, c)
            else:
                total += weight * exact.value(border_words(image)[c], exact.F32)
        words.append(exact.rounded(total, exact.F32))
    return words


def one_texel(image: Image, texel: Texel | None) -> list[int]:
    if texel is None:
        return list(border_words(image))
    return [channel_word(image, texel, c) for c in range(4)]


def lookup(
    image: Image,
    coordinates: Sequence[int],
    *,
    layer: int = 0,
    level: float | None = None,
    offset: Sequence[int] = (0, 0, 0),
    integers: bool = False,
) -> list[int]:
    """tex: the four words. `coordinates` are bits of f32, or with `integers` whole numbers."""
    if integers:
        place = Place(image.levels[0], [], min(layer, image.levels[0].slices - 1) if image.layered else 0)
        index = [c + o for c, o in zip(coordinates, offset, strict=False)][: image.dimensions]
        return one_texel(image, texel_at(image, place, index))
    filters = image.filters and not image.integers and not image.linear
    wanted = Fraction(0) if level is None else Fraction(level) + Fraction(image.bias)
    wanted = min(max(wanted, Fraction(image.least)), Fraction(image.most))
    wanted = min(max(wanted, Fraction(0)), Fraction(len(image.levels) - 1))
    if image.filters_levels and not image.integers and len(image.levels) > 1:
        share = fixed(wanted)
        shares = [
            (share >> 8, Fraction(256 - (share & 255), 256)),
            ((share >> 8) + 1, Fraction(share & 255, 256)),
        ]
    else:
        shares = [(math.floor(wanted + Fraction(1, 2)), Fraction(1))]
    parts: list[tuple[Fraction, Texel | None]] = []
    for number, part in shares:
        if not part:
            continue
        place = place_of(image, image.levels[number], coordinates, layer)
        if filters:
            parts += [(part * weight, texel) for weight, texel in weighed(image, place, offset)]
        else:
            index = [math.floor(c) + o for c, o in zip(place.coordinates, offset, strict=False)]
            parts.append((part, texel_at(image, place, index)))
    if not filters and len(parts) == 1:
        return one_texel(image, parts[0][1])
    return mean(image, parts)


def gather(
    image: Image, channel: int, coordinates: Sequence[int], *, layer: int = 0, offset: Sequence[int] = (0, 0)
) -> list[int]:
    """tld4: one channel of four texels, counter-clockwise from the lower left."""
    place = place_of(image, image.levels[0], coordinates, layer)
    x, y = ((fixed(c) - 128 >> 8) + o for c, o in zip(place.coordinates, offset, strict=False))
    corners = [(x, y + 1), (x + 1, y + 1), (x + 1, y), (x, y)]
    return [one_texel(image, texel_at(image, place, corner))[channel] for corner in corners]
