"""Variables lie at multiples of their `.align`, seen through generic addresses too, as PTX ISA says of all spaces."""

from __future__ import annotations

import driver_api
import pytest
from small_kernels import HEAD, module, run, words

THREADS = 64
ALIGNMENTS = [64, 128, 256, 1024, 4096]


def store_low_bits(source: str, alignment: int) -> str:
    return f"""
        and.b64 %rd8, {source}, {alignment - 1};
        cvt.u32.u64 %r1, %rd8;
        mul.wide.u32 %rd9, %t, 4;
        add.u64 %rd9, %rd0, %rd9;
        st.global.u32 [%rd9], %r1;"""


def low_bits(cuda: driver_api.Driver, ptx: str) -> list[int]:
    out = words(cuda, [1] * THREADS)
    assert run(cuda, ptx, [out], block=THREADS) == 0
    return list(cuda.words(out, THREADS))


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("space", ["shared", "local", "global", "const"])
def test_a_variable_lies_at_a_multiple_of_its_alignment(
    cuda: driver_api.Driver, space: str, alignment: int
) -> None:
    variables = f".{space} .align 4 .b8 before[20];\n.{space} .align {alignment} .b8 aligned[12];"
    inside = variables if space in ("shared", "local") else ""
    ptx = module(
        f"mov.u64 %rd5, aligned; cvta.{space}.u64 %rd6, %rd5;" + store_low_bits("%rd6", alignment),
        shared=inside,
        parameters=1,
    )
    if not inside:
        ptx = ptx.replace(".visible .entry", variables + "\n.visible .entry")
    assert low_bits(cuda, ptx) == [0] * THREADS


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_shared_memory_of_the_launch_begins_aligned_after_the_kernels_own(
    cuda: driver_api.Driver, alignment: int
) -> None:
    ptx = module(
        "mov.u64 %rd5, open; cvta.shared.u64 %rd6, %rd5; st.shared.u32 [fixed], %t;"
        + store_low_bits("%rd6", alignment),
        shared=".shared .align 4 .b8 fixed[20];",
        parameters=1,
    ).replace(".visible .entry", f".extern .shared .align {alignment} .b8 open[];\n.visible .entry")
    assert low_bits(cuda, ptx) == [0] * THREADS


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_frames_of_called_functions_keep_their_variables_aligned(
    cuda: driver_api.Driver, alignment: int
) -> None:
    """A caller with an odd frame, and a function that calls itself: each depth has a variable of its own."""
    ptx = module(
        """
        st.local.u32 [own], %t;
        { .param .b32 depth; .param .b64 bits; st.param.b32 [depth], 3; call (bits), deep, (depth);
          ld.param.b64 %rd6, [bits]; }"""
        + store_low_bits("%rd6", alignment),
        shared=".local .align 4 .b8 own[20];",
        parameters=1,
    ).replace(
        HEAD,
        HEAD
        + f"""
.visible .func (.param .b64 bits) deep(.param .b32 depth) {{
.local .align {alignment} .b8 aligned[12]; .local .align 4 .b8 more[4];
.reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .pred %p;
ld.param.u32 %r1, [depth];
mov.u64 %rd1, aligned; cvta.local.u64 %rd2, %rd1; st.u32 [%rd2], %r1;
setp.eq.u32 %p, %r1, 0;
@%p bra END;
sub.u32 %r2, %r1, 1;
{{ .param .b32 below; .param .b64 others; st.param.b32 [below], %r2; call (others), deep, (below);
  ld.param.b64 %rd3, [others]; }}
or.b64 %rd2, %rd2, %rd3;
END: st.param.b64 [bits], %rd2; ret; }}
""",
    )
    assert low_bits(cuda, ptx) == [0] * THREADS


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_alloca_gives_memory_of_its_alignment(cuda: driver_api.Driver, alignment: int) -> None:
    ptx = module(
        f"mov.u64 %rd4, 20; alloca.u64 %rd5, %rd4, {alignment}; cvta.local.u64 %rd6, %rd5;"
        + store_low_bits("%rd6", alignment),
        parameters=1,
    )
    assert low_bits(cuda, ptx) == [0] * THREADS
