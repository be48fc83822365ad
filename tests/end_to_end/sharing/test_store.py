"""Large contents in a store or in files of weights: captured, replayed, made whole, and what is missing is named."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bare import is_possible

from ..conftest import PROGRAMS, TIMEOUT_S, Replay

TENSORS = random.Random(3).randbytes(1 << 20)


@pytest.fixture
def application(replay: Replay) -> list[str]:
    """Loads weights out of model.safetensors, which is there, and computes with them."""
    header = json.dumps(
        {"t": {"dtype": "U8", "shape": [len(TENSORS)], "data_offsets": [0, len(TENSORS)]}}
    ).encode()
    data = len(header).to_bytes(8, "little") + header + TENSORS
    (replay.folder / "model.safetensors").write_bytes(data)
    where = [str(8 + len(header)), str(len(TENSORS))]
    return [sys.executable, str(PROGRAMS / "weights.py"), "model.safetensors", *where]


def pieces(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_store_is_shared_and_the_replay_asks_it(replay: Replay, application: list[str]) -> None:
    for seed in ("1", "2"):
        options = ("--external", "shared", "--min", "256K")
        done = replay.capture(*options, application=[*application, seed], output=f"{seed}.rsnap")
    assert "all of it was there already" in done.stderr
    assert "replay run 2.rsnap --store shared" in done.stderr
    sizes = [(replay.folder / f"{seed}.rsnap").stat().st_size for seed in ("1", "2")]
    assert max(sizes) < 0.02 * len(TENSORS)
    assert sum(path.stat().st_size for path in pieces(replay.folder / "shared")) < len(TENSORS) + 1024
    assert "1.0 MiB in 5 pieces of a store" in replay("info", "2.rsnap").stdout
    assert "none is named" in replay.run("2.rsnap", status=3).stderr
    assert "outputs match" in " ".join(replay.run("2.rsnap", "--store", "shared").stdout.split())
    replay("verify", "2.rsnap", "--store", "shared")
    done = replay("fetch", "2.rsnap", "-o", "whole.rsnap", "--store", "shared", "--json")
    assert json.loads(done.stdout)["fetched_bytes"] == len(TENSORS) + 512
    assert "match" in replay.run("whole.rsnap").stdout
    broken = pieces(replay.folder / "shared")[2]
    broken.write_bytes(b"lies")
    done = replay.run("2.rsnap", "--store", "shared", status=3)
    assert f"piece {broken.name}" in done.stderr
    assert "is wrong" in done.stderr
    assert replay("verify", "2.rsnap", "--store", "shared", status=1).stdout.count(broken.name) == 1
    # What was lost comes back from any capture of the same weights
    replay.capture(*options, application=[*application, "3"], output="3.rsnap")
    assert "match" in replay.run("2.rsnap", "--store", "shared").stdout


def test_weights_are_referred_to(replay: Replay, application: list[str]) -> None:
    done = replay.capture("--weights", "model.safetensors", "--min", "256K", application=application)
    assert "1 MiB is in model.safetensors" in done.stderr
    assert (replay.folder / "x.rsnap").stat().st_size < 0.02 * len(TENSORS)
    (replay.folder / "model.safetensors").rename(replay.folder / "moved")
    assert "needs model.safetensors" in replay.run(status=3).stderr
    assert "outputs match" in " ".join(replay.run("x.rsnap", "--weights", "moved").stdout.split())


def test_a_store_that_fails_keeps_the_raw_capture(replay: Replay, application: list[str]) -> None:
    (replay.folder / "shared").write_text("no folder")
    options = ("--external", "shared", "--min", "256K")
    done = replay.capture(*options, application=application, status=3)
    command = next(text for text in done.stderr.split("`") if text.startswith("replay pack"))
    assert command.endswith("--external shared --min 256K")
    assert not (replay.folder / "x.rsnap").exists()
    (replay.folder / "shared").unlink()
    replay(*command.split()[1:])
    assert "match" in replay.run("x.rsnap", "--store", "shared").stdout


@pytest.mark.skipif(not is_possible(), reason="this machine lets nobody mount a file system of their own")
def test_a_full_store_is_tried_again_elsewhere(replay: Replay, application: list[str]) -> None:
    (replay.folder / "small").mkdir()
    capture = replay.capture_command(
        "--external", "small", "--min", "256K", output="x.rsnap", application=application
    )
    script = (
        'mount -t tmpfs -o size=512k small small; "$@"; status=$?; find small -name "*.partial"; exit $status'
    )
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "bash", "-uc", script, "full", *capture],
        cwd=replay.folder, capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "no space left" in done.stderr.lower()
    assert "free some space there, or name another store" in done.stderr
    assert "partial" not in done.stdout
    assert not (replay.folder / "x.rsnap").exists()
    command = next(text for text in done.stderr.split("`") if text.startswith("replay pack"))
    replay(*command.replace("--external small", "--external large").split()[1:])
    assert "match" in replay.run("x.rsnap", "--store", "large").stdout


def test_a_store_that_goes_away_is_named_and_fetching_goes_on(replay: Replay, application: list[str]) -> None:
    replay.capture("--external", "shared", "--min", "256K", application=application)
    lost = pieces(replay.folder / "shared")[1]
    moved = lost.rename(replay.folder / "kept")
    said = replay("fetch", "x.rsnap", "-o", "whole.rsnap", "--store", "shared", status=3).stderr
    assert f"piece {lost.name}" in said
    assert "name the store that has it: --store" in said
    (replay.folder / "shared").rename(replay.folder / "gone")
    said = replay("fetch", "x.rsnap", "-o", "whole.rsnap", "--store", "shared", status=3).stderr
    assert "shared" in said
    assert not (replay.folder / "whole.rsnap").exists()
    (replay.folder / "gone").rename(replay.folder / "shared")
    moved.rename(lost)
    replay("fetch", "x.rsnap", "-o", "whole.rsnap", "--store", "shared")
    assert "match" in replay.run("whole.rsnap").stdout


def test_what_cannot_be_used_is_said_before_the_application_runs(
    replay: Replay, application: list[str]
) -> None:
    application = [sys.executable, "-c", "open('ran', 'w')"]
    for options, text in (
        (("--external", "nosuch://x"), "nosuch"),
        (("--weights", "owner/no-such-model"), "hf download owner/no-such-model"),
        (("--min", "1M"), "--min needs --external"),
        (("--external", "s", "--min", "lots"), "no size"),
    ):
        assert text in replay.capture(*options, application=application, status=2).stderr
    assert not (replay.folder / "ran").exists()


def test_unused_pieces_are_listed_then_deleted(replay: Replay, application: list[str]) -> None:
    for seed in ("1", "2"):
        options = ("--external", "shared", "--min", "4K")  # the activations of each seed, too
        replay.capture(*options, application=[*application, seed], output=f"{seed}.rsnap")
    count = len(pieces(replay.folder / "shared"))
    for piece in pieces(replay.folder / "shared"):
        os.utime(piece, (time.time() - 8 * 86400,) * 2)
    (replay.folder / "2.rsnap").unlink()
    shown = replay("store", "gc", "shared", ".").stdout
    assert "Nothing was deleted" in shown
    assert len(pieces(replay.folder / "shared")) == count
    found = json.loads(replay("store", "gc", "shared", ".", "--delete", "--json").stdout)
    assert found["deleted"] == count - found["needed"] > 0
    assert "match" in replay.run("1.rsnap", "--store", "shared").stdout
    (replay.folder / "bad.rsnap").write_bytes(b"")
    assert "nothing was deleted" in replay("store", "gc", "shared", ".", "--delete", status=3).stderr
