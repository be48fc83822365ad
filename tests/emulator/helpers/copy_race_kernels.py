"""Kernels with a race that has to do with asynchronous copies, each beside a twin that has none: see
race_kernels.Pair, and for what is in a body mbarrier_kernels.
"""

from __future__ import annotations

from mbarrier_kernels import BOX, BULK, EXPECT, WR, WW, arrive, gates, wait_for
from race_kernels import Pair

_COPY = "cp.async.ca.shared.global [%a], [%o], 4;"
_AGAIN = "cp.async.ca.shared.global [%a+512], [%o+512], 4;"
_COMMIT = "cp.async.commit_group;"
_DONE = "cp.async.wait_group 0;"


def _double_buffer(wait: str = "", join: str = "", end: str = "", stages: str = "mov.u32 %r20, 2;") -> str:
    """The next tile of 128 words comes while one is read."""
    return f"""
  mov.u32 %r5, 0;
  {stages}
  cp.async.ca.shared.global [%a], [%o], 4;
  cp.async.commit_group;
LOOP:
  rem.u32 %r6, %r5, %r20; shl.b32 %r6, %r6, 9; add.u32 %r8, %x, %r6;
  add.u32 %r5, %r5, 1; rem.u32 %r6, %r5, %r20; shl.b32 %r6, %r6, 9; add.u32 %r7, %a, %r6;
  cp.async.ca.shared.global [%r7], [%o], 4;  // first
  cp.async.commit_group;
  {wait or "cp.async.wait_group 1;"}
  {join or "bar.sync 0;"}
  ld.shared.u32 %r2, [%r8];  // then
  {end or "bar.sync 0;"}
  setp.lt.u32 %p1, %r5, 6;
  @%p1 bra LOOP;
  cp.async.wait_all;
"""


def _load(copy: str = "", wait: str = "", expect: str = EXPECT.format("%k", 512)) -> str:
    """The first thread has 512 bytes brought, and all read them."""
    return f"""
  {gates(1)}
  @!%z bra READ;
  {expect}
  {copy or BULK + " [%b], [%g], 512, [%k];"}  // first
READ:
  {wait or wait_for("WAIT")}
  ld.shared.u32 %r2, [%x];  // then
"""


def _store_out(copy: str, wait: str, before: str = "fence.proxy.async.shared::cta;\n  bar.sync 0;") -> str:
    """All write, the first thread has 512 bytes copied out of shared memory, and all write again."""
    return f"""
  st.shared.u32 [%a], %t;
  {before}
  @!%z bra JOIN;
  {copy}  // first
  cp.async.bulk.commit_group;
  {wait}
JOIN:
  bar.sync 0;
  st.shared.u32 [%x], %t;  // then
"""


_OUT = "cp.async.bulk.global.shared::cta.bulk_group [%g+4096], [%b], 512;"

