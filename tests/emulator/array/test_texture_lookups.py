"""Every form of texture lookup with random textures and coordinates, against exact arithmetic."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import driver_api
import pytest
import texture_reference as reference
from texture_api import FORMATS, float_bits, kernel, launch, random_level, texture_of
from texture_reference import BORDER, CLAMP, MIRROR, WRAP, Image

# geometry: dimensions, layered, cubemap, extents, coordinate operand for floats and for integers
GEOMETRIES = {
    "1d": (1, False, False, (13, 1, 1), "{%f1}", "{%r1}"),
    "2d": (2, False, False, (7, 5, 1), "{%f1, %f2}", "{%r1, %r2}"),
    "3d": (3, False, False, (5, 4, 3), "{%f1, %f2, %f3, %f3}", "{%r1, %r2, %r3, %r3}"),
    "a1d": (1, True, False, (9, 1, 4), "{%r0, %f1}", "{%r0, %r1}"),
    "a2d": (2, True, False, (4, 6, 3), "{%r0, %f1, %f2, %f2}", "{%r0, %r1, %r2, %r2}"),
    "cube": (2, False, True, (5, 5, 6), "{%f1, %f2, %f3, %f3}", ""),
    "acube": (2, True, True, (4, 4, 12), "{%r0, %f1, %f2, %f3}", ""),
}
ONE = 0x3F800000
RESULT = "{%o0, %o1, %o2, %o3}"


def image_of(geometry: str, form: str, chance: random.Random, levels: int = 1, **settings: object) -> Image:
    dimensions, layered, cubemap, extents, *_ = GEOMETRIES[geometry]
    if levels > 1:
        extents = (
            16,
            16 if dimensions > 1 else 1,
            extents[2] if layered or cubemap else 8 if dimensions == 3 else 1,
        )

    def shrunk(extent: int, level: int) -> int:
        return max(extent >> level, 1)

    shapes = [
        (
            shrunk(extents[0], n),
            shrunk(extents[1], n),
            extents[2] if layered or cubemap else shrunk(extents[2], n),
        )
        for n in range(levels)
    ]
    made = [random_level(FORMATS[form], shape, chance) for shape in shapes]
    return Image(FORMATS[form], dimensions, made, layered=layered, cubemap=cubemap, **settings)  # type: ignore[arg-type]


def coordinates(image: Image, chance: random.Random, count: int = 96) -> list[list[int]]:
    """Layer, then three coordinates: around texels, their borders and centres, beyond the edges, far away."""
    level = image.levels[0]
    sizes = (level.width, level.height, level.slices)
    corners = [0.0, -0.0, 0.5, 1.0, -1.0, 1e-30, -1e-30, 3e9, -3e9, 1e30, float("nan"), 0.998046875]
    threads = []
    for n in range(count):
        words = [chance.choice([0, 1, 2, 3, 7, 0xFFFFFFFF])]
        for size in sizes:
            place = chance.uniform(-2 * size, 3 * size) if n % 3 else chance.randint(-4 * size, 4 * size) / 2
            place = place / size if image.normalised else place
            if image.cubemap:
                place = chance.choice([chance.uniform(-1, 1), chance.choice([1.0, -1.0, 0.5])])
            elif n < 3 * len(corners) and chance.random() < 0.5:
                place = corners[n % len(corners)]
            words.append(float_bits(place))
        threads.append(words)
    return threads


def compare(
    cuda: driver_api.Driver,
    image: Image,
    opcode: str,
    operands: str,
    threads: list[list[int]],
    **lookup: object,
) -> None:
    error, got = launch(cuda, kernel(f"{opcode} {RESULT}, {operands};"), texture_of(cuda, image), threads)
    assert error == 0
    for words, result in zip(threads, got, strict=True):
        expected = reference.lookup(image, words[1:4], layer=words[0], **lookup)  # type: ignore[arg-type]
        assert result[:4] == expected, (opcode, [hex(w) for w in words[:4]])


CASES = [
    (geometry, form, settings)
    for number, geometry in enumerate(GEOMETRIES)
    for form, settings in [
        ("f32", {}),
        ("f32x4", {"filters": True, "normalised": True, "modes": (WRAP, MIRROR, CLAMP)}),
        ("f32", {"filters": True, "modes": (CLAMP, BORDER, CLAMP), "border": (0x3FA66666, 0, ONE, ONE)}),
        ("u8x4", {"filters": True, "normalised": True, "modes": (MIRROR, WRAP, WRAP)}),
        ("unorm8x4", {"filters": True, "modes": (BORDER,) * 3, "border": (0x3E4CCCCD, 0x3F000000, 0, ONE)}),
        ("s16x4", {"filters": True, "normalised": True, "modes": (WRAP,) * 3}),
        ("f16x4", {"filters": True, "normalised": True, "modes": (MIRROR,) * 3}),
        ("s8x2", {"promotes": False, "normalised": True, "modes": (WRAP,) * 3}),
        ("u16x2", {"promotes": False}),
        ("s32x2", {"normalised": True, "modes": (MIRROR,) * 3}),
        ("u32", {"modes": (BORDER,) * 3, "border": (1, 2, 3, 4)}),
        ("snorm16x2", {"normalised": True, "modes": (CLAMP, WRAP, MIRROR)}),
        ("u8x4", {"srgb": True, "filters": True, "normalised": True}),
    ]
]


@pytest.mark.parametrize(("geometry", "form", "settings"), CASES)
def test_lookups(cuda: driver_api.Driver, geometry: str, form: str, settings: dict[str, object]) -> None:
    chance = random.Random(f"{geometry} {form} {settings}")
    if GEOMETRIES[geometry][2]:
        settings = {**settings, "normalised": True}
    image = image_of(geometry, form, chance, **settings)
    kind = ("s32" if image.format.signed else "u32") if image.integers else "f32"
    operands = f"[%image, {GEOMETRIES[geometry][4]}]"
    compare(cuda, image, f"tex.{geometry}.v4.{kind}.f32", operands, coordinates(image, chance))


@pytest.mark.parametrize("geometry", [g for g in GEOMETRIES if GEOMETRIES[g][5]])
@pytest.mark.parametrize("mode", [CLAMP, BORDER])
def test_integer_coordinates(cuda: driver_api.Driver, geometry: str, mode: int) -> None:
    chance = random.Random(f"{geometry} {mode}")
    image = image_of(geometry, "f32x4", chance, filters=True, modes=(mode,) * 3, border=(1, 2, 3, 4))
    threads = [[chance.choice([0, 1, 9]), *(chance.randint(-20, 20) for _ in range(3))] for _ in range(64)]
    threads += [[0, 2**31 - 1, -(2**31), 5]]
    operands = f"[%image, {GEOMETRIES[geometry][5]}]"
    compare(cuda, image, f"tex.{geometry}.v4.f32.s32", operands, threads, integers=True)


@pytest.mark.parametrize("geometry", [g for g in GEOMETRIES if not GEOMETRIES[g][2]])
@pytest.mark.parametrize("filters", [False, True])
def test_offsets_count_texels(cuda: driver_api.Driver, geometry: str, filters: bool) -> None:
    chance = random.Random(f"{geometry} {filters}")
    image = image_of(geometry, "f32", chance, filters=filters, normalised=True, modes=(WRAP, MIRROR, CLAMP))
    offset = {1: "{-3}", 2: "{7, -8}", 3: "{1, -2, 3, 0}"}[image.dimensions]
    values = [int(v) for v in offset.strip("{}").split(",")] + [0, 0]
    operands = f"[%image, {GEOMETRIES[geometry][4]}], {offset}"
    compare(cuda, image, f"tex.{geometry}.v4.f32.f32", operands, coordinates(image, chance), offset=values)


@pytest.mark.parametrize("geometry", ["2d", "a2d", "cube", "acube"])
@pytest.mark.parametrize("form", ["f32x4", "u8x4", "s32x2"])
def test_gathers(cuda: driver_api.Driver, geometry: str, form: str) -> None:
    chance = random.Random(f"{geometry} {form}")
    image = image_of(geometry, form, chance, normalised=True, modes=(WRAP, CLAMP, CLAMP))
    handle = texture_of(cuda, image, gathers=geometry == "2d")
    kind = "s32" if image.integers else "f32"
    threads = coordinates(image, chance)
    for channel, letter in enumerate("rgba"):
        body = f"tld4.{letter}.{geometry}.v4.{kind}.f32 {RESULT}, [%image, {GEOMETRIES[geometry][4]}];"
        error, got = launch(cuda, kernel(body), handle, threads)
        assert error == 0
        for words, result in zip(threads, got, strict=True):
            assert result[:4] == reference.gather(image, channel, words[1:4], layer=words[0])


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("filters", [(False, False), (True, False), (False, True), (True, True)])
def test_levels(cuda: driver_api.Driver, geometry: str, filters: tuple[bool, bool]) -> None:
    chance = random.Random(f"{geometry} {filters}")
    image = image_of(
        geometry, "f32", chance, levels=4, normalised=True, filters=filters[0], filters_levels=filters[1],
        modes=(WRAP, MIRROR, CLAMP), bias=0.25, least=0.125, most=2.75,
    )  # fmt: skip
    threads = [[*words, 0, 0, 0][:4] for words in coordinates(image, chance, 64)]
    levels = [chance.choice([chance.uniform(-1, 5), chance.randint(-8, 40) / 8]) for _ in threads]
    threads = [[*words, float_bits(level)] for words, level in zip(threads, levels, strict=True)]
    place = GEOMETRIES[geometry][4]
    body = f"""
    tex.level.{geometry}.v4.f32.f32 {RESULT}, [%image, {place}], %f4;
    tex.base.{geometry}.v4.f32.f32 {{%o4, _, _, %o7}}, [%image, {place}];
    """
    error, got = launch(cuda, kernel(body), texture_of(cuda, image), threads)
    assert error == 0
    for words, result in zip(threads, got, strict=True):
        level = float(reference.number_of(words[4]) or 0)
        assert result[:4] == reference.lookup(image, words[1:4], layer=words[0], level=level), level
        base = reference.lookup(image, words[1:4], layer=words[0])
        assert result[4:8] == [base[0], 0, 0, base[3]]


@pytest.mark.parametrize("geometry", ["1d", "2d", "3d", "a1d", "a2d", "cube"])
def test_gradients_choose_the_level(cuda: driver_api.Driver, geometry: str) -> None:
    chance = random.Random(geometry)
    image = image_of(
        geometry,
        "f32",
        chance,
        levels=4,
        normalised=True,
        filters=True,
        filters_levels=True,
        modes=(WRAP,) * 3,
    )
    dimensions = 3 if geometry in ("3d", "cube") else image.dimensions
    threads, levels = [], []
    while len(threads) < 64:
        words = coordinates(image, chance, 1)[0]
        if image.cubemap:
            words = [0, *(float_bits(chance.uniform(-1, 1)) for _ in range(3))]
        changes = [float_bits(chance.choice([-1, 1]) * 2 ** chance.uniform(-5, 0)) for _ in range(6)]
        level = level_of(image, words, changes, dimensions)
        if abs(level * 256 % 1 - 0.5) > 1e-3:  # not where a last digit decides
            threads.append([*words, *changes])
            levels.append(level)
    four = {
        1: ("{%f4}", "{%f7}"),
        2: ("{%f4, %f5}", "{%f7, %f8}"),
        3: ("{%f4, %f5, %f6, %f6}", "{%f7, %f8, %f9, %f9}"),
    }
    dx, dy = four[dimensions]
    body = f"tex.grad.{geometry}.v4.f32.f32 {RESULT}, [%image, {GEOMETRIES[geometry][4]}], {dx}, {dy};"
    error, got = launch(cuda, kernel(body), texture_of(cuda, image), threads)
    assert error == 0
    for words, level, result in zip(threads, levels, got, strict=True):
        assert result[:4] == reference.lookup(image, words[1:4], layer=words[0], level=level)


def level_of(image: Image, words: list[int], changes: list[int], dimensions: int) -> float:
    values = [float(reference.number_of(bits) or 0) for bits in changes]
    level = image.levels[0]
    squares = []
    for change in (values[:3], values[3:]):
        if image.cubemap:
            at = [float(reference.number_of(bits) or 0) for bits in words[1:4]]
            face, _, _ = reference.project([reference.Fraction(c) for c in at])
            axis, sign, (s, s_sign), (t, t_sign) = reference.FACES[face]
            m, dm = sign * at[axis], sign * change[axis]
            parts = [
                (z * change[a] * m - z * at[a] * dm) / m**2 / 2 * level.width
                for a, z in ((s, s_sign), (t, t_sign))
            ]
        else:
            parts = [
                c * n
                for c, n in zip(change[:dimensions], (level.width, level.height, level.slices), strict=False)
            ]
        squares.append(sum(part * part for part in parts))
    return math.log2(max(squares)) / 2


@pytest.mark.parametrize("geometry", ["cube", "acube"])
def test_seamless_cubemaps_filter_over_edges(cuda: driver_api.Driver, geometry: str) -> None:
    chance = random.Random(geometry)
    image = image_of(geometry, "f32", chance, normalised=True, filters=True, seamless=True, modes=(WRAP,) * 3)
    threads = []
    for _ in range(192):  # near an edge of a face
        values = [chance.choice([-1, 1]) * chance.uniform(0.85, 1) for _ in range(2)] + [
            chance.uniform(-1, 1)
        ]
        chance.shuffle(values)
        threads.append([chance.randint(0, 1), *map(float_bits, values)])
    compare(cuda, image, f"tex.{geometry}.v4.f32.f32", f"[%image, {GEOMETRIES[geometry][4]}]", threads)


def test_halves_are_rounded_results(cuda: driver_api.Driver) -> None:
    chance = random.Random(4)
    image = image_of("2d", "u16x2", chance, filters=True, normalised=True)
    threads = coordinates(image, chance)
    body = """
    tex.2d.v2.f16x2.f32 {%o0, %o1}, [%image, {%f1, %f2}];
    tex.2d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%image, {%f1, %f2}];
    mov.b32 %o2, {%h0, %h1}; mov.b32 %o3, {%h2, %h3};
    """
    error, got = launch(cuda, kernel(body), texture_of(cuda, image), threads)
    assert error == 0
    for words, result in zip(threads, got, strict=True):
        floats = [reference.number_of(bits) for bits in reference.lookup(image, words[1:4])]
        halves = [
            reference.exact.rounded(value or reference.Fraction(0), reference.exact.F16) for value in floats
        ]
        expected = [halves[0] | halves[1] << 16, halves[2] | halves[3] << 16]
        assert result[:4] == expected * 2


def test_infinities_and_nan_count_only_with_a_weight(cuda: driver_api.Driver) -> None:
    infinite, nan = 0x7F800000, 0x7FC00001
    values = [(infinite,), (ONE,), (infinite | 1 << 31,), (nan,), (ONE,), (ONE,)]
    level = reference.Level(6, 1, 1, values)
    image = Image(FORMATS["f32"], 1, [level], filters=True)
    places = [0.5, 0.75, 1.5, 2.0, 2.5, 3.25, 4.5, 5.0]
    threads = [[0, float_bits(place)] for place in places]
    error, got = launch(
        cuda, kernel(f"tex.1d.v4.f32.f32 {RESULT}, [%image, {{%f1}}];"), texture_of(cuda, image), threads
    )
    assert error == 0
    negative = infinite | 1 << 31
    assert [result[0] for result in got] == [
        infinite,
        infinite,
        ONE,
        negative,
        negative,
        0x7FFFFFFF,
        ONE,
        ONE,
    ]


def test_a_guard_and_divergence_leave_other_lanes_alone(cuda: driver_api.Driver) -> None:
    chance = random.Random(5)
    image = replace(image_of("1d", "f32", chance))
    body = f"""
    mov.u32 %o0, 7; mov.u32 %o4, 7;
    and.b32 %t, %t, 3;
    setp.eq.u32 %p1, %t, 0;
    @%p1 tex.1d.v4.f32.f32 {RESULT}|%p2, [%image, {{%f1}}];
    @%p1 bra END;
    mov.u32 %o5, 5;
    tex.1d.v4.f32.f32 {{%o4, _, _, _}}, [%image, {{%f2}}];
    END:
    """
    threads = [[0, float_bits(t % 13), float_bits((t + 3) % 13)] for t in range(64)]
    error, got = launch(cuda, kernel(body), texture_of(cuda, image), threads)
    assert error == 0
    texels = [texel[0] for texel in image.levels[0].texels]
    for t, result in enumerate(got):
        if t % 4 == 0:
            assert result[:6] == [texels[t % 13], 0, 0, ONE, 7, 0]
        else:
            assert result[:6] == [7, 0, 0, 0, texels[(t + 3) % 13], 5]


def test_a_single_row_is_one_dimension_as_well(cuda: driver_api.Driver) -> None:
    """As Dr.Jit makes one-dimensional textures: an array of width 2 and height 1."""
    row, rows = (random_level(FORMATS["f32"], (2, height, 1), random.Random(5)) for height in (1, 2))
    lookup = kernel(f"tex.1d.v4.f32.f32 {RESULT}, [%image, {{%f0}}];")
    threads = [[float_bits(u)] for u in (0.5, 0.75, 1.0, 1.5, -1.0)]
    expected = launch(cuda, lookup, texture_of(cuda, Image(FORMATS["f32"], 1, [row], filters=True)), threads)
    assert expected[0] == 0
    flat = Image(FORMATS["f32"], 2, [row], filters=True)
    assert launch(cuda, lookup, texture_of(cuda, flat), threads) == expected
    tall = texture_of(cuda, Image(FORMATS["f32"], 2, [rows], filters=True))
    assert launch(cuda, lookup, tall, threads)[0] != 0
