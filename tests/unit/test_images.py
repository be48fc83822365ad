"""Readers of module images: golden PTX, synthetic cubins and containers, what nvcc makes here, and bytes at random."""

from __future__ import annotations

import contextlib
import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from replay import images
from replay.errors import ImageError
from replay.images import cubin, fatbin, ptx
from replay.images.demangle import demangle, short_name

GOLDEN = Path(__file__).parents[1] / "golden" / "images"
STRUCTS = "_Z7structsc5Mixed6Vectors"
GENERIC = "_Z7genericIdLi4EEvPT_"
LAYOUTS = {
    "plain": [(0, 8), (8, 8), (16, 4)],
    STRUCTS: [(0, 1), (8, 40), (48, 16), (64, 2)],
    GENERIC: [(0, 8)],
    "_Z7nothingv": [],
}


def layouts(module: images.ModuleInfo) -> dict[str, list[tuple[int, int]]]:
    return {
        name: [(parameter.offset, parameter.size) for parameter in kernel.parameters]
        for name, kernel in module.kernels.items()
    }


# -- synthetic images ---------------------------------------------------------------------------------------


def make_cubin(abi: int = 8, sm: int = 90, extra: bytes = b"") -> bytes:
    """An ELF file with one kernel `k(u64, {12 bytes})`, as ptxas lays it out, and three variables."""
    info = b"".join(
        [
            struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 1, 8, 12 << 18 | 0x1F000),
            struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 0, 0, 8 << 18 | 0x1F000),
            struct.pack("<BBH", 3, 0x19, 20),
            struct.pack("<BBHIII", 4, 0x05, 12, 128, 2, 1),
            struct.pack("<BBH", 1, 0x99, 0),
        ]
    )
    resources = struct.pack("<BBHII", 4, 0x2F, 8, 1, 42) + struct.pack("<BBHII", 4, 0x11, 8, 1, 16)
    names = b"\0k\0var\0zero\0managed\0"
    symbols = [
        struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0),
        struct.pack("<IBBHQQ", 1, 0x12, 0x10, 3, 0, 64),
        struct.pack("<IBBHQQ", 3, 0x11, 0, 6, 4, 8),
        struct.pack("<IBBHQQ", 7, 0x11, 0, 7, 0, 100),
        struct.pack("<IBBHQQ", 12, 0x11, 4, 6, 0, 4),
    ]
    sections: list[
        tuple[str, int, bytes, int, int, int]
    ] = [  # name, type, data, link, entry size, nobits size
        (".strtab", 3, names, 0, 0, 0),
        (".text.k", 1, bytes(64), 0, 0, 0),
        (".symtab", 2, b"".join(symbols), 1, 24, 0),
        (".nv.info", 0x70000000, resources, 0, 0, 0),
        (".nv.global.init", 1, bytes(range(12)), 0, 0, 0),
        (".nv.global", 8, b"", 0, 0, 100),
        (".nv.info.k", 0x70000000, info, 0, 0, 0),
        (".nv.shared.k", 8, b"", 0, 0, 512),
    ]
    sections = [sections[0], sections[0], *sections[1:]]  # the text section is number 3, as the symbols say
    name_table = b"\0" + b"".join(item[0].encode() + b"\0" for item in sections) + b".shstrtab\0"
    body = bytearray(64)
    headers = [bytes(64)]
    name_offset = 1
    for name, kind, data, link, entry, nobits in sections:
        headers.append(
            struct.pack(
                "<IIQQQQIIQQ", name_offset, kind, 0, 0, len(body), len(data) or nobits, link, 0, 1, entry
            )
        )
        name_offset += len(name) + 1
        body += data
    headers.append(struct.pack("<IIQQQQIIQQ", name_offset, 3, 0, 0, len(body), len(name_table), 0, 0, 1, 0))
    body += name_table
    body += bytes(-len(body) % 8)
    flags = sm if abi == 7 else sm << 8
    identification = b"\x7fELF\x02\x01\x01\x33" + bytes([abi]) + bytes(7)
    body[:64] = struct.pack(
        "<16sHHIQQQIHHHHHH",
        *(identification, 2, 190, 1, 0, 0, len(body), flags, 64, 56, 0, 64, len(headers), len(headers) - 1),
    )
    return bytes(body) + b"".join(headers) + extra


