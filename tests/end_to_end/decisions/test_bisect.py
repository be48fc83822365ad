"""`replay bisect` on the CPU driver: real replays under variants, one of which is known to bring a slow-down."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

COUNT, FIRST_BAD = 9, 5


@pytest.fixture
def snapshot(replay, good_snapshot):
    (replay.folder / "x.rsnap").write_bytes(good_snapshot.read_bytes())
    lines = [
        f"env=REPLAY_EMULATOR_SLOWDOWN=scan:{1.03 if at >= FIRST_BAD else 1.0} env=STEP={at}"
        for at in range(COUNT)
    ]
    (replay.folder / "variants").write_text("\n".join(lines))
    return "x.rsnap"


def test_the_variant_that_brought_a_slow_down_is_named(replay, snapshot):
    text = replay("bisect", snapshot, "--over", "list=variants").stdout
    assert text.startswith("first bad: env=REPLAY_EMULATOR_SLOWDOWN=scan:1.03 env=STEP=5 (last good ")
    assert "+3.0" in text.splitlines()[0]
    assert "modelled" in text


def test_an_interrupted_search_goes_on(replay, snapshot):
    """The state of a search that was stopped in its middle; a candidate that was asked is not asked again."""
    first = replay.start(
        replay.command("bisect", snapshot, "--over", "list=variants", "--state", "s.json", "-q")
    )
    state = replay.folder / "s.json"
    for _ in range(600):
        if state.exists() and len(json.loads(state.read_text())["progress"]["observations"]) >= 1:
            break
        try:
            first.wait(0.1)
        except Exception:
            continue
        break
    first.kill()
    first.communicate()
    if not state.exists():
        pytest.skip("the search ended before it could be stopped: run it on a less busy machine")
    known = json.loads(state.read_text())["progress"]["rounds"]
    done = replay("bisect", snapshot, "--over", "list=variants", "--state", "s.json", "--json")
    result = json.loads(done.stdout)
    assert result["steps"][0]["first_bad"] == FIRST_BAD
    assert result["rounds"] > known >= 3
    assert not state.exists()


def test_wrong_outputs_are_searched(replay, snapshot):
    """A variant whose kernel computes something else, made of the captured PTX."""
    replay("dump", snapshot, "-o", "dumped")
    (good,) = (replay.folder / "dumped").rglob("*.ptx")
    text = good.read_text()
    bad = text.replace("add.s32 \t%r47, %r37, %r47;", "sub.s32 \t%r47, %r37, %r47;")
    assert bad != text
    (replay.folder / "good.ptx").write_text(text)
    (replay.folder / "also_good.ptx").write_text(text + "// the same code\n")
    (replay.folder / "bad.ptx").write_text(bad)
    done = replay(
        "bisect",
        snapshot,
        "--over",
        "module=good.ptx,also_good.ptx,bad.ptx",
        "--symptom",
        "wrong",
        "--json",
        status=None,
    )
    result = json.loads(done.stdout)
    assert result["steps"][0]["first_bad"] == 2


def test_equal_ends_are_refused(replay, snapshot):
    (replay.folder / "same").write_text("env=STEP=1\nenv=STEP=2\n")
    done = replay("bisect", snapshot, "--over", "list=same", status=3)
    assert "the bad end is SAME" in done.stderr


def test_options_of_a_compiler_that_is_not_there_are_refused(replay, snapshot):
    done = replay("bisect", snapshot, "--over", "jit=opt-level=4..0", "--driver", "emulator", status=3)
    assert "has no compiler" in done.stderr


def test_git_bisect_run_takes_the_status_of_compare(replay, snapshot):
    """0 good, 1 bad, 125 where nothing can be said."""
    slower = ("--b", "env=REPLAY_EMULATOR_SLOWDOWN=scan:1.03")
    replay("compare", snapshot, "--samples", "2", "--b", "env=X=1", "--git-bisect", status=0)
    replay("compare", snapshot, "--samples", "2", *slower, "--git-bisect", status=1)
    replay("compare", snapshot, "--b", "env=REPLAY_EMULATOR_SEGV=scan", "--git-bisect", status=125)


def test_a_command_may_be_the_judge(replay):
    done = replay(
        "bisect", "--over", "exec=sh -c '[ $REPLAY_CANDIDATE -lt 4 ]'", "--candidates", "1,2,3,4,5,6", "-q"
    )
    assert done.stdout.startswith("first bad: 4 (last good 3)")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git on PATH")
def test_commits_are_named_with_their_subjects_and_what_the_command_said(replay):
    def git(*arguments):
        named = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *named, *arguments], cwd=replay.folder, check=True, capture_output=True)
        return done.stdout.decode().strip()

    git("init", "-q")
    for number in range(10):
        git("commit", "-q", "--allow-empty", "-m", f"change {number}\x1b[31m")
    commits = git("log", "--reverse", "--format=%h").split()
    (replay.folder / "commits").write_text("\n".join(commits))
    judge = "echo run >> runs; git log -1 --format=%s $0; case $(git log -1 --format=%s $0) in *[6-9]*) exit 1;; esac"
    done = replay("bisect", "--over", f"exec=sh -c '{judge}'", "--candidates", "@commits", "-o", "b.json")
    line = done.stdout.splitlines()[0]
    assert line.startswith(f'first bad: {commits[6]} "change 6')
    assert f'(last good {commits[5]} "change 5' in line
    assert f"log of {commits[6]}:\n    change 6" in done.stdout
    assert "\x1b" not in done.stdout
    assert len((replay.folder / "runs").read_text().split()) <= 8
    result = json.loads((replay.folder / "b.json").read_text())
    assert result["rounds"] <= 8
    assert result["candidates"][6]["subject"].startswith("change 6")


def test_machine_code_is_merged_and_then_the_cpu_driver_can_go_no_further(replay, snapshot):
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("needs ptxas on PATH: install a CUDA toolkit")
    places = []
    for name in ("one", "other"):
        (replay.folder / name).mkdir()
        places.append(replay.folder / name / "ptxas")
        places[-1].symlink_to(ptxas)
    lines = [f"ptxas={places[0]}", f"ptxas={places[1]}", f"ptxas={ptxas} jit=opt-level=0"]
    (replay.folder / "compilers").write_text("\n".join(lines))
    done = replay(
        "bisect", snapshot, "--over", "list=compilers", "--driver", "emulator", "-o", "b.json", status=3
    )
    assert done.stdout.startswith("nothing was searched: 2 kinds of machine code in 3 candidates")
    assert "executes only PTX" in done.stderr
    assert "--driver system" in done.stderr
    candidates = json.loads((replay.folder / "b.json").read_text())["candidates"]
    assert [item["group"] for item in candidates] == [0, 0, 2]
    assert all(item["kernels"][0]["registers"] for item in candidates)
