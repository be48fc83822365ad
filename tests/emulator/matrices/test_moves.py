"""ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store: which lane gets which element, and what is refused."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import driver_api
import matrix_reference as reference
import numpy as np
import pytest
from matrix_reference import BITS, Product
from small_kernels import complaint, module, run, words

if TYPE_CHECKING:
    from conftest import Fresh

# Rows of 16 bytes in an order of their own, 48 bytes from one to the next.
ROW_OF_LANE = np.random.default_rng(5).permutation(32)
ROW_BYTES, SHARED_BYTES = 48, 48 * 32


def listed(count: int) -> str:
    return "{" + ", ".join(f"%r{10 + r}" for r in range(count)) + "}"


def moving(instruction: str, count: int, *, stores: bool) -> str:
    """A kernel that copies memory from p0 into shared memory, executes, and writes registers or shared memory to p1.
    The address of lane l's row is %r5; registers %r10.. begin as lane + 100 * register, two halves each."""
    words_each = SHARED_BYTES // 4 // 32
    into = "\n".join(
        f"ld.global.u32 %r1, [%rd2 + {128 * i}]; st.shared.u32 [%r2 + {128 * i}], %r1;"
        for i in range(words_each)
    )
    out = "\n".join(
        f"ld.shared.u32 %r1, [%r2 + {128 * i}]; st.global.u32 [%rd3 + {128 * i}], %r1;"
        for i in range(words_each)
    )
    registers = "\n".join(f"st.global.u32 [%rd3 + {128 * r}], %r{10 + r};" for r in range(count))
    begin = "\n".join(
        f"mad.lo.u32 %r{10 + r}, %t, 2, {1000 * r}; mad.lo.u32 %r{10 + r}, %r{10 + r}, 65537, 65536;"
        for r in range(count)
    )
    return module(
        f"""
        mov.u32 %r3, tile; mad.lo.u32 %r2, %t, 4, %r3;
        mul.wide.u32 %rd1, %t, 4; add.u64 %rd2, %rd0, %rd1; add.u64 %rd3, %rd10, %rd1;
        {into}
        ld.global.u32 %r5, [%rd2 + {SHARED_BYTES}]; add.u32 %r5, %r5, %r3;
        cvt.u64.u32 %rd5, %r5; cvta.shared.u64 %rd5, %rd5;
        {begin}
        bar.sync 0;
        {instruction}
        bar.sync 0;
        {out if stores else registers}
        """.replace("%rd10", "%rd9"),
        shared=f".shared .align 16 .b8 tile[{SHARED_BYTES}];\nld.param.u64 %rd9, [p1];",
    )


def register_contents(count: int) -> np.ndarray:
    """What `moving` puts into the registers: [register, lane, half]."""
    low = 2 * np.arange(32) + 1000 * np.arange(count)[:, None]
    return np.stack([low, low + 1], axis=2).astype(np.uint16)


def execute(cuda: driver_api.Driver, ptx: str, memory: np.ndarray, result_bytes: int) -> np.ndarray:
    into = cuda.alloc(SHARED_BYTES + 128)
    cuda.write(into, memory.tobytes() + (ROW_OF_LANE * ROW_BYTES).astype("u4").tobytes())
    out = cuda.alloc(SHARED_BYTES)
    assert run(cuda, ptx, [into, out]) == 0
    return np.frombuffer(cuda.read(out, result_bytes), "u2")


