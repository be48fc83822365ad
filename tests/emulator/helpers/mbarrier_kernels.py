"""Kernels whose threads wait for each other at mbarriers, with something forgotten, each beside a twin that has it: see
race_kernels.Pair.

In a body, `%t` is the thread of 128, `%z` whether it is the first, `%y` the second, `%l` the lane, `%lo` whether the
thread is one of the first 64; `%b` the address of 8 KiB `tile`, `%a` of the thread's own word in it, `%x` of the word
that another warp has, `%k` of eight mbarriers that nobody has initialised; `%g` the address of global memory, `%o` of
the thread's own word there, `%m` of tensor maps for boxes of 32 words of it.
"""

from __future__ import annotations

from race_kernels import Pair

FRAME = """.visible .entry {name}(.param .u64 data, .param .u64 maps)
{{
  .reg .pred %p<8>, %z, %y, %lo; .reg .b32 %r<32>, %t, %l, %a, %b, %x, %k; .reg .b64 %rd<16>, %g, %o, %m;
  .shared .align 1024 .b8 tile[8192]; .shared .align 8 .b8 gates[64];
  ld.param.u64 %g, [data]; ld.param.u64 %m, [maps]; mov.u32 %t, %tid.x; and.b32 %l, %t, 31;
  setp.eq.u32 %z, %t, 0; setp.eq.u32 %y, %t, 1; setp.lt.u32 %lo, %t, 64;
  mov.u32 %b, tile; mov.u32 %k, gates; shl.b32 %a, %t, 2; add.u32 %a, %a, %b;
  xor.b32 %x, %t, 33; shl.b32 %x, %x, 2; add.u32 %x, %x, %b;
  mul.wide.u32 %o, %t, 4; add.u64 %o, %o, %g;
{body}
  ret;
}}
"""
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
BOX = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
EXPECT = "mbarrier.arrive.expect_tx.shared.b64 _, [{0}], {1};"
WW, WR = ("write_after_write",), ("write_after_read",)


def gates(*counts: int) -> str:
    """Initialises the first of the mbarriers."""
    made = " ".join(f"@%z mbarrier.init.shared.b64 [%k+{8 * n}], {count};" for n, count in enumerate(counts))
    return f"{made}\n  bar.sync 0;"


def wait_for(name: str, gate: str = "%k", parity: str = "0") -> str:
    return f"""{name}: mbarrier.try_wait.parity.shared.b64 %p7, [{gate}], {parity}; @!%p7 bra {name};"""


def arrive(gate: str = "%k", form: str = "") -> str:
    return f"mbarrier.arrive{form}.shared.b64 _, [{gate}];"


def _specialised(produce: str, consume: str, counts: tuple[int, ...] = (64, 64)) -> str:
    """The first 64 threads do one thing, the others another."""
    return f"""
  {gates(*counts)}
  @!%lo bra CONSUMER;
  {produce}
  bra END;
CONSUMER:
  {consume}
END:
"""


# With more of them and no wait an mbarrier would never complete, which is told as a deadlock.
_ROUNDS = "--- mov.u32 %r14, 2;\n  +++ mov.u32 %r14, 6;"


def _ring(
    produce: str, full: str, empty: str, release: str = "", counts: tuple[int, ...] = (64, 64, 64, 64)
) -> str:
    """Two stages of 64 words, with an mbarrier for each that is full (first two) or empty."""
    return _specialised(
        f"""
  mov.u32 %r5, 0;
  {_ROUNDS}
PRODUCE:
  and.b32 %r6, %r5, 1; shl.b32 %r7, %r6, 3; add.u32 %r7, %r7, %k; shl.b32 %r8, %r6, 8; shr.u32 %r9, %r5, 1;
  xor.b32 %r10, %r9, 1; and.b32 %r10, %r10, 1; add.u32 %r11, %b, %r8; add.u32 %r12, %a, %r8;
  {empty}
  {produce}
  add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r14;
  @%p1 bra PRODUCE;
""",
        f"""
  mov.u32 %r5, 0;
  {_ROUNDS}
CONSUME:
  and.b32 %r6, %r5, 1; shl.b32 %r7, %r6, 3; add.u32 %r7, %r7, %k; shl.b32 %r8, %r6, 8; shr.u32 %r9, %r5, 1;
  and.b32 %r9, %r9, 1; add.u32 %r12, %a, %r8;
  {full}
  ld.shared.u32 %r2, [%r12+-256];  // then
  {release or arrive("%r7+16")}
  add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r14;
  @%p1 bra CONSUME;
""",
        counts,
    )


_STORE = "st.shared.u32 [%r12], %r5;  // first"
_IS_EMPTY = wait_for("EMPTY", "%r7+16", "%r10")
_IS_FULL = wait_for("FULL", "%r7", "%r9")
_FILL = f"""@!%z bra NEXT;
  {EXPECT.format("%r7", 256)}
  {BULK} [%r11], [%g], 256, [%r7];  // first
NEXT:"""
_FILL_BOXES = f"""@!%z bra NEXT;
  {EXPECT.format("%r7", 256)}
  {BOX} [%r11], [%m, {{0}}], [%r7];  // first
  add.u32 %r13, %r11, 128;
  {BOX} [%r13], [%m, {{32}}], [%r7];
NEXT:"""

