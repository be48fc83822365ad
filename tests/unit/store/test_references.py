"""References survive, and hostile ones are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import DamagedError
from replay.snapshot.container.references import (
    pack_reference,
    pack_weights,
    unpack_reference,
    unpack_weights,
)
from replay.store.model import Part, WeightsName

literals = st.binary(min_size=1, max_size=20).map(lambda data: Part(len(data), data))
of_weights = st.builds(
    lambda length, digest, offset: Part(length, weights=digest, offset=offset),
    st.integers(1, 5000), st.binary(min_size=16, max_size=16), st.integers(0, 1 << 40),
)  # fmt: skip


@given(st.lists(literals | of_weights, min_size=1, max_size=9))
def test_a_reference_is_read_as_it_was_written(parts: list[Part]) -> None:
    length = sum(part.length for part in parts)
    found = unpack_reference(pack_reference(length, parts))
    assert (found.length, list(found.parts)) == (length, parts)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_reference_within_bounds_or_refused(data: bytes) -> None:
    try:
        found = unpack_reference(data)
    except DamagedError:
        return
    assert 0 < found.length <= 1 << 20
    assert not found.parts or sum(part.length for part in found.parts) == found.length
    assert all(len(part.literal) in (0, part.length) for part in found.parts)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(4),  # nothing
        (1 << 21).to_bytes(4, "little"),  # larger than a chunk
        pack_reference(8, [Part(4, b"abcd")]),  # too short
        pack_reference(3, [Part(4, b"abcd")]),  # too long
        pack_reference(8, [Part(8, b"abcd")]),  # literal that ends early
        pack_reference(4, [Part(4, weights=bytes(16), offset=(1 << 64) - 4)]),
        (4).to_bytes(4, "little") + b"\2" + bytes(28),  # a part of no known sort
    ],
)
def test_impossible_references_are_refused(data: bytes) -> None:
    with pytest.raises(DamagedError):
        unpack_reference(data)


@pytest.mark.parametrize(
    ("name", "hub"),
    [("../x", ""), ("/etc/passwd", ""), (".", ""), ("", ""), ("a/b", ""), ("x" * 300, ""), ("a\x1b[0m", ""),
     ("x.safetensors", "../../x"), ("x.safetensors", "a/b/c"), ("x.safetensors", "a"), ("x.safetensors", "a/..")],
)  # fmt: skip
def test_names_of_weights_lead_nowhere(name: str, hub: str) -> None:
    with pytest.raises(DamagedError):
        unpack_weights(bytes(16), pack_weights(WeightsName(bytes(16), 5, name, hub)))


def test_names_of_weights_are_read_as_they_were_written() -> None:
    name = WeightsName(b"d" * 16, 1 << 40, "model-00001-of-00002.safetensors", "owner/Model-3.1")
    assert unpack_weights(name.digest, pack_weights(name)) == name