def rows_of(memory: np.ndarray, matrix: int) -> np.ndarray:
    """The 8 x 8 matrix whose rows the lanes 8 * matrix and on point at."""
    lines = memory.reshape(32, ROW_BYTES // 2)
    return lines[ROW_OF_LANE[8 * matrix : 8 * matrix + 8], :8]


SPACES = {"shared": "%r5", "shared::cta": "%r5", "generic": "%rd5"}


@pytest.mark.parametrize(
    ("count", "transposed", "space"),
    [(c, t, s) for c, t, s in itertools.product((1, 2, 4), (False, True), SPACES) if s == "shared" or c == 4],
)
def test_ldmatrix(cuda: driver_api.Driver, count: int, transposed: bool, space: str) -> None:
    name = ("" if space == "generic" else f".{space}") + ".b16"
    opcode = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}{name}"
    memory = np.random.default_rng(2).integers(0, 1 << 16, SHARED_BYTES // 2, dtype=np.uint16)
    ptx = moving(f"{opcode} {listed(count)}, [{SPACES[space]}];", count, stores=False)
    found = execute(cuda, ptx, memory, 128 * count).reshape(count, 32, 2)
    for matrix, lane, half in itertools.product(range(count), range(32), range(2)):
        outer, inner = lane // 4, lane % 4 * 2 + half
        row, column = (inner, outer) if transposed else (outer, inner)
        assert found[matrix, lane, half] == rows_of(memory, matrix)[row, column], (matrix, lane, half)


@pytest.mark.parametrize(("count", "transposed"), list(itertools.product((1, 2, 4), (False, True))))
def test_stmatrix(cuda: driver_api.Driver, count: int, transposed: bool) -> None:
    opcode = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    memory = np.random.default_rng(3).integers(0, 1 << 16, SHARED_BYTES // 2, dtype=np.uint16)
    ptx = moving(f"{opcode} [%r5], {listed(count)};", count, stores=True)
    found = execute(cuda, ptx, memory, SHARED_BYTES)
    wanted = memory.copy().reshape(32, ROW_BYTES // 2)
    for matrix, lane, half in itertools.product(range(count), range(32), range(2)):
        outer, inner = lane // 4, lane % 4 * 2 + half
        row, column = (inner, outer) if transposed else (outer, inner)
        wanted[ROW_OF_LANE[8 * matrix + row], column] = register_contents(count)[matrix, lane, half]
    np.testing.assert_array_equal(found.reshape(32, ROW_BYTES // 2), wanted)


# ---- matrices of bytes ---------------------------------------------------------------------------------------------


BYTE_LOADS = [
    *((16, matrices, "b8", 8) for matrices in (1, 2)),
    *((16, matrices, "b8x16.b6x16_p32", 6) for matrices in (1, 2)),
    *((16, matrices, "b8x16.b4x16_p64", 4) for matrices in (1, 2)),
    *((8, matrices, "b8x16.b6x16_p32", 6) for matrices in (1, 2, 4)),
    *((8, matrices, "b8x16.b4x16_p64", 4) for matrices in (1, 2, 4)),
]


def bytes_of_row(memory: np.ndarray, lane: int, bits: int) -> list[int]:
    """The 16 elements of the row that a lane points at: side by side, the first in the lowest bits."""
    at = ROW_OF_LANE[lane] * ROW_BYTES
    number = int.from_bytes(memory.tobytes()[at : at + 16], "little")
    return [number >> (bits * e) & ((1 << bits) - 1) for e in range(16)]


@pytest.mark.parametrize(("rows", "matrices", "formats", "bits"), BYTE_LOADS)
def test_ldmatrix_of_bytes(
    cuda: driver_api.Driver, rows: int, matrices: int, formats: str, bits: int
) -> None:
    """Of 8 rows, four lanes share one. 16 rows are turned: four lanes share a column, and the next register has the
    column 8 further on."""
    registers = matrices * rows // 8
    opcode = f"ldmatrix.sync.aligned.m{rows}n16.x{matrices}{'.trans' if rows == 16 else ''}.shared.{formats}"
    memory = np.random.default_rng(8).integers(0, 1 << 16, SHARED_BYTES // 2, dtype=np.uint16)
    ptx = moving(f"{opcode} {listed(registers)}, [%r5];", registers, stores=False)
    found = execute(cuda, ptx, memory, 128 * registers).view("u1").reshape(registers, 32, 4)
    for register, lane, e in itertools.product(range(registers), range(32), range(4)):
        group, place = divmod(lane, 4)
        if rows == 8:
            row, column = 8 * register + group, 4 * place + e
        else:
            row, column = 16 * (register // 2) + 4 * place + e, group + 8 * (register % 2)
        assert found[register, lane, e] == bytes_of_row(memory, row, bits)[column], (register, lane, e)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_of_bytes(cuda: driver_api.Driver, count: int) -> None:
    """Of 16 rows and 8 columns, stored by columns, a lane has two columns of one row and of the 8th row below."""
    opcode = f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8"
    memory = np.random.default_rng(9).integers(0, 1 << 16, SHARED_BYTES // 2, dtype=np.uint16)
    ptx = moving(f"{opcode} [%r5], {listed(count)};", count, stores=True)
    found = execute(cuda, ptx, memory, SHARED_BYTES).view("u1").reshape(32, ROW_BYTES)
    wanted = memory.copy().view("u1").reshape(32, ROW_BYTES)
    elements = register_contents(count).view("u1").reshape(count, 32, 4)
    for matrix, lane, e in itertools.product(range(count), range(32), range(4)):
        row, column = lane // 4 + 8 * (e // 2), lane % 4 * 2 + e % 2
        wanted[ROW_OF_LANE[8 * matrix + column], row] = elements[matrix, lane, e]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r1, %r2}, [%r3];",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r1}, [%r3];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%r1}, [%r3];",
        "stmatrix.sync.aligned.m16n8.x1.shared.b8 [%r3], {%r1};",
    ],
)
def test_moves_that_ptx_does_not_have_are_refused(fresh: Fresh, text: str) -> None:
    assert text.split()[0] in complaint(fresh, module(text, parameters=0), 801)


def test_movmatrix(cuda: driver_api.Driver) -> None:
    ptx = moving("movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r10;", 1, stores=False)
    found = execute(cuda, ptx, np.zeros(SHARED_BYTES // 2, "u2"), 128).reshape(8, 8)
    np.testing.assert_array_equal(found, register_contents(1).reshape(8, 8).T)


def test_lanes_that_come_by_two_ways_load_together(cuda: driver_api.Driver) -> None:
    ptx = moving(
        """
        setp.lt.u32 %p1, %t, 7; @%p1 bra few; add.u32 %r20, %t, 1; bra.uni both;
        few: add.u32 %r20, %t, 2;
        both: ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r5];
        """,
        1,
        stores=False,
    )
    memory = np.arange(SHARED_BYTES // 2, dtype=np.uint16)
    found = execute(cuda, ptx, memory, 128).reshape(8, 8)
    np.testing.assert_array_equal(found, rows_of(memory, 0))


@pytest.mark.parametrize(
    ("body", "block", "status", "said"),
    [
        ("add.u32 %r5, %r5, 8;", 32, 716, "misaligned address: 16 bytes at 0x8 in shared memory"),
        (
            "mov.u32 %r5, 2048;",
            32,
            700,
            "illegal read of 16 bytes at 0x800 in shared memory, where the block has",
        ),
        ("", 20, 715, "ldmatrix by a part of a warp: 12 of its 32 lanes have no thread in this block"),
        ("setp.gt.u32 %p1, %t, 29; @%p1 exit;", 32, 715, "2 of its 32 lanes have exited"),
    ],
    ids=["misaligned", "outside", "small block", "exited lanes"],
)
def test_what_is_wrong_is_named(fresh: Fresh, body: str, block: int, status: int, said: str) -> None:
    ptx = module(
        f"mov.u32 %r5, tile; {body}\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r1}}, [%r5];",
        shared=".shared .align 16 .b8 tile[256];",
        parameters=0,
    )
    told = complaint(fresh, ptx, status, block=block)
    assert said in told
    assert all(name in told for name in ("kernel k", "line ", "block (0,0,0)", "thread ("))


def test_rows_outside_of_shared_memory_are_refused(fresh: Fresh) -> None:
    ptx = module("ldmatrix.sync.aligned.m8n8.x1.b16 {%r1}, [%rd0];", parameters=1)
    assert "not in shared memory" in complaint(fresh, ptx, 700, arguments="d.alloc(4096)")


def test_a_product_needs_all_lanes(fresh: Fresh) -> None:
    ptx = module(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2}, {%f0,%f1,%f2,%f3};",
        parameters=0,
    )
    assert "mma by a part of a warp: 1 of its 32 lanes" in complaint(fresh, ptx, 715, block=63)


EIGHT_WORDS = "{%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}"
EIGHT_SUMS = "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}"
ALIGNED = {
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r20], {%r1};",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;",
    "wmma.load": f"wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {EIGHT_WORDS}, [%r20];",
    "wmma.store": f"wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r20], {EIGHT_SUMS};",
    "mma": "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 "
    f"{EIGHT_SUMS}, {EIGHT_WORDS}, {EIGHT_WORDS}, {EIGHT_SUMS};",
    "wgmma.fence": "wgmma.fence.sync.aligned;",
    "wgmma.commit_group": "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group": "wgmma.wait_group.sync.aligned 0;",
    "tcgen05.wait::ld": "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.wait::st": "tcgen05.wait::st.sync.aligned;",
    "setmaxnreg": "setmaxnreg.dec.sync.aligned.u32 24;",
}


@pytest.mark.parametrize("parting", ["exit", "branch"])
@pytest.mark.parametrize("name", ALIGNED)
@pytest.mark.parametrize("deferred", ["0", "1"])
def test_what_is_aligned_needs_all_lanes(fresh: Fresh, name: str, parting: str, deferred: str) -> None:
    body, half = ALIGNED[name], "mov.u32 %r20, tile; setp.lt.u32 %p1, %t, 16;"
    if parting == "exit":
        body, status, said = f"@%p1 exit; {body}", 715, f"{name} by a part of a warp: 16 of its 32 lanes"
    else:
        body, status = f"@%p1 bra OTHER; {body} bra END; OTHER: {body} END:", 719
        said = "lanes of warp 0 wait for the lanes 0x"
    ptx = module(half + body, shared=".shared .align 128 .b8 tile[1024];", parameters=0)
    told = complaint(fresh, ptx, status, block=128, DEFERRED=deferred)
    assert said in told
    assert "in kernel k, PTX line" in told
    assert "block (0,0,0), thread (" in told


# ---- wmma.load, wmma.store ---------------------------------------------------------------------------------------


FRAGMENTS = [
    *((m, n, 16, operand, kind) for m, n in ((16, 16), (8, 32), (32, 8)) for operand, kind in (
        ("a", "f16"), ("b", "f16"), ("a", "bf16"), ("b", "bf16"), ("a", "s8"), ("b", "u8"),
        ("c", "f16"), ("c", "f32"), ("c", "s32"),
    )),
    *((16, 16, 8, operand, "tf32") for operand in "ab"), (16, 16, 8, "c", "f32"),
    *((8, 8, 4, operand, "f64") for operand in "abc"),
    *((8, 8, 32, operand, "s4") for operand in "ab"), (8, 8, 32, "c", "s32"),
    *((8, 8, 128, operand, "b1") for operand in "ab"),
]  # fmt: skip


def wmma_cases() -> list[tuple[int, int, int, str, str, str, str]]:
    cases = []
    for number, ((m, n, k, operand, kind), layout) in enumerate(itertools.product(FRAGMENTS, ("row", "col"))):
        if BITS[kind] < 8 and layout != ("row" if operand == "a" else "col"):
            continue
        cases.append((m, n, k, operand, kind, layout, ("global", "shared", "generic")[number // 2 % 3]))
    return cases


@pytest.mark.parametrize(("m", "n", "k", "operand", "kind", "layout", "space"), wmma_cases())
def test_wmma_fragments(
    cuda: driver_api.Driver, m: int, n: int, k: int, operand: str, kind: str, layout: str, space: str
) -> None:
    """A load gives each lane the elements that mma would have there; a store of what was loaded writes them back."""
    product = Product("", m, n, k, kind, kind, kind, kind, wmma=True)
    bits = BITS[kind]
    shape = {"a": (m, k), "b": (k, n), "c": (m, n)}[operand]
    inner = shape[1] if layout == "row" else shape[0]
    stride = inner + 128 // bits if bits >= 8 else inner + 128
    matrix = np.random.default_rng(4).integers(0, 1 << min(bits, 32), shape, np.uint64)
    lines = matrix if layout == "row" else matrix.T
    flat = np.zeros((lines.shape[0], stride), np.uint64)
    flat[:, :inner] = lines
    if bits < 8:
        each = 8 // bits
        flat = (flat.reshape(-1, each) << (bits * np.arange(each, dtype=np.uint64))).sum(
            axis=1, dtype=np.uint64
        )
    data = flat.astype(f"u{max(1, bits // 8)}").tobytes()
    data += bytes(-len(data) % 128)

    size = 8 if bits == 64 else 4
    count = reference.register_count(product, operand)
    names = [f"%x{r}" for r in range(count)]
    given = "." + space if space != "generic" else ""
    where = "[%r9]" if space == "shared" else "[%rd0]"
    keep = "\n".join(
        f"st.global.b{8 * size} [%rd3 + {32 * size * r}], {name};" for r, name in enumerate(names)
    )
    copied = "\n".join(
        f"ld.global.u32 %r1, [%rd4 + {i}]; st.shared.u32 [%r3 + {i}], %r1;" for i in range(0, len(data), 128)
    )
    back = ""
    if operand == "c":
        opcode = f"wmma.store.d.sync.aligned.{layout}.m{m}n{n}k{k}.global.{kind}"
        back = f"{opcode} [%rd2], {{{', '.join(names)}}}, {stride};"
    ptx = module(
        f"""
        .reg .b{8 * size} {", ".join(names)};
        mov.u32 %r9, tile; mad.lo.u32 %r3, %t, 4, %r9;
        mul.wide.u32 %rd5, %t, {size}; add.u64 %rd3, %rd1, %rd5; mul.wide.u32 %rd5, %t, 4; add.u64 %rd4, %rd0, %rd5;
        {copied if space == "shared" else ""}
        bar.sync 0;
        mov.u32 %r7, {stride};
        wmma.load.{operand}.sync.aligned.{layout}.m{m}n{n}k{k}{given}.{kind} {{{", ".join(names)}}}, {where}, %r7;
        {keep}
        {back}
        """,
        shared=".shared .align 128 .b8 tile[8192];",
        parameters=3,
    )
    source, registers, stored = cuda.alloc(len(data)), cuda.alloc(1 << 13), cuda.alloc(len(data))
    cuda.write(source, data)
    cuda.write(stored, bytes(len(data)))
    assert run(cuda, ptx, [source, registers, stored]) == 0
    found = np.frombuffer(cuda.read(registers, 32 * size * count), f"u{size}").reshape(count, 32)
    np.testing.assert_array_equal(found, reference.fragment(product, operand, matrix))
    if back:
        assert cuda.read(stored, len(data)) == data


def test_wmma_without_a_stride(cuda: driver_api.Driver) -> None:
    """The rows lie side by side then."""
    ptx = module(
        """
        wmma.load.a.sync.aligned.row.m16n16k8.global.tf32 {%r1, %r2, %r3, %r4}, [%rd0];
        mul.wide.u32 %rd5, %t, 4; add.u64 %rd1, %rd1, %rd5;
        st.global.u32 [%rd1], %r1; st.global.u32 [%rd1 + 128], %r2;
        """
    )
    out = words(cuda, [0] * 64)
    assert run(cuda, ptx, [words(cuda, range(128)), out]) == 0
    group, place = np.divmod(np.arange(32), 4)
    assert cuda.words(out, 64) == [*(8 * group + place), *(8 * (group + 8) + place)]
