"""Moving memory on purpose: every stretch by another distance, and layouts of the worker's address space."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.engine.placing import layouts
from replay.engine.placing.memory import GRANULE_BYTES
from replay.engine.relocation.shift import AREAS, plan_targets
from replay.planning.spans import Span

MIB = 1 << 20
BASE = 0x7F00_0000_0000


@st.composite
def neighbours(draw):
    """Spans one after the other, of granules or pages."""
    spans, address = [], BASE
    for gap, size, host in draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.booleans()), min_size=1, max_size=50)
    ):
        unit = 4096 if host else GRANULE_BYTES
        address = -(-address // unit) * unit + gap * unit
        spans.append(Span(address, size * unit, host))
        address += size * unit
    return spans


@given(neighbours())
def test_no_two_stretches_move_by_one_distance_nor_any_twice_by_the_same(spans):
    ways = [plan_targets(spans, number) for number in (1, 2)]
    for targets in ways:
        distances = [target - span.address for target, span in zip(targets, spans, strict=True)]
        assert 0 not in distances
        assert len({distance % 2**32 for distance in distances}) == len(spans)
        ends = [target + span.size_bytes for target, span in zip(targets, spans, strict=True)]
        assert all(end <= start for end, start in zip(ends, targets[1:], strict=False))
        assert all((t - s.address) % GRANULE_BYTES == 0 for t, s in zip(targets, spans, strict=True))
    assert all(first != second for first, second in zip(*ways, strict=True))
    assert all(area % GRANULE_BYTES == 0 for area in AREAS)


def first_library(layout):
    """Where a process of this layout has its C library; and the layout that it got."""
    code = "print(next(line for line in open('/proc/self/maps') if 'libc' in line).split('-')[0])"
    with layouts.started_in(layout) as name:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout, 16), name


def test_a_worker_of_the_other_layout_has_its_libraries_far_from_where_applications_have_them():
    ordinary, name = first_library("random")
    assert name == "random"
    other, name = first_library("bottom_up_fixed")
    if name != "bottom_up_fixed":
        pytest.skip("needs personality(2), which this container does not permit")
    assert ordinary - other > 1 << 42
    assert first_library("bottom_up_fixed")[0] == other
    again, name = first_library("random")
    assert name == "random"  # nothing of it is left in this process
    assert again - other > 1 << 42
    assert {first_library(layout)[1] for layout in layouts.ORDER} == set(layouts.ORDER)
