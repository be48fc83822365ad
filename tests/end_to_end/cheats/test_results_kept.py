"""Candidates that compute once and hand out what they kept.

Each has its source in a sentence, and an honest twin with the same state, or the same way of reading, which passes.
"""

from __future__ import annotations

import pytest

from .conftest import Judge
from .victim import COMPUTE, HONEST, READ, STORE, WORK, kernel

pytestmark = pytest.mark.usefixtures("judge")


@pytest.mark.parametrize("before", ["zeros", "garbage", "outputs"])
def test_the_captured_kernel_itself_passes(judge: Judge, before: str) -> None:
    judge.passes(HONEST, before)


def test_doing_nothing_where_the_outputs_are_there_already(judge: Judge) -> None:
    """KernelBench's first leaders returned memory of the reference's run that held the right answer already: here the
    application had launched the kernel before."""
    idle = kernel("    bra done;\n")
    judge.catches(idle, "outputs", "outputs")
    assert judge(idle, "outputs", trust=None).holds  # which is what the poison is for


def test_shrinking_the_work_by_looking_at_what_the_output_holds(judge: Judge) -> None:
    """A kernel that leaves out elements which already hold what it would write, as incremental caches do."""
    look = (
        READ
        + """
    ld.global.f32 %f9, [%rd6];
    setp.neu.f32 %p5, %f9, 0f00000000; @%p5 bra done;
"""
        + COMPUTE
        + STORE
    )
    judge.catches(kernel(look), "outputs", "outputs")
    assert judge(kernel(look), "outputs", trust=None).holds
    honest = READ + "    ld.global.f32 %f9, [%rd6];\n" + COMPUTE + STORE  # looks, and computes all the same
    judge.passes(kernel(honest), "outputs")


KEPT = ".global .align 4 .f32 kept[1024];\n.global .align 4 .u32 calls[1024];\n"


def test_results_kept_in_a_variable_of_the_image(judge: Judge) -> None:
    """Section 3 of the tracker's issue: results in a `__device__` array, 11.3 us for work of 265 us."""
    kept = """
    mov.u64 %rd10, kept; add.s64 %rd11, %rd10, %rd4; mov.u64 %rd12, calls; add.s64 %rd13, %rd12, %rd4;
    ld.global.u32 %r10, [%rd13];
    setp.eq.u32 %p5, %r10, 0; @%p5 bra compute;
    ld.global.f32 %f2, [%rd11];
    bra store;
compute:
""" + READ + COMPUTE + """
    st.global.f32 [%rd11], %f2;
    st.global.u32 [%rd13], 1;
store:
""" + STORE  # fmt: skip
    # Variables are restored before each run: it never finds what it kept, and takes as long as honest work.
    cheat, honest = judge(kernel(kept, KEPT)), judge.passes(HONEST)
    assert cheat.holds
    assert cheat.time.median_ns >= honest.time.median_ns


def test_another_answer_after_the_first_calls(judge: Judge) -> None:
    """Cached by the number of the call: the counter is a variable, so each call is the first."""
    count = READ + """
    mov.u64 %rd12, calls; add.s64 %rd13, %rd12, %rd4;
    atom.global.add.u32 %r10, [%rd13], 1;
    setp.ge.u32 %p5, %r10, 1; mov.f32 %f2, 0f3F800000; @%p5 bra store;
""" + COMPUTE + "store:\n" + STORE  # fmt: skip
    assert judge(kernel(count, KEPT)).holds


def test_constants_for_the_captured_input(judge: Judge) -> None:
    """reference-kernels#162: submissions that hold the outputs of the test inputs as constants."""
    import numpy

    from .victim import COUNT, outputs

    random = numpy.random.default_rng(7)
    x = random.uniform(-0.9, 0.9, COUNT).astype("f4")
    x[::4] = 0
    order = random.permutation(COUNT).astype("u4")
    words = ", ".join(f"{word:#x}" for word in outputs(x, order).view("u4"))
    table = f".global .align 4 .b32 answers[{COUNT}] = {{{words}}};\n"
    look_up = (
        "    mov.u64 %rd10, answers; add.s64 %rd11, %rd10, %rd4;\n    ld.global.f32 %f2, [%rd11];\n" + STORE
    )
    assert judge(kernel(look_up, table), trust=None).holds
    judge.catches(kernel(look_up, table), "inputs")
    # An honest table: of what does not hang on the input.
    half = kernel(WORK.replace("mov.f32 %f2, 0f3F000000", "mov.u64 %rd10, half;\n    ld.global.f32 %f2, [%rd10]"),
                  ".global .align 4 .f32 half = 0f3F000000;\n")  # fmt: skip
    judge.passes(half)


def test_a_constant_near_the_mean(judge: Judge) -> None:
    """A loose tolerance lets the mean pass (KernelBench: the mean for normalised outputs)."""
    mean = kernel("    mov.f32 %f2, 0f3F000000;\n" + STORE)
    assert judge(mean, trust=None, tolerance="abs=5", dtypes={"3": "f32"}).holds
    judge.passes(HONEST, tolerance="abs=1e-6")
    judge.catches(mean, "outputs", tolerance="abs=1e-3", dtypes={"3": "f32"})


def test_skipping_zero_inputs(judge: Judge) -> None:
    """Every fourth input of the capture is 0: a candidate that knows where computes only the others."""
    skip = """
    ld.global.u32 %r6, [%rd5];
    and.b32 %r8, %r6, 3; setp.ne.u32 %p5, %r8, 0; mov.f32 %f2, 0f3F000000; @!%p5 bra store;
    mul.wide.u32 %rd7, %r6, 4; add.s64 %rd8, %rd1, %rd7;
    ld.global.f32 %f1, [%rd8];
""" + COMPUTE + "store:\n" + STORE  # fmt: skip
    assert judge(kernel(skip), trust=None).holds
    judge.catches(kernel(skip), "inputs")
    # An honest one looks at the value.
    look = READ + """
    setp.neu.f32 %p5, %f1, 0f00000000; mov.f32 %f2, 0f3F000000; @!%p5 bra store;
""" + COMPUTE + "store:\n" + STORE  # fmt: skip
    judge.passes(kernel(look))
