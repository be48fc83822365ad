"""wgmma against products in Python: every layout that a descriptor may name, A from registers too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import driver_api
import matrix_reference as reference
import numpy as np
import pytest
import sparse_reference as sparse
from matrix_reference import BITS, Codes, Product
from small_kernels import complaint, module, run

if TYPE_CHECKING:
    from conftest import Fresh

MODES = {16: 0, 128: 1, 64: 2, 32: 3}  # bytes that a swizzle covers, to what the descriptor says
A_BYTES, B_BYTES = 8192, 32768
SECOND_WARPGROUP = "setp.lt.u32 %p3, %t, 128; @%p3 exit; sub.u32 %t, %t, 128;"


@dataclass(frozen=True)
class Operand:
    """How a matrix lies in shared memory: bytes of the swizzle, 16 for none; whether columns of K lie side by side."""

    swizzle: int = 128
    by_k: bool = True
    row: int = 0  # of 128 bytes, at which the pattern of the swizzle begins: a base offset

    def strides(self, rows: int, bits: int) -> tuple[int, int]:
        """Leading and stride offset in bytes, with room between parts, so that the two cannot be mixed up."""
        if self.by_k:
            return (
                ((128 + 16) * (rows // 8) + 128, 128 + 16) if self.swizzle == 16 else (16, 8 * self.swizzle)
            )
        if self.swizzle == 16:
            return 128 * (rows // 8) + 256, 128
        return 32 * self.swizzle, 8 * self.swizzle

    def place(self, row: int, k: int, rows: int, bits: int) -> int:
        """The byte at which an element begins. PTX ISA's canonical layouts, in units of T = 128 / bits elements:
        by K ((8,m),(T,2)):((wT,stride),(1,T)), else ((T,w,m),(8,k)):((1,T,leading),(wT,stride)), w of 16 bytes each in
        a swizzle; without one the distances of chunks are the two offsets."""
        leading, stride = self.strides(rows, bits)
        unit, wide = 128 // bits, self.swizzle // 16
        if self.by_k:
            chunk = leading if wide == 1 else 16
            at = row % 8 * 16 * wide + row // 8 * stride + k % unit * bits // 8 + k // unit * chunk
        else:
            across, along = (stride, leading) if wide == 1 else (leading, stride)
            at = row % unit * bits // 8 + row // unit % wide * 16 + row // (unit * wide) * across
            at += k % 8 * 16 * wide + k // 8 * along
        return at ^ ((at >> 7) - self.row & 7 & (wide - 1)) << 4

    def descriptor(self, start: int, rows: int, bits: int) -> int:
        leading, stride = self.strides(rows, bits)
        return (
            start >> 4
            | (leading >> 4) << 16
            | (stride >> 4) << 32
            | self.row << 49
            | MODES[self.swizzle] << 62
        )

    def image(self, matrix: Codes, kind: str, size: int) -> bytes:
        """matrix[row, k] where it lies; what lies between is no element's code in use."""
        width = BITS[kind] // 8
        memory = np.full(size, 0x5A, np.uint8)
        for row, k in np.ndindex(matrix.shape):
            at = self.place(row, k, matrix.shape[0], BITS[kind])
            assert at + width <= size
            memory[at : at + width] = np.frombuffer(int(matrix[row, k]).to_bytes(width, "little"), np.uint8)
        return memory.tobytes()


def kernel(opcode: str, d: int, a: int, flags: Sequence[int], selector: int | None = None) -> str:
    """p0: memory for all of shared memory, then C, A and metadata by thread; p1: D; p2, p3: descriptors; p4: whether
    C counts."""
    ds, as_ = ([f"%{name}{r}" for r in range(count)] for name, count in (("d", d), ("a", a)))
    begin = A_BYTES + B_BYTES
    lines = [f".reg .b32 {', '.join(ds)}, %a<4>;", "cvt.u32.u64 %r5, %rd4; setp.ne.u32 %p1, %r5, 0;"]
    lines += [f"ld.global.b32 {name}, [%rd10 + {begin + 512 * r}];" for r, name in enumerate(ds)]
    lines += [f"ld.global.b32 {name}, [%rd10 + {begin + 512 * (d + r)}];" for r, name in enumerate(as_)]
    metadata = ""
    if selector is not None:
        lines.append(f"ld.global.b32 %r6, [%rd10 + {begin + 512 * (d + a)}];")
        metadata = f"%r6, {selector}, "
    first = "{" + ", ".join(as_) + "}" if a else "%rd2"
    last = "".join(f", {flag}" for flag in flags)
    return module(
        f"""
        mul.wide.u32 %rd9, %t, 4; add.u64 %rd10, %rd0, %rd9; add.u64 %rd11, %rd1, %rd9;
        mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 4, %r1; mov.u64 %rd12, %rd10; mov.u32 %r2, 0;
        copy: ld.global.u32 %r3, [%rd12]; st.shared.u32 [%r1], %r3;
        add.u64 %rd12, %rd12, 512; add.u32 %r1, %r1, 512; add.u32 %r2, %r2, 512;
        setp.lt.u32 %p2, %r2, {begin}; @%p2 bra copy;
        {chr(10).join(lines)}
        fence.proxy.async; bar.sync 0;
        wgmma.fence.sync.aligned;
        {opcode} {{{", ".join(ds)}}}, {first}, %rd3, {metadata}%p1{last};
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
        {chr(10).join(f"st.global.b32 [%rd11 + {512 * r}], {name};" for r, name in enumerate(ds))}
        """,
        shared=f".shared .align 1024 .b8 tile[{begin}];",
        parameters=5,
    )


