"""Element types: bytes read as numbers, distances between them, and tolerances that say what still matches."""

from __future__ import annotations

import math
import struct

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import UsageError
from replay.outputs.comparison import BufferComparison, Reading
from replay.outputs.elements import TYPES, Region, element_type, text, ulp_distances, values
from replay.outputs.tolerance import Tolerance, parse

F32 = TYPES["f32"]


def compare(expected, actual, *regions, tolerance=None, offset=0):
    comparison = BufferComparison("buffer", 0x1000, 1 << 20, reading=lambda: Reading(regions, tolerance))
    comparison.add(offset, expected, actual)
    return comparison


def floats(*numbers, dtype="<f4"):
    return numpy.array(numbers, dtype).tobytes()


@pytest.mark.parametrize(
    ("name", "code", "number"),
    [
        ("e4m3", 0x38, 1.0), ("e4m3", 0x7E, 448.0), ("e4m3", 0x01, 2.0**-9), ("e4m3", 0xC0, -2.0),
        ("e5m2", 0x3C, 1.0), ("e5m2", 0x7B, 57344.0), ("e5m2", 0x01, 2.0**-16), ("e5m2", 0x7C, math.inf),
        ("bf16", 0x3F80, 1.0), ("bf16", 0xC040, -3.0), ("bf16", 0x7F80, math.inf),
    ],
)  # fmt: skip
def test_narrow_floats_read_as_their_formats_say(name, code, number):
    type_ = TYPES[name]
    assert values(code.to_bytes(type_.size_bytes, "little"), type_)[0] == number


@pytest.mark.parametrize(("name", "code"), [("e4m3", 0x7F), ("e4m3", 0xFF), ("e5m2", 0x7D), ("bf16", 0x7FC0)])
def test_narrow_floats_have_their_own_nan(name, code):
    assert math.isnan(values(code.to_bytes(TYPES[name].size_bytes, "little"), TYPES[name])[0])


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(1, 50))
def test_steps_to_the_next_float_are_counted(number, steps):
    here = numpy.float32(number)
    there = here
    for _ in range(steps):
        there = numpy.nextafter(there, numpy.float32(numpy.inf))
    if numpy.isfinite(there):
        assert ulp_distances(here.tobytes(), there.tobytes(), F32)[0] == steps


@pytest.mark.parametrize("name", TYPES)
def test_distance_is_symmetric_and_zero_only_for_equal_numbers(name):
    type_ = TYPES[name]
    random = numpy.random.default_rng(3)
    a, b = (random.integers(0, 256, 800, dtype=numpy.uint8).tobytes() for _ in range(2))
    assert (ulp_distances(a, b, type_) == ulp_distances(b, a, type_)).all()
    assert not ulp_distances(a, a, type_).any()


def test_extreme_integers_do_not_overflow():
    lowest, highest = struct.pack("<q", -(2**63)), struct.pack("<q", 2**63 - 1)
    assert int(ulp_distances(lowest, highest, TYPES["i64"])[0]) == 2**64 - 1
    assert int(ulp_distances(struct.pack("<d", -1e308), struct.pack("<d", 1e308), TYPES["f64"])[0]) > 2**63


def test_element_is_shown_as_a_number():
    assert text(floats(1.5), F32) == "1.5"
    assert text(struct.pack("<i", -7), TYPES["i32"]) == "-7"
    assert text(b"\x80\x3f", TYPES["bf16"]) == "1"


def test_unknown_type_is_a_usage_error_that_lists_the_types():
    with pytest.raises(UsageError, match="f16, bf16, f32"):
        element_type("float33")


def test_differing_elements_are_counted_in_their_type_with_index_and_values():
    expected, actual = (
        floats(0, 1, 2, 3),
        floats(0, 1, numpy.nextafter(numpy.float32(2), numpy.float32(3)), 3),
    )
    comparison = compare(expected, actual, Region(0, 16, F32, "declared"))
    ((region, found),) = comparison.regions.items()
    assert (region.type.name, found.elements, found.maximum_ulp) == ("f32", 1, 1)
    assert comparison.untyped_bytes == 0
    assert comparison.mismatches[0].element == 2
    assert comparison.mismatches[0].values == ("2.0", "2.0000002")


def test_each_region_is_read_in_its_own_type():
    data = floats(1, 2) + struct.pack("<4h", 1, 2, 3, 4) + b"tail\0\0\0\0"
    other = floats(1, 3) + struct.pack("<4h", 1, 2, 3, 9) + b"tall\0\0\0\0"
    regions = [Region(0, 8, F32, "declared"), Region(8, 16, TYPES["i16"], "declared")]
    comparison = compare(data, other, *regions)
    assert [found.region.type.name for found in comparison.regions.values()] == ["f32", "i16"]
    assert comparison.untyped_bytes == 1
    assert [place.element for place in comparison.mismatches] == [1, 3, -1]


