"""Kernels with a race in shared memory, each beside a twin that has none.

In a body, `%t` is the thread, `%a` the address of the thread's own word of `tile`, `%b` the address of `tile`. The two
sides of the finding are at lines that end with `// first` and `// then`. A line with `+++` is only in the twin, one
with `---` only in the faulty kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from small_kernels import HEAD

BLOCK = 128
FRAME = """.visible .entry {name}()
{{
  .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .b32 %t, %a, %b;
  .reg .b128 %q<2>;
  .shared .align 16 .b8 tile[4096];
  mov.u32 %t, %tid.x; mov.u32 %b, tile; shl.b32 %a, %t, 2; add.u32 %a, %a, %b;
{body}
  ret;
}}
"""


@dataclass(frozen=True)
class Pair:
    """kinds: of the fault that the first kernel has, in one order of its sides. one_warp: as it is told."""

    name: str
    body: str
    kinds: tuple[str, ...] = ("read_after_write",)
    one_warp: bool = False

    def text(self, twin: bool) -> str:
        """The body of one of the two."""
        kept = []
        for line in self.body.strip("\n").splitlines():
            mark = line.strip()[:3]
            if mark in ("+++", "---"):
                if (mark == "+++") is twin:
                    kept.append(line.replace(mark, "   ", 1))
                continue
            kept.append(line)
        return "\n".join(kept)


def module(pairs: list[Pair], frame: str = FRAME) -> tuple[str, dict[str, dict[str, set[int]]]]:
    """One text with all kernels, `NAME_fault` and `NAME_twin`; and of each kernel the lines of its two marks."""
    text, marks = HEAD, {}
    for pair in pairs:
        for twin in (False, True):
            name = f"{pair.name}_{'twin' if twin else 'fault'}"
            begin = text.count("\n")
            text += frame.format(name=name, body=pair.text(twin))
            lines = enumerate(text.split("\n")[begin:], start=begin + 1)
            marks[name] = {"first": set(), "then": set()}
            for number, line in lines:
                for side in line.partition("//")[2].split():
                    marks[name][side].add(number)
    return text, marks


_OTHER = "xor.b32 %r1, %t, 33; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %b;"  # a word of another warp
_NEAR = "xor.b32 %r1, %t, 1; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %b;"  # a word of the same warp
_ADD_UPPER_HALF = """mov.u32 %r1, 64;
LOOP:
  setp.ge.u32 %p1, %t, %r1;
  @%p1 bra SKIP;
  shl.b32 %r2, %r1, 2; add.u32 %r2, %r2, %a;
  ld.shared.u32 %r3, [%r2];  // then
  ld.shared.u32 %r4, [%a];
  add.u32 %r4, %r4, %r3;"""
_HALVE = """shr.u32 %r1, %r1, 1;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra LOOP;"""

PAIRS = [
    Pair("neighbour", f"""
  st.shared.u32 [%a], %t;  // first
  {_OTHER}
  +++ bar.sync 0;
  ld.shared.u32 %r2, [%r1];  // then
"""),
    Pair("overwritten", f"""
  st.shared.u32 [%a], %t;
  bar.sync 0;
  {_OTHER}
  ld.shared.u32 %r2, [%r1];  // then
  +++ bar.sync 0;
  st.shared.u32 [%a], %r2;  // first
"""),
    Pair("last_read", """
  setp.ge.u32 %p1, %t, 32;
  st.shared.u32 [%a], %t;
  bar.sync 0;
  @%p1 bra WRITER;
  ld.shared.u32 %r2, [%b+256];  // first
  +++ bar.sync 0;
  bra END;
WRITER:
  +++ bar.sync 0;
  st.shared.u32 [%a+128], %t;  // then
END:
""", ("write_after_read",)),
    Pair("reduction", f"""
  st.shared.u32 [%a], %t;  // first
  +++ bar.sync 0;
  {_ADD_UPPER_HALF}
  st.shared.u32 [%a], %r4;
