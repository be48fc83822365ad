"""Kernels that change a matrix in shared memory while wgmma may still read it, or before it is whole, each beside a
twin that waits: see race_kernels.Pair, and for what is in a body mbarrier_kernels.

The first 128 threads of 160 multiply; A is the first 2 KiB of `tile`, B the 256 bytes after it.
"""

from __future__ import annotations

from mbarrier_kernels import WR, gates, wait_for
from race_kernels import Pair

BLOCK = 160
HEAD = """  .reg .f32 %f<4>; .reg .b64 %ma, %mb; .reg .pred %q, %in;
  setp.lt.u32 %in, %t, 128; setp.ne.u32 %q, %t, %t;
  cvt.u64.u32 %ma, %b; shr.u64 %ma, %ma, 4; add.u64 %ma, %ma, 68720001024; add.u64 %mb, %ma, 128;
"""
FILL = """setp.lt.u32 %p1, %t, 144; shl.b32 %r1, %t, 4; add.u32 %r1, %r1, %b;
  @%p1 st.shared.v4.b32 [%r1], {%t, %t, %t, %t};"""
READY = f"{FILL}\n  fence.proxy.async.shared::cta; bar.sync 0;"
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %ma, %mb, %q, 1, 1, 0, 0;"
COMMIT, DONE = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
FENCE = "wgmma.fence.sync.aligned;"
STORE = "st.shared.u32 [%x], %t;"


def _pair(name: str, body: str, kinds: tuple[str, ...] = ("read_after_write",)) -> Pair:
    return Pair(name, HEAD + body, kinds)


PAIRS = [
    _pair("before_it_is_filled", f"""
  {FILL}  // first
  fence.proxy.async.shared::cta;
  +++ bar.sync 0;
  @!%in bra END;
  {FENCE}
  {PRODUCT}  // then
  {COMMIT} {DONE}
END:
"""),
    _pair("store_before_the_wait", f"""
  {READY}
  @!%in bra END;
  {FENCE}
  {PRODUCT}  // first
  {COMMIT}
  --- {STORE}  // then
  {DONE}
  +++ {STORE}
END:
""", WR),
    _pair("no_wait", f"""
  {READY}
  @!%in bra END;
  {FENCE}
  {PRODUCT}  // first
  {COMMIT}
  +++ {DONE}
  bar.sync 1, 128;
  {STORE}  // then
END:
""", WR),
    _pair("no_commit", f"""
  {READY}
  @!%in bra END;
  {FENCE}
  {PRODUCT}  // first
  +++ {COMMIT}
  {DONE}
  bar.sync 1, 128;
  {STORE}  // then
END:
""", WR),
    _pair("wait_for_all_but_one", f"""
  {READY}
  @!%in bra END;
  {FENCE}
  {PRODUCT}
  {COMMIT}
  {PRODUCT}  // first
  {COMMIT}
  --- wgmma.wait_group.sync.aligned 1;
  +++ {DONE}
  bar.sync 1, 128;
  {STORE}  // then
END:
""", WR),
    _pair("copied_over", f"""
  {READY}
  @!%in bra END;
  {FENCE}
  {PRODUCT}  // first
  {COMMIT}
  +++ {DONE}
  cp.async.ca.shared.global [%x], [%o], 4;  // then
  cp.async.wait_all;
  {DONE}
END:
""", WR),
    _pair("not_copied_yet", f"""
  {READY}
  cp.async.ca.shared.global [%a], [%o], 4;  // first
  +++ cp.async.wait_all; fence.proxy.async.shared::cta;
  bar.sync 0;
  @!%in bra END;
  {FENCE}
  {PRODUCT}  // then
  {COMMIT} {DONE}
END:
"""),
    _pair("released_too_early", f"""
  {gates(1)}
  {READY}
  @!%in bra PRODUCER;
  {FENCE}
  {PRODUCT}  // first
  {COMMIT}
  --- @%z mbarrier.arrive.shared.b64 _, [%k];
  {DONE}
  +++ @%z mbarrier.arrive.shared.b64 _, [%k];
  bra END;
PRODUCER:
  {wait_for("FREE")}
  st.shared.u32 [%a], %t;  // then
END:
""", WR),
]  # fmt: skip
