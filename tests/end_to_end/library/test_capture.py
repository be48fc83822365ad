"""A program that captures itself, and windows of several, through the library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import replay as library

from ..conftest import DRIVER, PROGRAMS, Replay


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("inside")
    command = [sys.executable, str(PROGRAMS / "inside.py"), str(folder), DRIVER]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 7, done.stderr  # the program's own
    return folder, dict(line.split(" ", 1) for line in done.stdout.splitlines())  # type: ignore[misc]


def test_the_launch_that_was_asked_for_is_captured(inside: tuple[Path, dict[str, str]]) -> None:
    folder, said = inside
    assert said["second"] == f"{2 * 3} {2 * 3 * 5}"
    assert said["all"] == "['scale', 'other']"
    assert said["other"] == "['other']"
    assert said["once"] == "True"
    assert said["range"] == "[3, 5]"
    assert "a range of launches was captured" in said["after"]
    for name in ("second", "all", "other", "once", "range"):
        result = library.open(folder / f"{name}.rsnap").run(driver=DRIVER, timing=False)
        assert result.outputs.verdict in ("match", "not_compared" if name == "other" else "match"), name
    factor = library.open(folder / "second.rsnap").launches[0].parameters
    assert factor is not None
    assert factor[1].integer == 5


def test_what_cannot_be_captured_is_said(inside: tuple[Path, dict[str, str]]) -> None:
    folder, said = inside
    assert said["none"].endswith("nothing was launched in the block that matches --kernel gemm --launch 1")
    assert said["raises"] == "of the program"
    assert "one such block cannot be inside another" in said["nested"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "all.rsnap", "once.rsnap", "other.rsnap", "range.rsnap", "second.rsnap",
    ]  # fmt: skip


def test_each_window_of_several(replay: Replay) -> None:
    replay.capture(
        "--kernel",
        "inplace_scan",
        "--launch",
        "1-2",
        "--each",
        application=replay.application("inplace_scan"),
    )
    path = replay.folder / "x.rsnap"
    with library.open(path) as opened:
        assert [window.window for window in opened.windows] == [1, 2]
        with pytest.raises(library.errors.UsageError, match="has 2 windows") as error:
            _ = opened.memory
        assert "snapshot.windows[0]" in (error.value.next or "")
        with pytest.raises(library.errors.UsageError, match="has 2 windows"):
            opened.run(driver=DRIVER)
        first, second = opened.windows
        assert (first.memory[1].bytes("after") == second.memory[1].bytes("before")).all()
        alone = second.extract(replay.folder / "second.rsnap")
        assert (alone.memory[1].bytes() == second.memory[1].bytes()).all()
        assert second.run(driver=DRIVER, timing=False).outputs.match
    with pytest.raises(library.errors.UsageError, match="no window 9"):
        library.open(path, window=9)


TEST = """
import sys
import replay

@replay.captured_once("scale", launch=2)
def test_scale():
    sys.argv = ["inside.py", {folder!r}, {driver!r}]
    from scale import launch
    launch("scale", 3)
    launch("scale", 5)

def test_its_snapshot(replay_snapshot, assert_outputs_match):
    snapshot = replay_snapshot("test_it-test_scale.rsnap")
    assert snapshot.launches[0].parameters[1].integer == 5
    assert_outputs_match(snapshot)
"""


def test_a_test_keeps_a_snapshot_of_its_kernel(tmp_path: Path) -> None:
    text = (PROGRAMS / "inside.py").read_text()
    begin, end = text.index("PTX = "), text.index("folder = Path")
    imports = "import ctypes\nfrom cuda.bindings import driver as cuda\n"
    (tmp_path / "scale.py").write_text(imports + text[begin:end])
    (tmp_path / "test_it.py").write_text(TEST.format(folder=str(tmp_path), driver=DRIVER))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--replay-driver", DRIVER]

    def run(*options: str) -> str:
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            [*command, *options, "test_it.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "2 passed" in run("--replay-capture")
    kept = tmp_path / "test_it-test_scale.rsnap"
    written = kept.stat().st_mtime_ns
    assert "2 passed" in run("--replay-capture")
    assert kept.stat().st_mtime_ns == written
    assert not list(tmp_path.glob("*.rcap"))
