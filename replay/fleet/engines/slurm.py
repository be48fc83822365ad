"""Slurm, through submitit: a job for each worker.

A kind's `slurm` table is what submitit calls parameters of its executor: `slurm_partition`, `slurm_gres`,
`slurm_setup`, `timeout_min`. A job that was preempted, or whose node has vanished, is one that has left the queue
without a result: its unit goes to another worker, and another job is asked for. So neither submitit's checkpoints are
used, which read PREEMPTED as failed, nor `sacct`, which sites may not have.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from typing import Any

import submitit

from replay.errors import EngineError
from replay.fleet.engines import Running
from replay.fleet.matrix import Kind
from replay.fleet.night import Night

_DEFAULTS = {"timeout_min": 12 * 60, "slurm_use_srun": False}
_ASKS_EVERY_S = 2.0  # whatever asks more often is a burden to the controller
_TIMEOUT_S = 60.0


def _work(address: str, kind: str, slot: int) -> str:
    """In a job. Returns "", or what went wrong."""
    from replay.errors import ReplayError
    from replay.fleet.planning import night_at
    from replay.fleet.worker import ends_politely, work

    node = os.environ.get("SLURMD_NODENAME", "")
    try:
        with ends_politely():
            work(night_at(address), kind, slot, node=node)
    except KeyboardInterrupt:
        return ""
    except ReplayError as error:
        return f"{node}: {error}"
    return ""


class _Queue:
    """Which jobs of this coordinator there are."""

    def __init__(self) -> None:
        self._asked_s = 0.0
        self._there: set[str] = set()

    def has(self, job: str) -> bool:
        """Whether it waits or runs, as far as is known: a controller that does not answer loses nothing."""
        now_s = time.monotonic()
        if now_s - self._asked_s >= _ASKS_EVERY_S:
            self._asked_s = now_s
            command = ["squeue", "--noheader", "--me", "--format", "%i"]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
                )
                if not done.returncode:
                    self._there = set(done.stdout.split())
        return job in self._there


class _Job:
    def __init__(self, job: Any, queue: _Queue) -> None:
        self._job, self._queue, self._begin_s = job, queue, time.monotonic()

    def ended(self) -> str | None:
        if not self._job.paths.result_pickle.exists():
            if self._queue.has(str(self._job.job_id)) or time.monotonic() - self._begin_s < 2 * _ASKS_EVERY_S:
                return None
            time.sleep(_ASKS_EVERY_S)  # a file may come later than the news of it
            if not self._job.paths.result_pickle.exists():
                return f"job {self._job.job_id} left the queue without a result: killed, preempted or lost its node"
        try:
            return str(self._job.result())
        except Exception as error:  # whatever the job raised, and what submitit makes of it
            lines = str(error).strip().splitlines()
            return f"job {self._job.job_id}: {lines[-1] if lines else 'no result'}"

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._job.cancel(check=False)


class _Slurm:
    def __init__(self) -> None:
        self._executors: dict[str, Any] = {}
        self._queue = _Queue()

    def slots(self, kind: Kind) -> int:
        return kind.workers

    def start(self, night: Night, kind: Kind, slot: int) -> Running:
        if kind.name not in self._executors:
            folder = night.folder.absolute() / "jobs"
            executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
            executor.update_parameters(
                name=f"replay-{kind.name}", **{**_DEFAULTS, **kind.settings.get("slurm", {})}
            )
            self._executors[kind.name] = executor
        asked = _work, night.address, kind.name, slot
        return _Job(self._executors[kind.name].submit(*asked), self._queue)

    def close(self) -> None:
        """Its jobs are cancelled one by one."""


def begin() -> _Slurm:
    """Raises EngineError where there is no Slurm."""
    for name in ("srun", "sbatch", "squeue", "scancel"):  # submitit asks for the first
        if shutil.which(name) is None:
            raise EngineError(
                f"there is no {name} here", where="--on slurm", next="run it where jobs are submitted"
            )
    return _Slurm()
