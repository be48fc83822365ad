"""What the CPU driver counts in a launch, and what its modelled time makes of it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from driver_api import HEADER, VECTOR_ADD

if TYPE_CHECKING:
    from conftest import Fresh

# Each thread reads x[i * stride], reads and writes shared memory at 4 * tid * pitch ten times, goes round one of two
# equal loops (lanes below `split` the one, others the other), and writes x[i * stride]. Blocks from `last` on leave.
KERNEL = (
    HEADER
    + """
.visible .entry probe(.param .u64 x, .param .u32 stride, .param .u32 pitch, .param .u32 split, .param .u32 last)
{
  .reg .pred %p<4>; .reg .b32 %r<24>; .reg .b64 %rd<8>; .shared .align 16 .b8 room[16384];
  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [stride]; ld.param.u32 %r2, [pitch];
  ld.param.u32 %r3, [split]; ld.param.u32 %r4, [last];
  mov.u32 %r5, %ctaid.x; setp.ge.u32 %p1, %r5, %r4;
  @%p1 bra done;
  mov.u32 %r6, %ntid.x; mov.u32 %r7, %tid.x; mad.lo.u32 %r8, %r5, %r6, %r7;
  mul.lo.u32 %r9, %r8, %r1; mul.wide.u32 %rd2, %r9, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r10, [%rd3];
  mul.lo.u32 %r11, %r7, %r2; shl.b32 %r11, %r11, 2; and.b32 %r11, %r11, 16380;
  mov.u32 %r12, room; add.u32 %r13, %r12, %r11;
  mov.u32 %r20, 0;
again:
  ld.shared.u32 %r14, [%r13]; st.shared.u32 [%r13], %r10; add.u32 %r20, %r20, 1;
  setp.lt.u32 %p2, %r20, 10;
  @%p2 bra again;
  and.b32 %r15, %r7, 31; setp.lt.u32 %p3, %r15, %r3; mov.u32 %r21, 100;
  @%p3 bra many;
loop:
  sub.u32 %r21, %r21, 1; setp.ne.u32 %p2, %r21, 0;
  @%p2 bra loop;
  bra met;
many:
  sub.u32 %r21, %r21, 1; setp.ne.u32 %p2, %r21, 0;
  @%p2 bra many;
met:
  st.global.u32 [%rd3], %r21;
done:
  ret;
}
"""
)

SCRIPT = """
import sys
KERNEL = {kernel!r}
x = d.alloc(4 << 20)
f = d.function(d.module(KERNEL), "probe")
u = ctypes.c_uint32
for stride, pitch, split, last in {cases!r}:
    assert d.launch(f, [16], [{threads}], [x, u(stride), u(pitch), u(split), u(last)]) == 0
d.do("cuCtxSynchronize")
"""
PLAIN, STRIDED, CONFLICTS, DIVERGED, EARLY = (
    (1, 1, 0, 16),
    (32, 1, 0, 16),
    (1, 32, 0, 16),
    (1, 1, 16, 16),
    (1, 1, 0, 5),
)


def launches(
    fresh: Fresh, file: Path, cases: list[tuple[int, ...]], threads: int = 128, **settings: str
) -> list[dict[str, Any]]:
    file.unlink(missing_ok=True)
    fresh(SCRIPT.format(kernel=KERNEL, cases=cases, threads=threads), COUNTERS=str(file), **settings)
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_vector_sum_is_counted_to_the_instruction_and_byte(fresh: Fresh, tmp_path: Path) -> None:
    file = tmp_path / "counters-%p.json"
    fresh(
        f"""
