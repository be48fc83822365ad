"""From a fault in a program to the fault at somebody's who has neither the program nor a GPU, nor a network: captured,
minimised, redacted, attached and replayed by the commands that a user types."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from bare import in_bare_root, is_possible

from ..conftest import DRIVER, TIMEOUT_S, Replay
from .test_planted_secrets import found_in

SMALL_BYTES = 100 << 10  # what most trackers take
FOLDER, USER, SECRET, COMMENT, SOURCE, DEBUG = (
    f"planted{name}" for name in ("folder", "ada", "value", "comment", "source", "debug")
)
PLANTED = [FOLDER, USER, SECRET, COMMENT, SOURCE, DEBUG]
LIMIT = (
    "REPLAY_EMULATOR_TIMEOUT"  # after which the CPU driver ends a kernel that hangs; the receiver has none
)


@dataclass(frozen=True)
class Fault:
    """What is wrong with a sample. before, after: in its PTX; captured: in its own run, else in a variant of it.
    symptom, replays: of `minimise`. shows: what `attach` and the receiver's command say. found: the command that finds
    it, where a replay of the snapshot alone does not. redacted: options."""

    sample: str
    kernel: str
    before: str
    after: str
    symptom: str
    shows: str
    captured: bool = True
    found: tuple[str, ...] = ()
    replays: int = 12
    redacted: tuple[str, ...] = ()


SWAPPED = ("run", "y.rsnap", "--no-timing", "-o", "found.rres")
FAULTS = {
    "out of bounds": Fault(
        "vector_add", "vector_add", "[%rd10], %f3", "[%rd10+0x7000000], %f3", "crash",
        "FAULT reproduced: CUDA_ERROR_ILLEGAL_ADDRESS", redacted=("--rename",),
    ),
    "one wrong element": Fault(
        "matmul_tiled", "matmul_tiled", "[%rd12], %f60;",
        "[%rd12], %f60; setp.eq.u32 %p1, %r32, 77; @%p1 st.global.f32 [%rd12], %f64;",
        "wrong", "DIFFER", captured=False, found=SWAPPED, redacted=("--level", "noise"),
    ),
    "a number that is none": Fault(
        "reduce", "reduce_blocks", "[%rd8], %f7;",
        "[%rd8], %f7; setp.eq.u32 %p1, %r2, 1; mov.b32 %f1, 0x7fc00000; @%p1 st.global.f32 [%rd8], %f1;",
        "wrong", "DIFFER", captured=False, found=SWAPPED, replays=30,
    ),
    "slower through one branch": Fault(
        "inplace_scan", "inplace_scan", "[%rd1], %r45;",
        """[%rd1], %r45; setp.ne.u32 %p1, %r1, 5; @%p1 bra $L__BB0_20; mov.u32 %r45, 0;
