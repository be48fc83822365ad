"""Kernels whose blocks tell each other of what they wrote in global memory, with something forgotten, each beside a
twin that has it: see global_race_kernels.
"""

from __future__ import annotations

from global_race_kernels import NEXT, THREADS, WRITE_ALL
from race_kernels import Pair

_LATER = "and.b32 %r9, %c, 3; setp.eq.u32 %p6, %r9, 3;"  # the block that runs last
_SUM = """ld.global.u32 %r7, [%g+4096];  // then
  ld.global.u32 %r7, [%g+4228];  // then"""


def _poll(name: str, load: str) -> str:
    """Until `%r2` is not 0."""
    return f"""{name}:
  {load}
  setp.eq.u32 %p3, %r2, 0;
  @%p3 bra {name};"""


def last_block(before: str = "", atomic: str = "atom.global.add.u32") -> str:
    """Every block writes its words; the last that counts itself reads those of the first."""
    return f"""
  {WRITE_ALL}
  {before}
  @!%z bra END;
  {atomic} %r1, [%g], 1;
  setp.ne.u32 %p1, %r1, 3;
  @%p1 bra END;
  {_SUM}
END:
"""


def _message(send: str, receive: str = "ld.acquire.gpu.global.u32 %r2, [%g];") -> str:
    """Block 0 writes a word and tells block 1 by a flag."""
    return f"""
  @!%z bra END;
  setp.eq.u32 %p1, %c, 0; setp.eq.u32 %p2, %c, 1; mov.u32 %r1, 1;
  @%p1 bra SENDER;
  @!%p2 bra END;
  {_poll("RECEIVER", receive)}
  ld.global.u32 %r3, [%g+4096];  // then
  bra END;
SENDER:
  st.global.u32 [%o], %r1;  // first
  {send}
END:
"""


def _grid_barrier(before: str, count: str, after: str) -> str:
    """Every block writes its words, waits for all others, and reads those of the next."""
    return f"""
  {WRITE_ALL}
  {before}
  @!%z bra JOIN;
  {count}
WAIT:
  ld.volatile.global.u32 %r1, [%g];
  setp.lt.u32 %p1, %r1, 4;
  @%p1 bra WAIT;
  membar.gl;
JOIN:
  {after}
  {NEXT}
  mul.wide.u32 %rd3, %t, 4; add.u64 %rd2, %rd2, %rd3;
  ld.global.u32 %r2, [%rd2+4096];  // then
"""


def _handed_on(tell: str, fence: str = "+++ membar.cta;") -> str:
    """Thread 33 of each block writes and counts its block; of the last one it tells thread 0, which reads."""
    return f"""
  .shared .align 4 .b32 flag;
  mov.u32 %r1, 0; @%z st.shared.u32 [flag], %r1;
  bar.sync 0;
  mov.u32 %r1, 1; setp.eq.u32 %p2, %t, 33; {_LATER}
  @%p2 bra SENDER;
  @!%z bra END;
  @!%p6 bra END;
  {_poll("RECEIVER", "ld.acquire.cta.shared.u32 %r2, [flag];")}
  ld.global.u32 %r3, [%g+4228];  // then
  bra END;
SENDER:
  st.global.u32 [%o], %t;  // first
  membar.gl;
  atom.global.add.u32 %r3, [%g], 1;
  {fence}
  @!%p6 bra END;
  {tell}
END:
"""


def _lock(take: str, give: str) -> str:
    return f"""
  @!%z bra END;
AGAIN:
  {take}
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  ld.global.u32 %r2, [%g+64];  // then
  add.u32 %r2, %r2, 1;
  st.global.u32 [%g+64], %r2;  // first
  {give}
END:
"""


_TRY = "mbarrier.try_wait.shared.b64 %p1, [gate], %rd1; @!%p1 bra WAIT;"


def _joined_by_mbarrier(wait: str, fence: str) -> str:
    """The last block, where threads of a block wait for each other at an mbarrier."""
    return f"""
  .shared .align 8 .b64 gate;
  @%z mbarrier.init.shared.b64 [gate], {THREADS};
  bar.sync 0;
""" + last_block(f"""
  mbarrier.arrive.shared.b64 %rd1, [gate];
WAIT:
  {wait or _TRY}
  {fence or "membar.gl;"}""")


_CAS = "atom.global.cas.b32 %r1, [%g], 0, 1;"
_ALL = ("read_after_write", "write_after_write", "write_after_read")

