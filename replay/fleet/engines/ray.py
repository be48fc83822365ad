"""Ray: a task for each worker, on whatever nodes the cluster has. RAY_ADDRESS says which cluster.

A kind's `ray` table is what Ray calls the options of a task: `num_gpus`, `num_cpus`, `resources`. Ray starts no task
again by itself here: it knows no node to leave out, and the folder of the night does.
"""

from __future__ import annotations

import contextlib
from typing import Any

import ray

from replay.fleet.engines import Running
from replay.fleet.matrix import Kind
from replay.fleet.night import Night


def _work(address: str, kind: str, slot: int) -> str:
    """In a process of Ray's. Returns "", or what went wrong."""
    from replay.errors import ReplayError
    from replay.fleet.planning import night_at
    from replay.fleet.worker import work

    context = ray.get_runtime_context()
    node = next(
        (item["NodeName"] for item in ray.nodes() if item["NodeID"] == context.get_node_id()),
        context.get_node_id(),
    )
    try:
        work(night_at(address), kind, slot, node=str(node))
    except ReplayError as error:
        return f"{node}: {error}"
    return ""


class _Task:
    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def ended(self) -> str | None:
        ready, _ = ray.wait([self._reference], timeout=0)
        if not ready:
            return None
        try:
            return str(ray.get(self._reference))
        except (ray.exceptions.TaskCancelledError, KeyboardInterrupt):
            return ""
        except ray.exceptions.RayError as error:
            return f"Ray: {str(error).strip().splitlines()[0]}"

    def stop(self) -> None:
        with contextlib.suppress(ray.exceptions.RayError):
            ray.cancel(self._reference)


class _Ray:
    def __init__(self) -> None:
        self._mine = not ray.is_initialized()
        if self._mine:
            ray.init(log_to_driver=False, configure_logging=False, include_dashboard=False)

    def slots(self, kind: Kind) -> int:
        return kind.workers

    def start(self, night: Night, kind: Kind, slot: int) -> Running:
        options = {"num_cpus": 1, **kind.settings.get("ray", {}), "max_retries": 0}
        task = ray.remote(**options)(_work)
        return _Task(task.remote(night.address, kind.name, slot))

    def close(self) -> None:
        if self._mine:
            ray.shutdown()


def begin() -> _Ray:
    """Join the cluster that RAY_ADDRESS names, or make one of this machine."""
    return _Ray()
