"""The folder for an issue: what is in it, and what makes none."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ...unit.helpers.image_factory import make_cubin
from ..conftest import DRIVER, Replay
from ..rewriting import swap_image


def attach(replay: Replay, *arguments: str, status: int = 0) -> dict:
    done = replay("attach", "x.rsnap", *arguments, "--driver", DRIVER, "--json", status=status)
    return json.loads(done.stdout)


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


def test_what_is_in_a_store_comes_into_the_folder(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    replay.capture(
        "--kernel", "inplace_scan", "--launch", "2", "--external", "store", "--min", "4K",
        application=replay.application("inplace_scan"),
    )  # fmt: skip
    assert "is in a store" in attach(replay, "--level", "none", "--no-replay", status=3)["what"].replace(
        "are", "is"
    )
    monkeypatch.setenv("REPLAY_STORE", str(replay.folder / "store"))
    attach(replay, "--level", "none", "--no-replay", "-o", "issue")
    monkeypatch.delenv("REPLAY_STORE")
    assert "outputs match" in replay.run("issue/x.rsnap").stdout


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
        (["--max", "0"], 2, "no size"),
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
