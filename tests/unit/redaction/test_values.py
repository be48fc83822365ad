"""Noise keeps what a kernel's way may hang on in number: signs, exponents, zeros and what is no number."""

from __future__ import annotations

import numpy
import pytest

from replay.redaction.noise.values import FORMATS, TILE, noise, width_of


@pytest.mark.parametrize("type_", FORMATS)
def test_signs_and_exponents_keep_their_number_and_zeros_their_place(type_: str) -> None:
    random = numpy.random.default_rng(1)
    words = random.integers(0, 1 << 8 * width_of(type_), 3 * TILE + 5, f"u{width_of(type_)}", endpoint=False)
    words[::5] = 0
    made = noise(words, type_, random)
    mantissa_bits = numpy.uint64(FORMATS[type_][1])
    highest = numpy.uint64((1 << FORMATS[type_][0]) - 1)
    for begin in range(0, len(words), TILE):
        old, new = (array[begin : begin + TILE].astype("u8") for array in (words, made))
        assert sorted(old >> mantissa_bits) == sorted(new >> mantissa_bits)
        special = [(array >> mantissa_bits & highest) == highest for array in (old, new)]
        assert (special[0] == special[1]).all()
    assert ((words == 0) == (made == 0)).all()
    assert (words == made)[words != 0].mean() < 0.3


def test_a_constant_tile_stays_constant_and_is_another_one() -> None:
    ones = numpy.full(TILE, 1.0, "f4").view("u4")
    made = noise(ones, "f32", numpy.random.default_rng(2))
    assert len(set(made.tolist())) == 1
    assert made[0] != ones[0]


def test_payloads_of_nans_do_not_stay() -> None:
    made = noise(numpy.array([0x7FC01234, 0xFF800000, 0x7F8000FF], "u4"), "f32", numpy.random.default_rng(3))
    assert [hex(word) for word in made.tolist()] == ["0x7fc00000", "0xff800000", "0x7fc00000"]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_numbers_keep_their_magnitudes_and_what_is_no_number(dtype: str) -> None:
    """As numpy sees them: what a kernel computes with them stays of the same size."""
    random = numpy.random.default_rng(4)
    values = (random.standard_normal(2 * TILE) * 10.0 ** random.integers(-3, 4, 2 * TILE)).astype(dtype)
    values[::7], values[1::50], values[2::60], values[3::70] = 0, numpy.nan, numpy.inf, -numpy.inf
    values[4::90] = -0.0
    bits = values.view(f"u{values.itemsize}")
    made = noise(bits, f"f{8 * values.itemsize}", random).view(dtype)
    for begin in range(0, len(values), TILE):
        old, new = values[begin : begin + TILE], made[begin : begin + TILE]
        for kind in (numpy.isnan, numpy.isposinf, numpy.isneginf, numpy.signbit):
            assert kind is numpy.signbit or (kind(old) == kind(new)).all()
            assert kind(old).sum() == kind(new).sum()
        assert ((old == 0) == (new == 0)).all()
        assert (numpy.signbit(old) == numpy.signbit(new))[old == 0].all()
        normal = [one[numpy.isfinite(one) & (abs(one) >= numpy.finfo(dtype).tiny)] for one in (old, new)]
        numbers = [numpy.frexp(one.astype("f8"))[1] for one in normal]
        assert (numpy.sort(numbers[0]) == numpy.sort(numbers[1])).all()
    finite = numpy.isfinite(values) & (values != 0)
    assert (values == made)[finite].mean() < 0.01
