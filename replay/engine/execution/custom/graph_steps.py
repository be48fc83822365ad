"""Graphs launched node by node: each node's work as a call in the stream, and its time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from replay.api.graphs import Node
from replay.engine.driver import Driver, call, query

# What a graph that is launched node by node puts into its stream, at most: more than a held stream takes
MAXIMUM_COMMANDS = 1 << 20


@dataclass(frozen=True)
class Step:
    """The work of one node, as a call in a stream. kind: what to call it, "" for that of the node."""

    node: Node
    run: Callable[[], int]
    kind: str = ""


@dataclass(frozen=True)
class TimedNode:
    """call: number of the launch of the graph; number: of the node among those launched, from 1; kernel: its mangled
    name, "" for other kinds; gpu_ns: between two events around it."""

    call: int
    number: int
    kind: str
    kernel: str
    gpu_ns: int


class NodeRunner:
    """Runs the steps of graphs, with events around each while `time_nodes` runs."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._timed: list[tuple[int, int, Step, int, int]] | None = (
            None  # call, number, step, events around it
        )

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
        event = query(self._driver, "cuEventCreate", 0)
        self._driver.function("cuEventRecord", per_thread)(event, stream)
        return event

    def time_nodes(self, run_window: Callable[[], None]) -> list[TimedNode]:
        """Times of all nodes that `run_window` launches. Raises DriverFailure."""
        timed: list[tuple[int, int, Step, int, int]] = []
        self._timed = timed
        try:
            run_window()
        finally:
            self._timed = None
        call(self._driver, "cuCtxSynchronize")
        elapsed_ms, found = ctypes.c_float(0), []
        for number, place, step, begin, end in timed:
            call(self._driver, "cuEventElapsedTime", ctypes.addressof(elapsed_ms), begin, end)
            kind = step.kind or step.node.type_name
            found.append(TimedNode(number, place, kind, step.node.name, round(elapsed_ms.value * 1e6)))
            for event in (begin, end):
                self._driver.function("cuEventDestroy_v2")(event)
        return found