SKIP:
  bar.sync 0;
  {_HALVE}
"""),
    Pair("reduction_in_loop", f"""
  st.shared.u32 [%a], %t;
  bar.sync 0;
  {_ADD_UPPER_HALF}
  st.shared.u32 [%a], %r4;  // first
SKIP:
  +++ bar.sync 0;
  {_HALVE}
"""),
    Pair("last_warp", """
  st.shared.u32 [%a], %t;
  bar.sync 0;
  setp.ge.u32 %p1, %t, 32;
  @%p1 ret;
  ld.shared.u32 %r3, [%a+64]; ld.shared.u32 %r4, [%a]; add.u32 %r4, %r4, %r3;
  +++ bar.warp.sync -1;
  st.shared.u32 [%a], %r4;  // first
  +++ bar.warp.sync -1;
  ld.shared.u32 %r3, [%a+32];  // then
""", ("read_after_write", "write_after_read"), one_warp=True),
    Pair("last_warp_volatile", """
  st.shared.u32 [%a], %t;
  bar.sync 0;
  setp.ge.u32 %p1, %t, 32;
  @%p1 ret;
  +++ ld.volatile.shared.u32 %r3, [%a+64]; ld.volatile.shared.u32 %r4, [%a]; add.u32 %r4, %r4, %r3;
  +++ st.volatile.shared.u32 [%a], %r4;
  +++ ld.volatile.shared.u32 %r3, [%a+32];
  --- st.volatile.shared.u32 [%a], %r4;  // first
  --- ld.shared.u32 %r3, [%a+32];  // then
""", one_warp=True),
    Pair("half_of_a_warp", """
  setp.ge.u32 %p1, %t, 32;
  @%p1 ret;
  st.shared.u32 [%a], %t;  // first
  xor.b32 %r1, %t, 16; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %b;
  shr.u32 %r2, %t, 4; mul.lo.u32 %r2, %r2, 16; mov.u32 %r3, 0xffff; shl.b32 %r3, %r3, %r2;
  --- bar.warp.sync %r3;
  +++ bar.warp.sync -1;
  ld.shared.u32 %r4, [%r1];  // then
""", one_warp=True),
    Pair("named_barrier", """
  shr.u32 %r5, %t, 6;
  st.shared.u32 [%a], %t;  // first
  add.u32 %r6, %r5, 1;
  --- bar.sync %r6, 64;
  +++ bar.sync 3, 128;
  xor.b32 %r1, %t, 64; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %b;
  ld.shared.u32 %r2, [%r1];  // then
"""),
    Pair("named_barrier_of_two_warps", """
  shr.u32 %r5, %t, 6; add.u32 %r6, %r5, 1;
  st.shared.u32 [%a], %t;  // first
  +++ bar.sync %r6, 64;
  xor.b32 %r1, %t, 32; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %b;
  ld.shared.u32 %r2, [%r1];  // then
"""),
    Pair("producer", """
  setp.ge.u32 %p1, %t, 64;
  @%p1 bra CONSUMER;
  st.shared.u32 [%a], %t;  // first
  bar.arrive 1, 128;
  bra END;
CONSUMER:
  +++ bar.sync 1, 128;
  ld.shared.u32 %r2, [%a+-256];  // then
  --- bar.sync 1, 128;
END:
"""),
    Pair("reused_by_producer", """
  setp.ge.u32 %p1, %t, 64;
  @%p1 bra CONSUMER;
  st.shared.u32 [%a], %t;
  bar.arrive 1, 128;
  +++ bar.sync 2, 128;
  st.shared.u32 [%a], %t;  // first
  bra END;
CONSUMER:
  bar.sync 1, 128;
  ld.shared.u32 %r2, [%a+-256];  // then
  +++ bar.arrive 2, 128;
