"""Branches, addresses and outputs that depend on what nothing has written: found at their lines, not in the twin.

`%o` is the thread's own word of an output, `%i` of an input, both in global memory; `buffer` is local memory.
`// first` is where undefined bits were read, `// then` where they decide something; of a register that nothing has
written only the latter is told, and is marked `// first`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from race_kernels import BLOCK, Pair, module
from race_suites import checked
from small_kernels import HEAD

if TYPE_CHECKING:
    from conftest import Fresh

FRAME = """.visible .entry {name}(.param .u64 out, .param .u64 in)
{{
  .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>, %o, %i, %l; .reg .f32 %f<8>;
  .reg .b32 %t, %a, %b;
  .shared .align 16 .b8 tile[4096];
  .local .align 16 .b8 buffer[64];
  ld.param.u64 %o, [out]; ld.param.u64 %i, [in];
  mov.u32 %t, %tid.x; mov.u32 %b, tile; shl.b32 %a, %t, 2; add.u32 %a, %a, %b;
  mul.wide.u32 %rd0, %t, 4; add.u64 %o, %o, %rd0; add.u64 %i, %i, %rd0;
{body}
  ret;
}}
"""
# In the line of the head, so that lines stay where they are.
TWICE = (
    ".func (.param .b32 back) twice(.param .b32 of) { .reg .b32 %r<2>; ld.param.b32 %r0, [of]; "
    "add.u32 %r0, %r0, %r0; st.param.b32 [back], %r0; ret; }"
)
BRANCH, ADDRESS, OUTPUT = ("undefined_branch",), ("undefined_address",), ("undefined_output",)
PAIRS = [
    Pair("sum_of_a_widened_byte", """
  +++ st.shared.u8 [%a], %t;
  ld.shared.u8 %r1, [%a];  // first
  add.u32 %r1, %r1, 5;
  st.global.u32 [%o], %r1;  // then
""", OUTPUT),
    Pair("shared_output", """
  +++ st.shared.u32 [%a], %t;
  ld.shared.u32 %r1, [%a];  // first
  st.global.u32 [%o], %r1;  // then