def test_a_relative_error_is_of_what_is_not_zero():
    region = Region(0, 12, F32, "declared")
    (found,) = compare(floats(0, 2, 0), floats(1e5, 2.5, -3), region).regions.values()
    assert (found.elements, found.zeros, found.maximum_relative, found.maximum_absolute) == (3, 2, 0.25, 1e5)
    (found,) = compare(floats(0, 1, 1), floats(8, 1, 1), region).regions.values()
    assert (found.zeros, found.maximum_relative) == (1, 0.0)


def test_nan_against_a_number_is_never_within_a_tolerance():
    wide = Tolerance(ulp=1 << 40, relative=0.9, absolute=1e30)
    region = Region(0, 12, F32, "declared")
    comparison = compare(floats(1, numpy.inf, 5), floats(numpy.nan, 7, 5), region, tolerance=wide)
    (found,) = comparison.regions.values()
    assert (found.special, found.beyond) == (2, 2)
    assert not comparison.acceptable


def test_payload_of_a_nan_is_within_any_tolerance():
    a, b = struct.pack("<I", 0x7FC00000), struct.pack("<I", 0x7FFFFFFF)
    assert compare(a, b, Region(0, 4, F32, "declared"), tolerance=Tolerance(ulp=1)).acceptable


def test_tolerance_holds_for_each_limit_alone():
    one, near = numpy.float32(1), numpy.nextafter(numpy.float32(1), numpy.float32(2))
    region = Region(0, 4, F32, "declared")
    for tolerance, accepted in [
        (None, False), (Tolerance(), False), (Tolerance(ulp=1), True), (Tolerance(relative=1.2e-7), True),
        (Tolerance(relative=1.1e-7), False), (Tolerance(absolute=1.2e-7), True), (Tolerance(absolute=1e-9), False),
    ]:  # fmt: skip
        assert compare(one.tobytes(), near.tobytes(), region, tolerance=tolerance).acceptable is accepted, (
            tolerance
        )


def test_absolute_error_of_an_operation_counts_in_units_of_the_values_nearby():
    """Else a buffer of tiny numbers would match whatever it holds."""
    region = Region(0, 8, F32, "inferred from PTX")
    tolerance = Tolerance(absolute=2.0**-20, source="op table", scaled=True)
    assert compare(floats(1, 0), floats(1, 1e-7), region, tolerance=tolerance).acceptable
    assert not compare(floats(1e-3, 0), floats(1e-3, 1e-7), region, tolerance=tolerance).acceptable
    assert compare(floats(1000, 0), floats(1000, 1e-4), region, tolerance=tolerance).acceptable


def test_integers_and_bytes_of_unknown_type_must_be_equal_under_every_tolerance():
    wide = Tolerance(ulp=1 << 40, relative=0.9, absolute=1e30)
    assert not compare(
        b"\1\0\0\0", b"\2\0\0\0", Region(0, 4, TYPES["i32"], "declared"), tolerance=wide
    ).acceptable
    assert not compare(floats(1), floats(1.0001), tolerance=wide).acceptable


def test_region_that_crosses_pieces_is_read_element_by_element():
    expected, actual = floats(*range(64)), floats(*range(63), 0)
    comparison = BufferComparison("b", 0, 256, reading=lambda: Reading([Region(4, 256, F32, "declared")]))
    comparison.add(0, expected[:128], expected[:128])
    comparison.add(128, expected[128:], actual[128:])
    assert comparison.mismatches[0].element == 62
    assert comparison.untyped_bytes == 0


@pytest.mark.parametrize(
    ("given_", "tolerance"),
    [
        ("4ulp", Tolerance(4)), ("1e-5", Tolerance(0, 1e-5)), ("abs=1e-6", Tolerance(0, 0.0, 1e-6)),
        ("2 ULP, 1e-3,abs=0.5", Tolerance(2, 1e-3, 0.5)), ("bitwise", Tolerance()), ("0", Tolerance()), ("auto", None),
    ],
)  # fmt: skip
def test_tolerance_as_it_is_typed(given_, tolerance):
    assert parse(given_) == tolerance


@pytest.mark.parametrize(
    "wrong", ["", "4", "ulp", "1e-5ulp", "-1e-5", "nan", "inf", "1.5", "abs=", "1;2ulp", "1..2"]
)
def test_what_is_no_tolerance_is_a_usage_error(wrong):
    with pytest.raises(UsageError, match="--tolerance"):
        parse(wrong)
