"""Planted symptoms stay, whatever is cut."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from .conftest import WORK, planted

REPLAYS = 6  # enough for memory and calls
OUT_OF_BOUNDS = "st.global.u32 [%a+65536], %h;"


@pytest.mark.parametrize(
    ("symptom", "fault", "words"),
    [
        ("crash", OUT_OF_BOUNDS, "past the end"),
        ("finding", OUT_OF_BOUNDS, "past the end"),
        ("crash", "st.global.u32 [%a+2], %h;", "misaligned"),
        ("crash", "trap;", "trap"),
    ],
    ids=["bounds", "finding", "misaligned", "trap"],
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


@pytest.fixture
def other_code(tmp_path: Path) -> Path:
    """The kernel with another store and with a loop, both in the branch of the faulty launch."""
    path = tmp_path / "other.ptx"
    path.write_text(
        WORK.format(
            fault="mov.u32 %n, 0; again: add.u32 %n, %n, 1; setp.lt.u32 %r, %n, 3000; @%r bra again;"
            "st.global.u32 [%a+256], %h;"
        )
    )
    return path


def test_slower_through_one_branch(search, other_code: Path) -> None:
    found = search(planted("st.global.u32 [%a+256], %h;", after=struct.pack("<I", 1)), "slower",
                   b=f"swap={other_code}", maximum_replays=3 * REPLAYS)  # fmt: skip
    assert "work" in found.what
    assert found.calls == (5, 1)


def test_wrong_beside_another_side(search, other_code: Path) -> None:
    found = search(planted("mov.u32 %n, 5; st.global.u32 [%a+256], %n;", after=struct.pack("<I", 5)), "wrong",
                   b=f"swap={other_code}", maximum_replays=2 * REPLAYS)  # fmt: skip
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