END:
"""),
    Pair("different_values", """
  --- st.shared.u32 [%b], %t;  // first then
  +++ mov.u32 %r1, 7;
  +++ st.shared.u32 [%b], %r1;
""", ("write_after_write",)),
    Pair("different_values_of_warps", """
  and.b32 %r2, %t, 31; setp.ne.u32 %p1, %r2, 0;
  @%p1 bra END;
  --- st.shared.u32 [%b], %t;  // first then
  +++ st.shared.u32 [%b], %r2;
END:
""", ("write_after_write",)),
    Pair("histogram", """
  and.b32 %r1, %t, 3; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %b;
  mov.u32 %r3, 1;
  atom.shared.add.u32 %r2, [%r1], %r3;  // first
  +++ bar.sync 0;
  ld.shared.u32 %r4, [%r1];  // then
"""),
    Pair("wide_atomic", """
  mov.u64 %rd1, 7; mov.b128 %q0, {%rd1, %rd1};
  atom.shared.exch.b128 %q1, [%b], %q0;  // first
  +++ bar.sync 0;
  ld.shared.u32 %r4, [%b];  // then
"""),
    Pair("cleared_histogram", """
  and.b32 %r1, %t, 3; shl.b32 %r1, %r1, 2; add.u32 %r1, %r1, %b;
  mov.u32 %r3, 1; mov.u32 %r5, 0;
  setp.ge.u32 %p1, %t, 4;
  @!%p1 st.shared.u32 [%a], %r5;  // first
  +++ bar.sync 0;
  red.shared.add.u32 [%r1], %r3;  // then
""", ("write_after_write",)),
    Pair("lock", """
  and.b32 %r1, %t, 31; setp.ne.u32 %p1, %r1, 0;
  @%p1 bra END;
AGAIN:
  atom.shared.cas.b32 %r2, [%b], 0, 1;
  setp.ne.u32 %p2, %r2, 0;
  @%p2 bra AGAIN;
  ld.shared.u32 %r3, [%b+4];  // then
  add.u32 %r3, %r3, 1;
  st.shared.u32 [%b+4], %r3;  // first
  +++ membar.cta;
  atom.shared.exch.b32 %r2, [%b], 0;
END:
"""),
    Pair("message", """
  setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 64;
  @%p1 bra SENDER;
  @%p2 bra RECEIVER;
  bra END;
SENDER:
  st.shared.u32 [%b+4], %t;  // first
  +++ fence.acq_rel.cta;
  mov.u32 %r1, 1;
  st.volatile.shared.u32 [%b], %r1;
  bra END;
RECEIVER:
  ld.volatile.shared.u32 %r2, [%b];
  setp.eq.u32 %p3, %r2, 0;
  @%p3 bra RECEIVER;
  fence.acq_rel.cta;
  ld.shared.u32 %r3, [%b+4];  // then
END:
"""),
    Pair("release", """
  setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 64;
  @%p1 bra SENDER;
  @%p2 bra RECEIVER;
  bra END;
SENDER:
  st.shared.u32 [%b+4], %t;  // first
  mov.u32 %r1, 1;
  --- st.relaxed.cta.shared.u32 [%b], %r1;
  +++ st.release.cta.shared.u32 [%b], %r1;
  bra END;
RECEIVER:
  ld.acquire.cta.shared.u32 %r2, [%b];
  setp.eq.u32 %p3, %r2, 0;
  @%p3 bra RECEIVER;
  ld.shared.u32 %r3, [%b+4];  // then
END:
"""),
    Pair("bytes", """
  add.u32 %r1, %b, %t; cvt.u16.u32 %h1, %t;
  --- and.b32 %r1, %r1, 0xfffffffe;
  --- st.shared.u16 [%r1], %h1;  // first then
  +++ st.shared.u8 [%r1], %h1;