def codes(kind: str, shape: tuple[int, int], random: np.random.Generator) -> Codes:
    """Finite numbers of no special size."""
    if kind == "b1":
        return random.integers(0, 2, shape).astype(np.uint64)
    if kind[0] in "su":
        return random.integers(0, 256, shape).astype(np.uint64)
    numbers = random.normal(size=shape).astype(np.float32)
    if kind in ("e4m3", "e5m2"):
        return (random.integers(0, 0x7B, shape) | random.integers(0, 2, shape) << 7).astype(np.uint64)
    if kind == "f16":
        return numbers.astype(np.float16).view(np.uint16).astype(np.uint64)
    return numbers.view(np.uint32).astype(np.uint64) >> np.uint64(16 if kind == "bf16" else 0)


@dataclass(frozen=True)
class Case:
    n: int
    d: str
    a: str
    b: str
    left: Operand | None  # None: in registers
    right: Operand
    signs: tuple[int, int] = (1, 1)
    adds: bool = True
    saturate: str = ""
    selector: int | None = None  # of a sparse A

    def __str__(self) -> str:
        sparse = "" if self.selector is None else f"-sparse{self.selector}"
        return (
            f"{self.n}-{self.d}-{self.a}-{self.b}-{self.left}-{self.right}-{self.signs}-{self.adds}"
            f"{self.saturate}{sparse}"
        )


HALF = ("f32", "f16", "f16")
CASES = [
    *(
        Case(64, *HALF, left, right)
        for left, right in zip(
            (Operand(s, k) for s, k in itertools.product(MODES, (True, False))),
            (Operand(s, k) for s, k in itertools.product((32, 64, 16, 128), (False, True))),
            strict=True,
        )
    ),
    *(Case(32, *HALF, Operand(128, row=row), Operand(64, False, row=8 - row)) for row in range(1, 8)),
    Case(32, *HALF, Operand(128, False, row=3), Operand(32, row=1)),
    Case(8, *HALF, None, Operand(32)),
    Case(24, *HALF, None, Operand(16, False), signs=(-1, 1)),
    Case(256, "f16", "f16", "f16", Operand(128), Operand(128, False), signs=(-1, -1)),
    Case(128, "f32", "bf16", "bf16", Operand(64, False), Operand(64), adds=False),
    Case(16, "f16", "f16", "f16", None, Operand(64), adds=False),
    Case(48, "f32", "tf32", "tf32", Operand(128), Operand(64)),
    Case(32, "f32", "tf32", "tf32", None, Operand(16), signs=(1, -1)),
    Case(96, "f32", "e4m3", "e5m2", Operand(32), Operand(128)),
    Case(40, "f16", "e5m2", "e5m2", None, Operand(128)),
    Case(64, "s32", "s8", "u8", Operand(128), Operand(64)),
    Case(32, "s32", "u8", "u8", None, Operand(128), adds=False, saturate=".satfinite"),
    Case(64, "s32", "b1", "b1", Operand(128), Operand(32)),
    Case(248, "s32", "b1", "b1", None, Operand(64), adds=False),
    *(
        Case(n, *kinds, left, right, selector=selector)
        for n, kinds, left, right, selector in (
            (64, HALF, Operand(128), Operand(128), 0),
            (256, HALF, None, Operand(16), 1),
            (40, ("f16", "f16", "f16"), Operand(32, False), Operand(64, False), 1),
            (16, ("f32", "bf16", "bf16"), Operand(64), Operand(64), 0),
            (24, ("f32", "tf32", "tf32"), None, Operand(128), 1),
            (256, ("f32", "e5m2", "e4m3"), Operand(16), Operand(64), 0),
            (8, ("s32", "s8", "u8"), None, Operand(16), 0),
        )
    ),
]


def words_of(bits: Codes) -> Codes:
    """Rows of bits as words of 32, the first bit lowest."""
    shape = (*bits.shape[:-1], -1, 32)
    return (bits.reshape(shape) << np.arange(32, dtype=np.uint64)).sum(axis=-1, dtype=np.uint64)