""", OUTPUT),
    Pair("shared_branch", """
  +++ st.shared.u32 [%a], %t;
  ld.shared.u32 %r1, [%a];  // first
  setp.eq.u32 %p1, %r1, 7;
  @%p1 bra END;  // then
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("shared_address", """
  +++ st.shared.u32 [%a], 8;
  ld.shared.u32 %r1, [%a];  // first
  add.u32 %r1, %r1, %b;
  ld.shared.u8 %r2, [%r1];  // then
""", ADDRESS),
    Pair("one_thread_forgets", """
  setp.lt.u32 %p1, %t, 127;
  +++ setp.lt.u32 %p1, %t, 128;
  @%p1 st.shared.u32 [%a], %t;
  bar.sync 0;
  xor.b32 %r1, %t, 127; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %b;
  ld.shared.u32 %r2, [%r1];  // first
  st.global.u32 [%o], %r2;  // then
""", OUTPUT),
    Pair("halo", """
  setp.eq.u32 %p1, %t, 0;
  st.shared.u32 [%a+4], %t;
  +++ @%p1 st.shared.u32 [%b], 0;
  +++ @%p1 st.shared.u32 [%b+516], 0;
  bar.sync 0;
  ld.shared.u32 %r1, [%a];  // first
  ld.shared.u32 %r2, [%a+8];  // first
  add.u32 %r3, %r1, %r2;
  st.global.u32 [%o], %r3;  // then
""", OUTPUT),
    Pair("reduction_of_a_tail", """
  setp.lt.u32 %p1, %t, 100;
  +++ st.shared.u32 [%a], 0;
  @%p1 st.shared.u32 [%a], %t;
  bar.sync 0;
  setp.lt.u32 %p2, %t, 64;
  @!%p2 bra END;
  ld.shared.u32 %r1, [%a]; ld.shared.u32 %r2, [%a+256];  // first
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%o], %r1;  // then
END:
""", OUTPUT),
    Pair("counter_in_shared_memory", """
  setp.eq.u32 %p1, %t, 0;
  +++ @%p1 st.shared.u32 [%b], 0;
  bar.sync 0;
  atom.shared.add.u32 %r1, [%b], 1;  // first
  setp.gt.u32 %p2, %r1, 64;
  @%p2 bra END;  // then
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("histogram", """
  +++ st.shared.u32 [%a], 0;
  +++ bar.sync 0;
  red.shared.add.u32 [%a], 1;
  bar.sync 0;
  ld.shared.u32 %r1, [%a];  // first
  st.global.u32 [%o], %r1;  // then
""", OUTPUT),
    Pair("lock", """
  setp.ne.u32 %p1, %t, 0;
  +++ st.shared.u32 [%b], 0;
  @%p1 bra END;
  atom.shared.cas.b32 %r1, [%b], 0, 1;  // first
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra END;  // then
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("local_array", """
  st.local.u32 [buffer], %t;
  +++ st.local.u32 [buffer+4], %t;
  ld.local.u32 %r1, [buffer]; ld.local.u32 %r2, [buffer+4];  // first
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%o], %r1;  // then
""", OUTPUT),
    Pair("local_index", """
  +++ st.local.u64 [buffer+8], 0;
  ld.local.u64 %rd1, [buffer+8];  // first
  add.u64 %rd1, %rd1, %i;
  ld.global.u32 %r1, [%rd1];  // then
  st.global.u32 [%o], %r1;
""", ADDRESS),
    Pair("local_switch", """
  +++ st.local.u8 [buffer+3], %h1;
  ld.local.u8 %h2, [buffer+3];  // first
  and.b16 %h2, %h2, 1; setp.ne.s16 %p1, %h2, 0;
  +++ mov.u16 %h3, 0; setp.ne.s16 %p1, %h3, 0;
  @%p1 bra END;  // then
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("one_byte_of_four", """
  st.shared.u8 [%a], %t; st.shared.u8 [%a+1], %t; st.shared.u8 [%a+3], %t;
  +++ st.shared.u8 [%a+2], %t;
  ld.shared.u32 %r1, [%a];  // first
  shr.u32 %r1, %r1, 16; and.b32 %r1, %r1, 255; setp.eq.u32 %p1, %r1, 3;
  @%p1 bra END;  // then
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("one_bit", """
  ld.shared.u32 %r1, [%a];  // first
  --- and.b32 %r1, %r1, 3;
  +++ and.b32 %r1, %r1, 0;
  or.b32 %r1, %r1, 2; setp.eq.u32 %p1, %r1, 2;
  @%p1 bra END;  // then
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("register_branch", """
  +++ mov.u32 %r5, 3;
  setp.eq.u32 %p1, %r5, 3;
  @%p1 bra END;  // first
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("register_in_one_arm", """
  setp.lt.u32 %p1, %t, 64;
  @%p1 mov.u32 %r5, 3;
  +++ @!%p1 mov.u32 %r5, 4;
  add.u32 %r6, %r5, 1;
  st.global.u32 [%o], %r6;  // first
""", OUTPUT),
    Pair("register_address", """
  st.shared.u32 [%a], %t; bar.sync 0;
  setp.lt.u32 %p1, %t, 64;
  +++ mov.u32 %r5, %a;
  @%p1 mov.u32 %r5, %a;
  ld.shared.u32 %r6, [%r5];  // first
  st.global.u32 [%o], %r6;
""", ADDRESS),
    Pair("sum_that_begins_nowhere", """
  +++ mov.f32 %f1, 0f00000000;
  mov.u32 %r1, 0;
LOOP:
  cvt.rn.f32.u32 %f2, %r1; add.f32 %f1, %f1, %f2;
  add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 4;
  @%p1 bra LOOP;
  st.global.f32 [%o], %f1;  // first
""", OUTPUT),
    Pair("predicate", """
  setp.lt.u32 %p1, %t, 5;
  +++ setp.lt.u32 %p2, %t, 7;
  and.pred %p3, %p1, %p2;
  @%p3 bra END;  // first
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("guard_of_a_store", """
  +++ setp.lt.u32 %p2, %t, 7;
  @%p2 st.global.u32 [%o], %t;  // first
""", BRANCH),
    Pair("guard_of_a_result", """
  +++ setp.lt.u32 %p2, %t, 7;
  mov.u32 %r1, 1;
  @%p2 mov.u32 %r1, 2;
  st.global.u32 [%o], %r1;  // first
""", OUTPUT),
    Pair("shuffle", """
  and.b32 %r1, %t, 31; setp.lt.u32 %p1, %r1, 16;
  +++ mov.u32 %r2, 0;
  @%p1 mov.u32 %r2, %t;
  shfl.sync.down.b32 %r3, %r2, 1, 31, 0xffffffff;
  --- setp.eq.u32 %p2, %r1, 15;
  +++ setp.eq.u32 %p2, %r1, 14;
  add.u32 %r3, %r3, 1;
  @%p2 st.global.u32 [%o], %r3;  // first
""", OUTPUT),
    Pair("vote", """
  ld.shared.u32 %r1, [%a];  // first
  +++ mov.u32 %r1, %t;
  setp.gt.u32 %p1, %r1, 50;
  vote.sync.ballot.b32 %r2, %p1, 0xffffffff;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra END;  // then
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("argument", """
  --- ld.shared.u32 %r1, [%a];  // first
  +++ mov.u32 %r1, %t;
  {
  .param .b32 of; .param .b32 back;
  st.param.b32 [of], %r1;
  call (back), twice, (of);
  ld.param.b32 %r2, [back];  // first
  }
  setp.gt.u32 %p1, %r2, 50;
  @%p1 bra END;  // then
  st.global.u32 [%o], %t;
END:
""", BRANCH),
    Pair("vector", """
  shl.b32 %r1, %t, 4; add.u32 %r1, %r1, %b;
  st.shared.v2.u32 [%r1], {%t, %t};
  +++ st.shared.v2.u32 [%r1+8], {%t, %t};
  ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1];  // first
  add.f32 %f5, %f1, %f4;
  st.global.f32 [%o], %f5;  // then
""", OUTPUT),
    Pair("select", """
  +++ st.shared.u32 [%a], %t;
  ld.shared.u32 %r1, [%a];  // first
  setp.lt.u32 %p1, %t, 64; selp.b32 %r2, %r1, 5, %p1;
  add.u32 %r2, %r2, 1;
  st.global.u32 [%o], %r2;  // then
""", OUTPUT),
    Pair("halves", """
  cvt.u16.u32 %h1, %t; st.shared.u16 [%a], %h1;
  +++ st.shared.u16 [%a+2], %h1;
  ld.shared.u32 %r1, [%a];  // first
  mov.b32 {%h2, %h3}, %r1; add.f16 %h4, %h3, %h3;
  st.global.u16 [%o], %h4;  // then
""", OUTPUT),
    Pair("table_of_branches", """
  +++ mov.u32 %r1, 1;
  TABLE: .branchtargets ONE, TWO;
  and.b32 %r1, %r1, 1;
  brx.idx %r1, TABLE;  // first
ONE:
  st.global.u32 [%o], %t;
TWO:
""", BRANCH),
    Pair("asynchronous_copy", """
  cp.async.ca.shared.global [%a], [%i], 4; cp.async.commit_group;
  +++ cp.async.wait_group 0;
  ld.shared.u32 %r1, [%a];  // first
  st.global.u32 [%o], %r1;  // then
""", OUTPUT),
    Pair("two_stages", """
  cp.async.ca.shared.global [%a], [%i], 4; cp.async.commit_group;
  cp.async.ca.shared.global [%a+1024], [%i+1024], 4; cp.async.commit_group;
  --- cp.async.wait_group 1;
  +++ cp.async.wait_group 0;
  ld.shared.u32 %r1, [%a]; ld.shared.u32 %r2, [%a+1024];  // first
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%o], %r1;  // then
""", OUTPUT),
    Pair("bulk_copy", """
  ld.param.u64 %rd2, [in];
  setp.ne.u32 %p1, %t, 0;
  @%p1 bra COPIED;
  mbarrier.init.shared.b64 [%b+2048], 1;
  mbarrier.arrive.expect_tx.shared.b64 %rd1, [%b+2048], 512;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [%rd2], 512, [%b+2048];
COPIED:
  bar.sync 0;
  +++ LOOP:
  +++ mbarrier.try_wait.parity.shared.b64 %p2, [%b+2048], 0;
  +++ @!%p2 bra LOOP;
  ld.shared.u32 %r1, [%a];  // first
  st.global.u32 [%o], %r1;  // then
""", OUTPUT),
]  # fmt: skip
# What copies, drops or overwrites undefined bits decides nothing by them.
RIGHT = {
    # As a structure is packed whose first byte is padding.
    "widened_byte": "  ld.shared.u8 %r1, [%a]; shl.b32 %r2, %t, 8; or.b32 %r1, %r1, %r2; st.global.u32 [%o], %r1;",
    "padding": """
  st.local.u32 [buffer], %t; st.local.u8 [buffer+4], %t; st.local.u32 [buffer+8], %t;
  ld.local.v4.u32 {%r1, %r2, %r3, %r4}, [buffer];
  st.global.u32 [%o], %r2; st.shared.v4.u32 [%b], {%r1, %r2, %r3, %r4};
""",
    "masked": """
  st.shared.u8 [%a], %t; ld.shared.u32 %r1, [%a]; and.b32 %r1, %r1, 255; setp.eq.u32 %p1, %r1, 3;
  @%p1 bra END;
  st.global.u32 [%o], %r1;
END:
""",
    "sign_alone": """
  st.shared.u8 [%a+3], %t; ld.shared.u32 %r1, [%a]; setp.lt.s32 %p1, %r1, 0;
  @%p1 bra END;
  st.global.u32 [%o], %t;
END:
""",
    "short_circuit": """
  setp.lt.u32 %p1, %t, 64;
  @%p1 st.shared.u32 [%a], %t;
  ld.shared.u32 %r1, [%a]; setp.eq.u32 %p2, %r1, 3; and.pred %p3, %p1, %p2;
  @%p3 bra END;
  st.global.u32 [%o], %t;
END:
""",
    "greater": """
  st.shared.u8 [%a+3], %t; ld.shared.u32 %r1, [%a]; setp.le.u32 %p1, %r1, 0x7fffffff;
  @%p1 bra END;
  st.global.u32 [%o], %t;
END:
""",
    "same_places": """
  st.shared.u8 [%a], %t; ld.shared.u32 %r1, [%a]; and.b32 %r1, %r1, %r1; prmt.b32 %r1, %r1, 0, 0x4440;
  setp.eq.u32 %p1, %r1, 3;
  @%p1 bra END;
  st.global.u32 [%o], %r1;
END:
""",
    "bits_put_together": """
  bfi.b32 %r1, %t, %r1, 0, 16; bfi.b32 %r1, %t, %r1, 16, 16;
  st.global.u32 [%o], %r1;
""",
    "cleared_by_itself": """
  xor.b32 %r1, %r1, %r1; sub.u32 %r2, %r2, %r2; add.u32 %r1, %r1, %r2;
  st.global.u32 [%o], %r1;
""",
    "asynchronous_copy": """
  cvt.u64.u32 %rd1, %a;
  cp.async.ca.shared.global [%a], [%i], 4; cp.async.wait_all; ld.shared.u32 %r1, [%a];
  st.global.u32 [%o], %r1;
""",
    "tail_of_a_tile": """
  setp.lt.u32 %p1, %t, 100;
  @%p1 st.shared.u32 [%a], %t;
  bar.sync 0;
  ld.shared.u32 %r1, [%a]; add.u32 %r1, %r1, 5;
  @%p1 st.global.u32 [%o], %r1;
""",
}
SCRIPT = f"""
image = d.module(TEXT)
out, given = d.alloc(65536), d.alloc(65536)
d.do("cuMemsetD8_v2", given, 1, 65536)
for name in NAMES:
    d.launch(d.function(image, name), [GRID], [{BLOCK}], [out, given])
d.do("cuCtxSynchronize")
"""
TEXT, MARKS = module(PAIRS, FRAME)
TEXT = TEXT.replace(HEAD, HEAD.rstrip() + " " + TWICE + "\n", 1)


def script(names: list[str], grid: int = 2, text: str = TEXT) -> str:
    return f"TEXT = {text!r}\nNAMES = {names!r}\nGRID = {grid}\n" + SCRIPT


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, object]]:
    return {}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_fault_is_found_at_its_lines_and_the_twin_has_none(
    fresh: Fresh, tmp_path: Path, pair: Pair, kept
) -> None:
    if not kept:
        kept.update(checked(fresh, tmp_path, script(list(MARKS)), checks="init"))
    name = f"{pair.name}_fault"
    found, marks = kept[name], MARKS[name]
    assert found["status"] == "ok"
    assert {(item["check"], item["kind"]) for item in found["findings"]} == {("init", pair.kinds[0])}
    for item in found["findings"]:
        assert item["first"]["ptx_line"] in marks["first"]
        assert (item["second"] is None) == (not marks["then"])
        assert item["second"] is None or item["second"]["ptx_line"] in marks["then"]
        assert bool(item["space"]) == bool(marks["then"])
    assert kept[f"{pair.name}_twin"]["findings"] == []


@pytest.mark.parametrize("name", RIGHT)
def test_what_decides_nothing_is_not_told(fresh: Fresh, tmp_path: Path, name: str) -> None:
    text, _ = module([Pair("right", RIGHT[name])], FRAME)
    found = checked(fresh, tmp_path, script(["right_fault"], text=text), checks="init")["right_fault"]
    assert (found["status"], found["findings"]) == ("ok", [])


def test_a_finding_says_which_memory_was_never_written(fresh: Fresh, tmp_path: Path) -> None:
    names = ["one_thread_forgets_fault", "local_array_fault"]
    launches = checked(fresh, tmp_path, script(names), checks="init")
    (shared,), (local,) = (launches[name]["findings"] for name in names)
    assert (shared["space"], shared["variable"], shared["offset"], shared["bytes"]) == (
        "shared",
        "tile",
        508,
        4,
    )
    assert (shared["count"], shared["first"]["thread"]) == (2, [0, 0, 0])
    assert (local["space"], local["variable"], local["offset"], local["count"]) == ("local", "", 4, 2 * BLOCK)


def test_findings_do_not_depend_on_threads_of_the_host(fresh: Fresh, tmp_path: Path) -> None:
    names = [f"{pair.name}_fault" for pair in PAIRS]
    one, many = (
        checked(fresh, tmp_path, script(names, grid=60), checks="init", THREADS=threads, MULTIPROCESSORS="16")
        for threads in ("1", "5")
    )
    assert [one[name]["findings"] for name in names] == [many[name]["findings"] for name in names]


def test_all_checks_look_at_one_launch(fresh: Fresh, tmp_path: Path) -> None:
    names = ["shared_output_fault", "sum_that_begins_nowhere_fault", "shuffle_fault"]
    launches = checked(fresh, tmp_path, script(names), checks="init,race,sync,numbers")
    # That both blocks store the same output is no fault.
    faults = [[item for item in launches[name]["findings"] if not item["same_value"]] for name in names]
    assert [len(found) for found in faults] == [1, 1, 1]


def test_results_are_what_they_are_without_the_check(fresh: Fresh) -> None:
    names = [name for name in MARKS if name.endswith("_twin")]
    told = script(names) + "print(d.words(out, 256))"
    assert fresh(told, CHECKS="init").stdout == fresh(told).stdout
