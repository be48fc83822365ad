"""Forms of PTX beside arithmetic: special registers, spaces, wide registers, stacks, fused products."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import driver_api
import numpy as np
import pytest
from small_kernels import complaint, module, run, words

if TYPE_CHECKING:
    from conftest import Fresh


def test_special_registers_say_where_a_thread_is(cuda: driver_api.Driver) -> None:
    names = [
        "%laneid", "%warpid", "%nwarpid", "%nsmid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt",
        "%lanemask_ge", "%lanemask_gt", "%cluster_ctaid.x", "%cluster_nctaid.x", "%cluster_ctarank",
        "%clusterid.x", "%nclusterid.x", "%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size", "%envreg31",
        "%pm3", "%reserved_smem_offset_cap", "%ntid.w", "%tid.w",
    ]  # fmt: skip
    stores = "\n".join(
        f"mov.u32 %r1, {name}; st.global.u32 [%rd7+{4 * i}], %r1;" for i, name in enumerate(names)
    )
    size = len(names) + 1
    ptx = module(
        f"""
        mov.u32 %r2, %ntid.x;
        mad.lo.u32 %r3, %b, %r2, %t;
        mul.wide.u32 %rd6, %r3, {4 * size};
        add.u64 %rd7, %rd0, %rd6;
        {stores}
        mov.pred %p1, %is_explicit_cluster;
        selp.u32 %r1, 1, 0, %p1;
        st.global.u32 [%rd7+{4 * len(names)}], %r1;
        mov.u64 %rd8, %gridid; mov.u64 %rd8, %clock64; mov.u64 %rd8, %globaltimer; mov.u64 %rd8, %current_graph_exec;
        mov.u64 %rd8, %pm7_64;
        """,
        shared=".shared .align 4 .b8 room[100];",
        parameters=1,
    )
    ptx = ptx.replace("mov.u32 %t, %tid.x;", "mov.u32 %t, %tid.x; mov.u32 %r9, room;")
    out = words(cuda, [0] * (4 * 64 * size))
    assert run(cuda, ptx, [out], grid=4, block=64, cluster=2) == 0
    got = np.array(cuda.words(out, 4 * 64 * size)).reshape(4, 64, size)
    for b in range(4):
        for t in (0, 5, 31, 32, 63):
            lane = t % 32
            below = (1 << lane) - 1
            masks = [
                1 << lane,
                below | 1 << lane,
                below,
                0xFFFFFFFF ^ below,
                0xFFFFFFFF ^ (below | 1 << lane),
            ]
            cluster = [b % 2, 2, b % 2, b // 2, 2]
            assert list(got[b, t]) == [
                lane, t // 32, 64, 16, *masks, *cluster, 128, 128, 0, 0, 0, 0, 1, 0, 1,
            ]  # fmt: skip


def test_a_launch_without_a_cluster_is_its_own(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        mov.u32 %r1, %cluster_nctarank;
        mov.pred %p1, %is_explicit_cluster;
        selp.u32 %r2, 10, 0, %p1;
        add.u32 %r1, %r1, %r2;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        st.global.u32 [%rd0], %r1;
        """,
        parameters=1,
    )
    out = words(cuda, [0])
    assert run(cuda, ptx, [out], grid=3) == 0
    assert cuda.words(out, 1) == [1]