""", ("write_after_write",), one_warp=True),
    Pair("vectors", """
  shl.b32 %r1, %t, 4; add.u32 %r1, %r1, %b;
  --- shl.b32 %r2, %t, 3; add.u32 %r1, %b, %r2; and.b32 %r1, %r1, -16;
  --- st.shared.v4.u32 [%r1], {%t, %t, %t, %t};  // first then
  +++ st.shared.v4.u32 [%r1], {%t, %t, %t, %t};
""", ("write_after_write",), one_warp=True),
    Pair("generic", f"""
  cvt.u64.u32 %rd1, %a; cvta.shared.u64 %rd1, %rd1;
  st.u32 [%rd1], %t;  // first
  {_OTHER}
  cvt.u64.u32 %rd2, %r1; cvta.shared.u64 %rd2, %rd2;
  +++ bar.sync 0;
  ld.u32 %r2, [%rd2];  // then
"""),
    Pair("reducing_barrier", f"""
  st.shared.u32 [%a], %t;  // first
  {_OTHER}
  setp.eq.u32 %p1, %t, 5;
  +++ barrier.red.popc.u32 %r5, 0, %p1;
  ld.shared.u32 %r2, [%r1];  // then
"""),
    Pair("one_buffer", f"""
  {_OTHER}
  mov.u32 %r5, 0;
LOOP:
  +++ and.b32 %r6, %r5, 1; shl.b32 %r6, %r6, 9; add.u32 %r7, %r6, %a; add.u32 %r8, %r6, %r1;
  --- mov.u32 %r7, %a; mov.u32 %r8, %r1;
  st.shared.u32 [%r7], %r5;  // first
  bar.sync 0;
  ld.shared.u32 %r2, [%r8];  // then
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p1, %r5, 8;
  @%p1 bra LOOP;
"""),
    Pair("exited", """
  setp.ge.u32 %p1, %t, 64;
  @%p1 bra WRITER;
  +++ bar.sync 0;
  ld.shared.u32 %r2, [%a+256];  // first
  --- bar.sync 0;
  bra END;
WRITER:
  st.shared.u32 [%a], %t;  // then
END:
""", ("write_after_read",)),
    Pair("pairs_of_lanes", f"""
  st.shared.u32 [%a], %t;  // first
  {_NEAR}
  +++ bar.warp.sync -1;
  ld.shared.u32 %r2, [%r1];  // then
""", one_warp=True),
    Pair("diverged_warp_barrier", f"""
  and.b32 %r5, %t, 1; setp.eq.u32 %p1, %r5, 0;
  {_NEAR}
  st.shared.u32 [%a], %t;  // first
  @%p1 bra EVEN;
  +++ bar.warp.sync -1;
  ld.shared.u32 %r2, [%r1];  // then
  bra END;
EVEN:
  +++ bar.warp.sync -1;
  ld.shared.u32 %r2, [%r1];  // then
END:
""", one_warp=True),
    # The last of the lanes that count by one instruction reads what those before it have written.
    Pair("last_lane_that_counts", """
  setp.eq.u32 %p1, %t, 0;
  @%p1 st.shared.u32 [%b+2048], 0;
  bar.sync 0;
  st.shared.u32 [%a], %t;  // first
  +++ membar.cta;
  atom.shared.add.u32 %r1, [%b+2048], 1;
  setp.eq.u32 %p1, %r1, 127;
  @%p1 ld.shared.u32 %r2, [%a+-4];  // then
""", one_warp=True),
    Pair("last_lane_with_release", """
  setp.eq.u32 %p1, %t, 0;
  @%p1 st.shared.u32 [%b+2048], 0;
  bar.sync 0;
  ld.shared.u32 %r2, [%b];  // first
  +++ atom.acq_rel.cta.shared.add.u32 %r1, [%b+2048], 1;
  --- atom.relaxed.cta.shared.add.u32 %r1, [%b+2048], 1;
  setp.eq.u32 %p1, %r1, 127;
  @%p1 st.shared.u32 [%b], %t;  // then
""", ("write_after_read",)),
]  # fmt: skip