again: add.u32 %r45, %r45, 1; setp.lt.u32 %p1, %r45, 9000; @%p1 bra again;""",
        "slower", "SLOWER", captured=False, replays=24,
        found=("compare", "y.rsnap", "--quick", "-o", "found.json"),
    ),
    "hang": Fault(
        "pointer_table", "pointer_table", "[%rd30], %f21;", "[%rd30], %f21; again: bra again;", "crash",
        "no progress",
    ),
    "nondeterministic": Fault(
        "vector_add", "vector_add", "[%rd10], %f3;",
        "[%rd10], %f3; .reg .b64 %now; mov.u64 %now, %globaltimer; st.global.u64 [%rd9], %now;",
        "nondeterministic", "NONDETERMINISTIC",
    ),
}  # fmt: skip


def with_secrets(text: str) -> str:
    """PTX with what compilers write about where it comes from."""
    numbers = ",".join(str(byte) for byte in f"/home/{USER}/{DEBUG}".encode())
    return (
        f"// {COMMENT}\n{text}\n"
        f'.file 1 "/home/{USER}/{SOURCE}/x.cu"\n.section .debug_str\n{{\n.b8 {numbers},0\n}}\n'
    )


def capture(replay: Replay, fault: Fault) -> None:
    """x.rsnap, of a program with secrets in its arguments, its environment, its folder and its code."""
    folder = replay.folder / FOLDER / USER
    folder.mkdir(parents=True)
    program = shutil.copy(replay.samples / fault.sample, folder / "program")
    text = Path(f"{replay.samples / fault.sample}.ptx").read_text()
    assert fault.before in text
    wrong = text.replace(fault.before, fault.after)
    (folder / f"{fault.sample}.ptx").write_text(with_secrets(wrong if fault.captured else text))
    if not fault.captured:
        (replay.folder / "new.ptx").write_text(wrong)
    arguments = ["3", "--pause-after", "99", "--pause-file", f"{folder}/{SECRET}"]
    words = ["env", f"SERVICE_TOKEN={SECRET}", str(program), *arguments]
    replay.capture("--kernel", fault.kernel, "--launch", "1", application=words, status=None)


def attached(replay: Replay, fault: Fault) -> dict:
    """x.rsnap minimised, redacted, and in the folder `issue`."""
    driver = ("--driver", DRIVER)
    swap = f"swap={fault.kernel}=new.ptx"
    side = () if fault.captured else ("--b", swap)
    replay("minimise", "x.rsnap", "-o", "small.rsnap", "--symptom", fault.symptom, *driver, *side, "--quick",
           "--budget", f"{fault.replays}r")  # fmt: skip
    replay("redact", "small.rsnap", "-o", "y.rsnap", *driver, *fault.redacted)
    found = []
    if fault.found:
        variant = {"run": ("--swap", swap.partition("=")[2]), "compare": ("--b", swap)}
        replay(*fault.found, *driver, *variant[fault.found[0]], status=None)
        found = [fault.found[-1], "new.ptx"]
    hangs = ("--timeout", "5s") if fault.symptom == "crash" and not fault.shows.startswith("FAULT") else ()
    return json.loads(
        replay(
            "attach", "y.rsnap", *found, "-o", "issue", *driver, *hangs, "--json", env=without_limit()
        ).stdout
    )


def without_limit() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != LIMIT}


@pytest.mark.skipif(not is_possible(), reason="this machine lets nobody make a root of their own")
@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_seen_by_whoever_gets_the_folder(
    replay: Replay, name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    monkeypatch.setenv("SERVICE_TOKEN", SECRET)
    monkeypatch.setenv("USER", USER)
    monkeypatch.setenv(LIMIT, "1000")  # ms
    capture(replay, fault)
    made = attached(replay, fault)
    assert fault.shows in made["symptom"]
    assert made["needs_gpu"] == ""
    assert made["snapshot_bytes"] < SMALL_BYTES
    files = [replay.folder / "issue" / item["name"] for item in made["files"]]
    assert sorted(files) == sorted((replay.folder / "issue").iterdir())
    named = [fault.kernel] if "--rename" in fault.redacted else []
    assert found_in(files, [*PLANTED, *named]) == []

    there = Path(shutil.move(replay.folder / "issue", tmp_path_factory.mktemp("there")))
    subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=there, check=True, capture_output=True)
    done = in_bare_root(there, [sys.executable, "-m", "replay", *made["command"]], TIMEOUT_S)
    assert fault.shows in done.stdout + done.stderr, done.stdout + done.stderr
    assert f"replay {' '.join(made['command'])}" in (there / "issue.md").read_text()


@pytest.mark.skipif(not is_possible(), reason="this machine lets nobody make a root of their own")
def test_a_bare_root_has_neither_network_nor_gpu_nor_home(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    script = "cat /proc/net/dev; ls / /dev; ls /home /root/.cache; env; ls"
    told = in_bare_root(tmp_path, ["bash", "-c", script], TIMEOUT_S).stdout
    interfaces = [
        line.partition(":")[0].strip() for line in told.splitlines() if ":" in line and line.startswith(" ")
    ]
    assert interfaces == ["lo"]
    assert "nvidia" not in told
    assert "home" not in told.split()
    assert os.path.basename(Path(__file__).parents[3]) not in told
    assert told.split()[-1] == "here"
