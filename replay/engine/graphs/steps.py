"""Graphs launched node by node: each node's work as a call in the stream, and its time."""

from __future__ import annotations

from collections.abc import Callable

from replay.api.graphs import Node
from replay.engine.driver import Driver
from replay.records import dataclass
from replay.results.run.timing import NodeTime

# What a graph that is launched node by node puts into its stream, at most: more than a held stream takes
MAXIMUM_COMMANDS = 1 << 20


@dataclass(frozen=True)
class Step:
    """The work of one node, as a call in a stream. kind: what to call it, "" for that of the node."""

    node: Node
    run: Callable[[], int]
    kind: str = ""


class NodeRunner:
    """Runs the steps of graphs, with events around each while `time_nodes` runs."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        # Call, number, step, events around it
        self._timed: list[tuple[int, int, Step, int, int]] | None = None

    def run(self, steps: list[Step], call_number: int, stream: int, per_thread: bool) -> int:
        """The work of a graph's nodes, one after another in a live stream. Gives the CUresult."""
        timed = self._timed
        for number, step in enumerate(steps, 1):
            begin = self._record(stream, per_thread) if timed is not None else 0
            if code := step.run():
                return code
            if timed is not None:
                timed.append((call_number, number, step, begin, self._record(stream, per_thread)))
        return 0

    def _record(self, stream: int, per_thread: bool) -> int:
        event: int = self._driver.cuEventCreate(0)
        self._driver.cuEventRecord.code(event, stream, per_thread=per_thread)
        return event

    def time_nodes(self, run_window: Callable[[], None]) -> list[NodeTime]:
        """Times of all nodes that `run_window` launches. Raises DriverFailure."""
        timed: list[tuple[int, int, Step, int, int]] = []
        self._timed = timed
        try:
            run_window()
        finally:
            self._timed = None
        self._driver.cuCtxSynchronize()
        found = []
        for number, place, step, begin, end in timed:
            elapsed_ms: float = self._driver.cuEventElapsedTime(begin, end)
            kind = step.kind or step.node.type_name
            found.append(NodeTime(number, place, kind, step.node.name, round(elapsed_ms * 1e6)))
            for event in (begin, end):
                self._driver.cuEventDestroy_v2.code(event)
        return found
