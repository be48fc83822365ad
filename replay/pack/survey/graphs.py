"""What is in each executable graph: a fold over the calls that make, change and end them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import field

from replay.api import graphs
from replay.api.graphs import Description, Graph, Node, NodeType
from replay.api.vocabulary import Effect
from replay.errors import DamagedError
from replay.raw.attachments import RawAttachment
from replay.raw.events import RawCall
from replay.records import dataclass

Read = Callable[[RawAttachment], bytes]
Identify = Callable[[Node], tuple[str, str, frozenset[int]]]


def inline_only(attachment: RawAttachment) -> bytes:
    """The bytes of an attachment that is in its record. Raises DamagedError for any other."""
    if attachment.data is None:
        raise DamagedError("the blobs file is not at hand")
    return attachment.data


class Descriptions:
    """The description that a call carries, read and parsed once. read: gives the bytes of an attachment."""

    def __init__(self, read: Read = inline_only) -> None:
        self._read = read
        self._call: RawCall | None = None
        self._found: Description | None = None

    def of(self, call: RawCall) -> Description | None:
        """None for a call that carries none, or one that cannot be read."""
        attachment = call.inputs.get(graphs.DESCRIBED.get(call.function.symbol, ""))
        if attachment is None:
            return None
        if self._call is not call:
            self._call, self._found = call, None
            with suppress(ValueError, DamagedError):  # a launch of such a graph is refused
                self._found = graphs.parse_description(self._read(attachment))
        return self._found


@dataclass
class LaunchedNode:
    """A node of an executable graph. name, image: of the kernel that it launches; modules: what that came from, by
    id(); depth: nodes that it is inside of."""

    handle: int
    depth: int
    node: Node
    name: str = ""
    image: str = ""
    modules: frozenset[int] = frozenset()
    enabled: bool = True


@dataclass
class ExecutableGraph:
    """What a launch launches, child graphs included, in the order of the nodes.

    number: of the call that made it. left_over, freed: memory that a launch leaves allocated (address -> bytes), and
    that it frees for an earlier one.
    kernels: launches by name of kernel. described: False when its description is missing or broken.
    """

    number: int
    nodes: list[LaunchedNode] = field(default_factory=list)
    left_over: dict[int, int] = field(default_factory=dict)
    freed: set[int] = field(default_factory=set)
    kernels: dict[str, int] = field(default_factory=dict)
    described: bool = True

    def count_kernels(self) -> None:
        """To be called after every change."""
        self.kernels = {}
        for item in self.nodes:
            if item.node.type == NodeType.KERNEL and item.enabled:
                self.kernels[item.name] = self.kernels.get(item.name, 0) + 1

    def allocations(self) -> dict[int, int]:
        """Address -> bytes of everything that its nodes allocate."""
        found = (item.node for item in self.nodes if item.node.type == NodeType.MEM_ALLOC)
        return dict(node.memory for node in found if node.parameters)


class ExecutableGraphs:
    """The fold. identify: name, image and modules of the kernel that a node launches, at this moment."""

    def __init__(self, descriptions: Descriptions, identify: Identify) -> None:
        self._descriptions = descriptions
        self._identify = identify
        self._alive: dict[int, ExecutableGraph] = {}

    def find(self, handle: int) -> ExecutableGraph | None:
        """The executable graph of a handle; None when no recorded call made it."""
        return self._alive.get(handle)

    def apply(self, call: RawCall) -> None:
        """Take over what a successful call did."""
        effect = call.function.effect
        if effect == Effect.GRAPH:
            if handle := call.output_word("phGraphExec"):
                self._alive[handle] = self._made(call)
        elif effect == Effect.DESTROY:
            executable = self._alive.get(call.arguments[0])
            # Another thread may have been given the handle again before this end was recorded.
            if executable is not None and executable.number < call.number:
                del self._alive[call.arguments[0]]
        elif (executable := self._alive.get(call.arguments[0])) is not None:
            self._change(executable, call)
            executable.count_kernels()

    def _made(self, call: RawCall) -> ExecutableGraph:
        description = self._descriptions.of(call)
        if description is None:
            return ExecutableGraph(call.number, described=False)
        executable = ExecutableGraph(call.number, self._flat(description.graph, 0))
        executable.left_over, executable.freed = graphs.memory_left_over(description.graph)
        executable.count_kernels()
        return executable

    def _flat(self, graph: Graph, depth: int) -> list[LaunchedNode]:
        found = []
        for node in graph.nodes:
            item = LaunchedNode(node.handle, depth, node)
            if node.type == NodeType.KERNEL and node.parameters:
                item.name, item.image, item.modules = self._identify(node)
            found.append(item)
            for inside in node.inside:
                found += self._flat(inside, depth + 1)
        return found

    def _change(self, executable: ExecutableGraph, call: RawCall) -> None:
        effect, nodes = call.function.effect, executable.nodes
        description = self._descriptions.of(call)
        if description is None and effect != Effect.GRAPH_ENABLE:
            executable.described = False
        if effect == Effect.GRAPH_UPDATE:
            self._exchange(nodes, 0, len(nodes), description)
            return
        place = next((n for n, item in enumerate(nodes) if item.handle == call.arguments[1]), None)
        if place is None:
            return
        if effect == Effect.GRAPH_ENABLE:
            nodes[place].enabled = bool(call.arguments[2] & 0xFFFFFFFF)
            return
        depth, end = nodes[place].depth, place + 1
        while end < len(nodes) and nodes[end].depth > depth:
            end += 1
        only_inside = call.function.symbol == graphs.CHILD_CHANGE
        self._exchange(nodes, place + only_inside, end, description)

    def _exchange(
        self, nodes: list[LaunchedNode], first: int, end: int, description: Description | None
    ) -> None:
        """Nodes stay what they are: handle, depth, enabled or not. The driver had paired them."""
        new = self._flat(description.graph, 0) if description is not None else []
        if len(new) != end - first:
            return
        for old, item in zip(nodes[first:end], new, strict=True):
            old.node, old.name, old.image, old.modules = item.node, item.name, item.image, item.modules
