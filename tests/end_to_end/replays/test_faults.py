"""Windows that ended in an error in the application: the replay ends in it too, or says that it does not."""

from __future__ import annotations

import json
import os
import sys

import pytest

from ..conftest import PROGRAMS

PROGRAM = PROGRAMS / "faults.py"
LIMIT = {**os.environ, "REPLAY_EMULATOR_TIMEOUT": "300"}  # ms
ERRORS = {
    "past": "ILLEGAL_ADDRESS",
    "misaligned": "MISALIGNED_ADDRESS",
    "trap": "ILLEGAL_INSTRUCTION",
    "assert": "ASSERT",
    "hang": "LAUNCH_TIMEOUT",
    "null": "ILLEGAL_ADDRESS",
    "graph": "ILLEGAL_ADDRESS",
    "freed": "ILLEGAL_ADDRESS",
}
SECOND = ("--kernel", "fault", "--launch", "2")
# What `fault` does where nothing is wrong.
HARMLESS = """
.version 7.0
.target sm_50
.address_size 64
.global .align 1 .b8 text[6];
.visible .entry fault(.param .u64 p, .param .u32 how) { ret; }
"""


@pytest.fixture
def faulting(replay):
    """Captures a window of a kind."""

    def capture(kind: str, *selection: str, device: int = 0) -> None:
        done = replay.capture(
            *selection, application=[sys.executable, str(PROGRAM), kind, str(device)],
            env={**LIMIT, "REPLAY_EMULATOR_DEVICES": "2"},
        )  # fmt: skip
        assert f"CUDA_ERROR_{ERRORS[kind]}" in done.stdout
        assert f"window ends in CUDA_ERROR_{ERRORS[kind]}" in done.stderr

    return capture


def flowing(text: str) -> str:
    """Without the line breaks of a narrow screen."""
    return " ".join(text.split())


def place(words: str) -> str:
    """Kernel, line, block and thread of the instruction that the CPU driver names."""
    return words[words.index("in kernel fault, PTX line") :]


@pytest.mark.parametrize(
    ("kind", "selection"),
    [(kind, ("--all",)) for kind in ("past", "hang", "graph", "freed")]
    + [(kind, SECOND) for kind in ("past", "misaligned", "trap", "assert", "null")],
    ids=lambda value: value if isinstance(value, str) else value[0].strip("-"),
)
def test_the_replay_faults_at_the_same_instruction(replay, faulting, kind: str, selection: tuple[str, ...]):
    faulting(kind, *selection)
    command = ("run", "x.rsnap", "--driver", "emulator", "--json")
    result = json.loads(replay(*command, env=LIMIT).stdout)
    verification = result["verification"]
    fault = verification["fault"]
    assert (fault["reproduced"], fault["error"], fault["found"], fault["kernel"]) == (
        True,
        f"CUDA_ERROR_{ERRORS[kind]}",
        f"CUDA_ERROR_{ERRORS[kind]}",
        "fault",
    )
    assert place(fault["words"]) == place(fault["application_words"])
    assert fault["call"] == fault["application_call"]
    assert verification["verdict"] == "not_compared"
    assert result["timing"] is result["hot"] is None


def test_what_is_said_of_a_fault_by_every_command(replay, faulting):
    faulting("past", *SECOND)
    (replay.folder / "harmless.ptx").write_text(HARMLESS)
    told = "FAULT reproduced: CUDA_ERROR_ILLEGAL_ADDRESS in kernel fault"
    ran = replay.run("x.rsnap", "-o", "x.rres").stdout
    assert ran.splitlines()[0].endswith(told)
    assert "0 bytes past the end of the 4,096-byte allocation" in flowing(ran)
    assert "GPU time" not in ran
    assert told in replay.run("x.rsnap", "--quiet").stdout
    profiled = replay("run", "x.rsnap", "--driver", "emulator", "--profile", "--trust")
    assert told in profiled.stdout
    fixed = flowing(
        replay.run("x.rsnap", "--swap", "fault=harmless.ptx", "-o", "fixed.rres", status=1).stdout
    )
    assert "FAULT NOT REPRODUCED: CUDA_ERROR_ILLEGAL_ADDRESS in the application" in fixed
    assert "ends in CUDA_ERROR_ILLEGAL_ADDRESS" in flowing(replay("info", "x.rsnap").stdout)
    for name, verdict in (("x", "FAULT"), ("fixed", "WRONG")):
        replay("report", f"{name}.rres", "-o", "page.html")
        page = (replay.folder / "page.html").read_text()
        assert "PASS" not in page.split("</style>")[-1]
        assert verdict in page
        explained = replay("explain", f"{name}.rres").stdout
        assert "match" not in explained
        assert "FAULT" in explained
    compared = replay("compare", "x.rsnap", "x.rsnap", "--driver", "emulator", status=3)
    assert told in flowing(compared.stderr)


def test_check_says_of_a_fault_whether_it_is_still_there(replay, faulting, tmp_path):
    faulting("past", *SECOND)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "x.rsnap").rename(tmp_path / "corpus" / "x.rsnap")
    replay.capture("--kernel", "bump", application=[sys.executable, str(PROGRAM), "past"])
    replay.run("x.rsnap", "--history", "base")
    done = replay("check", "corpus", "--baseline", "base", "--driver", "emulator")
    assert "1 FAULT" in done.stdout
    assert "PASS" not in done.stdout


def test_a_fault_on_the_second_device_and_in_one_window_of_several(replay, faulting, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "2")
    faulting("past", "--kernel", "fault", "--each", device=1)
    windows = json.loads(replay("run", "x.rsnap", "--driver", "emulator", "--no-timing", "--json").stdout)[
        "windows"
    ]
    found = [
        (item["result"]["verification"]["verdict"], item["result"]["verification"]["fault"])
        for item in windows
    ]
    assert found[0] == ("match", None)
    assert found[1][0] == "not_compared"
    assert found[1][1]["reproduced"]
    shown = replay("run", "x.rsnap", "--driver", "emulator", "--no-timing").stdout
    assert "outputs of 1 of 2 windows match, 1 fault reproduced" in shown


@pytest.mark.parametrize("timing", [[], ["--no-timing"]])
def test_launches_that_neither_driver_takes_are_no_match(replay, timing: list[str]):
    replay.capture("--kernel", "refused", application=[sys.executable, str(PROGRAM), "refused"])
    done = replay("run", "x.rsnap", "--driver", "emulator", *timing)
    assert "FAULT reproduced: CUDA_ERROR_NOT_SUPPORTED in kernel refused" in done.stdout
    assert "PTX line 7: nonsense.of.nobody is not implemented" in flowing(done.stdout)
    assert "match" not in done.stdout


def test_launches_that_neither_driver_takes_are_told_beside_those_that_ran(replay):
    replay.capture("--all", application=[sys.executable, str(PROGRAM), "refused"])
    done = replay("run", "x.rsnap", "--driver", "emulator")
    assert "outputs match" in done.stdout
    assert (
        "cuLaunchKernel returned CUDA_ERROR_NOT_SUPPORTED, as in the application: it did not run"
        in flowing(done.stdout)
    )