def make_entry(
    kind: int, sm: int, data: bytes, flags: int = 0x11, packing: str = "", name: bytes = b""
) -> bytes:
    packed, compressed = data, 0
    if packing == "zstd":
        packed, flags = zstandard.ZstdCompressor().compress(data), flags | 0x8000
        compressed = len(packed)
    elif packing == "lz4":
        from lz4 import block

        packed, flags = block.compress(data, store_size=False), flags | 0x2000
        compressed = len(packed)
    padded = packed + bytes(-len(packed) % 8)
    header_bytes = 64 + len(name) + (-len(name) % 8)
    head = struct.pack(
        "<HHIQIIHHIIIQQQ",
        *(kind, 0x0101, header_bytes, len(padded), compressed, 0, 8, 1, sm),
        *(64 if name else 0, len(name), flags, 0, len(data) if compressed else 0),
    )
    return head + name + bytes(-len(name) % 8) + padded


def make_container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def golden_ptx() -> bytes:
    return (GOLDEN / "kernels.ptx").read_bytes()


# -- PTX ----------------------------------------------------------------------------------------------------


class TestPtx:
    def test_kernels_of_the_golden_file_have_the_layout_of_the_c_structs(self) -> None:
        module = images.read_ptx(golden_ptx())
        assert (module.target, module.version) == ("sm_80", "9.0")
        assert layouts(module) == LAYOUTS
        assert [item.alignment for item in module.kernels[STRUCTS].parameters] == [1, 8, 16, 2]
        assert module.kernels[STRUCTS].max_threads == (256, 1, 1)
        assert module.kernels[STRUCTS].parameter_bytes == 66

    def test_variables_of_the_golden_file(self) -> None:
        found = images.read_ptx(golden_ptx() + b"\0behind the text").variables
        assert {
            name: (item.space, item.size, item.initialised, item.managed) for name, item in found.items()
        } == {
            "table": ("global", 148, True, False),
            "counter": ("global", 4, False, False),
            "flag": ("global", 4, True, True),
            "coefficients": ("const", 18, False, False),
        }

    @pytest.mark.parametrize(
        ("declaration", "expected"),
        [
            (".param .u64 .ptr .global .align 16 x, .param .u32 y", [(0, 8, True), (8, 4, False)]),
            (
                ".param .b32 x[3], .param .align 4 .b8 y[5], .param .u8 z",
                [(0, 12, False), (12, 5, False), (17, 1, False)],
            ),
            (".param .u8 x, .param .v4 .f32 y", [(0, 1, False), (16, 16, False)]),
            (".param .align 64 .b8 x[128]", [(0, 128, False)]),
            ("", []),
        ],
    )
    def test_parameter_forms(self, declaration: str, expected: list[tuple[int, int, bool]]) -> None:
        text = (
            f".version 8.0\n.target sm_90a, debug\n.address_size 64\n.weak .entry k({declaration}) {{ ret; }}"
        )
        module = images.read_ptx(text.encode())
        assert module.target == "sm_90a"
        assert [
            (item.offset, item.size, item.is_pointer) for item in module.kernels["k"].parameters
        ] == expected

    def test_text_that_only_looks_like_declarations_is_passed_over(self) -> None:
        text = """// .entry comment(.param .u32 x)
        /* .version 1.0 { */
        .version 7.8 // 9.9
        .target sm_75
        .address_size 64
        .file 1 "a{b};.entry.cu"
        .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .global .align 4 .u32 table[2][3] = { {1,2,3}, {4,5,6} }, second = 7;
        .extern .shared .align 16 .b8 dynamic[];
        .const .f64 pi = 0d400921FB54442D18;
        .global .attribute(.unified(19, 95)) .f32 unified;
        .visible .entry k ( .param .u32 n ) .reqntid 32, 4 .reqnctapercluster 2
        { .reg .b32 %r; // }
          .pragma "nounroll{";
          { ret; } /* } */ }
        .visible .entry k2() { ret; }
        .section .debug_abbrev { .b8 1, 2 }
        .entry last() { ret; }"""
        module = images.read_ptx(text.encode())
        assert list(module.kernels) == ["k", "k2", "last"]
        assert module.kernels["k"].required_threads == (32, 4, 1)
        assert module.kernels["k"].required_cluster == (2, 1, 1)
        assert {name: item.size for name, item in module.variables.items()} == {
            "table": 24,
            "second": 4,
            "pi": 8,
            "unified": 4,
        }

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "hello",
            ".version 8.0\n",
            ".target sm_80\n",
            ".version 8.0\n.target sm_80\n.entry k( { ret; }",
            ".version 8.0\n.target sm_80\n.entry k() { ret;",
            ".version 8.0\n.target sm_80\n}",
            ".version 8.0\n.target sm_80\n.entry k(.param .u32) { ret; }",
            ".version 8.0\n.target sm_80\n.entry k(.param .b8 x[99999999]) { ret; }",
            ".version 8.0\n.target sm_80\n.entry k(.param .align 3 .b8 x[4]) { ret; }",
            ".version 8.0\n.target sm_80\n.global .b8 x[99999999999999999];",
        ],
    )
    def test_broken_text_is_our_error(self, text: str) -> None:
        with pytest.raises(ImageError, match="PTX"):
            images.read_ptx(text.encode())

    @pytest.mark.parametrize(
        "text",
        [
            ".entry k(.param .u32 " + "a" * 500_000 + "!)",
            ".entry k(.param .u32 x" + "[" + " " * 500_000 + "x" + ")",
            ".global .u32 " + "a," * 200_000 + "b;",
            ".global .u32 x = " + "{}" * 300_000 + ";",
            ".loc 1 2 3\n" * 100_000,
            ".entry " * 100_000,
            "/*" * 300_000,
            '"' * 500_000,
            ".entry k() " + "{" * 500_000,
            ".entry k() .maxntid " + " " * 500_000,
            ".entry k(.param .u32 .ptr " + " " * 500_000 + "!)",
        ],
    )
    @pytest.mark.timeout(20)
    def test_hostile_text_does_not_take_long(self, text: str) -> None:
        with contextlib.suppress(ImageError):
            images.read_ptx(b".version 8.0\n.target sm_80\n" + text.encode())

    def test_25_megabytes_take_little_time(self) -> None:
        import time

        body = "{\n" + "\tmad.lo.s32 %r1, %r2, %r3, %r4; // a comment\n" * 5000 + "}\n"
        text = (
            golden_ptx()
            + "".join(f".visible .entry k{n}(.param .u64 a)\n{body}" for n in range(112)).encode()
        )
        assert len(text) > 25_000_000
        begin = time.process_time()
        assert len(images.read_ptx(text).kernels) == 116
        assert time.process_time() - begin < 3


