"""Planted symptoms stay, whatever is cut."""

from __future__ import annotations

import random
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, all_of

from ..helpers.small_snapshots import BASE, u32, u64
from ..helpers.snapshot_factory import MODULE, SnapshotFactory
from .conftest import BYTES, FAULTY_LAUNCH, WORK, planted

REPLAYS = 6  # enough for memory and calls
OUT_OF_BOUNDS = "st.global.u32 [%a+65536], %h;"
LOOP = "mov.u32 %n, 0; again: add.u32 %n, %n, 1; setp.lt.u32 %r, %n, {turns}; @%r bra again;"
ASSERTION = (
    "{ .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c;"
    "st.param.b64 [m], 0; st.param.b64 [f], 0; st.param.b32 [l], 19; st.param.b64 [n], 0; st.param.b64 [c], 1;"
    "call.uni __assertfail, (m, f, l, n, c); }"
)
STALE = 0x3400_0000_0040  # address of the variable in the application


@pytest.mark.parametrize(
    ("symptom", "fault", "words"),
    [
        ("crash", OUT_OF_BOUNDS, "past the end"),
        ("finding", OUT_OF_BOUNDS, "past the end"),
        ("crash", "st.global.u32 [%a+2], %h;", "misaligned"),
        ("crash", "trap;", "trap"),
        ("crash", ASSERTION, "CUDA_ERROR_ASSERT"),
    ],
    ids=["bounds", "finding", "misaligned", "trap", "assertion"],
)
def test_errors_of_kernels(search, symptom: str, fault: str, words: str) -> None:
    found = search(planted(fault), symptom, maximum_replays=REPLAYS)
    assert words in found.what
    assert found.shown == found.looks == 1
    assert found.calls == (5, 1)
    assert found.file_bytes < found.original_bytes


def test_a_hang(search) -> None:
    found = search(
        planted("again: bra again;"), "crash", a="env=REPLAY_EMULATOR_TIMEOUT=100", maximum_replays=REPLAYS
    )
    assert "CUDA_ERROR_LAUNCH_TIMEOUT" in found.what or "hang" in found.what
    assert found.calls == (5, 1)


def test_a_worker_that_dies(search) -> None:
    found = search(planted(""), "crash", a="env=REPLAY_EMULATOR_SEGV=work", maximum_replays=REPLAYS)
    assert "SIGSEGV" in found.what
    assert found.calls[1] < 5


def test_one_wrong_element(search) -> None:
    found = search(planted("st.global.u32 [%a+256], %h;", after=b"\x07"), "wrong", maximum_replays=REPLAYS)
    assert "offset 256" in found.what
    assert found.calls == (5, 1)
    assert found.shown == 1


def test_a_nan_where_a_number_was(search) -> None:
    number = struct.pack("<f", 2.0)
    found = search(planted("mov.b32 %f, 0x7fc00000; st.global.f32 [%a+256], %f;", after=number), "wrong",
                   maximum_replays=REPLAYS)  # fmt: skip
    assert "nan" in found.what
    assert found.calls == (5, 1)


def test_outputs_that_differ_each_time(search) -> None:
    found = search(planted("mov.u64 %c, %globaltimer; st.global.u64 [%a+256], %c;"), "nondeterministic",
                   maximum_replays=REPLAYS)  # fmt: skip
    assert found.calls[1] < 5
    assert found.shown


def add_variable(factory: SnapshotFactory, before: int, after: int) -> None:
    """`stale`, as it was before and after the window."""
    factory.range(STALE, u32(before), u32(after), kind="global", name="stale", owner=MODULE)


def copy_into_variable(factory: SnapshotFactory) -> None:
    """Makes it stale in the window."""
    add_variable(factory, 5, 7)
    factory.call("cuMemcpyHtoD_v2", [STALE, 0x7F40, 4], inputs={"srcHost": u32(7)})


@pytest.mark.parametrize(
    ("begin", "calls"),
    [(lambda factory: add_variable(factory, 7, 7), (5, 1)), (copy_into_variable, (6, 2))],
    ids=["contents", "copy"],
)
def test_wrong_through_a_stale_variable_of_the_module(search, begin, calls: tuple[int, int]) -> None:
    factory = planted("ld.global.u32 %n, [stale]; st.global.u32 [%a+256], %n;", after=u32(5), begin=begin)
    found = search(factory, "wrong", maximum_replays=4 * REPLAYS)
    assert "bytes 07000000 for 05000000" in found.what
    assert found.calls == calls
    assert found.shown == 1


