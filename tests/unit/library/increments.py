"""Candidates for `increment` of `increment_snapshot`, most of them with a fault."""

from __future__ import annotations

from ..helpers.small_snapshots import HEAD

# *a += 1, then more work, and the same output
SLOW = HEAD + """
.visible .entry increment(.param .u64 a) {
    .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .pred %p;
    ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [%rd2]; mov.u32 %r3, 0;
again: add.s32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 20000; @%p bra again;
    add.s32 %r2, %r1, 1; st.global.u32 [%rd2], %r2;
    ret;
}
"""  # fmt: skip
WRONG = SLOW.replace("add.s32 %r2, %r1, 1", "add.s32 %r2, %r1, 2")

FAULT = HEAD + """
.visible .entry increment(.param .u64 a) {
    .reg .b64 %rd<3>; .reg .b32 %r<2>;
    mov.u64 %rd1, 4096; st.global.u32 [%rd1], 1; ret;
}
"""  # fmt: skip
FOR_EVER = (
    HEAD
    + """
.visible .entry increment(.param .u64 a) { again: bra again; }
"""
)
BROKEN = HEAD + ".visible .entry increment(.param .u64 a) { no.such.instruction; }\n"

PRINTS = HEAD + """
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 words);
.visible .entry increment(.param .u64 a) {
    .param .b64 format; .param .b64 words; .param .b32 result; .reg .b64 %rd<2>;
    mov.u64 %rd1, 0; st.param.b64 [format], %rd1; st.param.b64 [words], %rd1;
    call.uni (result), vprintf, (format, words); ret;
}
"""  # fmt: skip
