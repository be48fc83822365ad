"""Fixtures for tests of every folder."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import commands as forked  # noqa: E402
import toolchain  # noqa: E402
import workers  # noqa: E402

from replay.run.supervisor import WorkerProcess  # noqa: E402

# A shell that starts the tests in the background lets them ignore an interrupt; what they start would ignore it, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Commands keep what they know of this user's snapshots here, and not in the home folder."""
    folder = tmp_path_factory.mktemp("state")
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


@pytest.fixture(scope="session")
def commands() -> Iterator[forked.Commands]:
    """Runs `replay` commands, without the time that Python needs to import replay for each."""
    started = forked.Commands()
    yield started
    started.close()


@pytest.fixture
def started_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of this test's replays are started, as replay starts them, and not forked."""
    monkeypatch.setenv(workers.STARTED, "1")


@pytest.fixture
def patient_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may take its time until it replays the window; only there the limit of the test counts."""

    def limit_s(worker: WorkerProcess) -> float:
        asked = float(vars(worker)["asked_s"])
        return asked if worker._stage == "replaying the window" else 100

    limit = property(limit_s, lambda worker, asked: vars(worker).update(asked_s=asked))
    monkeypatch.setattr(WorkerProcess, "_timeout_s", limit, raising=False)


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> toolchain.Programs:
    """Compiles CUDA programs, each once for this checkout. Skips where there is no nvcc."""
    nvcc = toolchain.find_nvcc()
    if nvcc is None:
        pytest.skip(
            "needs nvcc of CUDA 12 or later: put a toolkit on PATH, or pip install 'gpu-replay[test]'"
        )
    kept = toolchain.Programs(nvcc, request.config.cache.mkdir("programs"))
    kept.forget_unused()
    return kept


@pytest.fixture(scope="session")
def built_once(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> toolchain.BuiltOnce:
    """built_once(name, build): a folder that `build` has filled, once for all workers of the session."""
    base = tmp_path_factory.getbasetemp()
    # Each xdist worker has a folder of its own inside the session's. A session that a test starts is no worker, though
    # it has a worker's environment: above its folder is that of all sessions there ever were.
    shared = base.parent if hasattr(request.config, "workerinput") else base
    return lambda name, build: toolchain.once(shared / "built" / name, build)


def emulator_folder() -> Path:
    """The folder with libcuda.so.1: REPLAY_TEST_EMULATOR_DIR, else the installed package's."""
    if named := os.environ.get("REPLAY_TEST_EMULATOR_DIR"):
        return Path(named)
    import replay

    return Path(replay.__file__).resolve().parent / "_native" / "emulator"


@pytest.fixture(scope="session")
def emulator_dir() -> Path:
    folder = emulator_folder()
    if not (folder / "libcuda.so.1").exists():
        pytest.fail(f"no libcuda.so.1 in {folder}: run `make setup`, or set REPLAY_TEST_EMULATOR_DIR")
    return folder
