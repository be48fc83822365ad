"""Global memory that nothing has written: followed through copies, memset, kernels, and told where it decides.

`%x` is the thread's own word of memory that begins unwritten, `%o` and `%i` of an output and an input that are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from race_kernels import BLOCK, Pair, module
from race_suites import checked
from small_kernels import HEAD

if TYPE_CHECKING:
    from conftest import Fresh

FRAME = """.visible .entry {name}(.param .u64 fresh, .param .u64 out, .param .u64 in)
{{
  .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>, %x, %o, %i; .reg .f32 %f<8>;
  .reg .b32 %t, %a, %b;
  .shared .align 16 .b8 tile[4096];
  ld.param.u64 %x, [fresh]; ld.param.u64 %o, [out]; ld.param.u64 %i, [in];
  mov.u32 %t, %tid.x; mov.u32 %b, tile; shl.b32 %a, %t, 2; add.u32 %a, %a, %b;
  mul.wide.u32 %rd0, %t, 4; add.u64 %o, %o, %rd0; add.u64 %i, %i, %rd0; add.u64 %x, %x, %rd0;
{body}
  ret;
}}
"""
USE = """
  ld.global.u32 %r1, [%x];  // first
  setp.eq.u32 %p1, %r1, 7;
  @%p1 st.global.u32 [%o], %t;  // then
"""
COPY = "ld.global.u32 %r1, [%i]; st.global.u32 [%x], %r1;"


@dataclass(frozen=True)
class Case:
    """before, of the faulty launch and of its twin: what is done to `fresh`, SIZE bytes of unwritten memory, and to
    `other`, as many. body: of the kernel, of which a line with `+++` is in the twin alone."""

    name: str
    body: str = USE
    fault: str = ""
    twin: str = ""
    kind: str = "undefined_branch"

    def pair(self) -> Pair:
        return Pair(self.name, self.body, (self.kind,))


WRITE = "d.do('cuMemsetD8_v2', fresh, 1, SIZE)"
PARTS = "d.do('cuMemsetD8_v2', fresh + 4, 1, SIZE - 4)"
CASES = [
    Case("memset", twin=WRITE),
    Case("memset_of_words", twin="d.do('cuMemsetD32_v2', fresh, 1, SIZE // 4)"),
    Case("memset_without_the_first", fault=PARTS, twin=WRITE),
    Case("memset_of_rows", fault="d.do('cuMemsetD2D8_v2', fresh, 64, 1, 60, SIZE // 64)",
         twin="d.do('cuMemsetD2D8_v2', fresh, 64, 1, 64, SIZE // 64)"),
    Case("copy_from_the_host", fault="d.write(fresh, bytes(BLOCK * 4 - 4))", twin="d.write(fresh, bytes(SIZE))"),
    Case("copy_of_unwritten", fault="d.do('cuMemcpyDtoD_v2', fresh, other, SIZE)",
         twin="d.do('cuMemsetD8_v2', other, 0, SIZE); d.do('cuMemcpyDtoD_v2', fresh, other, SIZE)"),
    Case("copy_over_pages", fault="d.do('cuMemcpyDtoD_v2', fresh, given, SIZE); "
         "d.do('cuMemcpyDtoD_v2', fresh, other + SIZE - 8192 - 4, 8)",
         twin="d.do('cuMemcpyDtoD_v2', fresh, given, SIZE)"),
    Case("copy_of_written_over", fault="d.do('cuMemsetD8_v2', fresh, 1, SIZE); "
         "d.do('cuMemcpyDtoD_v2', fresh, other, 4)", twin="d.do('cuMemsetD8_v2', fresh, 1, SIZE)"),
    Case("asynchronous", fault="d.do('cuMemcpyDtoDAsync_v2', fresh, other, SIZE, 0)",
         twin="d.do('cuMemsetD8Async', fresh, 3, SIZE, 0)"),
    Case("value_of_a_stream", fault=PARTS, twin=PARTS + "; d.do('cuStreamWriteValue32_v2', 0, fresh, 5, 0)"),
    Case("kernel_writes", twin="d.launch(d.function(image, 'fill'), [1], [BLOCK], [fresh, out, given])"),
    Case("kernel_copies", fault="d.launch(d.function(image, 'copies'), [1], [BLOCK], [fresh, other, given])",
         twin="d.do('cuMemsetD8_v2', other, 0, SIZE); "
         "d.launch(d.function(image, 'copies'), [1], [BLOCK], [fresh, other, given])"),
    Case("reused_memory", fault=WRITE + "; d.do('cuMemFree_v2', fresh); fresh = d.alloc(SIZE)", twin=WRITE),
    Case("output_of_a_sum", body="""
  ld.global.u32 %r1, [%x];  // first
  ld.global.u32 %r2, [%i]; add.u32 %r1, %r1, %r2;
  st.global.u32 [%o], %r1;  // then