def test_isspacep_tells_the_spaces_apart(cuda: driver_api.Driver) -> None:
    spaces = ["global", "shared::cta", "shared::cluster", "local", "const", "param::entry"]
    tests = "\n".join(
        f"isspacep.{space} %p1, %rd5; selp.u32 %r2, {1 << i}, 0, %p1; or.b32 %r1, %r1, %r2;"
        for i, space in enumerate(spaces)
    )
    addresses = [
        "mov.u64 %rd5, %rd0;",
        "mov.u32 %r3, s; cvt.u64.u32 %rd5, %r3; cvta.shared.u64 %rd5, %rd5;",
        "mov.u32 %r3, s; cvt.u64.u32 %rd5, %r3; cvta.shared.u64 %rd5, %rd5; mapa.u64 %rd5, %rd5, 1;",
        "mov.u64 %rd5, l; cvta.local.u64 %rd5, %rd5;",
        "mov.u64 %rd5, c; cvta.const.u64 %rd5, %rd5;",
        "mov.b64 %rd5, p0; cvta.param.u64 %rd5, %rd5;",
    ]
    body = "\n".join(
        f"mov.u32 %r1, 0; {address} {tests} st.global.u32 [%rd0+{4 * i}], %r1;"
        for i, address in enumerate(addresses)
    )
    body = "setp.ne.u32 %p2, %b, 0; @%p2 ret;\n" + body
    ptx = module(body, shared=".shared .b32 s; .local .align 8 .b8 l[16];", parameters=1)
    ptx = ptx.replace(".visible .entry", ".const .align 4 .b32 c = 5;\n.visible .entry")
    out = words(cuda, [0] * 6)
    assert run(cuda, ptx, [out], grid=2, block=1, cluster=2) == 0
    own, neighbour = cuda.words(out, 3)[1:]
    assert own == 2 | 4
    assert neighbour == 4
    assert [w for i, w in enumerate(cuda.words(out, 6)) if i not in (1, 2)] == [1, 8, 16, 32]


def test_registers_of_128_bits(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        .reg .b128 %q<6>;
        mul.wide.u32 %rd5, %t, 32;
        add.u64 %rd6, %rd0, %rd5;
        ld.global.b128 %q0, [%rd6];
        ld.global.v2.b128 {%q1, %q2}, [%rd6];
        mov.b128 {%rd10, %rd11}, %q0;
        mov.b128 %q3, {%rd11, %rd10};
        and.b32 %r1, %t, 1;
        setp.eq.u32 %p1, %r1, 1;
        mov.b128 %q4, %q3;
        @%p1 mov.b128 %q4, %q2;
        st.global.v2.b128 [%rd6], {%q4, %q1};
        """,
        parameters=1,
    )
    values = list(range(1, 4 * 32 + 1))
    address = cuda.alloc(8 * len(values))
    cuda.write(address, struct.pack(f"{len(values)}Q", *values))
    assert run(cuda, ptx, [address]) == 0
    got = struct.unpack(f"{len(values)}Q", cuda.read(address, 8 * len(values)))
    for t in range(32):
        a, b, c, d = values[4 * t : 4 * t + 4]
        assert got[4 * t : 4 * t + 4] == ((c, d, a, b) if t % 2 else (b, a, a, b))


def test_atomics_of_128_bits(cuda: driver_api.Driver) -> None:
    """Lanes take turns: an exchange hands values on, a compare-and-swap loop adds to both halves at once."""
    ptx = module(
        """
        .reg .b128 %q<6>;
        cvt.u64.u32 %rd5, %t;
        add.u64 %rd5, %rd5, 1;
        L: ld.global.b128 %q0, [%rd0];
        mov.b128 {%rd6, %rd7}, %q0;
        add.u64 %rd8, %rd6, %rd5;
        sub.u64 %rd9, %rd7, %rd5;
        mov.b128 %q1, {%rd8, %rd9};
        atom.global.relaxed.gpu.cas.b128 %q2, [%rd0], %q0, %q1;
        mov.b128 {%rd10, %rd11}, %q2;
        setp.ne.u64 %p1, %rd10, %rd6;
        setp.ne.or.u64 %p1, %rd11, %rd7, %p1;
        @%p1 bra L;
        mov.b128 %q3, {%rd5, %rd5};
        atom.global.exch.b128 %q4, [%rd0+16], %q3;
        mov.b128 {%rd12, %rd13}, %q4;
        mul.wide.u32 %rd14, %t, 8;
        add.u64 %rd14, %rd14, %rd0;
        st.global.u64 [%rd14+32], %rd13;
        """,
        parameters=1,
    )
    address = cuda.alloc(1024)
    cuda.write(address, struct.pack("4Q", 0, 0, 77, 78))
    assert run(cuda, ptx, [address]) == 0
    got = struct.unpack("36Q", cuda.read(address, 8 * 36))
    assert got[:2] == (528, 2**64 - 528)
    # Each lane got what another left; the last left value is in memory.
    assert sorted([*got[4:], got[3]]) == sorted([78, *range(1, 33)])
    assert got[2] == got[3]


def test_loads_and_stores_of_256_bits_with_hints(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        mul.wide.u32 %rd5, %t, 32;
        add.u64 %rd6, %rd0, %rd5;
        ld.global.nc.L1::no_allocate.L2::evict_last.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd6];
        ld.relaxed.gpu.global.L2::cache_hint.v4.b64 {%rd10, %rd11, %rd12, %rd13}, [%rd6], %rd0;
        add.u64 %rd13, %rd13, 1;
        st.global.v8.b32 [%rd6], {%r8, %r7, %r6, %r5, %r4, %r3, %r2, %r1};
        st.mmio.relaxed.sys.global.u32 [%rd6], 5;
        st.volatile.global.L2::cache_hint.v4.b64 [%rd6+1024], {%rd13, %rd12, %rd11, %rd10}, %rd0;
        """,
        parameters=1,
    )
    ptx = ptx.replace("st.volatile.global.L2::cache_hint", "st.global.L2::cache_hint")
    out = words(cuda, [*range(256), *[0] * 256])
    assert run(cuda, ptx, [out]) == 0
    got = cuda.words(out, 512)
    assert got[:8] == [5, 6, 5, 4, 3, 2, 1, 0]
    assert got[256:264] == [7, 7, 4, 5, 2, 3, 0, 1]


