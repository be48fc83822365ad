"""Programmatic dependent launch where work is late: a kernel that forgets `griddepcontrol.wait` sees what was there
before the kernel it depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from small_kernels import HEAD

if TYPE_CHECKING:
    from conftest import Fresh

BLOCKS, THREADS = 3, 64
WORDS = BLOCKS * THREADS
LATE = {"DEFERRED": "1"}
RELEASE, WAIT = "griddepcontrol.launch_dependents;", "griddepcontrol.wait;"
# Of each thread: its word of the buffer at %rd0, and of the one at %rd1.
BEGIN = """
.reg .b32 %r<10>; .reg .b64 %rd<10>; .reg .pred %p<4>;
ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x;
mad.lo.u32 %r2, %r0, 64, %r1; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd0, %rd2; add.u64 %rd4, %rd1, %rd2;
"""
STORE = "st.global.u32 [%rd3], 7;"
COPY = "ld.global.u32 %r3, [%rd3]; st.global.u32 [%rd4], %r3;"


def found(
    fresh: Fresh, first: str, second: str, *, begins_early: int = 1, **settings: str
) -> tuple[int, ...]:
    """The status of both kernels, and the different words that the second one leaves in its buffer."""
    kernels = "".join(
        f".visible .entry {name}(.param .u64 p0, .param .u64 p1) {{ {BEGIN} {body} }}\n"
        for name, body in (("first", first), ("second", second))
    )
    done = fresh(
        f"""
        m = d.module({HEAD + kernels!r})
        first, second = d.function(m, "first"), d.function(m, "second")
        a, b = (d.alloc({4 * WORDS}) for _ in range(2))
        d.launch_ex(first, [{BLOCKS}], [{THREADS}], [a, b])
        d.launch_ex(second, [{BLOCKS}], [{THREADS}], [a, b], [(6, [{begins_early}])])
        print(status := d.cuCtxSynchronize(), *(() if status else d.words(b, {WORDS})))
        """,
        **settings,
    )
    status, *words = map(int, done.stdout.split())
    return status, *sorted(set(words))


@pytest.mark.parametrize(
    ("first", "second", "begins_early", "late"),
    [
        pytest.param(STORE + RELEASE, WAIT + COPY, 1, 7, id="correct"),
        pytest.param(RELEASE + STORE, WAIT + COPY, 1, 7, id="released at once"),
        pytest.param(STORE + RELEASE, COPY, 1, 0, id="no wait"),
        pytest.param(STORE + RELEASE, COPY + WAIT, 1, 0, id="a wait that is too late"),
        pytest.param(STORE, COPY, 1, 7, id="nothing released"),
        pytest.param(STORE + RELEASE, COPY, 0, 7, id="a launch that may not begin early"),
        pytest.param(
            STORE + RELEASE,
            f"setp.lt.u32 %p1, %r1, 32; @%p1 {WAIT} bar.sync 0; {COPY}",
            1,
            7,
            id="one warp waits",
        ),
    ],
)
def test_a_missing_wait_shows(fresh: Fresh, first: str, second: str, begins_early: int, late: int) -> None:
    def look(**settings: str) -> tuple[int, ...]:
        return found(fresh, first, second, begins_early=begins_early, **settings)

    assert look() == (0, 7)
    assert look(**LATE) == (0, late)
    assert {look(**LATE, DEFERRED_SEED=str(seed)) for seed in range(1, 7)} == {(0, 7), (0, late)}


def test_who_waits_for_the_first_kernel_in_a_loop_gets_further(fresh: Fresh) -> None:
    loop = "again: ld.volatile.global.u32 %r3, [%rd3]; setp.ne.u32 %p1, %r3, 7; @%p1 bra again;"
    assert found(fresh, STORE + RELEASE, loop + WAIT + COPY, **LATE, TIMEOUT="20000") == (0, 7)


def test_a_fault_of_either_is_told(fresh: Fresh) -> None:
    fault = "st.global.u32 [8], 1;"
    first, second = STORE + RELEASE, "st.global.u32 [%rd4], 9;" + WAIT + COPY
    assert found(fresh, fault + first, second, **LATE) == (700,)
    assert found(fresh, first, fault + second, **LATE) == (700,)
    assert found(fresh, first, second + fault, **LATE) == (700,)