PAIRS = [
    Pair("mbarrier_of_all", f"""
  {gates(128)}
  st.shared.u32 [%a], %t;  // first
  {arrive()}
  +++ {wait_for("WAIT")}
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("mbarrier_polled", f"""
  {gates(128)}
  st.shared.u32 [%a], %t;  // first
  mbarrier.arrive.shared.b64 %rd1, [%k];
POLL:
  mbarrier.test_wait.shared.b64 %p1, [%k], %rd1;
  +++ @!%p1 bra POLL;
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("arrival_too_early", f"""
  {gates(128)}
  --- {arrive()}
  st.shared.u32 [%a], %t;  // first
  +++ {arrive()}
  {wait_for("WAIT")}
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("relaxed_arrival", f"""
  {gates(128)}
  st.shared.u32 [%a], %t;  // first
  +++ fence.acq_rel.cta;
  {arrive(form=".relaxed.cta")}
  {wait_for("WAIT")}
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("releasing_arrival", f"""
  {gates(128)}
  st.shared.u32 [%a], %t;  // first
  --- {arrive(form=".relaxed.cta")}
  +++ {arrive(form=".release.cta")}
  {wait_for("WAIT")}
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("producer", _specialised(f"st.shared.u32 [%a], %t;  // first\n  {arrive()}", f"""+++ {wait_for("WAIT")}
  ld.shared.u32 %r2, [%a+-256];  // then""")),
    Pair("producer_overwrites", _specialised(f"""st.shared.u32 [%a], %t;
  {arrive()}
  +++ {wait_for("EMPTY", "%k+8")}
  st.shared.u32 [%a], %l;  // first""", f"""{wait_for("WAIT")}
  ld.shared.u32 %r2, [%a+-256];  // then
  {arrive("%k+8")}"""), WR),
    Pair("consumer_releases_too_early", _specialised(f"""st.shared.u32 [%a], %t;
  {arrive()}
  {wait_for("EMPTY", "%k+8")}
  st.shared.u32 [%a], %l;  // first""", f"""{wait_for("WAIT")}
  --- {arrive("%k+8")}
  ld.shared.u32 %r2, [%a+-256];  // then
  +++ {arrive("%k+8")}"""), WR),
    Pair("one_arrives_for_its_warp", _specialised(f"""st.shared.u32 [%a], %t;  // first
  +++ bar.warp.sync -1;
  setp.eq.u32 %p2, %l, 0; @%p2 {arrive()}""", f"""{wait_for("WAIT")}
  ld.shared.u32 %r2, [%a+-252];  // then""", (2, 2))),
    Pair("one_waits_for_its_warp", _specialised(f"st.shared.u32 [%a], %t;  // first\n  {arrive()}", f"""
  setp.ne.u32 %p2, %l, 0;
  @%p2 bra JOIN;
  {wait_for("WAIT")}
JOIN:
  +++ bar.warp.sync -1;
  ld.shared.u32 %r2, [%a+-256];  // then""")),
    Pair("handed_on_through_two", f"""
  {gates(32, 32)}
  setp.lt.u32 %p1, %t, 32; setp.ge.u32 %p2, %t, 96;
  @%p1 bra ONE;
  @%p2 bra THREE;
  @!%lo bra END;
  {wait_for("FIRST")}
  --- {arrive("%k+8", ".relaxed.cta")}
  +++ {arrive("%k+8")}
  bra END;
ONE:
  st.shared.u32 [%a], %t;  // first
  {arrive()}
  bra END;
THREE:
  {wait_for("SECOND", "%k+8")}
  ld.shared.u32 %r2, [%a+-384];  // then
END:
"""),
    Pair("mbarrier_not_yet_there", f"""
  @%z mbarrier.init.shared.b64 [%k], 128;  // first
  +++ bar.sync 0;
  {arrive()}  // then
""", WW),
    Pair("mbarrier_ended_too_early", f"""
  {gates(128)}
  {arrive()}
  {wait_for("WAIT").replace("; @!%p7", ";  // then" + chr(10) + "  @!%p7")}
  +++ bar.sync 0;
  setp.eq.u32 %p2, %t, 63; @%p2 mbarrier.inval.shared.b64 [%k];  // first
""", WR),
    Pair("memory_of_an_mbarrier", f"""
  {gates(128)}
  {arrive()}  // first
  +++ bar.sync 0;
  setp.eq.u32 %p2, %t, 64; @%p2 st.shared.u64 [%k], 0;  // then
""", WW, one_warp=True),
    Pair("ring", _ring(f"{_STORE}\n  {arrive('%r7')}", "+++ " + _IS_FULL, _IS_EMPTY)),
    Pair("ring_of_copies", _ring("""cp.async.ca.shared.global [%r12], [%o], 4;  // first
  --- mbarrier.arrive.shared.b64 _, [%r7];
  +++ cp.async.mbarrier.arrive.noinc.shared.b64 [%r7];""", _IS_FULL, _IS_EMPTY)),
    Pair("ring_of_bulk_copies", _ring(_FILL, "+++ " + _IS_FULL, _IS_EMPTY, counts=(1, 1, 64, 64))),
    Pair("ring_of_boxes", _ring(_FILL_BOXES, "+++ " + _IS_FULL, _IS_EMPTY, counts=(1, 1, 64, 64))),
    *(
        Pair(f"{name}_refilled", _specialised(f"""@!%z bra END;
  {EXPECT.format("%k", 128)}
  {copy}, [%k];
  +++ {wait_for("EMPTY", "%k+16")}
  {EXPECT.format("%k+8", 128)}
  {copy}, [%k+8];  // first""", f"""{wait_for("FULL")}
  ld.shared.u32 %r2, [%a+-256];  // then
  {arrive("%k+16")}
  {wait_for("AGAIN", "%k+8")}
  ld.shared.u32 %r2, [%a+-256];""", (1, 1, 64)), WR)
        for name, copy in (("bulk", BULK + " [%b], [%g], 128"), ("box", BOX + " [%b], [%m, {0}]"))
    ),
]  # fmt: skip
