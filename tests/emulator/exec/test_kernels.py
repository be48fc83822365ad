"""Whole kernels on the CPU driver: what nvcc makes of kernels/kernels.cu, and PTX written by hand."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import driver_api
import numpy as np
import numpy.typing as npt
import pytest
from places import KERNELS

if TYPE_CHECKING:
    from conftest import Fresh

PTX = (KERNELS / "kernels.ptx").read_text()
Array = npt.NDArray[np.generic]


class Kernels:
    """The module under test: arrays go in by name of the kernel, arrays come out."""

    def __init__(self, cuda: driver_api.Driver, ptx: str = PTX) -> None:
        self.cuda = cuda
        self.module = cuda.module(ptx)

    def put(self, values: Array) -> int:
        address = self.cuda.alloc(max(values.nbytes, 4))
        self.cuda.write(address, np.ascontiguousarray(values).tobytes())
        return address

    def get(self, address: int, kind: str, count: int) -> Array:
        return np.frombuffer(self.cuda.read(address, np.dtype(kind).itemsize * count), kind)

    def error(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        *values: object,
        shared: int = 0,
        cooperative: bool = False,
    ) -> int:
        launch = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
        function = self.cuda.function(self.module, name)
        error = self.cuda.launch(function, grid, block, values, shared_bytes=shared, name=launch)
        return error or self.cuda.cuCtxSynchronize()  # type: ignore[operator, no-any-return]

    def run(self, *arguments: object, **more: object) -> None:
        assert self.error(*arguments, **more) == 0  # type: ignore[arg-type]


@pytest.fixture
def kernels(cuda: driver_api.Driver) -> Kernels:
    return Kernels(cuda)


def number(value: int) -> ctypes.c_int32:
    return ctypes.c_int32(value)


def test_a_reduction_with_shuffles_adds_everything(kernels: Kernels) -> None:
    values = np.random.default_rng(1).integers(-100, 100, 50001, dtype="i4")
    total = kernels.put(np.zeros(1, "i4"))
    kernels.run("reduce", [7], [256], kernels.put(values), total, number(len(values)))
    assert kernels.get(total, "i4", 1)[0] == values.sum()


def test_a_tiled_product_of_matrices(kernels: Kernels) -> None:
    n = 96
    a, b = np.random.default_rng(2).random((2, n, n), dtype="f4")
    c = kernels.cuda.alloc(4 * n * n)
    kernels.run("matmul", [n // 16, n // 16], [16, 16], kernels.put(a), kernels.put(b), c, number(n))
    assert np.allclose(kernels.get(c, "f4", n * n).reshape(n, n), a @ b, rtol=1e-5)


def test_a_scan_in_dynamic_shared_memory(kernels: Kernels) -> None:
    values = np.random.default_rng(3).integers(0, 9, 512, dtype="i4")
    address = kernels.put(values)
    kernels.run("scan", [1], [512], address, shared=4 * 512)
    assert (kernels.get(address, "i4", 512) == values.cumsum()).all()


def test_a_histogram_with_atomics_in_shared_and_global_memory(kernels: Kernels) -> None:
    data = np.random.default_rng(4).integers(0, 256, 20000, dtype="u1")
    bins = kernels.put(np.zeros(256, "i4"))
    kernels.run("histogram", [4], [256], kernels.put(data), bins, number(len(data)))
    assert (kernels.get(bins, "i4", 256) == np.bincount(data, minlength=256)).all()


def test_a_spin_lock_lets_every_lane_in(kernels: Kernels) -> None:
    counter = kernels.put(np.zeros(1, "i4"))
    kernels.run("spin_lock", [3], [96], counter)
    assert kernels.get(counter, "i4", 1)[0] == 288


def test_blocks_wait_for_a_later_block(kernels: Kernels) -> None:
    flag, out = kernels.put(np.zeros(1, "i4")), kernels.put(np.zeros(256, "i4"))
    kernels.run("wait_for_flag", [4], [64], flag, out)
    expected = np.full(256, 42)
    expected[192] = 0
    assert (kernels.get(out, "i4", 256) == expected).all()


def test_lanes_leave_a_loop_one_by_one(kernels: Kernels) -> None:
    def steps(x: int) -> int:
        count = 0
        while x > 1:
            x, count = (3 * x + 1 if x % 2 else x // 2), count + 1
        return count

    out = kernels.cuda.alloc(4000)
    kernels.run("collatz", [8], [128], out, number(1000))
    assert (kernels.get(out, "i4", 1000) == [steps(x) for x in range(1000)]).all()


def test_a_switch_takes_every_case(kernels: Kernels) -> None:
    which = np.random.default_rng(5).integers(0, 9, 1000, dtype="i4")
    out = kernels.cuda.alloc(4000)
    kernels.run("choose", [8], [128], kernels.put(which), out, number(1000))
    i = np.arange(1000)
    cases = [i * 3, i ^ 77, i // 3, -i, i << 3, i * i, i % 5, 0 * i - 1, 0 * i - 1]
    assert (kernels.get(out, "i4", 1000) == np.choose(which, cases)).all()


def mixed(pointer: int) -> ctypes.Array[ctypes.c_char]:
    raw = struct.pack("<i4xQd5sxh", 3, pointer, 2.5, bytes([1, 2, 3, 4, 5]), -7).ljust(32, b"\0")
    return (ctypes.c_char * 32).from_buffer_copy(raw)


def test_a_struct_goes_by_value(kernels: Kernels) -> None:
    out, i = kernels.cuda.alloc(400), np.arange(100)
    kernels.run("by_value", [1], [100], mixed(out), number(100))
    assert (kernels.get(out, "f4", 100) == 3 * i + 2.5 + np.array([1, 2, 3, 4, 5])[i % 5] - 7).all()


def test_a_function_takes_and_returns_a_struct(kernels: Kernels) -> None:
    out = kernels.cuda.alloc(800)
    kernels.run("struct_functions", [1], [100], out, mixed(0))
    assert (kernels.get(out, "f8", 100) == [3 + i + 2.5 + i for i in range(100)]).all()


def test_a_function_calls_itself_to_a_different_depth_in_each_lane(kernels: Kernels) -> None:
    out, fibonacci = kernels.cuda.alloc(256), [0, 1]
    while len(fibonacci) < 12:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    kernels.run("recursion", [1], [64], out)
    assert (kernels.get(out, "i4", 64) == [fibonacci[i % 12] for i in range(64)]).all()


def test_lanes_call_different_functions_through_pointers(kernels: Kernels) -> None:
    out = kernels.cuda.alloc(256)
    kernels.run("function_pointers", [1], [64], out)
    assert (kernels.get(out, "i4", 64) == [[i + 1, i * i, -i][i % 3] + 1000 for i in range(64)]).all()


def test_variables_have_their_initial_values_and_addresses(kernels: Kernels) -> None:
    out = kernels.cuda.alloc(256)
    kernels.run("globals", [1], [64], out)
    assert (
        kernels.get(out, "i4", 64) == [[1, 2, 3, 4][i % 4] * [7, 8, 9][i % 3] + 8 for i in range(64)]
    ).all()


def test_double_precision_functions_of_the_device_library(kernels: Kernels) -> None:
    x = np.concatenate([np.random.default_rng(6).normal(0, 10, 300), [1e5, -1e7, 0.1, 700, -700]])
    out = kernels.cuda.alloc(32 * len(x))
    kernels.run("double_math", [4], [128], kernels.put(x), out, number(len(x)))
    with np.errstate(over="ignore"):
        expected = np.stack([np.sin(x), np.exp(x), np.log(abs(x)), abs(x) ** 1.5 + x / 3.7], 1)
    assert np.allclose(kernels.get(out, "f8", 4 * len(x)).reshape(-1, 4), expected, rtol=1e-14, atol=1e-15)


def test_votes_shuffles_and_matches_across_a_warp(kernels: Kernels) -> None:
    out, t = kernels.cuda.alloc(4 * 224), np.arange(32)
    kernels.run("lanes", [1], [32], out)
    got = kernels.get(out, "u4", 224).reshape(7, 32)
    assert (got[0] == sum(1 << i for i in range(0, 32, 3))).all()
    assert (got[1] == 3).all()
    assert (got[2] == t ^ 5).all()
    assert (got[3] == 2 * (t | 7)).all()
    assert (got[4] == np.where(t >= 3, t - 3, t)).all()
    assert (got[5] == [sum(1 << j for j in range(32) if j // 5 == i // 5) for i in t]).all()
    assert (got[6] == [0xFFFF if i < 16 else min(i + 1, 31) for i in t]).all()


def test_barriers_count_and_combine(kernels: Kernels) -> None:
    out = kernels.cuda.alloc(320)
    kernels.run("block_counts", [1], [80], out)
    assert (kernels.get(out, "i4", 80) == 27 * 4 + 2 + 1).all()


def test_arrays_of_a_thread_are_its_own(kernels: Kernels) -> None:
    out = kernels.cuda.alloc(256)
    kernels.run("local_array", [1], [64], out, number(7))
    expected = [sum((((i * 7 + t) % 20) * 7 + t) * (i + 1) for i in range(20)) for t in range(64)]
    assert (kernels.get(out, "i4", 64) == expected).all()


def test_a_cooperative_grid_meets(kernels: Kernels) -> None:
    n = 512
    a, b = kernels.cuda.alloc(4 * n), kernels.cuda.alloc(4 * n)
    kernels.run("grid_sync", [4], [128], a, b, number(n), cooperative=True)
    assert (kernels.get(a, "i4", n) == [n - 1 - (i + 1) % n for i in range(n)]).all()


SCRIPT = """
import ctypes
from pathlib import Path
m = d.module(Path({path!r}).read_text())
"""


def script(body: str) -> str:
    return SCRIPT.format(path=str(KERNELS / "kernels.ptx")) + body


def test_printf_writes_what_the_format_says(fresh: Fresh) -> None:
    done = fresh(
        script(
            """
            assert d.launch(d.function(m, "say"), [2], [32], [ctypes.c_int32(2)]) == 0
            assert d.cuCtxSynchronize() == 0
        """.replace("\n            ", "\n")
        )
    )
    lines = [f"{i} of block  {b}.50 {i << 40} %" for b in range(2) for i in range(2)]
    assert done.stdout.splitlines()[:4] == lines


def test_an_illegal_write_is_reported_with_its_source_line(fresh: Fresh) -> None:
    done = fresh(
        script(
            """
            a = d.alloc(4000)
            error = d.launch(d.function(m, "write_far"), [1], [32], [a, ctypes.c_int32(1000000)])
            assert (error or d.cuCtxSynchronize()) == 700
        """.replace("\n            ", "\n")
        )
    )
    line = next(k for k, text in enumerate(KERNEL_SOURCE, 1) if "KERNEL write_far" in text)
    for part in ("illegal write of 4 bytes", "kernel write_far", f"kernels.cu:{line}", "thread (1,0,0)"):
        assert part in done.stderr, done.stderr


KERNEL_SOURCE = (KERNELS / "kernels.cu").read_text().splitlines()


def test_a_misaligned_read_is_reported(fresh: Fresh) -> None:
    done = fresh(
        script(
            """
            a = d.alloc(64)
            error = d.launch(d.function(m, "read_double"), [1], [1], [a, a])
            assert (error or d.cuCtxSynchronize()) == 716
        """.replace("\n            ", "\n")
        )
    )
    assert "misaligned" in done.stderr


def hand_written(body: str, parameters: str = ".param .u64 out") -> str:
    return driver_api.HEADER + f".visible .entry k({parameters})\n{{\n{body}\n}}\n"


def test_brx_idx_sends_each_lane_to_its_own_target(cuda: driver_api.Driver) -> None:
    kernels = Kernels(
        cuda,
        hand_written("""
        .reg .b32 %r<4>; .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; rem.u32 %r2, %r1, 3;
        targets: .branchtargets first, second, third;
        brx.idx %r2, targets;
        first: mov.u32 %r3, 100; bra.uni end;
        second: add.u32 %r3, %r1, 200; bra.uni end;
        third: mul.lo.u32 %r3, %r1, %r1;
        end: mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3; ret;"""),
    )
    out = cuda.alloc(128)
    kernels.run("k", [1], [32], out)
    assert (kernels.get(out, "u4", 32) == [[100, i + 200, i * i][i % 3] for i in range(32)]).all()


def test_scopes_hide_registers_and_labels_of_their_outside(cuda: driver_api.Driver) -> None:
    kernels = Kernels(
        cuda,
        hand_written("""
        .reg .b32 %r<4>; .reg .b64 %rd1; .reg .pred p;
        ld.param.u64 %rd1, [out]; mov.u32 %r1, 5;
        { .reg .b32 %r1; mov.u32 %r1, 7; setp.eq.u32 p, %r1, 7; @p bra L; mov.u32 %r1, 0; L: mov.u32 %r2, %r1; }
        { .reg .b32 t; add.u32 t, %r1, 1; setp.eq.u32 p, t, 0; @p bra L; mov.u32 %r3, t; L: }
        st.global.v2.u32 [%rd1], {%r1, %r2}; st.global.u32 [%rd1+8], %r3; ret;"""),
    )
    out = cuda.alloc(12)
    kernels.run("k", [1], [1], out)
    assert kernels.get(out, "u4", 3).tolist() == [5, 7, 6]


def test_guards_keep_what_the_other_lanes_had(cuda: driver_api.Driver) -> None:
    kernels = Kernels(
        cuda,
        hand_written("""
        .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .pred %p<3>; .reg .b16 %h1;
        ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;
        mov.u32 %r3, 1000;
        @%p1 add.u32 %r3, %r3, %r1;
        @!%p1 mul.lo.u32 %r3, %r1, 3;
        @%p1 cvt.u16.u32 %h1, %r1;
        @!%p1 mov.u16 %h1, 9;
        cvt.u32.u16 %r4, %h1; add.u32 %r3, %r3, %r4;
        mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3; ret;"""),
    )
    out = cuda.alloc(160)
    kernels.run("k", [1], [40], out)
    assert (
        kernels.get(out, "u4", 40) == [1000 + 2 * i if i % 2 == 0 else 3 * i + 9 for i in range(40)]
    ).all()


def test_carries_run_through_a_chain(cuda: driver_api.Driver) -> None:
    kernels = Kernels(
        cuda,
        hand_written(
            """
        .reg .b32 %r<16>; .reg .b64 %rd<8>;
        ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 24;
        add.u64 %rd4, %rd2, %rd3; add.u64 %rd5, %rd1, %rd3;
        ld.global.v2.u32 {%r2, %r3}, [%rd4]; ld.global.u32 %r4, [%rd4+8];
        ld.global.u32 %r5, [%rd4+12]; ld.global.v2.u32 {%r6, %r7}, [%rd4+16];
        add.cc.u32 %r8, %r2, %r5; addc.cc.u32 %r9, %r3, %r6; addc.u32 %r10, %r4, %r7;
        st.global.u32 [%rd5], %r8; st.global.u32 [%rd5+4], %r9; st.global.u32 [%rd5+8], %r10;
        sub.cc.u32 %r8, %r2, %r5; subc.cc.u32 %r9, %r3, %r6; subc.u32 %r10, %r4, %r7;
        st.global.u32 [%rd5+12], %r8; st.global.u32 [%rd5+16], %r9; st.global.u32 [%rd5+20], %r10; ret;""",
            ".param .u64 out, .param .u64 in",
        ),
    )
    generator = random.Random(7)
    words = [generator.choice([0, 1, 0xFFFFFFFF, generator.getrandbits(32)]) for _ in range(6 * 64)]
    out = cuda.alloc(4 * len(words))
    kernels.run("k", [1], [64], out, kernels.put(np.array(words, "u4")))
    got = kernels.get(out, "u4", len(words)).tolist()
    whole = lambda w: w[0] | w[1] << 32 | w[2] << 64  # noqa: E731
    for row in range(64):
        a, b = whole(words[6 * row : 6 * row + 3]), whole(words[6 * row + 3 : 6 * row + 6])
        assert whole(got[6 * row : 6 * row + 3]) == (a + b) % (1 << 96)
        assert whole(got[6 * row + 3 : 6 * row + 6]) == (a - b) % (1 << 96)


ATOMICS = {
    "add.u32": lambda old, v: (old + v) % 2**32,
    "min.s32": lambda old, v: old if s32(old) < s32(v) else v,
    "max.u32": max,
    "and.b32": lambda old, v: old & v,
    "or.b32": lambda old, v: old | v,
    "xor.b32": lambda old, v: old ^ v,
    "exch.b32": lambda old, v: v,
    "inc.u32": lambda old, v: 0 if old >= v else old + 1,
    "dec.u32": lambda old, v: v if old == 0 or old > v else old - 1,
    "cas.b32": lambda old, v: 77 if old == v else old,
    "add.f32": lambda old, v: exact_sum(old, v),
}


def s32(bits: int) -> int:
    return bits - 2**32 if bits >> 31 else bits


def exact_sum(a: int, b: int) -> int:
    total = np.array([a, b], "u4").view("f4")
    return int(np.float32(total[0] + total[1]).view("u4"))


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("form", ATOMICS)
def test_lanes_take_turns_at_an_atomic(cuda: driver_api.Driver, form: str, space: str) -> None:
    place = {"global": "[%rd2]", "shared": "[s]", "generic": "[%rd2]"}[space]
    dot = "" if space == "generic" else f".{space}"
    third = ", 77" if form.startswith("cas") else ""
    kernels = Kernels(
        cuda,
        hand_written(
            f"""
        .shared .align 4 .u32 s; .reg .b32 %r<6>; .reg .b64 %rd<8>;
        ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [cell]; ld.param.u64 %rd3, [in];
        mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4; add.u64 %rd5, %rd3, %rd4; add.u64 %rd6, %rd1, %rd4;
        ld.global.u32 %r2, [%rd2]; st.shared.u32 [s], %r2; ld.global.u32 %r3, [%rd5];
        atom{dot}.{form} %r4, {place}, %r3{third};
        st.global.u32 [%rd6], %r4; ret;""",
            ".param .u64 out, .param .u64 cell, .param .u64 in",
        ),
    )
    generator = random.Random(9)
    is_float = form.endswith("f32")
    values = [
        int(np.float32(generator.random()).view("u4"))
        if is_float
        else generator.choice([5, 77, generator.getrandbits(32)])
        for _ in range(32)
    ]
    start = 0x40000000 if is_float else 5
    out, cell = cuda.alloc(128), kernels.put(np.array([start], "u4"))
    kernels.run("k", [1], [32], out, cell, kernels.put(np.array(values, "u4")))
    expected, old = [], start
    for value in values:
        expected.append(old)
        old = ATOMICS[form](old, value)
    assert kernels.get(out, "u4", 32).tolist() == expected
    if space != "shared":
        assert kernels.get(cell, "u4", 1)[0] == old


def test_a_barrier_that_some_threads_never_reach_is_a_reported_deadlock(fresh: Fresh) -> None:
    body = """
        .reg .b32 %r1; .reg .pred %p1; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;
        @%p1 bra A; bar.sync 1; bra.uni B; A: bar.sync 2; B: ret;"""
    done = fresh(
        f"m = d.module({hand_written(body)!r})\n"
        'error = d.launch(d.function(m, "k"), [1], [64], [0])\n'
        "assert (error or d.cuCtxSynchronize()) != 0\n"
    )
    for part in ("deadlock", "barrier 2", "32 of 64"):
        assert part in done.stderr, done.stderr


def test_an_unknown_instruction_fails_only_its_own_kernel(cuda: driver_api.Driver) -> None:
    text = hand_written(".reg .f32 %f1; tex.1d.v4.f32.s32 {%f1, %f1, %f1, %f1}, [t, {%f1}]; ret;")
    other = hand_written(".reg .b64 %rd1; ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], 6; ret;")
    other = other.replace("entry k(", "entry other(").removeprefix(driver_api.HEADER)
    kernels = Kernels(cuda, text + other)
    out = cuda.alloc(4)
    assert kernels.error("k", [1], [1], out) == driver_api.NOT_SUPPORTED
    kernels.run("other", [1], [1], out)
    assert kernels.get(out, "u4", 1)[0] == 6
