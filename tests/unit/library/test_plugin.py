"""The pytest plugin, in sessions of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .increments import SLOW, WRONG

HEAD = "import pytest, replay\n"


@pytest.fixture
def session(tmp_path: Path, increment_snapshot: Path, emulator: str):  # type: ignore[no-untyped-def]
    """Runs pytest on one test file beside `increment.rsnap`; its output, and whether it passed."""
    (tmp_path / "slow.ptx").write_text(SLOW)
    (tmp_path / "wrong.ptx").write_text(WRONG)

    def run(text: str, *options: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(HEAD + text)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-rs",
            "--replay-driver",
            emulator,
        ]
        done = subprocess.run(
            [*command, *options, "test_it.py"], cwd=tmp_path, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_assertions_that_hold(session) -> None:  # type: ignore[no-untyped-def]
    code, said = session(
        "def test_it(replay_snapshot, assert_outputs_match, assert_not_slower):\n"
        "    snapshot = replay_snapshot('increment.rsnap')\n"
        "    assert assert_outputs_match(snapshot).outputs.match\n"
        "    verdict = assert_not_slower(snapshot, b={'env': {'X': '1'}}, samples=2)\n"
        "    assert verdict.verdict == 'SAME'\n"
    )
    assert code == 0, said


def test_a_slower_side_fails_with_verdict_and_page(session, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, said = session(
        "def test_it(replay_snapshot, assert_not_slower):\n"
        "    snapshot = replay_snapshot('increment.rsnap')\n"
        "    assert_not_slower(snapshot, b={'swap': 'increment=slow.ptx'}, min_effect=0.02, samples=2)\n"
    )
    assert code == 1
    assert "B is SLOWER" in said
    assert "  B  increment.rsnap, swap=increment=slow.ptx" in said
    assert "page: replay-artifacts/test_it-test_it-1.html" in said
    page = tmp_path / "replay-artifacts" / "test_it-test_it-1.html"
    assert "SLOWER" in page.read_text()


def test_outputs_that_differ_fail(session, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    code, said = session(
        "def test_it(replay_snapshot, assert_outputs_match):\n"
        "    assert_outputs_match(replay_snapshot('increment.rsnap'), swap={'increment': 'wrong.ptx'})\n",
        "--replay-artifacts", "found",
    )  # fmt: skip
    assert code == 1
    assert "do not match: wrong" in said
    assert len(list((tmp_path / "found").glob("*.html"))) == 1


def test_a_gpu_test_is_skipped_without_one(session) -> None:  # type: ignore[no-untyped-def]
    code, said = session(
        "@pytest.mark.replay_gpu\ndef test_it():\n    raise AssertionError\n", "--strict-markers"
    )
    assert code == 0
    assert "1 skipped" in said


def test_capturing_outside_of_the_shim_says_how(session) -> None:  # type: ignore[no-untyped-def]
    code, said = session(
        "def test_it():\n    with replay.capture('x.rsnap'):\n        pass\n"
        "@replay.captured_once('increment')\ndef test_other():\n    pass\n"
    )
    assert code == 1
    assert "1 failed, 1 passed" in said
    assert "does not run under the shim of replay; call replay.launch_under_shim()" in said
    assert "--replay-capture" in said


def test_an_error_is_shown_at_the_line_that_met_it(session) -> None:  # type: ignore[no-untyped-def]
    text = "def test_it(replay_snapshot, assert_outputs_match):\n"
    text += "    assert_outputs_match(replay_snapshot('increment.rsnap'), swap={'increment': 'none.ptx'})\n"
    code, said = session(text)
    assert code == 1
    assert "replay.errors.UsageError" in said
    assert "there is no such file" in said
    assert "> " in said
    assert "plugin.py" not in said
    assert len(said.splitlines()) < 30, said
    assert "replay/library" in session(text, "--full-trace")[1]
    code, said = session("def test_it(replay_snapshot):\n    replay_snapshot('none.rsnap')\n")
    assert "no such file" in said
    assert "direct cause" not in said
