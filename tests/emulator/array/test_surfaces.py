"""Surface instructions with random data against bytes in Python; queries, references, and what goes wrong."""

from __future__ import annotations

import json
import random
import struct
from typing import TYPE_CHECKING

import driver_api
import exact
import pytest
from array_api import SURFACE
from test_texture_lookups import image_of
from texture_api import (
    FORMATS,
    array_of,
    download,
    float_bits,
    kernel,
    launch,
    random_level,
    resource_of,
    texture_of,
)
from texture_reference import Image, Level

if TYPE_CHECKING:
    from conftest import Fresh

# geometry: dimensions, layered, cubemap, extents, operand
GEOMETRIES = {
    "1d": (1, False, False, (16, 1, 1), "{%r1}"),
    "2d": (2, False, False, (8, 5, 1), "{%r1, %r2}"),
    "3d": (3, False, False, (8, 4, 3), "{%r1, %r2, %r3, %r3}"),
    "a1d": (1, True, False, (8, 1, 4), "{%r3, %r1}"),
    "a2d": (2, True, False, (8, 3, 4), "{%r3, %r1, %r2, %r2}"),
    "a2d of faces": (2, False, True, (8, 8, 6), "{%r3, %r1, %r2, %r2}"),
}
ACCESSES = [
    ("", "b8"),
    ("", "b16"),
    ("", "b32"),
    ("", "b64"),
    (".v2", "b32"),
    (".v4", "b32"),
    (".v4", "b8"),
    (".v2", "b64"),
]


def surface_of(
    cuda: driver_api.Driver, geometry: str, form: str, chance: random.Random
) -> tuple[int, int, Level]:
    dimensions, layered, cubemap, extents, _ = GEOMETRIES[geometry]
    level = random_level(FORMATS[form], extents, chance)
    image = Image(FORMATS[form], dimensions, [level], layered=layered, cubemap=cubemap)
    _, array = array_of(cuda, image, SURFACE)
    return cuda.make("cuSurfObjectCreate", driver_api.out(resource_of(0, array))), array, level


class Bytes:
    """The bytes of a surface, and where an access of some size goes under a boundary mode."""

    def __init__(self, form: str, level: Level) -> None:
        self.form, self.level = FORMATS[form], level
        self.data = bytearray(b"".join(self.form.pack(texel) for texel in level.texels))
        self.row = self.form.size_bytes * level.width

    def offset(self, words: list[int], size: int, mode: str, dimensions: int) -> int | None:
        x, y, z = words[1], words[2] if dimensions > 1 else 0, words[3]
        limits = (self.row - size, self.level.height - 1, self.level.slices - 1)
        place = [x, y, z if self.level.slices > 1 else 0]
        if mode == "clamp":
            place = [min(max(c, 0), most) for c, most in zip(place, limits, strict=True)]
        if any(c < 0 or c > most for c, most in zip(place, limits, strict=True)):
            return None
        return (place[2] * self.level.height + place[1]) * self.row + place[0]


