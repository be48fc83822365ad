"""How far each buffer may be off: by the kernels that write it and what these read."""

from __future__ import annotations

import struct

import pytest

from replay.engine.checking.allowances import Allowances, Operations
from replay.engine.checking.copied_types import Copy
from replay.images.ptx_accesses import UNKNOWN, Accesses, accesses_of
from replay.images.ptx_body import kernel_body
from replay.inspection.launches import Launch, LaunchParameter
from replay.outputs.approximate import Use
from replay.outputs.tolerance import Tolerance, largest_of

from ..helpers.snapshot_factory import SnapshotFactory

A, B, C, D = 0x7000_0000_0000, 0x7000_0001_0000, 0x7000_0002_0000, 0x7000_0003_0000
SMALL, LARGE = Use("rcp", 1e-7), Use("tanh", 1e-3)
FIRST_TO_SECOND = Accesses(frozenset({0}), frozenset({8}))


@pytest.fixture
def ranges():
    factory = SnapshotFactory()
    return {address: factory.range(address, bytes(64), None) for address in (A, B, C, D)}


def launch(call, kernel, *pointers):
    data = [LaunchParameter(8 * n, 8, struct.pack("<Q", pointer)) for n, pointer in enumerate(pointers)]
    return Launch(call, kernel, "", (1, 1, 1), (1, 1, 1), 0, data)


def allowed(ranges, steps, copies=(), **operations):
    """Relative error by name of the buffer; None: bitwise."""
    found = Allowances(ranges.values(), steps, copies, lambda item: operations[item.kernel])
    tolerances = {name: found.of(ranges[at].id) for name, at in zip("ABCD", (A, B, C, D), strict=True)}
    return {name: item and item.relative for name, item in tolerances.items()}


def test_each_buffer_has_the_allowance_of_the_kernel_that_writes_it(ranges):
    found = allowed(
        ranges, [launch(1, "rough", A, B), launch(2, "fine", A, C)],
        rough=Operations(frozenset({LARGE}), FIRST_TO_SECOND), fine=Operations(frozenset({SMALL}), FIRST_TO_SECOND),
    )  # fmt: skip
    assert found == {"A": None, "B": 1e-3, "C": 1e-7, "D": None}


def test_of_two_kernels_that_write_a_buffer_the_larger_allowance_counts_and_says_whose_it_is(ranges):
    operations = {"rough": Operations(frozenset({LARGE}), FIRST_TO_SECOND),
                  "fine": Operations(frozenset({SMALL}), FIRST_TO_SECOND)}  # fmt: skip
    steps = [launch(1, "rough", A, B), launch(2, "fine", A, B)]
    found = Allowances(ranges.values(), steps, (), lambda item: operations[item.kernel]).of(ranges[B].id)
    assert (found.relative, found.kernels, found.reasons) == (1e-3, ("rough",), ("tanh",))


def test_errors_go_with_what_a_kernel_reads_and_with_copies_in_the_order_of_the_window(ranges):
    exact = Operations(frozenset(), FIRST_TO_SECOND)
    rough = Operations(frozenset({LARGE}), FIRST_TO_SECOND)
    after = allowed(ranges, [launch(1, "rough", A, B), launch(3, "exact", B, C)], [Copy(5, D, C, 8)],
                    rough=rough, exact=exact)  # fmt: skip
    assert after == {"A": None, "B": 1e-3, "C": 1e-3, "D": 1e-3}
    before = allowed(ranges, [launch(1, "exact", B, C), launch(3, "rough", A, B)], [Copy(2, D, C, 8)],
                     rough=rough, exact=exact)  # fmt: skip
    assert before == {"A": None, "B": 1e-3, "C": None, "D": None}


def test_a_kernel_that_may_write_anywhere_allows_it_everywhere(ranges):
    found = allowed(ranges, [launch(1, "wild", A)], wild=Operations(frozenset({SMALL}), UNKNOWN))
    assert set(found.values()) == {1e-7}
    assert set(allowed(ranges, [launch(1, "tame", A)], tame=Operations()).values()) == {None}


def test_the_largest_takes_each_limit_for_itself():
    wide, absolute = Tolerance(1, 1e-3, reasons=("x",)), Tolerance(2, 1e-6, 1e-4, reasons=("y",))
    found = largest_of([None, wide, absolute])
    assert (found.ulp, found.relative, found.absolute, found.reasons) == (2, 1e-3, 1e-4, ("x", "y"))
    assert largest_of([None]) is None


PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {
    .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %rd<16>; .shared .b32 s[4];
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];
    cvta.to.global.u64 %rd4, %rd1; cvta.to.global.u64 %rd5, %rd2; add.s64 %rd6, %rd5, 16;
    st.shared.b32 [s], %r1;
    ld.global.f32 %f1, [%rd4+8]; st.global.f32 [%rd6], %f1;
    BODY
    ret;
}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", Accesses(frozenset({0}), frozenset({8}))),
        ("red.global.add.f32 [%rd3], %f1;", Accesses(frozenset({0, 16}), frozenset({8, 16}))),
        ("ld.global.u64 %rd7, [%rd4]; ld.f32 %f2, [%rd7];", Accesses(frozenset({0}), frozenset({8}), True)),
        ("ld.global.u64 %rd7, [%rd4]; st.f32 [%rd7], %f2;", Accesses(frozenset({0}), frozenset({8}), False, True)),
        ("cp.async.ca.shared.global [s], [%rd4], 16;", Accesses(frozenset({0}), frozenset({8}), True)),
    ],
)  # fmt: skip
def test_parameters_are_traced_to_loads_and_stores_and_what_is_not_counts_as_anywhere(body, expected):
    parsed = kernel_body(PTX.replace(b"BODY", body.encode()), "k")
    assert accesses_of(parsed) == expected
