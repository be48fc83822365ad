"""Windows in which one launch of several is at fault, and a search in them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.minimising.minimise import MinimiseOptions, minimise
from replay.minimising.model import Minimisation
from replay.run.parent import RunOptions
from replay.snapshot.schema import Census, Kernel, ParameterSlot
from replay.timing.stopping import StoppingParameters
from replay.variants.model import parse

from ..helpers.small_snapshots import BASE, HEAD, u64
from ..helpers.snapshot_factory import SnapshotFactory

BYTES, FAULTY_LAUNCH = 1 << 16, 3
# p[1] = p[0]; then, where `how` is not 0, what the test wants
WORK = (
    HEAD
    + """
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);
.global .align 4 .u32 stale;
.visible .entry other(.param .u64 p) {{ ret; }}
.visible .entry work(.param .u64 p, .param .u32 how) {{
    .reg .u64 %a, %c; .reg .u32 %h, %v, %n; .reg .f32 %f; .reg .pred %q, %r;
    ld.param.u64 %a, [p]; ld.param.u32 %h, [how];
    ld.global.u32 %v, [%a]; st.global.u32 [%a+4], %v;
    setp.eq.u32 %q, %h, 0; @%q bra done;
    {fault}
done:
    ret;
}}
"""
)


def planted(
    fault: str,
    *,
    after: bytes = b"",
    launches: int = 5,
    begin: Callable[[SnapshotFactory], object] = lambda _: None,
) -> SnapshotFactory:
    """A window of launches of `work` on memory of their own, the one of number FAULTY_LAUNCH with how = 1. after: of
    its buffer from byte 256 on, as the application left it. begin: adds what comes before the launches."""
    factory = SnapshotFactory()
    factory.set_up(WORK.format(fault=fault).encode(), "work")
    begin(factory)
    slots = [ParameterSlot(0, 8), ParameterSlot(8, 4)]
    factory.kernels.append(
        Kernel("work", "work", factory.images[0].digest, slots, launches, [4, 1, 1], [1, 1, 1], 0)
    )
    for number in range(1, launches + 1):
        noise = random.Random(number).randbytes(BYTES)
        address = BASE + number * 2 * BYTES
        left = bytearray(noise)
        left[4:8] = noise[:4]
        if number == FAULTY_LAUNCH:
            left[256 : 256 + len(after)] = after
        range_ = factory.range(address, noise, bytes(left))
        launch = factory.launch(
            u64(address) + struct.pack("<I", number == FAULTY_LAUNCH), [(0, 8), (8, 4)], 4, 1
        )
        factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, range_.id, 0)))
    return factory


@pytest.fixture
def search(tmp_path: Path, emulator: str) -> Callable[..., Minimisation]:
    """Writes a factory's snapshot and minimises it on the CPU driver."""

    def run(
        factory: SnapshotFactory,
        symptom: str,
        *,
        a: str = "",
        b: str = "",
        timeout_s: float = 60,
        **options: Any,
    ) -> Minimisation:
        path = factory.write(tmp_path / "x.rsnap")
        run_options = RunOptions(driver=emulator, timeout_s=timeout_s)
        return minimise(
            path, tmp_path / "small.rsnap",
            MinimiseOptions(symptom, run_options, parse(a), parse(b), StoppingParameters(fixed_samples=2), **options),
        )  # fmt: skip

    return run