def test_a_call_goes_whose_absence_leaves_larger_outputs(search) -> None:
    """A fill of bytes of which the faulty launch has made others."""
    noise = random.Random(FAULTY_LAUNCH).randbytes(BYTES)
    factory = planted(
        "mov.u32 %v, %ctaid.x; setp.ne.u32 %r, %v, 0; @%r bra done; mov.u32 %n, 0; mov.u64 %c, %a;"
        "again: ld.global.u32 %v, [%c+512]; mad.lo.u32 %v, %v, %v, 7; st.global.u32 [%c+512], %v;"
        "add.u64 %c, %c, 4; add.u32 %n, %n, 1; setp.lt.u32 %r, %n, 256; @%r bra again;"
        "st.global.u32 [%a+256], %h;",
        after=u32(7) + noise[260:512] + bytes(1024),
    )  # fmt: skip
    factory.call("cuMemsetD8_v2", [BASE + FAULTY_LAUNCH * 2 * BYTES + 512, 0, 1024])
    found = search(factory, "wrong", maximum_replays=REPLAYS)
    assert found.calls == (6, 1)
    assert found.file_bytes < found.original_bytes


@pytest.mark.parametrize("feeds", [False, True])
def test_an_error_in_the_second_of_three_kernels(search, tmp_path: Path, feeds: bool) -> None:
    """Without the second, the third ends in an error of its own. feeds: the second errs because of what the first
    wrote."""
    factory = planted(
        "setp.eq.u32 %r, %h, 2; @%r trap; ld.global.u32 %n, [%a]; setp.ne.u32 %r, %n, 0;"
        f"@%r {OUT_OF_BOUNDS}", launches=1
    )  # fmt: skip
    if feeds:
        address = BASE + 2 * BYTES + 4
        factory.ranges[0] = replace(factory.ranges[0], before=factory.contents(u32(7) + bytes(BYTES - 4)))
    else:
        address = BASE + 4 * BYTES
        factory.range(address, bytes([7]) * BYTES, None)
    slots = [(0, 8), (8, 4)]
    second = factory.launch(u64(address) + u32(1), slots, 4, 1)
    factory.launch(u64(BASE + 2 * BYTES) + u32(2), slots, 4, 1)
    found = search(factory, "crash", maximum_replays=2 * REPLAYS)
    assert "past the end" in found.what
    assert found.calls == (3, 2 if feeds else 1)
    with SnapshotReader(tmp_path / "small.rsnap") as reader:
        assert max(call.number for call in all_of(reader, Call)) == second.number


def other_code(folder: Path, turns: int = 1) -> Path:
    """The kernel with another store and with a loop, both in the branch of the faulty launch."""
    path = folder / "other.ptx"
    path.write_text(WORK.format(fault=f"{LOOP.format(turns=turns)} st.global.u32 [%a+256], %h;"))
    return path


@pytest.mark.parametrize(("turns", "percent"), [(3000, "+206."), (116, "+5.0")], ids=["much", "little"])
def test_slower_through_one_branch(search, tmp_path: Path, turns: int, percent: str) -> None:
    """Modelled times, which count instructions."""
    found = search(planted("st.global.u32 [%a+256], %h;", after=u32(1)), "slower", minimum_effect=0.02,
                   b=f"swap={other_code(tmp_path, turns)}", maximum_replays=3 * REPLAYS)  # fmt: skip
    assert found.what.startswith(f"work is slower: {percent}")
    assert found.calls == (5, 1)
    assert found.shown == found.looks


def test_wrong_beside_another_side(search, tmp_path: Path) -> None:
    found = search(planted("mov.u32 %n, 5; st.global.u32 [%a+256], %n;", after=u32(5)), "wrong",
                   b=f"swap={other_code(tmp_path)}", maximum_replays=2 * REPLAYS)  # fmt: skip
    assert "offset 256" in found.what
    assert found.calls == (5, 1)


def test_what_a_command_says(search, tmp_path: Path) -> None:
    """The command wants the second launch."""
    script = tmp_path / "check.py"
    script.write_text(
        "import sys\nfrom replay.snapshot.contents import Snapshot\n"
        "with Snapshot(sys.argv[1]) as opened:\n"
        "    sys.exit(0 if any(item.number == 7 for item in opened.calls()) else 1)\n"
    )
    found = search(planted(""), f"exec={sys.executable} {script}", maximum_replays=12)
    assert found.calls == (5, 1)
