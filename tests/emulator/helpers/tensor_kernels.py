"""A kernel that fills tensor memory and shared memory, runs instructions, and gives back all of tensor memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import driver_api
import numpy as np
import pytest
import small_kernels
from numpy.typing import NDArray
from small_kernels import module
from tensor_reference import COLUMNS, LANES, Words

COMPUTE_CAPABILITY_MAJOR = 75
SHARED_BYTES = 1 << 16
MOST_WORDS = 24


def run(
    cuda: driver_api.Driver, ptx: str, values: Sequence[object], *, grid: int = 1, block: int = 32
) -> int:
    """As small_kernels.run. A device wants to hear of its architecture; the CPU driver has every instruction."""
    name, major = ctypes.create_string_buffer(100), ctypes.c_int()
    cuda.do("cuDeviceGetName", name, 100, 0)
    cuda.do("cuDeviceGetAttribute", ctypes.byref(major), COMPUTE_CAPABILITY_MAJOR, 0)
    if major.value == 10:
        ptx = ptx.replace(".target sm_90\n", ".target sm_100a\n")
    elif name.value != b"Emulated CPU device":
        pytest.skip("tcgen05 needs compute capability 10.0")
    return small_kernels.run(cuda, ptx, values, grid=grid, block=block)


def kernel(instructions: str, *, pair: bool = False, shared_bytes: int = SHARED_BYTES) -> str:
    """instructions: run by thread 0 of each block, of a pair by the first alone. p0: shared memory, by block; p1:
    tensor memory, by block and changed in place; p2: 64-bit words, which are in %w0 and on, the first two of them
    descriptors whose address counts from the begin of shared memory."""
    group = 2 if pair else 1
    loads = "\n".join(f"ld.global.u64 %w{i}, [%rd2 + {8 * i}];" for i in range(MOST_WORDS))
    wait = "wait{0}: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r30], {1}; @!%p3 bra wait{0};"
    meet = "barrier.cluster.arrive; barrier.cluster.wait;" if pair else "bar.sync 0;"
    multicast = (
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r30], 3;"
        if pair
        else "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r30];"
    )
    return module(
        f"""
        .reg .b64 %w<{MOST_WORDS}>; .reg .b32 %lane, %at, %value, %base, %m<8>;
        {loads}
        mov.u32 %r30, bar; mov.u32 %r31, place; mov.u32 %r29, tile;
        mul.wide.u32 %rd9, %b, {shared_bytes}; add.u64 %rd10, %rd0, %rd9;
        mul.wide.u32 %rd9, %b, {LANES * COLUMNS * 4}; add.u64 %rd11, %rd1, %rd9;
        mul.wide.u32 %rd9, %t, {COLUMNS * 4}; add.u64 %rd11, %rd11, %rd9;
        setp.eq.u32 %p1, %t, 0; setp.lt.u32 %p2, %t, 32;
        @%p1 mbarrier.init.shared::cta.b64 [%r30], 1;
        @%p2 tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r31], {COLUMNS};
        mov.u32 %r1, %t;
        copy: mul.wide.u32 %rd9, %r1, 4; add.u64 %rd12, %rd10, %rd9; ld.global.u32 %r2, [%rd12];
        mad.lo.u32 %r3, %r1, 4, %r29; st.shared.u32 [%r3], %r2;
        add.u32 %r1, %r1, 128; setp.lt.u32 %p3, %r1, {shared_bytes // 4}; @%p3 bra copy;
        {meet}
        ld.shared.u32 %base, [%r31];
        and.b32 %lane, %t, 96; shl.b32 %lane, %lane, 16; add.u32 %at, %base, %lane;
        mov.u32 %r1, 0; mov.u64 %rd12, %rd11; mov.u32 %r4, %at;
        fill: ld.global.u32 %value, [%rd12]; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {{%value}};
        add.u64 %rd12, %rd12, 4; add.u32 %r4, %r4, 1; add.u32 %r1, %r1, 1;
        setp.lt.u32 %p3, %r1, {COLUMNS}; @%p3 bra fill;
        tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; fence.proxy.async;
        {meet}
        tcgen05.fence::after_thread_sync;
        {"mov.u32 %r1, %cluster_ctarank; or.b32 %r1, %r1, %t;" if pair else "mov.u32 %r1, %t;"}
        setp.ne.u32 %p3, %r1, 0; @%p3 bra issued;
        cvt.u64.u32 %w23, %r29; shr.u64 %w23, %w23, 4; add.u64 %w0, %w0, %w23; add.u64 %w1, %w1, %w23;
        {instructions}
        {multicast}
        issued:
        {wait.format(0, 0)}
        tcgen05.fence::after_thread_sync;
        {meet}
        mov.u32 %r1, 0; mov.u64 %rd12, %rd11; mov.u32 %r4, %at;
        dump: tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%value}}, [%r4]; tcgen05.wait::ld.sync.aligned;
        st.global.u32 [%rd12], %value;
        add.u64 %rd12, %rd12, 4; add.u32 %r4, %r4, 1; add.u32 %r1, %r1, 1;
        setp.lt.u32 %p3, %r1, {COLUMNS}; @%p3 bra dump;
        {meet}
        @%p2 tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %base, {COLUMNS};
        @%p2 tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
        """,
        shared=f".shared .align 1024 .b8 tile[{shared_bytes}]; .shared .align 8 .b64 bar; .shared .b32 place;",
        parameters=3,
        cluster=".reqnctapercluster 2" if pair else "",
    )


def after(
    cuda: driver_api.Driver,
    instructions: str,
    shared: Sequence[bytes],
    tensor: NDArray[np.uint32],
    values: Sequence[int],
) -> Words:
    """Tensor memory of each block, [block, lane, column], after the instructions. shared: of each block."""
    blocks = len(shared)
    data = b"".join(one.ljust(SHARED_BYTES, b"\xa5") for one in shared)
    parameters = [*values, *[0] * (MOST_WORDS - len(values))]
    into, there, list_of = cuda.alloc(len(data)), cuda.alloc(tensor.nbytes), cuda.alloc(8 * MOST_WORDS)
    cuda.write(into, data)
    cuda.write(there, np.ascontiguousarray(tensor, np.uint32).tobytes())
    cuda.write(list_of, np.array(parameters, np.uint64).tobytes())
    ptx = kernel(instructions, pair=blocks == 2)
    assert run(cuda, ptx, [into, there, list_of], grid=blocks, block=128) == 0
    return np.frombuffer(cuda.read(there, tensor.nbytes), np.uint32).reshape(tensor.shape).copy()


def noise(blocks: int = 1, seed: int = 0) -> Words:
    return np.random.default_rng(seed).integers(0, 1 << 32, (blocks, LANES, COLUMNS), dtype=np.uint32)
