"""From a fault to an issue, and from the issue to the fault at somebody's who has neither the program nor a GPU."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ...unit.helpers.image_factory import make_cubin
from ..conftest import DRIVER, TIMEOUT_S, Replay
from ..rewriting import swap_image
from .test_planted_secrets import found_in

SMALL_BYTES = 100 << 10  # what most trackers take
SECRET, COMMENT, FOLDER = "plantedvalue", "plantedcomment", "plantedfolder"


@dataclass(frozen=True)
class Fault:
    """What is wrong with a sample. before, after: in its PTX; captured: in its own run, else in a variant of it.
    shows: what a replay says. symptom: of `minimise`."""

    sample: str
    kernel: str
    before: str
    after: str
    shows: str
    symptom: str = "crash"
    captured: bool = True


FAULTS = {
    "out of bounds": Fault("vector_add", "vector_add", "[%rd10], %f3", "[%rd10+0x7000000], %f3",
                           "FAULT reproduced: CUDA_ERROR_ILLEGAL_ADDRESS"),
    "misaligned": Fault("inplace_scan", "inplace_scan", "[%rd1], %r45", "[%rd1+1], %r45",
                        "FAULT reproduced: CUDA_ERROR_MISALIGNED_ADDRESS"),
    "trap": Fault("pointer_table", "", "ret;", "trap; ret;", "FAULT reproduced: CUDA_ERROR_"),
    "nondeterministic": Fault("vector_add", "vector_add", "[%rd10], %f3;",
                              "[%rd10], %f3; .reg .b64 %now; mov.u64 %now, %globaltimer; st.global.u64 [%rd9], %now;",
                              "NONDETERMINISTIC", "nondeterministic"),
    "one wrong element": Fault("vector_add", "vector_add", "[%rd10], %f3;",
                               "[%rd10], %f3; setp.eq.u32 %p1, %r1, 77; @%p1 st.global.f32 [%rd10], %f1;",
                               "DIFFER", "wrong", captured=False),
}  # fmt: skip


def attach(replay: Replay, *arguments: str, status: int = 0) -> dict:
    done = replay("attach", "x.rsnap", *arguments, "--driver", DRIVER, "--json", status=status)
    return json.loads(done.stdout)


def planted(replay: Replay, name: str) -> None:
    """x.rsnap, with the fault: a small part of a capture of a sample with secrets where a capture meets texts."""
    fault = FAULTS[name]
    folder = replay.folder / FOLDER
    folder.mkdir()
    program = shutil.copy(replay.samples / fault.sample, folder)
    text = Path(f"{replay.samples / fault.sample}.ptx").read_text()
    assert fault.before in text
    wrong = f"// {COMMENT}\n" + text.replace(fault.before, fault.after)
    (folder / f"{fault.sample}.ptx").write_text(wrong if fault.captured else text)
    choice = ("--kernel", fault.kernel, "--launch", "1") if fault.kernel else ("--all",)
    words = ["env", f"SERVICE_TOKEN={SECRET}", program]
    replay.capture(*choice, application=words, status=None)
    swap = f"{fault.kernel}={replay.folder}/new.ptx"
    if not fault.captured:
        (replay.folder / "new.ptx").write_text(wrong.partition("\n")[2])
    (replay.folder / "x.rsnap").rename(replay.folder / "whole.rsnap")
    side = () if fault.captured else ("--b", f"swap={swap}")
    replay("minimise", "whole.rsnap", "-o", "x.rsnap", "--symptom", fault.symptom, "--driver", DRIVER, *side,
           "--budget", "16r")  # fmt: skip
    if not fault.captured:
        replay("run", "x.rsnap", "--driver", DRIVER, "--no-timing", "--swap", swap, "-o", "r.rres", status=1)


def elsewhere(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """A command of `replay` at somebody's with an empty environment, and without a network where that can be had."""
    alone = ["unshare", "-rn"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True).returncode:
        alone = []
    words = [*alone, sys.executable, "-m", "replay", *command]
    return subprocess.run(words, cwd=folder, env={}, capture_output=True, text=True, timeout=TIMEOUT_S)


