"""Candidates that read or write memory which is not theirs: copies of the answer, inputs, the timer."""

from __future__ import annotations

import pytest

import replay
from replay.errors import EngineError, ReplayError, WorkerError

from .conftest import Judge
from .victim import COMPUTE, COUNT, HONEST, READ, STORE, WORK, X, Y, kernel, write_snapshot


def test_inputs_written_over(judge: Judge) -> None:
    """A submission that overwrites the reference's inputs makes both sides compute the same nonsense: inputs are
    compared, too, and restored."""
    spoil = WORK + "    mov.f32 %f9, 0f00000000;\n    st.global.f32 [%rd8], %f9;\n"
    judge.catches(kernel(spoil), "outputs")
    rewrite = WORK + "    st.global.f32 [%rd8], %f1;\n"  # the same value again
    judge.passes(kernel(rewrite))


def test_writes_past_the_end(judge: Judge) -> None:
    """Out-of-bounds writes into the reference's buffers, or the judge's: an address that no captured memory has ends
    the run, on the CPU driver to the byte."""
    past = WORK + f"    mov.u64 %rd20, {Y + 4 * COUNT}; st.global.u32 [%rd20], 1;\n"
    with pytest.raises(EngineError, match="ILLEGAL_ADDRESS"):
        judge(kernel(past))
    last = WORK + f"    mov.u64 %rd20, {Y + 4 * COUNT - 4}; ld.global.u32 %r20, [%rd20];\n"
    judge.passes(kernel(last))


@pytest.mark.parametrize("address", [0x1000, X - 4096, Y + (1 << 20), 0x7FFF_0000_0000])
def test_golden_outputs_out_of_the_memory_of_the_judge(judge: Judge, address: int) -> None:
    """A kernel that looks for the expected outputs in the process that compares them (reference-kernels#162): kernels
    reach device memory only, and there is no copy of them."""
    peek = f"    mov.u64 %rd20, {address}; ld.global.u32 %r20, [%rd20];\n" + WORK
    with pytest.raises(EngineError, match="ILLEGAL_ADDRESS"):
        judge(kernel(peek))


def test_the_answer_of_an_earlier_run_in_a_neighbouring_buffer(judge: Judge) -> None:
    """Freed or neighbouring buffers that still hold what the reference left: a copy is right,
    and wrong on other inputs."""
    path = write_snapshot(judge.folder / "neighbour.rsnap", neighbour=True)
    copy = "    add.s64 %rd20, %rd6, 0x1000000;\n    ld.global.f32 %f2, [%rd20];\n" + STORE
    (judge.folder / "copy.ptx").write_text(kernel(copy))
    (judge.folder / "honest.ptx").write_text(kernel("    add.s64 %rd20, %rd6, 0x1000000;\n" + WORK))
    with replay.open(path).session(driver="emulator", samples=3) as session:
        assert session.run(swap={"work": judge.folder / "copy.ptx"}).holds
        caught = session.run(swap={"work": judge.folder / "copy.ptx"}, trust=False)
        assert not caught.holds
        assert {item.kind for item in caught.trust.findings} == {"inputs"}
        assert session.run(swap={"work": judge.folder / "honest.ptx"}, trust=False).holds


def test_the_last_output_written_late(judge: Judge) -> None:
    """Returning the output of the call before, and computing this one's meanwhile: what was kept is restored."""
    lag = READ + COMPUTE + """
    mov.u64 %rd10, kept; add.s64 %rd11, %rd10, %rd4;
    ld.global.f32 %f3, [%rd11];
    st.global.f32 [%rd11], %f2;
    st.global.f32 [%rd6], %f3;
"""  # fmt: skip
    state = ".global .align 4 .f32 kept[1024];\n"
    judge.catches(kernel(lag, state), "outputs")
    judge.passes(kernel(lag.replace("[%rd6], %f3", "[%rd6], %f2"), state))


def test_a_cache_by_contents(judge: Judge) -> None:
    """A table of inputs that were seen, by their hash, with the outputs: a variable, so it is empty in each run."""
    # One access of 64 bits: a vector may be torn, so that a key has the value of another.
    cached = READ + """
    mov.b32 %r20, %f1; mul.lo.u32 %r21, %r20, 0x9E3779B1; shr.u32 %r21, %r21, 22;
    mul.wide.u32 %rd20, %r21, 8; mov.u64 %rd21, table; add.s64 %rd22, %rd21, %rd20;
    ld.global.u64 %rd23, [%rd22]; mov.b64 {%r22, %r23}, %rd23;
    setp.eq.u32 %p5, %r22, %r20; @!%p5 bra compute;
    setp.eq.u32 %p5, %r23, 0; @%p5 bra compute;
    mov.b32 %f2, %r23; bra store;
compute:
""" + COMPUTE + """
    mov.b32 %r23, %f2; mov.b64 %rd23, {%r20, %r23}; st.global.u64 [%rd22], %rd23;
store:
""" + STORE  # fmt: skip
    text = kernel(cached, ".global .align 8 .b32 table[2048];\n")
    fast = judge(text, trust=None)
    assert fast.holds
    result = judge(text)
    assert not result.holds or result.time.median_ns >= judge(HONEST).time.median_ns


def test_less_precision_than_asked(judge: Judge) -> None:
    """Half precision inside passes a tolerance of a percent (KernelBench): without one, every bit counts."""
    half = WORK.replace(
        "st.global.f32 [%rd6], %f2",
        "cvt.rn.f16.f32 %h1, %f2; cvt.f32.f16 %f2, %h1;\n    st.global.f32 [%rd6], %f2",
    )
    text = kernel(half, locals=".reg .b16 %h<4>;")
    judge.catches(text, "outputs")
    assert judge(
        text, tolerance="2e-3", dtypes={"3": "f32"}, trust=None
    ).holds  # as far as the judge allows it


def test_part_of_the_work_left_out(judge: Judge) -> None:
    """The last block, or every hundredth element, that a sampling check would not see."""
    judge.catches(kernel("    setp.eq.u32 %p5, %r5, 700; @%p5 bra done;\n" + WORK), "outputs", "outputs")
    judge.passes(kernel("    setp.eq.u32 %p5, %r5, 700;\n" + WORK), "outputs")


def test_for_ever_a_trap_and_what_follows(judge: Judge) -> None:
    """A candidate that does not end, or faults, takes nothing with it: the next one is judged as before."""
    with pytest.raises(WorkerError):
        judge(kernel("again: bra again;\n"), timeout_s=3)
    with pytest.raises(ReplayError):
        judge(kernel("    trap;\n"))
    judge.passes(HONEST)
