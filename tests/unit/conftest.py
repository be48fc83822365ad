"""Fixtures of the unit tests: a snapshot to read, and replays of snapshots on the CPU driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import workers
from buckets import bucket, server  # noqa: F401 fixtures

from replay import drivers
from replay.results.schema import RunResult
from replay.run import parent, supervisor
from replay.run.parent import RunOptions, run_snapshot
from replay.run.supervisor import WorkerProcess
from replay.snapshot.own import remember
from replay.timing.stopping import StoppingParameters

from .helpers.saxpy_snapshot import write_snapshot
from .helpers.snapshot_factory import SnapshotFactory

FEW_SAMPLES = StoppingParameters(fixed_samples=3)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return write_snapshot(tmp_path / "saxpy.rsnap")


@pytest.fixture(scope="session")
def emulator(emulator_dir: Path) -> str:
    """The folder of the CPU driver, as `--driver` takes it."""
    return str(emulator_dir)


@pytest.fixture(autouse=True)
def forked_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that this process would start are forked from the process of `commands`."""
    for place, name in ((WorkerProcess, "_start"), (WorkerProcess, "_ask"), (supervisor, "start_ahead")):
        monkeypatch.setattr(place, name, getattr(place, name))  # put back at the end
    workers.use(lambda *words: request.getfixturevalue("commands").fork_worker(*words))


@pytest.fixture
def replayed(tmp_path: Path, emulator: str) -> Callable[..., RunResult]:
    """Writes a factory's snapshot and replays it on the CPU driver. timing: None for none. own: this user captured it
    here."""

    def run(
        factory: SnapshotFactory,
        *,
        timing: StoppingParameters | None = FEW_SAMPLES,
        own: bool = False,
        **options: Any,
    ) -> RunResult:
        path = factory.write(tmp_path / "x.rsnap")
        if own:
            remember(path)
        return run_snapshot(
            path, RunOptions(**{"driver": emulator, "timing": timing, "timeout_s": 60, **options})
        )

    return run


@pytest.fixture
def measured(tmp_path: Path, emulator: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunResult]:
    """The way of a real device, walked on the CPU driver: what it measures means nothing, so it is not warmed up for
    long."""
    library = Path(emulator) / "libcuda.so.1"
    chosen = drivers.Driver("system", library, library.parent, emulated=False)
    monkeypatch.setattr(parent, "find_driver", lambda choice: chosen)

    def run(factory: SnapshotFactory, *, samples: int = 2, **options: Any) -> RunResult:
        path = factory.write(tmp_path / "x.rsnap")
        timing = StoppingParameters(fixed_samples=samples, maximum_wall_ns=200_000_000)
        return run_snapshot(path, RunOptions(**{"timing": timing, "timeout_s": 30, **options}))

    return run


@pytest.fixture
def sabotage(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Python that the worker runs before it begins."""

    def use(code: str) -> None:
        before = supervisor._BOOTSTRAP.partition("from replay.engine.worker")
        first = f"exec({code!r}); ".replace("{", "{{").replace("}", "}}")  # the text is a template
        monkeypatch.setattr(supervisor, "_BOOTSTRAP", before[0] + first + before[1] + before[2])

    return use