# -- cubin --------------------------------------------------------------------------------------------------


class TestCubin:
    @pytest.mark.parametrize(("abi", "sm"), [(7, 75), (7, 90), (8, 90), (8, 120)])
    def test_both_abis(self, abi: int, sm: int) -> None:
        module = images.read_cubin(make_cubin(abi, sm))
        assert (module.target, module.version) == (f"sm_{sm}", f"ABI {abi}")
        kernel = module.kernels["k"]
        assert layouts(module) == {"k": [(0, 8), (8, 12)]}
        assert (kernel.registers, kernel.local_bytes, kernel.shared_bytes) == (42, 16, 512)
        assert (kernel.parameter_bytes, kernel.max_threads) == (20, (128, 2, 1))
        found = {item.name: (item.size, item.initialised, item.managed) for item in module.variables.values()}
        assert found == {"var": (8, True, False), "zero": (100, False, False), "managed": (4, True, True)}

    def test_the_initial_value_of_a_variable_is_where_it_says(self) -> None:
        data = make_cubin()
        offset = images.read_cubin(data).variables["var"].offset
        assert offset is not None
        assert data[offset : offset + 8] == bytes(range(4, 12))

    def test_the_size_is_exact_whatever_follows(self) -> None:
        data = make_cubin()
        assert images.image_size(data) == len(data)
        assert images.image_size(data + b"\x7fELF and more" * 100) == len(data)
        for cut in (1, 64, len(data) // 2):
            with pytest.raises(ImageError):
                images.image_size(data[:-cut])

    @pytest.mark.parametrize(
        ("offset", "value", "words"),
        [
            (4, b"\x01", "64-bit"),
            (18, b"\x3e\0", "machine 62"),
            (40, b"\xff" * 8, "beyond|more section"),
            (60, b"\xff\xff", "more section"),
            (58, b"\x00\x01", "unknown size"),
            (62, b"\xf0\x00", "does not exist"),
        ],
    )
    def test_a_broken_header_is_our_error(self, offset: int, value: bytes, words: str) -> None:
        data = bytearray(make_cubin())
        data[offset : offset + len(value)] = value
        with pytest.raises(ImageError, match=words):
            images.read_cubin(bytes(data))


# -- fat binary ---------------------------------------------------------------------------------------------


class TestFatbin:
    def test_entries_come_out_as_they_went_in(self) -> None:
        text = golden_ptx()
        data = make_container(
            make_entry(2, 80, make_cubin(8, 80), name=b"a.cu\0"),
            make_entry(1, 80, text, packing="zstd"),
            make_entry(1, 75, text + b"\0\0", packing="lz4"),
            make_entry(1, 70, text),
            make_entry(8, 90, b"lto"),
            make_entry(2, 90, make_cubin(8, 90), flags=0x100011),
        )
        entries = images.read_container(data + b"behind")
        assert [entry.target for entry in entries] == [
            *("sm_80", "compute_80", "compute_75", "compute_70", "compute_90", "sm_90a")
        ]
        assert [entry.compression for entry in entries] == ["", "zstd", "lz4", "", "", ""]
        assert entries[0].file_name == "a.cu"
        assert [entry.contents() for entry in entries[1:4]] == [text.rstrip(b"\0")] * 3
        assert images.image_size(data + b"behind") == len(data)
        assert len(images.read_image(data)) == 5

    def test_the_entry_that_a_device_uses_is_chosen(self) -> None:
        def entries(*described: tuple[str, int, str]) -> list[images.Entry]:
            return [
                fatbin.Entry("ptx" if kind == "p" else "cubin", sm, variant, (1, 8), "", 0, 0, 0, b"", 0, 0)
                for kind, sm, variant in described
            ]

        def name(entry: images.Entry | None) -> str | None:
            return entry.target if entry else None

        several = entries(
            ("p", 70, ""),
            ("p", 90, ""),
            ("p", 90, "a"),
            ("p", 100, ""),
            ("c", 80, ""),
            ("c", 89, ""),
            ("c", 90, "a"),
        )
        assert [name(images.choose_ptx(several, sm)) for sm in (60, 75, 90, 95, 103)] == [
            *(None, "compute_70", "compute_90a", "compute_90", "compute_100")
        ]
        assert [name(images.choose_cubin(several, sm)) for sm in (75, 80, 86, 89, 90, 100)] == [
            *(None, "sm_80", "sm_80", "sm_89", "sm_90a", None)
        ]

    def test_a_kernel_is_found_with_names_from_ptx_and_registers_from_the_cubin(self) -> None:
        text = b".version 8.0\n.target sm_80\n.entry k(.param .u64 p, .param .align 4 .b8 q[12]) { ret; }"
        data = make_container(make_entry(1, 80, text, packing="zstd"), make_entry(2, 90, make_cubin(8, 90)))
        kernel = images.find_kernel(data, "k", 90)
        assert kernel is not None
        assert kernel.registers == 42
        assert [(item.name, item.size, item.alignment) for item in kernel.parameters] == [
            ("p", 8, 8),
            ("q", 12, 4),
        ]
        assert images.find_kernel(data, "absent") is None

    def test_the_wrapper_is_read_and_is_no_image(self) -> None:
        data = struct.pack("<IIQQ", 0x466243B1, 2, 0x1000, 0x2000)
        assert fatbin.read_wrapper(data) == fatbin.Wrapper(2, 0x1000, 0x2000)
        assert images.identify(data) == "wrapper"
        with pytest.raises(ImageError):
            images.image_size(data)

    def test_a_bomb_is_refused_before_it_is_unpacked(self) -> None:
        bomb = zstandard.ZstdCompressor().compress(bytes(900 << 20))
        entry = bytearray(make_entry(1, 80, b"x"))
        for stated in (900 << 20, 8, 0, 1 << 62):
            head = struct.pack(
                "<HHIQIIHHIIIQQQ", *(1, 0x101, 64, len(bomb), len(bomb), 0, 8, 1, 80, 0, 0, 0x8000, 0, stated)
            )
            (found,) = images.read_container(make_container(head + bomb))
            with pytest.raises(ImageError):
                found.contents()
        assert entry
        head = struct.pack("<HHIQIIHHIIIQQQ", *(1, 0x101, 64, 8, 8, 0, 8, 1, 80, 0, 0, 0x2000, 0, 500 << 20))
        (found,) = images.read_container(make_container(head + bytes(8)))
        with pytest.raises(ImageError, match="expands impossibly"):
            found.contents()

    @pytest.mark.parametrize(
        ("offset", "value"),
        [
            (4, b"\x02\0"),
            (6, b"\x00\0"),
            (8, b"\xff" * 8),
            (16 + 4, b"\x10\0\0\0"),
            (16 + 4, b"\xff\xff\xff\x7f"),
            (16 + 8, b"\xff" * 8),
            (16 + 36, b"\xff\xff\xff\x7f"),
        ],
    )
    def test_a_broken_header_is_our_error(self, offset: int, value: bytes) -> None:
        data = bytearray(make_container(make_entry(1, 80, golden_ptx())))
        data[offset : offset + len(value)] = value
        with pytest.raises(ImageError):
            images.read_container(bytes(data))


# -- any bytes ----------------------------------------------------------------------------------------------

SOURCES: dict[str, Callable[[], bytes]] = {
    "ptx": golden_ptx,
    "cubin": make_cubin,
    "fatbin": lambda: make_container(
        make_entry(2, 80, make_cubin(8, 80)),
        make_entry(1, 80, golden_ptx(), packing="zstd"),
        make_entry(1, 75, golden_ptx(), packing="lz4"),
    ),
}


def ptx_with(*declarations: str) -> bytes:
    return "\n".join([".version 8.0\n.target sm_70", *declarations, ".entry k() { ret; }"]).encode()


def test_names_of_the_variables_that_a_device_can_load() -> None:
    """Of all modules of a container, but not of other architectures; what the compiler made is left out."""
    first = ptx_with(".global .u32 one;", ".const .u32 two;", ".global .b8 $str[4];")
    second = ptx_with(".global .u32 three;", ".global .b8 _ZN4cuda5__cpo4swapE;")
    container = make_container(
        make_entry(2, 90, make_cubin(8, 90)),
        make_entry(1, 80, first, packing="zstd"),
        make_entry(1, 80, second, packing="lz4"),
        make_entry(1, 70, ptx_with(".global .u32 other;")),
    )
    of_cubin = ["managed", "var", "zero"]
    assert images.variable_names(container, 90) == sorted([*of_cubin, "one", "two", "three"])
    assert set(images.variable_names(container, 90)) - set(images.variable_names(container, 90, writable=True)) == {
        "two", *(item.name for item in images.read_cubin(make_cubin()).variables.values() if item.space == "const"),
    }  # fmt: skip
    assert images.variable_names(container, 70) == ["other"]
    assert images.variable_names(container) == sorted([*of_cubin, "one", "two", "three", "other"])
    assert images.variable_names(first) == ["one", "two"]


def exercise(data: bytes) -> None:
    for reader in (
        images.image_size,
        images.read_image,
        images.read_cubin,
        images.read_ptx,
        images.read_container,
        images.variable_names,
    ):
        with contextlib.suppress(ImageError):
            reader(data)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"\x7fELF\x02\x01\x01\x33\x08", b"\x50\xed\x55\xba", b".version 8.0\n"]),
)
def test_random_bytes_raise_only_our_error(data: bytes, beginning: bytes) -> None:
    exercise(beginning + data)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(SOURCES)), st.data())
