"""Candidates that reach for the clock, or for the side that they are compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

import replay
from replay.engine.challenge.bound import bound_of

from .conftest import Judge
from .victim import HONEST, WORK, X, kernel, write_snapshot

SPIN = """
    mov.u32 %r40, 0;
spin: add.u32 %r40, %r40, 1; setp.lt.u32 %p9, %r40, 2000; @%p9 bra spin;
"""


def test_a_time_that_no_device_can_have(judge: Judge) -> None:
    """Overwriting the timer, or ending it early, gives times below what the traffic of memory takes. Nothing that a
    kernel can do changes the modelled clock, so a setting of the CPU driver does."""
    honest = judge.passes(HONEST)
    assert honest.trust.bound_ns is not None
    assert honest.time.median_ns > honest.trust.bound_ns
    result = judge(HONEST, env={"REPLAY_EMULATOR_SLOWDOWN": "work:0.3"})
    assert not result.holds
    assert {item.kind for item in result.trust.findings} == {"bound"}


def test_the_bound_is_of_what_has_to_reach_memory() -> None:
    rate = 1000.0  # bytes in a nanosecond
    assert bound_of(10_000_000, 2_000_000, rate, 0, cold=True).certain_ns == 2_000
    assert bound_of(10_000_000, 2_000_000, rate, 0, cold=True).likely_ns == 12_000
    assert (
        bound_of(10_000_000, 2_000_000, rate, 4_000_000, cold=True).likely_ns == 10_000
    )  # writes stay in the cache
    assert bound_of(10_000_000, 2_000_000, rate, 4_000_000, cold=False).likely_ns == 6_000
    assert bound_of(0, 0, 0.0, 0, cold=True).certain_ns == 0


def test_fewer_instructions_than_the_work_takes(judge: Judge, tmp_path: Path) -> None:
    """A time below what the device needs to issue the captured kernel's instructions is to be looked at; a kernel that
    finds a shorter way to the same bits is none the worse."""
    path = write_snapshot(tmp_path / "x.rsnap", rounds=40_000)
    (tmp_path / "short.ptx").write_text(kernel(WORK.replace("%r7, 64", "%r7, 1500")))
    few = {"REPLAY_EMULATOR_MULTIPROCESSORS": "8"}  # as many as it has blocks
    with replay.open(path).session(driver="emulator", trust=False, samples=2, env=few) as session:
        honest, short = session.run(), session.run(swap={"work": tmp_path / "short.ptx"})
    assert not honest.trust.findings
    found = short.trust.findings[0]  # of cold caches; hot ones are the same
    assert (found.kind, found.grave, short.holds) == ("bound", False, True)
    assert "instructions of warps that the captured kernels execute" in found.text


def test_the_timer_is_no_memory_of_a_kernel(judge: Judge) -> None:
    """Events are objects of the driver: a kernel has no address of one, and guessing ends the run."""
    guess = WORK + f"    mov.u64 %rd20, {X + 0x1000_0000}; st.global.u64 [%rd20], 0;\n"
    with pytest.raises(replay.errors.EngineError, match="ILLEGAL_ADDRESS"):
        judge(kernel(guess))


def test_the_reference_is_not_slowed_down(tmp_path: Path) -> None:
    """Spinning the reference down, changing clocks, warming the device for oneself: each side of each round is a
    process of its own, in an order drawn by lot, and a spinning candidate only spins itself."""
    path = write_snapshot(tmp_path / "x.rsnap")
    (tmp_path / "spin.ptx").write_text(kernel(SPIN + WORK))
    (tmp_path / "same.ptx").write_text("// same\n" + HONEST)
    snapshot = replay.open(path)
    spun = snapshot.compare(
        b={"swap": {"work": tmp_path / "spin.ptx"}}, driver="emulator", trust=False, samples=2
    )
    same = snapshot.compare(
        b={"swap": {"work": tmp_path / "same.ptx"}}, driver="emulator", trust=False, samples=2
    )
    assert spun.verdict == "SLOWER"
    assert same.verdict == "SAME"
    assert spun.rows[0].a.time_ns == same.rows[0].a.time_ns


def test_a_cheat_is_wrong_in_a_comparison_however_fast(tmp_path: Path) -> None:
    """FASTER is no verdict for a kernel that a challenge finds out."""
    path = write_snapshot(tmp_path / "x.rsnap", before="outputs")
    (tmp_path / "idle.ptx").write_text(kernel("    bra done;\n"))
    side = {"swap": {"work": tmp_path / "idle.ptx"}}
    snapshot = replay.open(path)
    assert snapshot.compare(b=side, driver="emulator", samples=2).verdict == "FASTER"
    assert snapshot.compare(b=side, driver="emulator", samples=2, trust=False).verdict == "WRONG"


def test_across_processes_through_files(judge: Judge) -> None:
    """A cache on the disk needs a host side. That of a source is compiled, and never runs: static constructors, `main`,
    what a header would start."""
    mark = judge.folder / "mark"
    source = judge.folder / "host.cu"
    source.write_text(
        """
#ifndef __CUDACC_RTC__
#include <cstdio>
struct Early { Early() { if (FILE *file = fopen("MARK", "w")) fclose(file); } } early;
int main() { return 1; }
#endif
extern "C" __global__ void work(const float *x, const unsigned *order, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[order[i]], found = 0.5f;
    for (int round = 0; round < 64; ++round) found = __fadd_rn(__fmul_rn(found, value), 0.5f);
    y[i] = found;
}
""".replace("MARK", str(mark))
    )
    result = judge.session("zeros").run(swap={"work": source}, trust=False, samples=2)
    assert result.holds
    assert not mark.exists()
