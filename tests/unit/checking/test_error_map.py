"""Where elements differ: a bounded picture, its worst element, and what a result keeps of it."""

from __future__ import annotations

import struct

import numpy
import pytest

from replay.outputs.comparison import MAXIMUM_MAPS, BufferComparison, Reading, found_errors
from replay.outputs.elements import TYPES, Region
from replay.outputs.error_map import MAXIMUM_CELLS, NOT_COMPARABLE, ErrorMap, relative_errors


def compared(
    expected: list[float], actual: list[float], regions: list[Region], piece: int = 0
) -> BufferComparison:
    a, b = (struct.pack(f"<{len(side)}f", *side) for side in (expected, actual))
    found = BufferComparison("out", 0, len(a), reading=lambda: Reading(regions))
    for at in range(0, len(a), piece or len(a)):
        found.add(at, a[at : at + (piece or len(a))], b[at : at + (piece or len(a))])
    return found


@pytest.mark.parametrize(
    ("elements", "cell"), [(1, 1), (1024, 1), (1025, 2), (1 << 20, 1024), (10**9, 1 << 20)]
)
def test_a_map_is_bounded_and_its_cells_are_powers_of_two(elements: int, cell: int) -> None:
    found = ErrorMap(elements)
    assert found.cell_elements == cell
    assert -(-elements // found.cell_elements) <= MAXIMUM_CELLS


@pytest.mark.parametrize("piece", [0, 64, 4096])
def test_cells_say_where_and_how_far_whatever_the_pieces(piece: int) -> None:
    expected = [1.0] * 4096
    actual = list(expected)
    actual[5], actual[6], actual[4095] = 1.5, 1.1, 4.0
    (found,) = found_errors(
        compared(expected, actual, [Region(0, 4 * 4096, TYPES["f32"], "declared")], piece)
    )
    assert (found.dtype, found.elements, found.cell_elements) == ("f32", 4096, 4)
    assert (found.cells, found.differing) == ([1, 1023], [2, 1])
    assert found.largest == pytest.approx([1 / 3, 0.75])
    assert (found.worst_element, found.worst_expected, found.worst_actual) == (4095, "1.0", "4.0")


def test_bytes_of_no_known_type_are_counted_where_they_are() -> None:
    (found,) = found_errors(compared([1.0] * 1024, [1.0] * 1023 + [2.0], []))
    assert (found.dtype, found.elements, found.cell_elements, found.cells) == ("", 4096, 4, [1023])
    assert found.worst_element == -1


def test_one_nan_is_as_far_as_two_numbers_can_be() -> None:
    a = numpy.array([1.0, numpy.nan, numpy.inf, numpy.nan, 0.0, -1.0, 1e308])
    b = numpy.array([numpy.nan, numpy.nan, 1.0, numpy.inf, 1e-300, 1.0, -1e308])
    errors = relative_errors(a, b)
    assert errors.tolist() == [NOT_COMPARABLE, 0.0, NOT_COMPARABLE, NOT_COMPARABLE, 1.0, 2.0, NOT_COMPARABLE]


def test_a_buffer_of_many_regions_keeps_few_maps() -> None:
    regions = [Region(at * 4, at * 4 + 4, TYPES["f32"], "declared") for at in range(3 * MAXIMUM_MAPS)]
    assert len(found_errors(compared([1.0] * len(regions), [2.0] * len(regions), regions))) == MAXIMUM_MAPS
