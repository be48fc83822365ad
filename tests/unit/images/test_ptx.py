"""The reader of PTX, and names of kernels as people read them."""

from __future__ import annotations

import contextlib

import pytest

from replay import images
from replay.errors import ImageError
from replay.images import ptx
from replay.images.demangle import demangle, short_name

from ..helpers.image_factory import GENERIC, LAYOUTS, STRUCTS, golden_ptx, layouts


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
