"""What the CPU driver counts in a launch, and what its modelled time makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Fresh
from driver_api import HEADER, VECTOR_ADD

# Each thread reads x[i * stride], reads and writes shared memory at 4 * tid * pitch ten times, goes round one of two
# equal loops (lanes below `split` the one, others the other), and writes x[i * stride]. Blocks from `last` on leave.
KERNEL = (
    HEADER
    + """
.visible .entry probe(.param .u64 x, .param .u32 stride, .param .u32 pitch, .param .u32 split, .param .u32 last)
{
  .reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<8>; .shared .align 16 .b8 room[16384];
  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [stride]; ld.param.u32 %r2, [pitch];
  ld.param.u32 %r3, [split]; ld.param.u32 %r4, [last];
  mov.u32 %r5, %ctaid.x; setp.ge.u32 %p1, %r5, %r4;
  @%p1 bra done;
  mov.u32 %r6, %ntid.x; mov.u32 %r7, %tid.x; mad.lo.u32 %r8, %r5, %r6, %r7;
  mul.lo.u32 %r9, %r8, %r1; mul.wide.u32 %rd2, %r9, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r10, [%rd3];
  mul.lo.u32 %r11, %r7, %r2; shl.b32 %r11, %r11, 2; and.b32 %r11, %r11, 16380;
  mov.u32 %r12, room; add.u32 %r13, %r12, %r11;
  mov.u32 %r20, 0;
again:
  ld.shared.u32 %r14, [%r13]; st.shared.u32 [%r13], %r10; add.u32 %r20, %r20, 1;
  setp.lt.u32 %p2, %r20, 10;
  @%p2 bra again;
  and.b32 %r15, %r7, 31; setp.lt.u32 %p3, %r15, %r3; mov.u32 %r21, 100;
  @%p3 bra many;
loop:
  sub.u32 %r21, %r21, 1; setp.ne.u32 %p2, %r21, 0;
  @%p2 bra loop;
  bra met;
many:
  sub.u32 %r21, %r21, 1; setp.ne.u32 %p2, %r21, 0;
  @%p2 bra many;
met:
  st.global.u32 [%rd3], %r21;
done:
  ret;
}
"""
)

SCRIPT = """
import sys
KERNEL = {kernel!r}
x = d.alloc(4 << 20)
f = d.function(d.module(KERNEL), "probe")
u = ctypes.c_uint32
for stride, pitch, split, last in {cases!r}:
    assert d.launch(f, [16], [128], [x, u(stride), u(pitch), u(split), u(last)]) == 0
d.do("cuCtxSynchronize")
"""
PLAIN, STRIDED, CONFLICTS, DIVERGED, EARLY = (
    (1, 1, 0, 16),
    (32, 1, 0, 16),
    (1, 32, 0, 16),
    (1, 1, 16, 16),
    (1, 1, 0, 5),
)


def launches(fresh: Fresh, file: Path, cases: list[tuple[int, ...]], **settings: str) -> list[dict[str, Any]]:
    file.unlink(missing_ok=True)
    fresh(SCRIPT.format(kernel=KERNEL, cases=cases), COUNTERS=str(file), **settings)
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_vector_sum_is_counted_to_the_instruction_and_byte(fresh: Fresh, tmp_path: Path) -> None:
    file = tmp_path / "counters-%p.json"
    fresh(
        f"""
f = d.function(d.module({VECTOR_ADD!r}), "vector_add")
a = d.alloc(4096)
assert d.launch(f, [3, 1], [64], [a, a, a, ctypes.c_uint32(100)]) == 0
d.do("cuCtxSynchronize")
""",
        COUNTERS=str(file),
    )
    (written,) = tmp_path.iterdir()
    assert written.name != file.name
    (line,) = [json.loads(text) for text in written.read_text().splitlines()]
    assert written.name == f"counters-{line['process']}.json"
    assert (line["schema"], line["kernel"], line["grid"], line["block"], line["ok"]) == (
        "replay.emulator.counters/1",
        "vector_add",
        [3, 1, 1],
        [64, 1, 1],
        True,
    )
    counters = line["counters"]
    # Six warps begin; four (100 threads: 32, 32, 32, 4) come past the comparison, one of them diverging.
    assert counters["warp_load_constant"] == 6 * 4
    assert counters["warp_load_global"] == 4 * 2
    assert counters["thread_load_global"] == 100 * 2
    assert counters["thread_float32"] == 100
    assert counters["warp_instructions"] == 6 * (4 + 3 + 1 + 1 + 1) + 4 * (1 + 3 + 2 + 1 + 1) + 6
    assert counters["warp_branch"] == 6
    assert counters["divergent_branches"] == 1
    assert counters["global_load_requests"] == 8
    assert counters["global_load_bytes"] == 800
    assert counters["global_load_sectors"] == counters["global_load_least_sectors"] == 2 * (3 * 4 + 1)
    assert counters["global_store_sectors"] == 13
    assert counters["global_atomic_requests"] == 0


def test_counters_and_modelled_times_do_not_depend_on_the_number_of_threads(
    fresh: Fresh, tmp_path: Path
) -> None:
    cases = [PLAIN, STRIDED, CONFLICTS, DIVERGED, EARLY]

    def counted(threads: int) -> list[tuple[Any, Any]]:
        lines = launches(fresh, tmp_path / "counters", cases, THREADS=str(threads))
        return [(line["counters"], line["modelled_ns"]) for line in lines]

    alone = counted(1)
    assert len(alone) == len(cases)
    assert counted(2) == alone
    assert counted(7) == alone


@pytest.mark.parametrize("case", [STRIDED, CONFLICTS, DIVERGED], ids=["strided", "conflicts", "diverged"])
def test_what_is_slower_is_modelled_slower_and_the_counters_say_why(
    fresh: Fresh, tmp_path: Path, case: tuple[int, ...]
) -> None:
    plain, slow = launches(fresh, tmp_path / "counters", [PLAIN, case])
    assert slow["modelled_ns"] > plain["modelled_ns"]
    before, after = plain["counters"], slow["counters"]
    if case == STRIDED:
        assert after["global_load_sectors"] == 32 * before["global_load_requests"]
        assert before["global_load_sectors"] == before["global_load_least_sectors"]
    elif case == CONFLICTS:
        assert before["shared_load_bank_conflicts"] == 0
        assert after["shared_load_bank_conflicts"] == 31 * after["shared_load_requests"]
    else:
        assert before["divergent_branches"] == 0
        assert after["divergent_branches"] == 64
        assert after["warp_instructions"] > 1.5 * before["warp_instructions"]
        assert after["thread_instructions"] == pytest.approx(before["thread_instructions"], rel=0.01)


def test_a_counter_file_that_cannot_be_written_is_named_and_changes_nothing(
    fresh: Fresh, tmp_path: Path
) -> None:
    script = SCRIPT.format(kernel=KERNEL, cases=[PLAIN, PLAIN])
    done = fresh(script, COUNTERS=str(tmp_path / "missing" / "file"))
    assert done.stderr.count("counters are not written") == 1