""", kind="undefined_output", twin=WRITE),
    Case("half_of_a_sum", body="""
  st.global.u16 [%x+2], %h1;
  +++ st.global.u32 [%x], %t;
  ld.global.u32 %r1, [%x];  // first
  and.b32 %r1, %r1, 0xff00; add.u32 %r1, %r1, 1; st.global.u32 [%x], %r1;
  ld.global.u32 %r1, [%x];  // first
  and.b32 %r1, %r1, 0xff00; setp.eq.u32 %p1, %r1, 0;
  @%p1 st.global.u32 [%o], %t;  // then
""".replace("st.global.u16 [%x+2], %h1;", "cvt.u16.u32 %h1, %t; st.global.u16 [%x+2], %h1;"),
         ),
    Case("accumulator", body="""
  +++ st.global.f32 [%x], 0f00000000;
  red.global.add.f32 [%x], 0f3f800000;
  ld.global.f32 %f1, [%x];  // first
  setp.gt.f32 %p1, %f1, 0f3f000000;
  @%p1 st.global.u32 [%o], %t;  // then
"""),
    Case("counter", body="""
  +++ st.global.u32 [%x], 0;
  atom.global.add.u32 %r1, [%x], 1;  // first
  mul.wide.u32 %rd1, %r1, 4; and.b64 %rd1, %rd1, 124; add.u64 %rd1, %rd1, %i;
  ld.global.u32 %r2, [%rd1];  // then
""", kind="undefined_address"),
    Case("index", body="""
  ld.global.u32 %r1, [%x];  // first
  and.b32 %r1, %r1, 28; cvt.u64.u32 %rd1, %r1; add.u64 %rd1, %rd1, %i;
  ld.global.u32 %r2, [%rd1];  // then
""", kind="undefined_address", twin=WRITE),
    Case("tail_of_a_vector", body="""
  ld.param.u64 %rd1, [fresh]; mul.wide.u32 %rd2, %t, 16; add.u64 %rd1, %rd1, %rd2;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];  // first
  add.f32 %f1, %f1, %f4;
  st.global.f32 [%o], %f1;  // then
""", kind="undefined_output", fault="d.do('cuMemsetD8_v2', fresh, 0, BLOCK * 16 - 4)", twin=WRITE),
    Case("through_shared_memory", body="""
  ld.global.u32 %r1, [%x]; st.shared.u32 [%a], %r1; bar.sync 0;
  xor.b32 %r2, %t, 127; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %b;
  ld.shared.u32 %r1, [%r2];  // first
  setp.eq.u32 %p1, %r1, 7;
  @%p1 st.global.u32 [%o], %t;  // then
""", twin=WRITE),
    Case("asynchronous_copy_of_unwritten", body="""
  cp.async.ca.shared.global [%a], [%x], 4; cp.async.wait_all;
  ld.shared.u32 %r1, [%a];  // first
  setp.eq.u32 %p1, %r1, 7;
  @%p1 st.global.u32 [%o], %t;  // then
""", twin=WRITE),
    Case("flag", body="""
  +++ st.global.u8 [%x], 0;
  ld.global.u8 %r1, [%x];  // first
  and.b32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0;
  @%p1 bra END;  // then
  st.global.u32 [%o], %t;
END:
"""),
    Case("bitfield", body="""
  ld.global.u32 %r1, [%x]; bfi.b32 %r1, %t, %r1, 8, 8; st.global.u32 [%x], %r1;
  ld.global.u32 %r2, [%x];  // first
  --- bfe.u32 %r2, %r2, 12, 8;
  +++ bfe.u32 %r2, %r2, 8, 8;
  setp.eq.u32 %p1, %r2, 7;
  @%p1 st.global.u32 [%o], %t;  // then
"""),
    Case("register_left_in_memory", body="""
  +++ mov.u32 %r9, 5;
  bfi.b32 %r9, %t, %r9, 0, 16; st.global.u32 [%x], %r9;
  ld.global.u32 %r2, [%x];  // first
  setp.gt.u32 %p1, %r2, 70000;
  @%p1 st.global.u32 [%o], %t;  // then
"""),
    Case("bulk_store", body="""
  +++ st.shared.u32 [%a], %t;
  bar.sync 0;
  setp.ne.u32 %p1, %t, 0;
  @%p1 bra STORED;
  fence.proxy.async; ld.param.u64 %rd1, [fresh];
  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%b], 512;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
STORED:
  bar.sync 0;
