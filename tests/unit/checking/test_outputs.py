"""Comparison of outputs: every differing byte is counted, and the first places are named."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.outputs.comparison import FIRST_MISMATCHES, BufferComparison, guess_floats, ulp_distance


def compare(expected: bytes, actual: bytes) -> BufferComparison:
    comparison = BufferComparison("buffer", 0x1000, len(expected))
    comparison.add(0, expected, actual)
    return comparison


@given(st.binary(min_size=1, max_size=300), st.data())
def test_any_change_is_found_and_counted(expected, data):
    actual = bytearray(expected)
    places = data.draw(st.sets(st.integers(0, len(expected) - 1), min_size=1))
    for place in places:
        actual[place] ^= data.draw(st.integers(1, 255))
    comparison = compare(expected, bytes(actual))
    assert comparison.differing_bytes == len(places)
    assert not comparison.equal
    first = comparison.mismatches[0]
    assert first.offset <= min(places) < first.offset + len(first.expected)
    for place in comparison.mismatches:
        assert place.expected == expected[place.offset : place.offset + 4]
        assert place.actual == bytes(actual[place.offset : place.offset + 4])
    assert len(comparison.mismatches) <= FIRST_MISMATCHES


def test_equal_bytes_are_equal():
    comparison = compare(b"abcd" * 9, b"abcd" * 9)
    assert comparison.equal
    assert comparison.compared_bytes == 36
    assert comparison.mismatches == []


def test_negative_zero_and_nan_payloads_are_differences():
    """Bit by bit, not by value."""
    zeros = numpy.array([0.0, numpy.nan], "<f4")
    other = numpy.array([-0.0, numpy.nan], "<f4")
    assert compare(zeros.tobytes(), other.tobytes()).differing_bytes == 1


def test_offsets_count_from_the_start_of_the_buffer():
    comparison = BufferComparison("buffer", 0, 64)
    comparison.add_equal(32)
    comparison.add(32, bytes(32), bytes(8) + b"\1" + bytes(23))
    assert comparison.compared_bytes == 64
    assert [place.offset for place in comparison.mismatches] == [40]


def test_pieces_of_unequal_length_are_an_error():
    with pytest.raises(ValueError):
        compare(b"abc", b"ab")


@pytest.mark.parametrize(("dtype", "type_"), [("f32", "<f4"), ("f64", "<f8"), ("f16", "<f2")])
def test_small_float_differences_are_guessed_in_ulp(dtype, type_):
    values = numpy.linspace(1, 7, 4001).astype(type_)
    near = values.copy()
    near[1234] = numpy.nextafter(near[1234], type_ and numpy.array(100, type_))
    guess = guess_floats(values.tobytes(), near.tobytes())
    assert guess is not None
    assert (guess.dtype, guess.maximum_ulp) == (dtype, 1)
    assert guess.maximum_relative == pytest.approx(
        abs(float(near[1234]) - float(values[1234])) / float(values[1234])
    )


def test_ulp_distance_counts_through_zero():
    tiny = numpy.nextafter(numpy.float32(0), numpy.float32(1))
    a, b = numpy.array([1.0, tiny], "<f4"), numpy.array([1.0, -tiny], "<f4")
    assert ulp_distance(a.view("<i4"), b.view("<i4")) == 2


def test_wrong_values_are_not_called_rounding():
    a = numpy.arange(1, 1000, dtype="<f4")
    b = a.copy()
    b[10] = 77
    assert guess_floats(a.tobytes(), b.tobytes()) is None


@pytest.mark.parametrize("type_", ["<i4", "<i8"])
def test_small_integers_are_not_called_floats(type_):
    a = numpy.arange(1, 1000, dtype=type_)
    b = a.copy()
    b[10] += 1
    assert guess_floats(a.tobytes(), b.tobytes()) is None


def test_guess_covers_every_differing_piece():
    values = numpy.ones(16, "<f4")
    one_off, far_off = values.copy(), values.copy()
    one_off[3] = numpy.nextafter(one_off[3], numpy.float32(2))
    far_off[3] = 5
    comparison = BufferComparison("buffer", 0, 128)
    comparison.add(0, values.tobytes(), one_off.tobytes())
    assert comparison.guess.maximum_ulp == 1
    comparison.add(64, values.tobytes(), far_off.tobytes())
    assert comparison.guess is None