def test_what_only_speeds_up_a_gpu_changes_nothing(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd9, 1.0;
        createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd9, [%rd0], 64, 128;
        createpolicy.cvt.L2.b64 %rd9, 0x14F0000000000000;
        prefetch.global.L2 [%rd0]; prefetch.global.L2::evict_last [%rd0]; prefetchu.L1 [%rd0];
        applypriority.global.L2::evict_normal [%rd0], 128;
        cp.async.bulk.prefetch.L2.global [%rd0], 16;
        fence.acq_rel.gpu; fence.sc.sys; fence.proxy.alias; fence.proxy.async; fence.proxy.async.global;
        fence.acquire.sync_restrict::shared::cluster.cluster; fence.mbarrier_init.release.cluster;
        fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;
        membar.cta; membar.gl; membar.sys;
        griddepcontrol.launch_dependents; griddepcontrol.wait;
        setmaxnreg.inc.sync.aligned.u32 240; setmaxnreg.dec.sync.aligned.u32 24;
        pmevent 3; nanosleep.u32 100;
        .pragma "nounroll";
        mov.u32 %r1, 11;
        st.global.u32 [%rd0], %r1;
        """,
        parameters=1,
        cluster=".maxntid 64, 1, 1 .minnctapersm 2 .maxnreg 64",
    )
    for target in ("sm_50", "sm_90a", "sm_103f", "sm_121a", "sm_80, debug"):
        out = words(cuda, [0] * 32)
        text = ptx.replace(".target sm_90", f".target {target}")
        if not target.startswith("sm_1"):
            assert run(cuda, text, [out]) == 0, target
            assert cuda.words(out, 1) == [11]


def test_alloca_takes_from_the_stack_of_each_thread(cuda: driver_api.Driver) -> None:
    ptx = module(
        """
        stacksave.u64 %rd5;
        cvt.u64.u32 %rd6, %t;
        mad.lo.u64 %rd6, %rd6, 4, 4;
        alloca.u64 %rd7, %rd6, 16;
        alloca.u64 %rd8, 8;
        st.local.u32 [%rd7], %t;
        st.local.u32 [%rd8], 5;
        cvta.local.u64 %rd9, %rd7;
        ld.u32 %r1, [%rd9];
        ld.local.u32 %r2, [%rd8];
        add.u32 %r1, %r1, %r2;
        stackrestore.u64 %rd5;
        alloca.u64 %rd10, %rd6, 16;
        sub.u64 %rd10, %rd10, %rd7;
        cvt.u32.u64 %r3, %rd10;
        mad.lo.u32 %r1, %r3, 1000, %r1;
        mul.wide.u32 %rd11, %t, 4;
        add.u64 %rd11, %rd0, %rd11;
        st.global.u32 [%rd11], %r1;
        """,
        parameters=1,
    )
    out = words(cuda, [0] * 32)
    assert run(cuda, ptx, [out]) == 0
    assert cuda.words(out, 32) == [t + 5 for t in range(32)]


@pytest.mark.parametrize(
    ("functions", "body"),
    [
        (".func endless() { call.uni endless; ret; }", "call.uni endless;"),
        ("", "L: alloca.u64 %rd5, 64; bra L;"),
    ],
)
def test_a_stack_that_overflows_is_an_error_with_the_kernels_name(
    fresh: Fresh, functions: str, body: str
) -> None:
    ptx = module(body, parameters=0).replace(".visible .entry", functions + "\n.visible .entry")
    said = complaint(fresh, ptx, 714, block=64)
    assert "stack overflow" in said
    assert "in kernel k, PTX line" in said


RECURSION = """
.func (.param .b32 r) down(.param .b32 n)
{
  .reg .b32 %r<4>; .reg .pred %p; .local .align 4 .b8 room[1024];
  ld.param.u32 %r0, [n];
  st.local.u32 [room], %r0;
  setp.eq.u32 %p, %r0, 0;
  @%p bra end;
  sub.u32 %r1, %r0, 1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), down, (a); ld.param.b32 %r2, [b]; }