f = d.function(d.module({VECTOR_ADD!r}), "vector_add")
a = d.alloc(4096)
assert d.launch(f, [3, 1], [64], [a, a, a, ctypes.c_uint32(100)]) == 0
d.do("cuCtxSynchronize")
""",
        COUNTERS=str(file),
    )
    (written,) = tmp_path.iterdir()
    assert written.name != file.name
    (line,) = [json.loads(text) for text in written.read_text().splitlines()]
    assert written.name == f"counters-{line['process']}.json"
    assert (line["schema"], line["kernel"], line["grid"], line["block"], line["ok"]) == (
        "replay.emulator.counters/1",
        "vector_add",
        [3, 1, 1],
        [64, 1, 1],
        True,
    )
    counters = line["counters"]
    # Six warps begin; four (100 threads: 32, 32, 32, 4) come past the comparison, one of them diverging.
    assert counters["warp_load_constant"] == 6 * 4
    assert counters["warp_load_global"] == 4 * 2
    assert counters["thread_load_global"] == 100 * 2
    assert counters["thread_float32"] == 100
    assert counters["warp_instructions"] == 6 * (4 + 3 + 1 + 1 + 1) + 4 * (1 + 3 + 2 + 1 + 1) + 6
    assert counters["warp_branch"] == 6
    assert counters["divergent_branches"] == 1
    assert counters["global_load_requests"] == 8
    assert counters["global_load_bytes"] == 800
    assert counters["global_load_sectors"] == counters["global_load_least_sectors"] == 2 * (3 * 4 + 1)
    assert counters["global_store_sectors"] == 13
    assert counters["global_atomic_requests"] == 0


def test_counters_and_modelled_times_do_not_depend_on_the_number_of_threads(
    fresh: Fresh, tmp_path: Path
) -> None:
    cases = [PLAIN, STRIDED, CONFLICTS, DIVERGED, EARLY]

    def counted(threads: int) -> list[tuple[Any, Any]]:
        lines = launches(fresh, tmp_path / "counters", cases, THREADS=str(threads))
        return [(line["counters"], line["modelled_ns"]) for line in lines]

    alone = counted(1)
    assert len(alone) == len(cases)
    assert counted(2) == alone
    assert counted(7) == alone


@pytest.mark.parametrize("case", [STRIDED, CONFLICTS, DIVERGED], ids=["strided", "conflicts", "diverged"])
def test_what_is_slower_is_modelled_slower_and_the_counters_say_why(
    fresh: Fresh, tmp_path: Path, case: tuple[int, ...]
) -> None:
    # Enough warps that waiting for instructions hides nothing.
    plain, slow = launches(fresh, tmp_path / "counters", [PLAIN, case], threads=1024)
    assert slow["modelled_ns"] > plain["modelled_ns"]
    before, after = plain["counters"], slow["counters"]
    if case == STRIDED:
        assert after["global_load_sectors"] == 32 * before["global_load_requests"]
        assert before["global_load_sectors"] == before["global_load_least_sectors"]
    elif case == CONFLICTS:
        assert before["shared_load_bank_conflicts"] == 0
        assert after["shared_load_bank_conflicts"] == 31 * after["shared_load_requests"]
    else:
        assert before["divergent_branches"] == 0
        assert after["divergent_branches"] == 16 * 32
        assert after["warp_instructions"] > 1.5 * before["warp_instructions"]
        assert after["thread_instructions"] == pytest.approx(before["thread_instructions"], rel=0.01)


def test_a_counter_file_that_cannot_be_written_is_named_and_changes_nothing(
    fresh: Fresh, tmp_path: Path
) -> None:
    script = SCRIPT.format(kernel=KERNEL, cases=[PLAIN, PLAIN], threads=128)
    done = fresh(script, COUNTERS=str(tmp_path / "missing" / "file"))
    assert done.stderr.count("counters are not written") == 1


WAVES = """
KERNEL = {kernel!r}
x = d.alloc(4 << 20)
f = d.function(d.module(KERNEL), "probe")
u = ctypes.c_uint32
blocks = ctypes.c_int()
for grid, threads, shared in {shapes!r}:
    assert d.launch(f, [grid], [threads], [x, u(1), u(1), u(0), u(grid)], shared_bytes=shared) == 0
    d.do("cuOccupancyMaxActiveBlocksPerMultiprocessor", out(blocks), f, threads, shared)
    print(blocks.value)
d.do("cuCtxSynchronize")
"""


def test_a_modelled_time_is_the_documented_formula(fresh: Fresh, tmp_path: Path) -> None:
    """Full waves, a last wave of one block, one warp a multiprocessor, shared memory that leaves room for two."""
    shapes = [(16, 128, 0), (17, 128, 0), (32, 128, 0), (1, 32, 0), (160, 32, 0), (160, 32, 32 << 10)]
    file = tmp_path / "counters"
    done = fresh(WAVES.format(kernel=KERNEL, shapes=shapes), COUNTERS=str(file), MULTIPROCESSORS="16")
    resident = [int(word) for word in done.stdout.split()]
    times = []
    for line, (grid, threads, _), fit in zip(
        map(json.loads, file.read_text().splitlines()), shapes, resident, strict=True
    ):
        counts = line["counters"]
        most = -(-grid // 16)
        share, warps = most / grid, min(most, fit) * (threads // 32)
        slow = sum(counts[f"warp_{name}"] for name in ("float64", "conversion", "special_function", "atomic"))
        kinds = ("load", "store", "atomic")
        compute = (counts["warp_instructions"] + 3 * slow) * share / min(4, warps / 4) / 1.5
        passes = [counts[f"{name}_wavefronts"] for name in ("shared_load", "shared_store", "shared_atomic")]
        shared = sum(passes) * share / 1.5
        memory = 32 * sum(counts[f"global_{kind}_sectors"] for kind in kinds) * share / 25
        latency = 500 * sum(counts[f"global_{kind}_requests"] for kind in kinds) * share / (4 * warps)
        expected = 2000 + 20 * most + max(compute, shared, memory, latency)
        assert abs(line["modelled_ns"] - expected) <= 1
        times.append(line["modelled_ns"])
    assert times[0] < times[1] == times[2]  # a last wave costs what a full one costs
    assert resident[4] > resident[5]
    assert times[4] < times[5]  # fewer warps take turns


# %r1 apart from each other, the rows of four matrices; then products, as many as the loop has turns.
MATRICES = (
    HEADER.replace("8.0", "8.7").replace("sm_80", "sm_90")
    + """
