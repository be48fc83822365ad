"""Readers of cubins and of containers, and what all images have in common."""

from __future__ import annotations

import struct

import pytest
import zstandard

from replay import images
from replay.errors import ImageError
from replay.images import fatbin

from ..helpers.image_factory import golden_ptx, layouts, make_container, make_cubin, make_entry, ptx_with


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

    def test_the_wrapper_is_no_image(self) -> None:
        data = struct.pack("<IIQQ", 0x466243B1, 2, 0x1000, 0x2000)
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