""" + USE),
]  # fmt: skip
# What is only copied decides nothing. What was written at another address of the same memory is written.
RIGHT = {
    "two_addresses": "from test_virtual_memory import GRANULE, allow, physical, reserve\n"
    "memory, one, two = physical(d, GRANULE), reserve(d, GRANULE), reserve(d, GRANULE)\n"
    "for at in (one, two):\n"
    "    d.do('cuMemMap', at, GRANULE, 0, memory, 0); allow(d, at, GRANULE)\n"
    "d.launch(d.function(image, 'copies'), [1], [BLOCK], [one, other, given])\n"
    "d.do('cuMemsetD8_v2', two, 1, SIZE)\n"
    "d.launch(d.function(image, 'memset_fault'), [1], [BLOCK], [one, out, given])",
    "structure_with_padding": "d.do('cuMemsetD2D8_v2', other, 8, 1, 5, SIZE // 8); "
    "d.do('cuMemcpyDtoD_v2', fresh, other, SIZE); "
    "d.launch(d.function(image, 'copies'), [1], [BLOCK], [out, fresh, given]); d.read(fresh, SIZE)",
    "managed": "shared = d.make('cuMemAllocManaged', 4096, 1); "
    "d.launch(d.function(image, 'memset_fault'), [1], [BLOCK], [shared, out, given])",
    "pinned": "pinned = d.make('cuMemAllocHost_v2', 4096); "
    "d.launch(d.function(image, 'memset_fault'), [1], [BLOCK], [pinned, out, given])",
}
TEXT, MARKS = module([case.pair() for case in CASES], FRAME)
FILL, _ = module([Pair("fill", "  st.global.u32 [%x], %t;"),
                  Pair("copies", "  ld.global.u32 %r1, [%o]; st.global.u32 [%x], %r1;")], FRAME)  # fmt: skip
TEXT += FILL.removeprefix(HEAD).replace("_fault", "").replace("fill_twin", "f2").replace("copies_twin", "c2")
SETUP = f"""
SIZE, BLOCK = 16384, {BLOCK}
TEXT = {TEXT!r}
image = d.module(TEXT)
out, given = d.alloc(SIZE), d.alloc(SIZE)
d.do("cuMemsetD8_v2", given, 1, SIZE); d.do("cuMemsetD8_v2", out, 1, SIZE)
"""


def script(cases: list[Case], twins: tuple[bool, ...] = (False, True)) -> str:
    lines = SETUP
    for case in cases:
        for twin in twins:
            lines += f"fresh, other = d.alloc(SIZE), d.alloc(SIZE)\n{case.twin if twin else case.fault}\n"
            name = f"{case.name}_{'twin' if twin else 'fault'}"
            lines += f"d.launch(d.function(image, {name!r}), [1], [BLOCK], [fresh, out, given])\n"
    return lines + "d.do('cuCtxSynchronize')\n"


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, object]]:
    return {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_fault_is_found_at_its_lines_and_the_twin_has_none(
    fresh: Fresh, tmp_path: Path, case: Case, kept
) -> None:
    if not kept:
        kept.update(checked(fresh, tmp_path, script(CASES), checks="init"))
    found, marks = kept[f"{case.name}_fault"], MARKS[f"{case.name}_fault"]
    assert found["status"] == "ok"
    assert {item["kind"] for item in found["findings"]} == {case.kind}
    for item in found["findings"]:
        assert item["first"]["ptx_line"] in marks["first"]
        assert item["second"]["ptx_line"] in marks["then"]
    assert kept[f"{case.name}_twin"]["findings"] == []


@pytest.mark.parametrize("name", RIGHT)
def test_what_decides_nothing_is_not_told(fresh: Fresh, tmp_path: Path, name: str) -> None:
    lines = (
        SETUP + "fresh, other = d.alloc(SIZE), d.alloc(SIZE)\n" + RIGHT[name] + "\nd.do('cuCtxSynchronize')\n"
    )
    for launch in checked(fresh, tmp_path, lines, checks="init").values():
        assert (launch["status"], launch["findings"]) == ("ok", [])


def test_a_finding_names_the_allocation_and_the_place_in_it(fresh: Fresh, tmp_path: Path) -> None:
    lines = script([next(case for case in CASES if case.name == "tail_of_a_vector")], (False,))
    told = lines + "print(hex(fresh))\n"
    file = tmp_path / "findings"
    address = fresh(told, CHECKS="init", FINDINGS=str(file)).stdout.strip()
    (found,) = next(iter(checked(fresh, tmp_path, lines, checks="init").values()))["findings"]
    assert (found["space"], found["offset"], found["bytes"], found["count"]) == (
        "global",
        BLOCK * 16 - 4,
        4,
        1,
    )
    assert hex(found["allocation"])[:4] == address[:4]


def test_findings_do_not_depend_on_threads_of_the_host(fresh: Fresh, tmp_path: Path) -> None:
    one, many = (
        checked(fresh, tmp_path, script(CASES), checks="init", THREADS=threads) for threads in ("1", "5")
    )
    for launches in (one, many):
        for launch in launches.values():
            for item in launch["findings"]:
                item["allocation"] = 0  # its address
    assert [one[name]["findings"] for name in MARKS] == [many[name]["findings"] for name in MARKS]