.visible .entry matrices(.param .u32 row_bytes, .param .u32 turns)
{
  .shared .align 16 .b8 block[8192];
  .reg .pred %p1; .reg .b32 %r<12>; .reg .f32 %f<4>; .reg .f64 %d<4>;
  ld.param.u32 %r1, [row_bytes]; ld.param.u32 %r2, [turns];
  mov.u32 %r3, %tid.x; mov.u32 %r4, block; mad.lo.u32 %r4, %r3, %r1, %r4;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r4];
  stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r4], {%r5, %r6};
  mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r5,%r6,%r7,%r8}, {%r5,%r6,%r7,%r8}, {%r5,%r6}, {%r5,%r6,%r7,%r8};
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0, %d1}, {%d2}, {%d3}, {%d0, %d1};
loop:
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r5,%r6,%r7,%r8}, {%r5,%r6}, {%f0,%f1,%f2,%f3};
  sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra loop;
  ret;
}
"""
)


@pytest.mark.parametrize(("capability", "rates"), [("8.0", (1024, 2048, 64)), ("8.9", (512, 1024, 2))])
def test_matrix_instructions_count_and_take_modelled_time(
    fresh: Fresh, tmp_path: Path, capability: str, rates: tuple[int, int, int]
) -> None:
    """rates: products of halves, of bytes and of f64 that a multiprocessor finishes in a cycle."""
    file = tmp_path / "counters"
    fresh(
        f"""
        f = d.function(d.module({MATRICES.replace("sm_90", "sm_80")!r}), "matrices")
        for row_bytes, warps in ((16, 1), (128, 8)):
            assert d.launch(f, [1], [32 * warps], [ctypes.c_uint(row_bytes // warps), ctypes.c_uint(50)]) == 0
        d.do("cuCtxSynchronize")
        """,
        COMPUTE_CAPABILITY=capability,
        COUNTERS=str(file),
    )
    one, eight = (json.loads(line) for line in file.read_text().splitlines())
    counts = one["counters"]
    assert {name: value for name, value in counts.items() if name.startswith("matrix_") and value} == {
        "matrix_half_products": 50 * 16 * 8 * 16,
        "matrix_int8_products": 16 * 8 * 32,
        "matrix_float64_products": 8 * 8 * 4,
    }
    assert counts["warp_matrix"] == 52
    loads = [counts[f"shared_load_{what}"] for what in ("requests", "bytes", "wavefronts", "bank_conflicts")]
    assert loads == [1, 512, 4, 0]
    stores = [
        counts[f"shared_store_{what}"] for what in ("requests", "bytes", "wavefronts", "bank_conflicts")
    ]
    assert stores == [1, 256, 2, 0]
    halves, small, doubles = rates
    cycles = 8 * (50 * 2048 / halves + 4096 / small + 256 / doubles)
    assert abs(eight["modelled_ns"] - (2000 + 20 + cycles / 1.5)) <= 1


def test_the_product_of_quarter_warps_counts_four(fresh: Fresh, tmp_path: Path) -> None:
    file = tmp_path / "counters"
    ptx = (
        HEADER
        + """
        .visible .entry four()
        {
          .reg .b32 %r<12>;
          mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0,%r1,%r2,%r3}, {%r4,%r5}, {%r6,%r7}, {%r8,%r9,%r10,%r11};
          ret;
        }
        """
    )
    fresh(
        f"""
        assert d.launch(d.function(d.module({ptx!r}), "four"), [1], [32], []) == 0
        d.do("cuCtxSynchronize")
        """,
        COUNTERS=str(file),
    )
    assert json.loads(file.read_text())["counters"]["matrix_half_products"] == 4 * 8 * 8 * 4


def test_rows_of_matrices_in_one_bank_take_turns(fresh: Fresh, tmp_path: Path) -> None:
    file = tmp_path / "counters"
    fresh(
        f"""
        f = d.function(d.module({MATRICES!r}), "matrices")
        assert d.launch(f, [1], [32], [ctypes.c_uint(128), ctypes.c_uint(1)]) == 0
        d.do("cuCtxSynchronize")
        """,
        COUNTERS=str(file),
    )
    counts = json.loads(file.read_text())["counters"]
    assert (counts["shared_load_wavefronts"], counts["shared_load_bank_conflicts"]) == (32, 28)


# Each lane reads its offset from `places`, then loads and stores SIZE bytes there and at distances after it, in global
# and in shared memory; lanes from `lanes` on do nothing.
SCATTERED = (
    HEADER
    + """
.visible .entry scattered(.param .u64 places, .param .u64 memory, .param .u32 lanes)
{{
  .shared .align 16 .b8 block[8192];
  .reg .pred %p1; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .{type} %v<5>;
  ld.param.u64 %rd1, [places]; ld.param.u64 %rd2, [memory]; ld.param.u32 %r1, [lanes];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra done;
  mul.wide.u32 %rd3, %r2, 4; add.u64 %rd3, %rd1, %rd3;
  ld.global.u32 %r3, [%rd3];
  cvt.u64.u32 %rd4, %r3; add.u64 %rd4, %rd2, %rd4;
  mov.u32 %r4, block; add.u32 %r4, %r4, %r3;
  ld.global.{type} %v1, [%rd4]; ld.global.{type} %v2, [%rd4+{size}]; ld.global.{type} %v3, [%rd4+96];
  st.global.{type} [%rd4+1024], %v1; st.global.{type} [%rd4+1040], %v2;
  ld.shared.{type} %v1, [%r4]; ld.shared.{type} %v2, [%r4+{size}]; ld.shared.{type} %v3, [%r4+96];
  st.shared.{type} [%r4+1024], %v1; st.shared.{type} [%r4+1040], %v2; st.shared.{type} [%r4+2048], %v3;
done:
  ret;
}}
"""
)


def sectors(places: list[int]) -> int:
    """Distinct pieces of 32 bytes of one access; none of its elements crosses one."""
    return len({place // 32 for place in places})


def wavefronts(places: list[int], size: int) -> int:
    """Passes over 32 banks of 4 bytes: half-warps for 8 bytes, quarter-warps for 16; one word is one pass."""
    words, lanes = max(size // 4, 1), 32 // max(size // 4, 1)
    total = 0
    for first in range(0, len(places), lanes):
        units = {place // (4 * words) for place in places[first : first + lanes]}
        banks = [unit % (32 // words) for unit in units]
        total += max(banks.count(bank) for bank in banks)
    return total


@pytest.mark.parametrize(("kind", "size"), [("u8", 1), ("u16", 2), ("u32", 4), ("u64", 8), ("b128", 16)])
def test_scattered_accesses_are_counted_as_the_page_says(
    fresh: Fresh, tmp_path: Path, kind: str, size: int
) -> None:
    chance = random.Random(size)
    cases: list[list[int]] = []
    for span in (32, 64, 160, 512, 1000):
        for lanes in (32, 32, 17, 2):
            cases.append([size * chance.randrange(span // size) for _ in range(lanes)])
    cases += [sorted(case) for case in cases]
    file = tmp_path / "counters"
    fresh(
        f"""
f = d.function(d.module({SCATTERED.format(type=kind, size=size)!r}), "scattered")
places, memory = d.alloc(128), d.alloc(8192)
for case in {cases!r}:
    d.write(places, struct.pack(f"{{len(case)}}I", *case))
    assert d.launch(f, [1], [32], [places, memory, ctypes.c_uint32(len(case))]) == 0
d.do("cuCtxSynchronize")
""",
        COUNTERS=str(file),
    )
    lines = file.read_text().splitlines()
    assert len(lines) == len(cases)
    for case, line in zip(cases, lines, strict=True):
        counters = json.loads(line)["counters"]
        moved = [[place + by for place in case] for by in (0, size, 96, 1024, 1040, 2048)]
        first = (4 * len(case) + 31) // 32  # of reading `places`
        assert counters["global_load_sectors"] == first + sum(map(sectors, moved[:3])), case
        assert counters["global_store_sectors"] == sum(map(sectors, moved[3:5])), case
        assert counters["shared_load_requests"] == counters["shared_store_requests"] == 3
        assert counters["shared_load_bytes"] == counters["shared_store_bytes"] == 3 * size * len(case)
        for access, which in (("load", moved[:3]), ("store", moved[3:])):
            needed = -(-len(case) // (32 // max(size // 4, 1)))
            passes = [wavefronts(places, size) for places in which]
            assert counters[f"shared_{access}_wavefronts"] == sum(passes), case
            assert counters[f"shared_{access}_bank_conflicts"] == sum(passes) - 3 * needed, case


# Of A 64 rows of 32 bytes, of B 8 for each k; then 4,096 bytes to shared memory and 1,024 back.
DESCRIPTORS = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry descriptors(.param .u64 memory, .param .u64 a, .param .u64 b, .param .u32 turns)
{
  .shared .align 1024 .b8 block[16384]; .shared .align 8 .b64 bar;
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .f32 %f<4>;
  ld.param.u64 %rd0, [memory]; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r5, [turns];
  mov.u32 %r1, block; mov.u32 %r2, bar; mov.u32 %r3, %tid.x; setp.eq.u32 %p0, %r3, 0; setp.eq.u32 %p1, %r3, %r3;
  @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
  @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 4096;
  @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], 4096, [%r2];
  bar.sync 0;
wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra wait;
  wgmma.fence.sync.aligned;
loop:
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %rd1, %rd2, %p1, 1, 1, 0, 0;
  sub.u32 %r5, %r5, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra loop;
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 1024;
  @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r1], 512;
  @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;
  ret;
}
"""


@pytest.mark.parametrize(
    ("a", "b", "passes"),
    [
        (8 << 32 | 64 << 16, 8 << 32 | 8 << 16, 16 + 2),  # no swizzle: 8 rows are 128 bytes that lie together
        (
            64 << 32 | 1 << 62,
            64 << 32 | 1 << 62,
            16 + 2,
        ),  # 128 bytes: the swizzle spreads rows over the banks
        (64 << 32 | 1 << 62 | 5 << 49, 16 << 32 | 3 << 62, 16 + 2),
    ],
)
def test_what_descriptors_and_bulk_copies_move_is_counted(
    fresh: Fresh, tmp_path: Path, a: int, b: int, passes: int
) -> None:
    file = tmp_path / "counters"
    fresh(
        f"""
        f = d.function(d.module({DESCRIPTORS!r}), "descriptors")
        u = ctypes.c_uint64
        assert d.launch(f, [1], [128], [d.alloc(4096), u({a}), u({b}), ctypes.c_uint(500)]) == 0
        d.do("cuCtxSynchronize")
        """,
        COMPUTE_CAPABILITY="9.0",
        COUNTERS=str(file),
    )
    line = json.loads(file.read_text())
    counts = line["counters"]
    assert (counts["descriptor_bytes"], counts["descriptor_wavefronts"]) == (500 * (2048 + 256), 500 * passes)
    assert (counts["bulk_load_requests"], counts["bulk_load_bytes"]) == (1, 4096)
    assert (counts["bulk_store_requests"], counts["bulk_store_bytes"]) == (2, 1536)
    assert line["modelled_ns"] == pytest.approx(2000 + 20 + 500 * passes / 1.5, abs=5)


def test_every_access_says_what_it_costs(fresh: Fresh, tmp_path: Path) -> None:
    cases = [PLAIN, STRIDED, CONFLICTS, DIVERGED, EARLY]
    for line in launches(fresh, tmp_path / "lines", cases):
        assert {(item["kind"], item["instruction"].split()[0]) for item in line["accesses"]} >= {
            ("load", "ld.global.u32"),
            ("store", "st.global.u32"),
        }
        for space, figures in (
            ("global", ("requests", "bytes", "sectors", "least_sectors")),
            ("shared", ("requests", "bytes", "wavefronts", "bank_conflicts")),
        ):
            for kind in ("load", "store", "atomic"):
                for figure in figures:
                    found = sum(
                        item[f"{space}_{figure}"] for item in line["accesses"] if item["kind"] == kind
                    )
                    assert found == line["counters"][f"{space}_{kind}_{figure}"]
        costs = [item["global_sectors"] + item["shared_wavefronts"] for item in line["accesses"]]
        assert costs == sorted(costs, reverse=True)


def test_the_modelled_time_is_its_start_and_its_longest_part(fresh: Fresh, tmp_path: Path) -> None:
    for line in launches(fresh, tmp_path / "lines", [PLAIN, STRIDED, CONFLICTS]):
        parts = dict(line["parts_ns"])
        start = parts.pop("launch") + parts.pop("blocks")
        assert line["modelled_ns"] == round(start + max(parts.values()))
