"""Kernels of one thread that change a word or two, and snapshots that launch them."""

from __future__ import annotations

import struct

from replay.snapshot.schema import Census

from .snapshot_factory import SnapshotFactory

BASE = 0x3300_0000_0000
UNREACHABLE = 1 << 47  # no process has this address under four-level page tables

HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"

# *a += 1, for one thread
INCREMENT = (
    HEAD
    + """
.visible .entry increment(.param .u64 a) {
    .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [%rd2]; add.s32 %r2, %r1, 1; st.global.u32 [%rd2], %r2;
    ret;
}
"""
)

# **table += 1: the address comes out of memory
FOLLOW = (
    HEAD
    + """
.global .align 4 .u32 counter;
.visible .entry follow(.param .u64 table) {
    .reg .b32 %r<3>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [table]; cvta.to.global.u64 %rd2, %rd1;
    ld.global.u64 %rd3, [%rd2]; cvta.to.global.u64 %rd4, %rd3;
    ld.global.u32 %r1, [%rd4]; add.s32 %r2, %r1, 1; st.global.u32 [%rd4], %r2;
    ret;
}
"""
)

# *a += 1; *b = *a
PUBLISH = (
    HEAD
    + """
.visible .entry publish(.param .u64 a, .param .u64 b) {
    .reg .b32 %r<3>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd2, %rd1;
    ld.param.u64 %rd3, [b]; cvta.to.global.u64 %rd4, %rd3;
    ld.global.u32 %r1, [%rd2]; add.s32 %r2, %r1, 1; st.global.u32 [%rd2], %r2; st.global.u32 [%rd4], %r2;
    ret;
}
"""
)


def u32(value):
    return struct.pack("<I", value)


def u64(*values):
    return struct.pack(f"<{len(values)}Q", *values)


def launch_in_two_allocations(factory):
    """Launches on BASE, which is freed and allocated again between them."""
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    died = factory.call("cuMemFree_v2", [BASE])
    born = factory.call("cuMemAlloc_v2", [0x7F30, 4], outputs={"dptr": u64(BASE)})
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    factory.range(BASE, u32(5), u32(6), died_call=died.number)
    factory.range(BASE, u32(70), u32(71), born_call=born.number)


def increment(before=5, after=6, address=BASE):
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    range_ = factory.range(address, u32(before), u32(after))
    launch = factory.launch(u64(address), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, range_.id, 0)))
    return factory