PAIRS = [
    Pair("own_group", f"""
  {_COPY}  // first
  {_COMMIT}
  +++ {_DONE}
  ld.shared.u32 %r2, [%a];  // then
"""),
    Pair("own_wait_for_all", f"""
  {_COPY}  // first
  +++ cp.async.wait_all;
  ld.shared.u32 %r2, [%a];  // then
"""),
    Pair("copied_by_others", f"""
  {_COPY}  // first
  {_COMMIT}
  {_DONE}
  +++ bar.sync 0;
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("barrier_before_the_wait", f"""
  {_COPY}  // first
  {_COMMIT}
  +++ {_DONE}
  bar.sync 0;
  --- {_DONE}
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("one_group_too_few", f"""
  {_COPY}
  {_COMMIT}
  {_AGAIN}  // first
  {_COMMIT}
  --- cp.async.wait_group 1;
  +++ cp.async.wait_group 0;
  ld.shared.u32 %r2, [%a];
  ld.shared.u32 %r2, [%a+512];  // then
"""),
    Pair("not_committed", f"""
  {_COPY}  // first
  +++ {_COMMIT}
  {_DONE}
  ld.shared.u32 %r2, [%a];  // then
"""),
    Pair("committed_too_early", f"""
  --- {_COMMIT}
  {_COPY}  // first
  +++ {_COMMIT}
  {_DONE}
  ld.shared.u32 %r2, [%a];  // then
"""),
    Pair("double_buffer", _double_buffer(wait="+++ cp.async.wait_group 1;")),
    Pair("double_buffer_one_too_few", _double_buffer(wait="""--- cp.async.wait_group 2;
  +++ cp.async.wait_group 1;""")),
    Pair("double_buffer_not_joined", _double_buffer(join="+++ bar.sync 0;")),
    Pair("double_buffer_overwritten", _double_buffer(end="+++ bar.sync 0;"), WR),
    Pair("triple_buffer_of_two", _double_buffer(
        end="mov.u32 %r9, 0;",
        stages="--- mov.u32 %r20, 2;\n  +++ mov.u32 %r20, 3;"), WR),
    Pair("over_a_store", f"""
  st.shared.u32 [%x], %t;  // first
  +++ bar.sync 0;
  {_COPY}  // then
  cp.async.wait_all;
""", WW),
    Pair("over_a_read", f"""
  ld.shared.u32 %r2, [%x];  // first
  +++ bar.sync 0;
  {_COPY}  // then
  cp.async.wait_all;
""", WR),
    Pair("two_to_one_place", f"""
  {_COPY}  // first then
  --- {_COPY}  // first then
  cp.async.wait_all;
""", WW),
    Pair("store_over_a_copy", f"""
  {_COPY}  // first
  +++ cp.async.wait_all;
  st.shared.u32 [%a], %t;  // then
  cp.async.wait_all;
""", WW),
    Pair("zeros", """
  mov.u32 %r3, 0;
  cp.async.ca.shared.global [%a], [%o], 4, %r3;  // first
  +++ cp.async.wait_all;
  ld.shared.u32 %r2, [%a];  // then
  cp.async.wait_all;
"""),
    Pair("in_a_warp", f"""
  xor.b32 %r1, %t, 1; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %b;
  {_COPY}  // first
  cp.async.wait_all;
  +++ bar.warp.sync -1;
  ld.shared.u32 %r2, [%r1];  // then
"""),
    Pair("sixteen_bytes", """
  shl.b32 %r1, %t, 4; add.u32 %r1, %r1, %b; mul.wide.u32 %rd1, %t, 16; add.u64 %rd1, %rd1, %g;
  cp.async.cg.shared.global [%r1], [%rd1], 16;  // first
  cp.async.wait_all;
  +++ bar.sync 0;
  ld.shared.u32 %r2, [%a];  // then
"""),
    Pair("with_a_named_barrier", f"""
  @!%lo bra OTHERS;
  {_COPY}  // first
  cp.async.wait_all;
  bar.arrive 1, 128;
  bra END;
OTHERS:
  +++ bar.sync 1, 128;
  ld.shared.u32 %r2, [%a+-256];  // then
  --- bar.sync 1, 128;
END:
"""),
    Pair("arrival_after_copies", f"""
  {gates(128)}
  {_COPY}  // first
  cp.async.mbarrier.arrive.noinc.shared.b64 [%k];
  +++ {wait_for("WAIT")}
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("arrival_before_copies", f"""
  {gates(128)}
  --- cp.async.mbarrier.arrive.noinc.shared.b64 [%k];
  {_COPY}  // first
  +++ cp.async.mbarrier.arrive.noinc.shared.b64 [%k];
  {wait_for("WAIT")}
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("arrival_that_counts_itself", f"""
  {gates(128)}
  {_COPY}  // first
  +++ cp.async.mbarrier.arrive.shared.b64 [%k];
  {arrive()}
  {wait_for("WAIT")}
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("plain_arrival_after_copies", f"""
  {gates(128)}
  {_COPY}  // first
  --- {arrive()}
  +++ cp.async.mbarrier.arrive.noinc.shared.b64 [%k];
  {wait_for("WAIT")}
  ld.shared.u32 %r2, [%x];  // then
"""),
    Pair("bulk", _load(wait="+++ " + wait_for("WAIT"))),
    Pair("bulk_not_expected", _load(expect=f"--- {arrive()}\n  +++ {EXPECT.format('%k', 512)}")),
    Pair("bulk_over_a_store", f"""
  st.shared.u32 [%x], %t;  // first
  {gates(1).replace("bar.sync 0;", "+++ bar.sync 0;")}
  @!%z bra END;
  {EXPECT.format("%k", 512)}
  {BULK} [%b], [%g], 512, [%k];  // then
END:
""", WW),
    Pair("bulk_longer_than_the_tile", f"""
  {gates(1)}
  @!%z bra WRITE;
  {EXPECT.format("%k", 512)}
  --- {BULK} [%b+16], [%g], 512, [%k];  // first
  +++ {BULK} [%b], [%g], 512, [%k];
WRITE:
  st.shared.u32 [%a+512], %t;  // then
  {wait_for("WAIT")}
""", WW),
    Pair("box", _load(BOX + " [%b], [%m, {0}], [%k];", "+++ " + wait_for("WAIT"), EXPECT.format("%k", 128))),
    Pair("out_overwritten", _store_out(_OUT, "+++ cp.async.bulk.wait_group.read 0;"), WR),
    Pair("out_overwritten_before_its_end", _store_out(_OUT, "+++ cp.async.bulk.wait_group 0;"), WR),
    Pair("out_not_joined", _store_out(_OUT, "cp.async.bulk.wait_group.read 0;", """fence.proxy.async.shared::cta;
  +++ bar.sync 0;""").replace("st.shared.u32 [%a], %t;", "st.shared.u32 [%a], %t;  // then")),
    Pair("out_waited_for_by_another", _store_out(_OUT, "+++ cp.async.bulk.wait_group.read 0;")
         .replace("JOIN:", "JOIN:\n  --- @%y cp.async.bulk.wait_group.read 0;"), WR),
    Pair("box_out_overwritten", _store_out(
        "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%m, {0}], [%b];",
        "+++ cp.async.bulk.wait_group.read 0;"), WR),
    Pair("sum_out_overwritten", _store_out(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%g+4096], [%b], 512;",
        "+++ cp.async.bulk.wait_group.read 0;"), WR),
    Pair("cleared", """
  mov.u64 %rd1, 0;
  @%z st.bulk.shared::cta [%b], 512, 0;  // first
  +++ bar.sync 0;
  ld.shared.u32 %r2, [%x];  // then
"""),
]  # fmt: skip
