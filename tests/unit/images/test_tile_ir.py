"""Tile IR: what is read of it, against bytecode made here and bytecode that NVIDIA's `cuda-tile` makes."""

from __future__ import annotations

import io
import random

import pytest

from replay import images
from replay.errors import ImageError
from replay.images.stripped import SOURCE_PATHS, stripped

from ..helpers.image_factory import layouts, make_container, make_entry, make_tile_ir

# num_cta_in_cga = 2 for sm_100: a dictionary of architectures, each a dictionary, of integers of a type
HINTS = b"\x0b\x01\x00\x0a\x01\x00\x01\x00\x02"


@pytest.mark.parametrize("version", [(13, 1), (13, 4), (13, 5)])
@pytest.mark.parametrize("hints", [b"", HINTS])
def test_entries_are_read_with_their_parameters(version: tuple[int, int], hints: bytes) -> None:
    entries = {"first": ["pointer", "i32", "pointer"], "second": ["i8", "f64", "i32"], "none": []}
    data = make_tile_ir(entries, version, hints, helper="inner")
    [module] = images.read_image(data)
    assert module.title == f"Tile IR {version[0]}.{version[1]}"
    assert layouts(module) == {
        "first": [(0, 8), (8, 4), (16, 8)],
        "second": [(0, 1), (8, 8), (16, 4)],
        "none": [],
    }
    assert [item.is_pointer for item in module.kernels["first"].parameters] == [True, False, True]


def test_its_size_is_its_own_wherever_it_ends() -> None:
    data = make_tile_ir()
    assert images.identify(data) == "tileir"
    assert images.image_size(data + b"\x02 what follows") == len(data)
    assert images.file_suffix(data) == ".tilebc"
    assert images.target_of(data) == ("", "13.1")


def test_a_fat_binary_holds_it() -> None:
    data = make_tile_ir()
    for packing in ("", "zstd", "lz4"):
        container = make_container(make_entry(0x80, 100, data + bytes(-len(data) % 8), packing=packing))
        assert [module.title for module in images.read_image(container)] == ["Tile IR 13.1"]


def test_folders_of_source_files_are_overwritten_and_names_stay() -> None:
    data = make_tile_ir(strings=("/home/somebody/work/kernels.py", "/home/somebody"))
    kept, found = stripped(data)
    assert found == [SOURCE_PATHS]
    assert b"somebody/work" not in kept
    assert b"kernels.py" in kept
    assert len(kept) == len(data)
    assert layouts(images.read_image(kept)[0]) == layouts(images.read_image(data)[0])
    assert stripped(kept)[0] == kept


def test_a_file_cut_anywhere_raises_only_our_error() -> None:
    data = make_tile_ir(hints=HINTS)
    for end in range(12, len(data)):
        with pytest.raises(ImageError):
            images.read_image(data[:end])


def test_damage_raises_only_our_error() -> None:
    data, random_ = make_tile_ir(hints=HINTS, version=(13, 5)), random.Random(23)
    refused = 0
    for _ in range(3_000):
        damaged = bytearray(data)
        for _ in range(random_.randint(1, 4)):
            damaged[random_.randrange(8, len(damaged))] = random_.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            images.read_image(bytes(damaged))
        except ImageError:
            refused += 1
    assert refused > 300


def test_a_table_that_claims_a_billion_items_is_refused_at_once() -> None:
    data = make_tile_ir()
    at = data.index(b"\x81") + 3
    with pytest.raises(ImageError):
        images.read_image(data[:at] + b"\xff\xff\xff\xff\x0f" + data[at + 5 :])


@pytest.mark.parametrize("version", ["13.1", "13.2", "13.3", "13.4"])
def test_bytecode_of_cuda_tile_is_read(version: str) -> None:
    tile = pytest.importorskip("cuda.tile")
    from cuda.tile import compilation

    from .tile_kernels import scale

    array = compilation.ArrayConstraint(
        tile.float32,
        1,
        index_dtype=tile.int32,
        stride_lower_bound_incl=0,
        alias_groups=[],
        may_alias_internally=False,
    )
    signature = compilation.KernelSignature(
        [array, compilation.ScalarConstraint(tile.float32), array, 64],
        compilation.CallingConvention.cutile_python_v1(), symbol="scale",
    )  # fmt: skip
    file = io.BytesIO()
    compilation.export_kernel(
        scale, [signature], file, output_format="tileir_bytecode", gpu_code="sm_100", bytecode_version=version
    )
    data = file.getvalue()
    assert images.image_size(data + b"more") == len(data)
    [module] = images.read_image(data)
    # An array is its address, its length and its stride
    assert layouts(module) == {"scale": [(0, 8), (8, 4), (12, 4), (16, 4), (24, 8), (32, 4), (36, 4)]}
    assert module.version == version
    kept, found = stripped(data)
    assert found == [SOURCE_PATHS]
    assert __file__.rpartition("/")[0].encode() not in kept