def test_damaged_images_raise_only_our_error(name: str, data: st.DataObject) -> None:
    damaged = bytearray(SOURCES[name]())
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(damaged) - 1))
        patch = data.draw(st.binary(min_size=1, max_size=8))
        damaged[start : start + len(patch)] = patch
    exercise(bytes(damaged))
    exercise(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))


def test_every_flipped_bit_of_a_small_cubin_raises_only_our_error() -> None:
    original = make_cubin()
    for position in range(len(original)):
        damaged = bytearray(original)
        damaged[position] ^= 1 << random.Random(position).randrange(8)
        exercise(bytes(damaged))


# -- what nvcc makes ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    folder = tmp_path_factory.mktemp("nvcc")

    def run(*options: str) -> bytes:
        target = folder / "out"
        command = ["nvcc", *options, "-o", str(target), str(GOLDEN / "kernels.cu")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        if done.returncode:
            pytest.skip(f"nvcc {' '.join(options)} failed: {done.stderr[:200]}")
        return target.read_bytes()

    return run


class TestWithNvcc:
    @pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
    def test_cubin(self, compiled: Callable[..., bytes], architecture: str) -> None:
        data = compiled("-cubin", f"-arch={architecture}")
        module = images.read_cubin(data)
        assert module.target == architecture.rstrip("a")
        assert layouts(module) == LAYOUTS
        assert module.kernels[STRUCTS].max_threads == (256, 1, 1)
        assert {name: item.size for name, item in module.variables.items()} == {
            "table": 148,
            "counter": 4,
            "flag": 4,
            "coefficients": 18,
        }
        offset = module.variables["table"].offset
        assert offset is not None
        assert struct.unpack_from("<4f", data, offset) == (1, 2, 3, 0)
        assert images.image_size(data + b"more") == len(data)

    def test_cubin_agrees_with_pyelftools(self, compiled: Callable[..., bytes]) -> None:
        import io

        elffile = pytest.importorskip("elftools.elf.elffile")
        data = compiled("-cubin", "-arch=sm_80")
        oracle = elffile.ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
        kernels = {
            symbol.name
            for symbol in oracle.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol.entry["st_other"]
        }
        assert set(images.read_cubin(data).kernels) <= kernels
        sections = elffile.ELFFile(io.BytesIO(data)).iter_sections()
        found = {section.name: section["sh_size"] for section in sections}
        assert {item.name: item.size for item in cubin._sections(data)} == found

    def test_fat_binary(self, compiled: Callable[..., bytes]) -> None:
        data = compiled(
            "-fatbin",
            *("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=compute_90"),
            *("-gencode", "arch=compute_90a,code=sm_90a"),
        )
        assert images.image_size(data + b"more") == len(data)
        entries = images.read_container(data)
        assert sorted(entry.target for entry in entries) == ["compute_90", "sm_80", "sm_90a"]
        for module in images.read_image(data):
            assert layouts(module) == LAYOUTS
        kernel = images.find_kernel(data, STRUCTS, 90)
        assert kernel is not None
        assert kernel.registers
        assert [item.alignment for item in kernel.parameters] == [1, 8, 16, 2]

    def test_ptx(self, compiled: Callable[..., bytes]) -> None:
        module = images.read_ptx(compiled("-ptx", "-arch=compute_90"))
        assert layouts(module) == LAYOUTS


# -- small things -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\x02\x01", "cubin"),
        (struct.pack("<I", 0xBA55ED50), "fatbin"),
        (b"// comment\n/* more */ .version 8.0", "ptx"),
        (b".versio", "unknown"),
        (b"", "unknown"),
        (bytes(64), "unknown"),
    ],
)
def test_identify(data: bytes, kind: str) -> None:
    assert images.identify(data) == kind


def test_ptx_size_needs_the_terminating_nul() -> None:
    assert ptx.ptx_size(golden_ptx() + b"\0junk") == len(golden_ptx()) + 1
    with pytest.raises(ImageError, match="NUL"):
        images.image_size(golden_ptx())


@pytest.mark.parametrize(
    ("mangled", "readable", "short"),
    [
        (GENERIC, "void generic<double, 4>(double*)", "generic"),
        ("_ZN2ns1kEPf", "ns::k(float*)", "k"),
        ("_ZN12_GLOBAL__N_11kEv", "(anonymous namespace)::k()", "k"),
        ("plain", "plain", "plain"),
        ("_Z!not mangled", "_Z!not mangled", None),
        ("", "", ""),
    ],
)
def test_demangle(mangled: str, readable: str, short: str | None) -> None:
    assert demangle(mangled) == readable
    assert short is None or short_name(readable) == short


def test_demangle_without_a_runtime_gives_the_name_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from replay.images import demangle as module

    monkeypatch.setattr(module, "_runtime", lambda: None)
    demangle.cache_clear()
    assert demangle(GENERIC) == GENERIC
    demangle.cache_clear()
