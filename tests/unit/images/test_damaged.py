"""Images with damage, and bytes at random: no reader raises anything but its own error."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from replay import images
from replay.errors import ImageError

from ..helpers.image_factory import golden_ptx, make_container, make_cubin, make_entry, make_tile_ir

SOURCES: dict[str, Callable[[], bytes]] = {
    "ptx": golden_ptx,
    "cubin": make_cubin,
    "tileir": make_tile_ir,
    "fatbin": lambda: make_container(
        make_entry(2, 80, make_cubin(8, 80)),
        make_entry(1, 80, golden_ptx(), packing="zstd"),
        make_entry(1, 75, golden_ptx(), packing="lz4"),
    ),
}


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
    st.sampled_from(
        [
            b"",
            b"\x7fELF\x02\x01\x01\x33\x08",
            b"\x7fTileIR\0\x0d\x01\0\0",
            b"\x50\xed\x55\xba",
            b".version 8.0\n",
        ]
    ),
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