@pytest.mark.parametrize("name", FAULTS)
def test_whoever_gets_the_folder_sees_the_fault(
    replay: Replay, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    planted(replay, name)
    found = [] if FAULTS[name].captured else ["r.rres", "new.ptx"]
    made = attach(replay, *found, "-o", "issue")
    assert FAULTS[name].shows in made["symptom"]
    assert made["needs_gpu"] == ""
    assert made["snapshot_bytes"] < SMALL_BYTES
    files = [replay.folder / "issue" / item["name"] for item in made["files"]]
    assert sorted(files) == sorted((replay.folder / "issue").iterdir())
    assert found_in(files, [SECRET, COMMENT, FOLDER]) == []
    there = shutil.move(replay.folder / "issue", tmp_path_factory.mktemp("there"))
    subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=there, check=True, capture_output=True)
    done = elsewhere(Path(there), [*made["command"], "--no-timing"])
    assert FAULTS[name].shows in done.stdout, done.stdout + done.stderr
    issue = Path(there, "issue.md").read_text()
    assert made["snapshot_sha256"] in issue
    assert f"replay {' '.join(made['command'])}" in issue


@pytest.fixture
def scanned(replay: Replay, good_snapshot: Path) -> Path:
    return Path(shutil.copy(good_snapshot, replay.folder / "x.rsnap"))


def test_parts_are_joined_as_the_text_says(replay: Replay, scanned: Path) -> None:
    made = attach(
        replay, "--level", "none", "--max", "100K", "--no-replay", "--symptom", "it is *slow*\nsince June"
    )
    folder = replay.folder / "x-issue"
    parts = [item["name"] for item in made["files"] if item["kind"] == "part"]
    assert parts == sorted(parts)
    assert all(item["size_bytes"] <= 100 << 10 for item in made["files"])
    assert not (folder / "x.rsnap").exists()
    issue = (folder / "issue.md").read_text()
    assert issue.startswith("# it is \\*slow\\*\n")
    assert "it is *slow*\nsince June" in issue
    lines = issue.partition("```sh\n")[2].partition("```")[0].splitlines()
    commands = [line for line in lines if not line.startswith(("pip ", "replay "))]
    assert any(line.startswith("cat ") for line in commands)
    subprocess.run(["bash", "-euc", "\n".join(commands)], cwd=folder, check=True, capture_output=True)
    assert (folder / "x.rsnap").read_bytes() == scanned.read_bytes()
    assert hashlib.sha256(scanned.read_bytes()).hexdigest() == made["snapshot_sha256"]


def test_what_is_redacted_already_stays_as_it_is(replay: Replay, scanned: Path) -> None:
    replay("redact", "x.rsnap", "-o", "y.rsnap", "--level", "shapes", "--driver", DRIVER)
    scanned.unlink()
    (replay.folder / "y.rsnap").rename(scanned)
    made = attach(replay)
    assert (made["level"], made["redacted"]) == ("none", "shapes")
    assert (replay.folder / "x-issue" / "x.rsnap").read_bytes() == scanned.read_bytes()
    assert "cannot be replayed" in made["needs_gpu"]
    assert "cannot be replayed" in (replay.folder / "x-issue" / "issue.md").read_text()


def test_what_only_a_gpu_can_replay_is_told(replay: Replay, good_snapshot: Path) -> None:
    swap_image(good_snapshot, replay.folder / "x.rsnap", lambda data: make_cubin())
    made = attach(replay, "--no-replay")
    assert made["needs_gpu"]
    assert "needs an NVIDIA GPU" in (replay.folder / "x-issue" / "issue.md").read_text()


def test_a_name_for_shells_and_checksums(replay: Replay, scanned: Path) -> None:
    scanned.rename(replay.folder / "- a\\b\n$(c).rsnap")
    done = replay("attach", "./- a\\b\n$(c).rsnap", "-o", "issue", "--level", "none", "--no-replay", "--json")
    assert json.loads(done.stdout)["snapshot"] == "_a_b___c_.rsnap"


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--level", "all"], 2, "no level"),
        (["--max", "10", "--level", "none", "--no-replay"], 2, "parts"),
        (["--max", "much"], 2, "no size"),
        (["other.rres"], 2, "another snapshot"),
        (["nowhere.rres"], 3, "no such file"),
        (["-o", "full"], 3, "not empty"),
        (["full/a.ptx", "a.ptx"], 2, "a name that another file has"),
        (["a b.ptx"], 2, "needs quotes"),
    ],
)
def test_what_makes_no_sense_leaves_nothing(
    replay: Replay, scanned: Path, options: list[str], status: int, words: str
) -> None:
    (replay.folder / "full").mkdir()
    (replay.folder / "full" / "file").touch()
    if "other.rres" in options:
        replay("redact", "x.rsnap", "-o", "y.rsnap", "--no-replay")
        replay("run", "y.rsnap", "--driver", DRIVER, "--no-timing", "-o", "other.rres")
    before = sorted(replay.folder.iterdir())
    assert words in attach(replay, *options, status=status)["what"]
    assert sorted(replay.folder.iterdir()) == before