def places(data: Bytes, size: int, chance: random.Random, layered: bool, beyond: int) -> list[list[int]]:
    threads = []
    for _ in range(64):
        x = size * chance.randint(-beyond, data.row // size - 1 + beyond)
        y = chance.randint(-beyond, data.level.height - 1 + beyond)
        z = chance.randint(0 if layered else -beyond, data.level.slices - 1 + beyond)
        threads.append([0, x, y, z])
    return threads


def registers(vector: str, kind: str, first: str) -> tuple[str, str, str]:
    """The list, how it is filled from %r4.., and how it is moved to %o0.."""
    count, bits = int(vector[2:] or 1), int(kind[1:])
    if bits == 64:
        names = [f"%rd{e}" for e in range(count)]
        fill = " ".join(f"mov.b64 %rd{e}, {{%r{4 + 2 * e}, %r{5 + 2 * e}}};" for e in range(count))
        move = " ".join(f"mov.b64 {{%o{2 * e}, %o{2 * e + 1}}}, %rd{e};" for e in range(count))
    elif bits == 32:
        names = (
            [f"%{first}{e}" for e in range(count)] if first == "o" else [f"%r{4 + e}" for e in range(count)]
        )
        fill = move = ""
    else:
        names = [f"%h{e}" for e in range(count)]
        fill = " ".join(f"cvt.u16.u32 %h{e}, %r{4 + e};" for e in range(count))
        move = " ".join(f"cvt.u32.u16 %o{e}, %h{e};" for e in range(count))
    return "{" + ", ".join(names) + "}", fill, move


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize(("vector", "kind"), ACCESSES)
@pytest.mark.parametrize("mode", ["zero", "clamp"])
def test_loads_and_stores(cuda: driver_api.Driver, geometry: str, vector: str, kind: str, mode: str) -> None:
    chance = random.Random(f"{geometry} {vector} {kind} {mode}")
    handle, array, level = surface_of(cuda, geometry, "f32x4", chance)
    data = Bytes("f32x4", level)
    dimensions, layered, cubemap, _, operand = GEOMETRIES[geometry]
    count, bits = int(vector[2:] or 1), int(kind[1:])
    size, name = count * bits // 8, geometry.split()[0]
    names, fill, move = registers(vector, kind, "o")
    threads = places(data, size, chance, layered or cubemap, 2)
    error, got = launch(
        cuda,
        kernel(f"suld.b.{name}.cg{vector}.{kind}.{mode} {names}, [%image, {operand}]; {move}"),
        handle,
        threads,
    )
    assert error == 0
    for words, result in zip(threads, got, strict=True):
        at = data.offset(words, size, mode, dimensions)
        expected = bytes(size) if at is None else bytes(data.data[at : at + size])
        elements = [expected[e * bits // 8 : (e + 1) * bits // 8] for e in range(count)]
        packed = b"".join(e.ljust(4, b"\0") for e in elements)
        assert struct.pack("16I", *result).startswith(packed), words

    names, fill, move = registers(vector, kind, "r")
    apart, taken = [], set()
    for words in threads:  # one writer for each place
        at = data.offset(words, size, mode, dimensions)
        if at is None or not taken & set(range(at, at + size)):
            apart.append([*words, *(chance.getrandbits(32) for _ in range(4))])
            taken |= set() if at is None else set(range(at, at + size))
    apart += [[0, -4096, -1, 1000 if mode == "zero" else 0]] if mode == "zero" else []
    body = f"{fill} sust.b.{name}{vector}.{kind}.{mode} [%image, {operand}], {names};"
    padded = [*apart, *[apart[-1]] * (64 - len(apart))]
    error, _ = launch(cuda, kernel(body), handle, padded)
    assert error == 0
    for words in apart:
        at = data.offset(words, size, mode, dimensions)
        if at is not None:
            raw = [struct.pack("I", w) for w in words[4:8]]
            whole = b"".join(raw)[:size] if bits >= 32 else b"".join(r[: bits // 8] for r in raw)[:size]
            data.data[at : at + size] = whole
    assert download(cuda, array, FORMATS["f32x4"], level) == bytes(data.data)


def test_stores_of_formatted_values(cuda: driver_api.Driver) -> None:
    """sust.p: 32-bit values become the format's; suld.p gives them back."""
    values = [
        0,
        1,
        0x7F,
        0x80,
        0xFFFF,
        0x10000,
        0xFFFFFFFF,
        0x80000000,
        0x7FFFFFFF,
        0xFFFFFF7F,
        0xFFFF8000,
        5,
    ]
    floats = [
        float_bits(v) for v in (0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1 / 3, 65504.0, 1e-7, 1e6, -0.25, 0.998)
    ]
    for form, words in (("u8x4", values), ("s8x2", values), ("u16x2", values), ("s16x4", values), ("u32", values),
                        ("f16x4", floats), ("f32", floats), ("unorm8x4", floats), ("snorm16x2", floats)):  # fmt: skip
        chance = random.Random(form)
        handle, array, level = surface_of(cuda, "1d", form, chance)
        threads = [[0, n, 0, 0, word, word, word, word] for n, word in enumerate(words)]
        threads += [[0, -1]] * (64 - len(threads))
        body = "sust.p.1d.v4.b32.zero [%image, {%r1}], {%r4, %r5, %r6, %r7}; suld.p.1d.b32.trap {%o0}, [%image, {0}];"
        error, _ = launch(cuda, kernel(body), handle, threads)
        assert error == 0
        stored, kind = download(cuda, array, FORMATS[form], level), FORMATS[form]
        for n, word in enumerate(words):
            texel = stored[n * kind.size_bytes :][: kind.size_bytes]
            assert texel == kind.pack(tuple([stored_channel(form, word)] * kind.channels)), (form, hex(word))


def stored_channel(form: str, word: int) -> int:
    kind = FORMATS[form]
    mask, signed = (1 << kind.bits) - 1, kind.signed
    largest = (1 << (kind.bits - signed)) - 1
    if kind.kind == "f":
        if kind.bits == 32:
            return word
        return exact.rounded(exact.value(word, exact.F32), exact.F16)
    if kind.kind in ("u", "s"):
        number = word - (1 << 32) if signed and word >> 31 else word
        return min(max(number, -largest - 1 if signed else 0), largest) & mask
    scaled = exact.value(word, exact.F32) * largest
    rounded = int(abs(scaled) + exact.Fraction(1, 2)) * (-1 if scaled < 0 else 1)
    return min(max(rounded, -largest if signed else 0), largest) & mask


@pytest.mark.parametrize(
    ("operation", "kind", "form"),
    [(op, kind, "u32") for op in ("add", "min", "max") for kind in ("u32", "s32")]
    + [("and", "b32", "u32"), ("or", "b32", "u32")]
    + [("add", "u64", "s32x2"), ("min", "s64", "s32x2"), ("max", "u64", "s32x2")],
)  # fmt: skip
def test_reductions(cuda: driver_api.Driver, operation: str, kind: str, form: str) -> None:
    chance = random.Random(f"{operation} {kind}")
    handle, array, level = surface_of(cuda, "2d", form, chance)
    data, size = Bytes(form, level), int(kind[1:]) // 8
    threads = [
        [*words, *(chance.getrandbits(32) for _ in range(2))]
        for words in places(data, size, chance, False, 1)
    ]
    value = "%rd0" if size == 8 else "%r4"
    body = f"mov.b64 %rd0, {{%r4, %r5}}; sured.b.{operation}.2d.{kind}.zero [%image, {{%r1, %r2}}], {value};"
    error, _ = launch(cuda, kernel(body), handle, threads)
    assert error == 0
    for words in threads:
        at = data.offset(words, size, "zero", 2)
        if at is None:
            continue
        signed = kind[0] == "s"
        old = int.from_bytes(data.data[at : at + size], "little", signed=signed)
        new = int.from_bytes(struct.pack("2I", *words[4:6])[:size], "little", signed=signed)
        result = {
            "add": old + new, "min": min(old, new), "max": max(old, new), "and": old & new, "or": old | new,
        }[operation]  # fmt: skip
        data.data[at : at + size] = (result & (1 << 8 * size) - 1).to_bytes(size, "little")
    assert download(cuda, array, FORMATS[form], level) == bytes(data.data)


def test_queries(cuda: driver_api.Driver) -> None:
    image = image_of(
        "a2d", "u8x4", random.Random(1), levels=3, normalised=True, filters=True, modes=(0, 1, 2)
    )
    questions = [
        "txq.width", "txq.height", "txq.depth", "txq.array_size", "txq.num_mipmap_levels", "txq.normalized_coords",
        "txq.channel_data_type", "txq.channel_order", "txq.filter_mode", "txq.addr_mode_0", "txq.addr_mode_1",
    ]  # fmt: skip
    body = "".join(f"{q}.b32 %o{n}, [%image];\n" for n, q in enumerate(questions))
    body += "txq.level.width.b32 %o11, [%image], 2;\nistypep.texref %p1, %image; selp.u32 %o12, 1, 0, %p1;\n"
    body += "istypep.surfref %p1, %image; selp.u32 %o13, 1, 0, %p1;"
    error, got = launch(cuda, kernel(body), texture_of(cuda, image), [[0]])
    assert error == 0
    assert got[0][:14] == [16, 16, 0, 3, 3, 1, 0x10DA, 0x10B5, 1, 0, 3, 4, 1, 0]
    handle, _, _ = surface_of(cuda, "3d", "f16x4", random.Random(2))
    names = ["width", "height", "depth", "array_size", "channel_data_type", "channel_order", "memory_layout"]
    body = "".join(f"suq.{q}.b32 %o{n}, [%image];\n" for n, q in enumerate(names))
    error, got = launch(cuda, kernel(body), handle, [[0]])
    assert error == 0
    assert got[0][:7] == [8, 4, 3, 0, 0x10DD, 0x10B5, 0]


REFERENCES = kernel(
    "tex.1d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [colours, {%f1}]; suld.b.1d.b32.trap {%o4}, [words, {%r2}];"
    "mov.u64 %rd0, colours; tex.1d.v4.f32.f32 {%o5, _, _, _}, [%rd0, {%f1}];"
    "istypep.texref %p1, colours; selp.u32 %o6, 1, 0, %p1; txq.width.b32 %o7, [colours];",
    ".global .texref colours;\n.global .surfref words;",
)


def test_references_are_bound_by_the_program(cuda: driver_api.Driver) -> None:
    out, api = driver_api.out, driver_api
    module = cuda.module(REFERENCES)
    texture, surface = (
        cuda.make("cuModuleGetTexRef", module, "colours"),
        cuda.make("cuModuleGetSurfRef", module, "words"),
    )
    assert cuda.make("cuModuleGetTexRef", module, "colours") == texture
    for function, name in (
        ("cuModuleGetTexRef", "words"),
        ("cuModuleGetTexRef", "none"),
        ("cuModuleGetSurfRef", "k"),
    ):
        assert getattr(cuda, function)(out(api.handle()), module, name) == api.NOT_FOUND
    form, level = FORMATS["u8x4"], Level(4, 1, 1, [(10 * n, 255, 0, 51) for n in range(4)])
    _, array = array_of(cuda, Image(form, 1, [level]), SURFACE)
    assert cuda.cuTexRefSetArray(texture, array, 0) == api.INVALID_VALUE
    cuda.do("cuTexRefSetArray", texture, array, 1)
    cuda.do("cuTexRefSetAddressMode", texture, 0, 1)
    cuda.do("cuTexRefSetFilterMode", texture, 0)
    cuda.do("cuTexRefSetFlags", texture, 0)
    cuda.do("cuSurfRefSetArray", surface, array, 0)
    assert cuda.make("cuTexRefGetArray", texture) == array
    assert cuda.make("cuSurfRefGetArray", surface) == array
    assert cuda.make("cuTexRefGetAddressMode", texture, 0) == 1
    assert cuda.cuTexRefGetAddress_v2(out(api.handle()), texture) == api.INVALID_VALUE

    def run() -> list[int]:
        source, result = cuda.alloc(64 * 64), cuda.alloc(64 * 64)
        cuda.write(source, struct.pack("16I", 0, float_bits(2.5), 4, *[0] * 13) * 64)
        assert cuda.launch(cuda.function(module, "k"), (1,), (64,), [0, source, result]) == 0
        assert cuda.cuCtxSynchronize() == 0
        return list(struct.unpack("16I", cuda.read(result, 64)))

    fifth = float_bits(0.2)
    first = exact.rounded(exact.Fraction(20, 255), exact.F32)
    got = run()
    assert got[:8] == [
        first,
        float_bits(1.0),
        0,
        fifth,
        int.from_bytes(form.pack(level.texels[1]), "little"),
        first,
        1,
        4,
    ]
    memory = cuda.alloc(64)
    cuda.write(memory, struct.pack("16I", *range(16)))
    cuda.do("cuTexRefSetFormat", texture, 0x03, 1)
    offset = api.handle()
    cuda.do("cuTexRefSetAddress_v2", out(offset), texture, memory, 64)
    assert offset.value == 0
    assert cuda.make("cuTexRefGetAddress_v2", texture) == memory
    cuda.do("cuModuleUnload", module)
    assert cuda.cuTexRefGetAddress_v2(out(api.handle()), texture) == api.INVALID_VALUE


FETCH = "tex.1d.v4.u32.s32 {%o0, _, _, _}, [%image, {%r1}];"
FAULTS = {
    "outside": (
        "surface(d, LEVEL)", "suld.b.1d.b32.trap {%o0}, [%image, {%r1}];", 16,
        "illegal access of a surface: 4 bytes at byte 16 of row 0, slice or layer 0, where it has 16 bytes",
    ),
    "negative": ("surface(d, LEVEL)", "sust.b.1d.b32.trap [%image, {-4}], %r0;", 0, "4 bytes at byte -4 of row 0"),
    "destroyed": ("destroyed(d)", FETCH, 0, "no texture object has it"),
    "array": ("without_array(d)", FETCH, 0, "its array was destroyed"),
    "memory": ("freed(d)", FETCH, 0, "whose memory is gone"),
    "kind": ("surface(d, LEVEL)", FETCH, 0, "a surface object, not a texture"),
    "unbound": ("0", FETCH.replace("%image", "nobody"), 0, "a texture reference that nothing is bound to"),
}  # fmt: skip

SCRIPT = """
from texture_api import *
from array_api import SURFACE
LEVEL = Level(4, 1, 1, [(n,) for n in range(4)])
IMAGE = Image(FORMATS["u32"], 1, [LEVEL])
def surface(d, level):
    return d.make("cuSurfObjectCreate", api.out(resource_of(0, array_of(d, IMAGE, SURFACE)[1])))
def destroyed(d):
    made = texture_of(d, IMAGE)
    d.do("cuTexObjectDestroy", made)
    return made
def without_array(d):
    array = array_of(d, IMAGE)[1]
    made = d.make("cuTexObjectCreate", api.out(resource_of(0, array)), api.out(description(IMAGE)), None)
    d.do("cuArrayDestroy", array)
    return made
def freed(d):
    memory = d.alloc(1 << 20)
    linear = resource_of(2, memory, 3 | 1 << 32, 1 << 20)
    made = d.make("cuTexObjectCreate", api.out(linear), api.out(description(IMAGE)), None)
    d.do("cuMemFree_v2", memory)
    return made
"""


@pytest.mark.parametrize("name", FAULTS)
def test_what_reaches_nothing_is_an_illegal_address(fresh: Fresh, name: str) -> None:
    handle, instruction, x, why = FAULTS[name]
    done = fresh(
        f"{SCRIPT}\nptx = kernel({instruction!r}, '.global .texref nobody;')\n"
        f"print(launch(d, ptx, {handle}, [[0, {x}]])[0])"
    )
    assert done.stdout.split()[-1] == str(driver_api.ILLEGAL_ADDRESS)
    assert why in done.stderr
    assert "in kernel k" in done.stderr
    assert "block (0,0,0), thread (0,0,0)" in done.stderr


def test_misaligned_and_misshapen_accesses_end_the_kernel(fresh: Fresh) -> None:
    done = fresh(
        SCRIPT + "\nptx = kernel('suld.b.1d.b32.trap {%o0}, [%image, {%r1}];')\n"
        "print(launch(d, ptx, surface(d, LEVEL), [[0, 2]])[0])"
    )
    assert done.stdout.split()[-1] == "716"  # misaligned address
    done = fresh(
        SCRIPT + "\nptx = kernel('tex.2d.v4.u32.f32 {%o0, _, _, _}, [%image, {%f1, %f1}];')\n"
        "print(launch(d, ptx, texture_of(d, IMAGE), [[0, 2]])[0])"
    )
    assert done.stdout.split()[-1] == "715"  # illegal instruction
    assert "the image that this instruction reaches has one dimension" in done.stderr


def test_lookups_count_as_texture_instructions_and_as_loads_by_bytes(fresh: Fresh, tmp_path: object) -> None:
    done = fresh(
        SCRIPT + "\nimport json, os\nptx = kernel('tex.1d.v4.u32.s32 {%o0, _, _, _}, [%image, {%r1}];')\n"
        "launch(d, ptx, texture_of(d, IMAGE), [[0, 2]])\n"
        "print(open(os.environ['REPLAY_EMULATOR_COUNTERS']).read())",
        COUNTERS=f"{tmp_path}/counters",
    )
    counters = json.loads(done.stdout.splitlines()[0])["counters"]
    assert (counters["warp_texture"], counters["thread_texture"]) == (2, 64)
    stores = counters["global_store_bytes"]
    assert stores == 64 * 64
    assert counters["global_load_bytes"] == 64 * 64 + 64 * 4
