"""Which snapshots this user captured: only for those does a worker follow whose address space is not randomised."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replay.engine.placing import layouts
from replay.errors import EngineError
from replay.run import parent
from replay.run.parent import RunOptions, run_snapshot
from replay.snapshot.container import SnapshotReader
from replay.snapshot.own import is_own, list_path, remember

from ...helpers.small_snapshots import increment
from ...helpers.snapshot_factory import vector_add


def own(path: Path) -> bool:
    with SnapshotReader(path) as reader:
        return is_own(reader)


def test_only_the_very_file_that_was_captured_is_ones_own(tmp_path: Path) -> None:
    path = vector_add().write(tmp_path / "x.rsnap")
    assert not own(path)
    remember(path)
    assert own(path)
    copy = tmp_path / "elsewhere.rsnap"
    copy.write_bytes(path.read_bytes())
    assert own(copy)
    assert not own(increment().write(tmp_path / "other.rsnap"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    copy.write_bytes(data)
    remember(path)
    with SnapshotReader(copy) as reader:
        assert not is_own(reader) or not reader.verify().good, "a change shows when the frame is read"


def test_a_list_that_somebody_else_could_write_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = vector_add().write(tmp_path / "x.rsnap")
    remember(path)
    assert list_path().stat().st_mode & 0o777 == 0o600
    assert list_path().parent.stat().st_mode & 0o777 == 0o700
    assert own(path)
    list_path().chmod(0o666)
    assert not own(path)
    list_path().unlink()
    os.mkfifo(list_path(), 0o600)
    assert not own(path)


def test_a_user_without_a_home_captures_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    path = vector_add().write(tmp_path / "x.rsnap")
    remember(path)
    assert not own(path)


@pytest.fixture
def asked_layouts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The layouts of the workers of a replay in which every address is taken."""
    asked: list[str] = []

    def run(worker: parent.WorkerProcess) -> None:
        asked.append(worker.layout)

    monkeypatch.setattr(parent.WorkerProcess, "run", run)
    return asked


def replay_in_vain(path: Path, **options: bool) -> None:
    with pytest.raises(EngineError, match="cannot be placed"):
        run_snapshot(path, RunOptions(driver="emulator", timing=None, **options))


def test_a_strangers_snapshot_gets_no_worker_without_randomisation(
    tmp_path: Path, asked_layouts: list[str]
) -> None:
    path = increment().write(tmp_path / "x.rsnap")
    replay_in_vain(path)
    assert len(asked_layouts) == parent.MAXIMUM_RESTARTS + 1
    assert not [layout for layout in asked_layouts if "fixed" in layout]


@pytest.mark.parametrize("how", ["own", "trust"])
def test_ones_own_and_a_trusted_one_do(tmp_path: Path, asked_layouts: list[str], how: str) -> None:
    path = increment().write(tmp_path / "x.rsnap")
    if how == "own":
        remember(path)
    replay_in_vain(path, trust=how == "trust")
    assert asked_layouts == list(layouts.ORDER)
