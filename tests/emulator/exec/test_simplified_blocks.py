"""Copies and products that the executor drops from a basic block leave every result as it was, and every count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import driver_api
import pytest
from small_kernels import module, run, words

LANES = range(32)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "mov.u32 %r1, %t; mov.u32 %r2, %r1; add.u32 %r3, %r2, %r2;",
            [2 * t for t in LANES],
            id="a-copy-of-a-copy",
        ),
        pytest.param(
            "add.u32 %r1, %t, 1; mov.u32 %r2, %r1; add.u32 %r1, %r1, 50; add.u32 %r3, %r1, %r2;",
            [2 * t + 52 for t in LANES],
            id="the-original-changes-before-the-copy-is-read",
        ),
        pytest.param(
            "mov.u32 %r1, %t; mov.u32 %r2, 7; mov.u32 %r4, %r1; mov.u32 %r1, %r2; mov.u32 %r2, %r4;"
            "mul.lo.u32 %r3, %r1, 100; add.u32 %r3, %r3, %r2;",
            [700 + t for t in LANES],
            id="a-swap",
        ),
        pytest.param(
            "setp.lt.u32 %p1, %t, 5; add.u32 %r1, %t, 1; mov.u32 %r3, %r1; @%p1 mov.u32 %r3, 900;",
            [900 if t < 5 else t + 1 for t in LANES],
            id="a-guard-keeps-the-copy-in-some-lanes",
        ),
        pytest.param(
            "mov.u32 %r3, 0; mov.u32 %r1, 0; L: mov.u32 %r2, %r1; add.u32 %r1, %r1, 3; add.u32 %r3, %r3, %r2;"
            "setp.lt.u32 %p1, %r1, 12; @%p1 bra L;",
            [18] * 32,
            id="a-copy-from-before-the-change-in-a-loop",
        ),
        pytest.param(
            "mov.u32 %r1, 4; mul.wide.u32 %rd4, %t, %r1; mov.u32 %r1, 1000; cvt.u64.u32 %rd5, %r1;"
            "add.u64 %rd4, %rd5, %rd4; cvt.u32.u64 %r3, %rd4;",
            [1000 + 4 * t for t in LANES],
            id="a-factor-changes-before-the-sum",
        ),
        pytest.param(
            "sub.s32 %r1, 3, %t; mul.wide.s32 %rd4, %r1, 2; mov.u64 %rd5, 100; add.s64 %rd6, %rd4, %rd5;"
            "cvt.u32.u64 %r3, %rd6;",
            [106 - 2 * t for t in LANES],
            id="a-signed-product",
        ),
        pytest.param(
            "mul.wide.u32 %rd4, %t, 4; add.u64 %rd5, %rd4, %rd4; cvt.u32.u64 %r3, %rd5;",
            [8 * t for t in LANES],
            id="a-product-added-to-itself",
        ),
        pytest.param(
            "mul.wide.u32 %rd4, %t, 4; add.u64 %rd5, %rd4, 1; add.u64 %rd6, %rd5, %rd4;"
            "cvt.u32.u64 %r3, %rd6;",
            [8 * t + 1 for t in LANES],
            id="a-product-with-two-readers",
        ),
    ],
)
def test_a_block_gives_what_its_text_says(cuda: driver_api.Driver, body: str, expected: list[int]) -> None:
    out = words(cuda, [0] * 32)
    ptx = module(
        f"{body} mul.wide.u32 %rd7, %t, 4; add.u64 %rd7, %rd0, %rd7; st.global.u32 [%rd7], %r3;", parameters=1
    )
    assert run(cuda, ptx, [out]) == 0
    assert cuda.words(out, 32) == expected


def test_loads_of_some_lanes_leave_the_other_lanes_alone(cuda: driver_api.Driver) -> None:
    """The idle lanes hold addresses of nothing."""
    memory, out = words(cuda, [7 * k for k in range(96)]), words(cuda, [0] * 32)
    ptx = module(
        """
        mul.lo.u32 %r1, %t, 5;
        rem.u32 %r1, %r1, 96;
        mul.wide.u32 %rd4, %r1, 4;
        add.u64 %rd4, %rd0, %rd4;
        and.b32 %r2, %t, 1;
        setp.eq.u32 %p1, %r2, 0;
        selp.b64 %rd4, %rd4, 16, %p1;
        mov.u32 %r3, 1;
        @%p1 ld.global.u32 %r3, [%rd4];
        mul.wide.u32 %rd5, %t, 4;
        add.u64 %rd5, %rd1, %rd5;
        st.global.u32 [%rd5], %r3;
        """
    )
    assert run(cuda, ptx, [memory, out]) == 0
    assert cuda.words(out, 32) == [7 * (5 * t % 96) if t % 2 == 0 else 1 for t in LANES]


def test_what_is_dropped_still_counts(emulator_dir: Path, tmp_path: Path) -> None:
    counters = tmp_path / "counters.json"
    program = (
        "import driver_api; from small_kernels import module, run, words\n"
        "import sys; cuda = driver_api.Driver(sys.argv[1]); cuda.start()\n"
        "ptx = module('mov.u32 %r1, %t; mov.u32 %r2, %r1; mul.wide.u32 %rd4, %r2, 4;'\n"
        "             'add.u64 %rd4, %rd0, %rd4; st.global.u32 [%rd4], %r2;', parameters=1)\n"
        "assert run(cuda, ptx, [words(cuda, [0] * 32)]) == 0\n"
    )
    helpers = str(Path(__file__).parents[1] / "helpers")
    environment = {**os.environ, "REPLAY_EMULATOR_COUNTERS": str(counters), "PYTHONPATH": helpers}
    subprocess.run(
        [sys.executable, "-c", program, str(emulator_dir / "libcuda.so.1")], env=environment, check=True
    )
    counted = json.loads(counters.read_text())["counters"]
    assert counted["warp_instructions"] == 8  # ld.param, four mov, mul, add, st