PAIRS = [
    Pair("last_block", last_block("+++ membar.gl;\n  bar.sync 0;")),
    Pair("last_block_after_the_barrier", last_block("bar.sync 0;\n  +++ membar.gl;")),
    Pair("last_block_fence_of_block", last_block("--- membar.cta;\n  +++ membar.gl;\n  bar.sync 0;")),
    Pair("last_block_fence_sc", last_block("--- fence.sc.cta;\n  +++ fence.sc.gpu;\n  bar.sync 0;")),
    Pair("last_block_barrier", last_block("+++ bar.sync 0;\n  membar.gl;")),
    Pair("last_block_fence_too_early", f"""
  --- membar.gl;
  {WRITE_ALL}
  +++ membar.gl;
  bar.sync 0;
  @!%z bra END;
  atom.global.add.u32 %r1, [%g], 1;
  setp.ne.u32 %p1, %r1, 3;
  @%p1 bra END;
  {_SUM}
END:
"""),
    Pair("last_block_releasing", f"""
  {WRITE_ALL}
  bar.sync 0;
  @!%z bra END;
  --- atom.relaxed.gpu.global.add.u32 %r1, [%g], 1;
  +++ atom.acq_rel.gpu.global.add.u32 %r1, [%g], 1;
  setp.ne.u32 %p1, %r1, 3;
  @%p1 bra END;
  {_SUM}
END:
"""),
    Pair("release", _message("""--- st.relaxed.gpu.global.u32 [%g], %r1;
  +++ st.release.gpu.global.u32 [%g], %r1;""")),
    Pair("release_of_block", _message("""--- st.release.cta.global.u32 [%g], %r1;
  +++ st.release.gpu.global.u32 [%g], %r1;""")),
    Pair("acquire_of_block", _message("st.release.gpu.global.u32 [%g], %r1;", """
  --- ld.acquire.cta.global.u32 %r2, [%g];
  +++ ld.acquire.gpu.global.u32 %r2, [%g];""")),
    Pair("volatile_flag", _message("+++ membar.gl;\n  st.volatile.global.u32 [%g], %r1;",
                                   "ld.volatile.global.u32 %r2, [%g]; membar.gl;")),
    Pair("exchanged_flag", _message("+++ fence.acq_rel.gpu;\n  atom.global.exch.b32 %r5, [%g], %r1;",
                                    "atom.global.or.b32 %r2, [%g], 0; fence.acq_rel.gpu;")),
    Pair("fence_after_the_flag", _message("""--- st.volatile.global.u32 [%g], %r1;
  membar.gl;
  +++ st.volatile.global.u32 [%g], %r1;""")),
    Pair("weak_flag", _message("""membar.gl;
  --- st.global.u32 [%g], %r1;  // first
  +++ st.relaxed.gpu.global.u32 [%g], %r1;""", """
  ld.acquire.gpu.global.u32 %r2, [%g];  // then""")),
    Pair("weak_poll", _message("membar.gl;\n  st.relaxed.gpu.global.u32 [%g], %r1;  // first", """
  --- ld.global.u32 %r2, [%g];  // then
  +++ ld.relaxed.gpu.global.u32 %r2, [%g];""")),
    Pair("system_fence", _message("--- membar.cta;\n  +++ membar.sys;\n  st.volatile.global.u32 [%g], %r1;")),
    Pair("message_of_a_warp", """
  setp.ge.u32 %p4, %t, 32;
  @%p4 bra END;
  setp.eq.u32 %p1, %c, 0; setp.eq.u32 %p2, %c, 1; mov.u32 %r1, 1;
  @%p1 bra SENDER;
  @!%p2 bra END;
  @!%z bra READ;
RECEIVER:
  ld.acquire.gpu.global.u32 %r2, [%g];
  setp.eq.u32 %p3, %r2, 0;
  @%p3 bra RECEIVER;
READ:
  bar.warp.sync -1;
  ld.global.u32 %r3, [%o+-256];  // then
  bra END;
SENDER:
  st.global.u32 [%o], %r1;  // first
  +++ bar.warp.sync -1;
  @%z st.release.gpu.global.u32 [%g], %r1;
END:
"""),
    Pair("lock", _lock(_CAS, "+++ membar.gl;\n  atom.global.exch.b32 %r1, [%g], 0;")),
    Pair("lock_given_by_volatile", _lock(_CAS, "+++ membar.gl;\n  mov.u32 %r3, 0; st.volatile.global.u32 [%g], %r3;")),
    Pair("lock_of_block", _lock("""--- atom.acquire.cta.global.cas.b32 %r1, [%g], 0, 1;
  +++ atom.acquire.gpu.global.cas.b32 %r1, [%g], 0, 1;""", "atom.release.gpu.global.exch.b32 %r1, [%g], 0;")),
    Pair("lock_released", _lock("atom.acquire.gpu.global.cas.b32 %r1, [%g], 0, 1;",
                                """--- atom.relaxed.gpu.global.exch.b32 %r1, [%g], 0;
  +++ atom.release.gpu.global.exch.b32 %r1, [%g], 0;""")),
    Pair("look_back", """
  @!%z bra END;
  mul.wide.u32 %rd2, %c, 4; add.u64 %rd2, %rd2, %g; mov.u32 %r1, 1;
  setp.eq.u32 %p1, %c, 0;
  @%p1 bra TELL;
BEFORE:
  ld.volatile.global.u32 %r2, [%rd2+-4];
  setp.eq.u32 %p2, %r2, 0;
  @%p2 bra BEFORE;
  membar.gl;
  ld.global.u32 %r3, [%d+-256];  // then
TELL:
  add.u32 %r3, %r3, 1;
  st.global.u32 [%d], %r3;  // first
  +++ membar.gl;
  st.volatile.global.u32 [%rd2], %r1;
END:
"""),
    Pair("look_back_packed", """
  @!%z bra END;
  mov.u64 %rd5, 0x100000001; setp.eq.u32 %p1, %c, 0;
  @%p1 bra TELL;
BEFORE:
  ld.relaxed.gpu.global.u64 %rd4, [%d+-256];  // then
  setp.eq.u64 %p2, %rd4, 0;
  @%p2 bra BEFORE;
TELL:
  --- st.global.u64 [%d], %rd5;  // first
  +++ st.relaxed.gpu.global.u64 [%d], %rd5;
END:
"""),
    Pair("chain_of_blocks", """
  @!%z bra END;
  mov.u32 %r1, 1; setp.eq.u32 %p1, %c, 0; setp.eq.u32 %p2, %c, 1; setp.eq.u32 %p3, %c, 2;
  @%p1 bra ONE;
  @%p2 bra TWO;
  @!%p3 bra END;
THREE:
  ld.acquire.gpu.global.u32 %r2, [%g+4];
  setp.eq.u32 %p4, %r2, 0;
  @%p4 bra THREE;
  ld.global.u32 %r3, [%g+4096];  // then
  bra END;
ONE:
  st.global.u32 [%d], %r1;  // first
  st.release.gpu.global.u32 [%g], %r1;
  bra END;
TWO:
  ld.acquire.gpu.global.u32 %r2, [%g];
  setp.eq.u32 %p4, %r2, 0;
  @%p4 bra TWO;
  --- st.relaxed.gpu.global.u32 [%g+4], %r1;
  +++ st.release.gpu.global.u32 [%g+4], %r1;
END:
"""),
    Pair("handed_on_by_a_flag_of_the_block", _handed_on("st.volatile.shared.u32 [flag], %r1;")),
    Pair("handed_on_by_a_release_of_the_block", _handed_on("""
  --- st.relaxed.cta.shared.u32 [flag], %r1;
  +++ st.release.cta.shared.u32 [flag], %r1;""", fence="")),
    Pair("grid_barrier", _grid_barrier("bar.sync 0;", "+++ membar.gl;\n  red.global.add.u32 [%g], 1;", "bar.sync 0;")),
    Pair("grid_barrier_of_all_threads", _grid_barrier("+++ bar.sync 0;", "membar.gl; red.global.add.u32 [%g], 1;",
                                                      "bar.sync 0;")),
    Pair("grid_barrier_not_waited_for", _grid_barrier("membar.gl; bar.sync 0;", "red.global.add.u32 [%g], 1;",
                                                      "+++ bar.sync 0;")),
    Pair("grid_barrier_releasing", _grid_barrier("bar.sync 0;", """--- red.release.cta.global.add.u32 [%g], 1;
  +++ red.release.gpu.global.add.u32 [%g], 1;""", "bar.sync 0;"), _ALL),
    Pair("grid_barrier_missing", f"""
  {NEXT}
  {WRITE_ALL}
  bar.sync 0;
  @!%z bra JOIN;
  +++ membar.gl;
  +++ red.global.add.u32 [%g], 1;
WAIT:
  +++ ld.volatile.global.u32 %r1, [%g]; setp.lt.u32 %p1, %r1, 4;
  +++ @%p1 bra WAIT;
JOIN:
  bar.sync 0;
  ld.global.u32 %r2, [%rd2+4096];  // then
"""),
    Pair("barrier_of_too_few", f"""
  {WRITE_ALL}
  bar.sync 0;
  @!%z bra JOIN;
  membar.gl;
  red.global.add.u32 [%g], 1;
WAIT:
  ld.volatile.global.u32 %r1, [%g];
  --- setp.lt.u32 %p1, %r1, 1;
  +++ setp.lt.u32 %p1, %r1, 4;
  @%p1 bra WAIT;
JOIN:
  bar.sync 0;
  {NEXT}
  ld.global.u32 %r2, [%rd2+4096];  // then
"""),
    Pair("last_block_mbarrier", _joined_by_mbarrier(f"+++ {_TRY}", "")),
    Pair("last_block_mbarrier_fence", _joined_by_mbarrier("", "+++ membar.gl;")),
]  # fmt: skip