def image(operand: Operand, matrix: Codes, kind: str, size: int) -> bytes:
    return (
        operand.image(words_of(matrix), "tf32", size) if kind == "b1" else operand.image(matrix, kind, size)
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_warpgroup_multiplies_what_descriptors_name(cuda: driver_api.Driver, case: Case) -> None:
    random = np.random.default_rng(case.n)
    is_sparse, one_bit = case.selector is not None, case.a == "b1"
    held = 256 // BITS[case.a]
    k = 2 * held if is_sparse else held
    c_kind = case.d
    a, b = codes(case.a, (64, held), random), codes(case.b, (k, case.n), random)
    c = codes(c_kind, (64, case.n), random)
    types = (case.a, case.b, case.d, c_kind)
    more = {"saturate": bool(case.saturate), "sparse": is_sparse, "bit_and": one_bit}
    of_warp = Product("", 16, case.n, held, *types, **more)  # type: ignore[arg-type]
    bands = [slice(16 * warp, 16 * warp + 16) for warp in range(4)]
    by_thread = [np.hstack([reference.fragment(of_warp, "c", c[band]) for band in bands]).astype("u4")]
    in_registers = 4 if case.left is None else 0
    if case.left is None:
        by_thread.append(
            np.hstack([reference.fragment(of_warp, "a", a[band]) for band in bands]).astype("u4")
        )
    registers = len(by_thread[0])
    columns = [np.tile(np.arange(held), (16, 1))] * 4
    if case.selector is not None:
        metadata = [sparse.draw_metadata(of_warp, False, random) for _ in bands]
        columns = [sparse.columns(of_warp, one) for one in metadata]
        rows = [sparse.metadata_words(of_warp, one, case.selector, random) for one in metadata]
        by_thread.append(np.hstack(rows).astype("u4"))
    data = image(case.left, a, case.a, A_BYTES) if case.left else bytes(A_BYTES)
    data += image(case.right, b.T, case.b, B_BYTES) + b"".join(one.tobytes() for one in by_thread)

    flags = list(case.signs) if case.d != "s32" else []
    if BITS[case.a] == 16:
        flags += [] if case.left is None else [int(not case.left.by_k)]
        flags += [int(not case.right.by_k)]
    opcode = f"wgmma.mma_async{'.sp' if is_sparse else ''}.sync.aligned.m64n{case.n}k{k}.{case.d}.{case.a}.{case.b}"
    opcode += ".and.popc" if one_bit else case.saturate
    into, out = cuda.alloc(len(data)), cuda.alloc(512 * registers)
    cuda.write(into, data)
    bits = 32 if one_bit else BITS[case.a]
    words = [
        into,
        out,
        case.left.descriptor(0, 64, bits) if case.left else 0,
        case.right.descriptor(A_BYTES, case.n, bits),
        int(case.adds),
    ]
    text = kernel(opcode, registers, in_registers, flags, case.selector)
    assert run(cuda, text, words, block=128) == 0
    first_warpgroup = cuda.read(out, 512 * registers)
    found = np.frombuffer(first_warpgroup, "u4").reshape(registers, 128).astype(np.uint64)
    cuda.write(out, bytes(512 * registers))
    begin = text.replace("mov.u32 %t, %tid.x;", f"mov.u32 %t, %tid.x; {SECOND_WARPGROUP}", 1)
    assert run(cuda, begin, words, block=256) == 0
    assert cuda.read(out, 512 * registers) == first_warpgroup
    d = np.vstack(
        [reference.matrix_of(of_warp, "d", found[:, 32 * warp : 32 * warp + 32]) for warp in range(4)]
    )

    if case.signs[0] != case.signs[1]:
        a = a ^ np.uint64(1 << BITS[case.a] - 1)
    before = c if case.adds else np.zeros_like(c)
    wanted = [
        sparse.expected(of_warp, sparse.Extras(), a[band], b, before[band], held_columns, None)
        if is_sparse
        else reference.expected(of_warp, a[band], b, before[band])
        for band, held_columns in zip(bands, columns, strict=True)
    ]
    np.testing.assert_array_equal(d, np.vstack(wanted))


@pytest.mark.parametrize(
    ("descriptor", "block", "status", "said"),
    [
        (0x3FFF, 128, 700, "a matrix descriptor that reaches 262144 bytes into shared memory"),
        (0, 96, 715, "wgmma by fewer than the four warps of a warpgroup"),
    ],
)
def test_what_is_wrong_is_named(fresh: Fresh, descriptor: int, block: int, status: int, said: str) -> None:
    ptx = module(
        f"""
        mov.u64 %rd2, {descriptor}; setp.eq.u32 %p1, %t, %t;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, %rd2, %p1,
            1, 1, 0;
        """,
        shared=".shared .align 1024 .b8 tile[1024];",
        parameters=0,
    )
    told = complaint(fresh, ptx, status, block=block)
    assert said in told
    assert "in kernel k, PTX line" in told
