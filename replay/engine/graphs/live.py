"""Graphs of this replay: live nodes, live graphs, executable graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from replay.api.graphs import Description, Node
from replay.errors import EngineError
from replay.records import dataclass


class LiveNode:
    """A node of a rebuilt graph. depth: nodes that it is inside of."""

    def __init__(self, node: Node, live: int, depth: int, position: int) -> None:
        self.node, self.live, self.depth = node, live, depth
        self.position = position  # among all nodes: what order of its own graph is turned into
        self.enabled = True
        self.expanded: list[LiveNode] = []  # of a child graph: its nodes, each after those it depends on


@dataclass
class BuiltGraph:
    """A live graph. nodes: all, a child graph's after the one that holds it. top: of the outermost graph, each after
    those it depends on. objects: what its kernels name, of this graph alone (`nodes.Objects`)."""

    handle: int
    nodes: list[LiveNode] = field(default_factory=list)
    top: list[LiveNode] = field(default_factory=list)
    objects: dict[int, int] = field(default_factory=dict)
    # Of `objects`, those that came with their nodes
    device_handles: dict[int, int] = field(default_factory=dict)


class LiveGraph:
    """An executable graph of this replay, with the graph that it is made from, which stays for making it again.

    changes: by the setup, in order.
    """

    def __init__(
        self, captured: int, flags: int, description: Description, where: object, built: BuiltGraph
    ) -> None:
        self.captured, self.flags, self.description, self.where = captured, flags, description, where
        self.changes: list[Callable[[], int]] = []
        self.of_setup = self.changed_in_window = False
        self.executable = self.version = 0
        self.made_from(built)

    def made_from(self, built: BuiltGraph) -> None:
        """It will be made executable from this graph."""
        self.built = built
        self.first_nodes = [item.node for item in built.nodes]  # what they were when it was instantiated

    @property
    def is_changed_by_kernels(self) -> bool:
        """Whether a launch may change it."""
        return any(node.device_handle for node in self.first_nodes)

    def find(self, captured_node: int, where: object) -> LiveNode:
        """This replay's node for a captured one. Raises EngineError when there is none."""
        for item in self.built.nodes:
            if item.node.handle == captured_node:
                return item
        raise EngineError(f"changes node {captured_node:#x}, which its graph does not have", where=where)