end:
  ld.local.u32 %r3, [room];
  add.u32 %r3, %r3, 1;
  st.param.b32 [r], %r3;
  ret;
}
"""


def test_the_stacks_limit_makes_room_for_recursion_and_alloca(fresh: Fresh) -> None:
    """100 frames of a kilobyte, and 60,000 bytes of alloca: more than the default has, less than 256 KiB."""
    call = "mov.u32 %r1, 100; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), down, (a); }"
    deep = module(call + " ret;", parameters=0).replace(".visible .entry", RECURSION + "\n.visible .entry")
    wide = module("alloca.u64 %rd5, 60000; st.local.u32 [%rd5+59996], 7; ret;", parameters=0)
    for which in "01":
        for limit, expected in (("0", "714"), ("262144", "0")):
            script = f"""
                f = [d.function(d.module(ptx), "k") for ptx in ({deep!r}, {wide!r})][{which}]
                if {limit}:
                    d.do("cuCtxSetLimit", 0, {limit})
                print(d.launch(f, [2], [64], []) or d.cuCtxSynchronize())
                """
            done = fresh(script)
            assert done.stdout.split() == [expected]
            assert ("CU_LIMIT_STACK_SIZE" in done.stderr) == (expected == "714")


LOCAL = ".local .align 8 .b8 room[64];"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        # One lane of many, below and above, in both forms of address.
        ("mov.u32 %r2, 0; @%p1 mov.u32 %r2, 64; st.local.u32 [%r2], %t;", "where a thread has 64 bytes"),
        ("mov.u32 %r2, 0; @%p1 mov.u32 %r2, 64; ld.local.u32 %r3, [%r2];", "thread (5,0,0)"),
        ("mov.u64 %rd2, 8; @%p1 mov.u64 %rd2, 0; st.local.u32 [%rd2+-4], %t;", "thread (5,0,0)"),
        ("mov.u64 %rd2, 0; @%p1 mov.u64 %rd2, 64; add.u64 %rd1, %rd1, %rd2; st.u32 [%rd1], %t;", "another thread"),
        ("mov.u64 %rd2, 0; @%p1 mov.u64 %rd2, 4; sub.u64 %rd1, %rd1, %rd2; ld.u32 %r2, [%rd1];", "another thread"),
    ],
)  # fmt: skip
def test_local_memory_of_another_thread_is_out_of_bounds(fresh: Fresh, body: str, words: str) -> None:
    start = "mov.u64 %rd3, room; cvta.local.u64 %rd1, %rd3; setp.eq.u32 %p1, %t, 5;"
    ptx = module(f"{start} {body} ret;", shared=LOCAL, parameters=0)
    inside = ptx.replace("64; st", "60; st").replace("64; ld", "60; ld").replace("64; add", "60; add")
    inside = inside.replace("+-4]", "]").replace("4; sub", "0; sub")
    for text, expected in ((inside, "0"), (ptx, "700")):
        done = fresh(
            f"""
            f = d.function(d.module({text!r}), "k")
            print(d.launch(f, [1], [48], []) or d.cuCtxSynchronize())
            """
        )
        assert done.stdout.split() == [expected]
    assert words in done.stderr


def test_a_break_point_ends_the_kernel(fresh: Fresh) -> None:
    ptx = module("setp.eq.u32 %p1, %t, 7; @%p1 brkpt;", parameters=0)
    said = complaint(fresh, ptx, 715, block=64)
    assert "thread (7,0,0)" in said


FUSED = {
    # name: (PTX after the loads of a, b, c, e; the result in d; whether ptxas fuses it)
    "add": ("mul.T d, a, b; add.T d2, d, c;", True),
    "add_left": ("mul.T d, a, b; add.T d2, c, d;", True),
    "subtract": ("mul.T d, a, b; sub.T d2, d, c;", True),
    "subtract_from": ("mul.T d, a, b; sub.T d2, c, d;", True),
    "rounded_product": ("mul.rn.T d, a, b; add.T d2, d, c;", False),
    "rounded_sum": ("mul.T d, a, b; add.rn.T d2, d, c;", False),
    "used_twice": ("mul.T d, a, b; add.T d2, d, c; add.rn.T e, d, d;", False),
    "other_block": ("mul.T d, a, b; bra NEXT; NEXT: add.T d2, d, c;", False),
    "changed_factor": ("mul.T d, a, b; mov.T a, c; add.T d2, d, c;", False),
}


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_products_are_fused_into_sums_only_when_asked_and_as_ptxas_does(fresh: Fresh, kind: str) -> None:
    size = 4 if kind == "f32" else 8
    entries = ""
    for name, (body, _) in FUSED.items():
        text = body.replace(".T", "." + kind).replace("d2", "%x5").replace("NEXT", "$N")
        for letter, register in zip("abcde", ("%x0", "%x1", "%x2", "%x3", "%x4"), strict=True):
            text = text.replace(f" {letter},", f" {register},").replace(f" {letter};", f" {register};")
        entries += f"""
        .visible .entry {name}(.param .u64 p) {{
          .reg .{kind} %x<6>; .reg .b64 %rd<2>;
          ld.param.u64 %rd0, [p];
          ld.global.{kind} %x0, [%rd0]; ld.global.{kind} %x1, [%rd0+{size}]; ld.global.{kind} %x2, [%rd0+{2 * size}];
          {text}
          st.global.{kind} [%rd0+{3 * size}], %x5;
        }}"""
    ptx = f".version 8.0\n.target sm_80\n.address_size 64\n{entries}"
    code = "f" if kind == "f32" else "d"
    script = f"""
    import struct
    m, a = d.module({ptx!r}), d.alloc(64)
    for name in {list(FUSED)!r}:
        d.write(a, struct.pack("4{code}", X, X, -(Y) if "sub" in name else Y, 0))
        assert (d.launch(d.function(m, name), [1], [1], [a]) or d.cuCtxSynchronize()) == 0
        print(name, struct.unpack("4{code}", d.read(a, {4 * size}))[3])
    """
    # (1 + e)^2 = 1 + 2e + e^2: the last term is lost when the product is rounded, and found by a fused sum.
    eps = 2.0**-13 if kind == "f32" else 2.0**-27
    x, y = 1 + eps, -(1 + 2 * eps)
    for fuse in (False, True):
        done = fresh(script.replace("X", repr(x)).replace("Y", repr(y)), FUSE=str(int(fuse)))
        got = {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()}
        for name, (_, fuses) in FUSED.items():
            exact = eps * eps if fuse and fuses else 0.0
            assert got[name] == (-exact if name == "subtract_from" else exact), (name, fuse)


@pytest.mark.parametrize("instruction", ["ld.param.u32 %r1, [room];", "st.param.u32 [room], %r1;"])
def test_a_parameter_access_of_another_variable_is_refused_in_words(fresh: Fresh, instruction: str) -> None:
    ptx = module(instruction, shared=".shared .align 4 .b8 room[16];", parameters=0)
    said = complaint(fresh, ptx, driver_api.NOT_SUPPORTED)
    assert "param.u32 of a variable in another state space is not implemented" in said
