"""Executable graphs: rebuilt from their descriptions, changed as the application changed them, launched whole or node
by node.

Memory that a graph allocates is placed beforehand, at its captured address, like all other memory; so its allocation
and free nodes are replayed as empty nodes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from replay.api import graphs
from replay.api.graphs import Description, Graph, Node, NodeType
from replay.engine.driver import Driver
from replay.engine.graphs.live import BuiltGraph, LiveGraph, LiveNode
from replay.engine.graphs.nodes import NodeParameters
from replay.engine.graphs.steps import NodeRunner, Step
from replay.engine.translation.translation import Translation
from replay.errors import EngineError

# Flags of instantiation that are kept. 2 uploads at once, which the first launch does as well; 4 allows launches from
# the device
_FLAGS_KEPT = 1 | 8

_MEMORY_NODES = (
    "memory that graphs allocate was placed beforehand; their allocation and free nodes did nothing"
)
_CHANGED_BY_KERNELS = (
    "kernels may change nodes of a graph on the device: "
    "its launches begin with what the host said of these nodes"
)
_NOT_EXPANDED = (
    "a graph with conditional nodes was launched as a whole: which of their nodes run, a kernel decides"
)


class LiveGraphs:
    """Every executable graph of a replay, by its captured handle.

    room: makes lasting buffers. best_effort: nodes that cannot be replayed are empty. expand: graphs are launched node
    by node, by `runner`.
    """

    def __init__(
        self,
        driver: Driver,
        translation: Translation,
        room: Callable[[int], Any],
        note: Callable[[str], None],
        *,
        best_effort: bool = False,
        expand: bool = False,
        runner: NodeRunner | None = None,
    ) -> None:
        self._driver, self._handles, self._note = driver, translation.handles, note
        self._alive: dict[int, LiveGraph] = {}
        self._of_setup: dict[int, LiveGraph] = {}
        self._of_window: list[LiveGraph] = []
        self.nodes = NodeParameters(driver, translation, room, note)
        self._best_effort, self.expand = best_effort, expand
        self.runner = runner or NodeRunner(driver)

    def live(self, captured: int, where: object) -> LiveGraph:
        """Raises EngineError when no replayed call made it."""
        found = self._alive.get(captured)
        if found is None:
            raise EngineError(
                f"uses the CUgraphExec {captured:#x}, which no recorded call created",
                where=where,
                next="begin the capture before the application instantiates the graph",
            )
        return found

    # -- building -----------------------------------------------------------------------------------------------

    def build(self, description: Description, where: object) -> BuiltGraph:
        """A live graph like the described one."""
        built = BuiltGraph(self._driver.cuGraphCreate(0))
        built.top = self._fill(built.handle, description.graph, description.context, 0, built, where)
        for item in built.nodes:  # whose parameters name a node that came later
            words = set(item.node.addresses()) if item.node.type == NodeType.KERNEL else set()
            if words & built.device_handles.keys():
                parameters, _keep = self.nodes.kernel(item.node, built.objects, where)
                self._driver.cuGraphKernelNodeSetParams_v2(item.live, parameters)
        return built

    def _fill(
        self, live: int, graph: Graph, context: int, depth: int, built: BuiltGraph, where: object
    ) -> list[LiveNode]:
        here: list[LiveNode] = []
        for condition in graph.conditions():
            built.objects[condition.handle] = self.nodes.make_condition(live, condition, context)
        for node in graph.nodes:
            item = LiveNode(node, 0, depth, len(here))
            here.append(item)
            built.nodes.append(item)
            self._refuse(node, where)
            inside: list[int] = []
            if (own := node.condition) is not None:
                handle = built.objects.get(own.handle)
                if handle is None:
                    raise EngineError(
                        "a conditional node has the handle of a graph that it is not in", where=where
                    )
                item.live, inside = self.nodes.add_conditional(live, node, own, handle, context)
            else:
                item.live = self.nodes.add(live, node, context, built.objects, where)
            if node.child is not None:
                inside = [self._driver.cuGraphChildGraphNodeGetGraph(item.live)]
            if inside and len(inside) != len(node.inside):
                raise EngineError(
                    f"the driver made {len(inside)} graphs in a {node.type_name} node", where=where
                )
            for number, (live_graph, described) in enumerate(zip(inside, node.inside, strict=False)):
                found = self._fill(live_graph, described, context, depth + 1, built, where)
                if number == 0:
                    item.expanded = found
            if captured := node.device_handle:
                built.device_handles[captured] = built.objects[captured] = self.nodes.device_handle(item.live)
                self._note(_CHANGED_BY_KERNELS)
        for item in here:
            self._connect(live, item, here)
        try:
            return [here[place] for place in graph.order()]
        except ValueError as error:
            raise EngineError(str(error), where=where) from None

    def _refuse(self, node: Node, where: object) -> None:
        if node.type in (NodeType.MEM_ALLOC, NodeType.MEM_FREE):
            self._note(_MEMORY_NODES)
        if not node.problem:
            return
        text = f"has a {node.type_name} node: {node.problem}"
        if not self._best_effort:
            raise EngineError(
                text, where=where, next="--best-effort replays the graph with empty nodes in their place"
            )
        self._note(f"left out: a graph that the window launches {text}")

    def _connect(self, live: int, item: LiveNode, here: list[LiveNode]) -> None:
        dependencies = item.node.dependencies
        if not dependencies:
            return
        count = len(dependencies)
        sources = (ctypes.c_uint64 * count)(*(here[d.node].live for d in dependencies))
        targets = (ctypes.c_uint64 * count)(*[item.live] * count)
        # An edge to or from a node that is replayed as an empty one has no ports.
        plain = self.nodes.is_empty(item.node)
        edges = [
            bytes(8) if plain or self.nodes.is_empty(here[d.node].node) else d.edge for d in dependencies
        ]
        if any(edge != bytes(8) for edge in edges):
            data = (ctypes.c_char * (8 * count)).from_buffer_copy(b"".join(edges))
            self._driver.cuGraphAddDependencies_v2(live, sources, targets, data, count)
        else:
            self._driver.cuGraphAddDependencies(live, sources, targets, count)

    # -- what calls do ------------------------------------------------------------------------------------------

    def instantiate(
        self, captured: int, description: Description, flags: int, in_setup: bool, where: object
    ) -> tuple[int, int]:
        """CUresult, and the live CUgraphExec."""
        made = LiveGraph(captured, flags, description, where, self.build(description, where))
        code = self._instantiate(made)
        if code == 0:
            made.of_setup = in_setup
            self._alive[captured] = made
        if not in_setup:
            self._of_window.append(made)
        return code, made.executable

    def _instantiate(self, made: LiveGraph) -> int:
        executable = ctypes.c_uint64(0)
        code = self._driver.cuGraphInstantiateWithFlags.code(
            ctypes.addressof(executable), made.built.handle, made.flags & _FLAGS_KEPT
        )
        made.executable = executable.value
        if code == 0 and made.is_changed_by_kernels:  # these must be on the device before they are launched
            code = self._driver.cuGraphUpload.code(made.executable, 0)
        return code

    def change(self, captured: int, in_setup: bool, where: object, act: Callable[[LiveGraph], int]) -> int:
        """Change an executable graph; in the window, so that it can be undone."""
        graph = self.live(captured, where)
        code = act(graph)
        graph.version += 1
        if in_setup:
            graph.changes.append(lambda: act(graph))
        elif graph.of_setup:
            graph.changed_in_window = True
        return code

    def set_parameters(
        self, graph: LiveGraph, captured_node: int, description: Description, where: object
    ) -> int:
        """Give one node other parameters."""
        if len(description.graph.nodes) != 1:
            raise EngineError("the description of one node has another number of them", where=where)
        item, node = graph.find(captured_node, where), description.graph.nodes[0]
        self._refuse(node, where)
        code = 0
        if not self.nodes.is_empty(node):
            code = self.nodes.set(
                graph.executable,
                item.live,
                node,
                description.context or graph.description.context,
                graph.built.objects,
                where,
            )
        if code == 0:
            _exchange([item], [node])
        return code

    def set_enabled(self, graph: LiveGraph, captured_node: int, enabled: int, where: object) -> int:
        """Switch a node on or off."""
        item = graph.find(captured_node, where)
        code = self._driver.cuGraphNodeSetEnabled.code(graph.executable, item.live, enabled)
        if code == 0:
            item.enabled = bool(enabled)
        return code

    def set_child(self, graph: LiveGraph, captured_node: int, description: Description, where: object) -> int:
        """Give the nodes in a child graph node the parameters of those of another graph."""
        item = graph.find(captured_node, where)
        built = self.build(description, where)
        code = self._driver.cuGraphExecChildGraphNodeSetParams.code(graph.executable, item.live, built.handle)
        self._driver.cuGraphDestroy.code(built.handle)
        if code == 0:
            first = graph.built.nodes.index(item) + 1
            end = first
            while end < len(graph.built.nodes) and graph.built.nodes[end].depth > item.depth:
                end += 1
            _exchange(graph.built.nodes[first:end], [new.node for new in built.nodes])
        return code

    def update(self, graph: LiveGraph, description: Description, where: object) -> int:
        """Give the whole graph the parameters of another one of the same shape."""
        built = self.build(description, where)
        info = (ctypes.c_uint64 * 3)()  # CUgraphExecUpdateResultInfo
        code = self._driver.cuGraphExecUpdate_v2.code(graph.executable, built.handle, ctypes.addressof(info))
        self._driver.cuGraphDestroy.code(built.handle)
        if code == 0:
            graph.built.objects.update(built.objects)
            _exchange(graph.built.nodes, [new.node for new in built.nodes])
        return code

    def launched(self, captured: int) -> None:
        """The executable graph was launched."""
        graph = self._alive.get(captured)
        if graph is not None and graph.of_setup and graph.is_changed_by_kernels:
            graph.changed_in_window = True

    def forget(self, captured: int) -> None:
        """The executable graph was destroyed."""
        self._alive.pop(captured, None)

    # -- iterations ---------------------------------------------------------------------------------------------

    def setup_is_done(self) -> None:
        """From here on, what is made or changed belongs to the window."""
        self._of_setup = dict(self._alive)

    def clean_up(self) -> None:
        """Undo what the window did: to be called when the executable graphs that it made are destroyed."""
        for made in self._of_window:
            self._driver.cuGraphDestroy.code(made.built.handle)
        self._of_window.clear()
        self._alive = dict(self._of_setup)
        for graph in self._alive.values():
            if graph.changed_in_window:
                self._make_again(graph)

    def _make_again(self, graph: LiveGraph) -> None:
        self._driver.cuGraphExecDestroy.code(graph.executable)
        if graph.is_changed_by_kernels:  # such a graph is made executable once
            self._driver.cuGraphDestroy.code(graph.built.handle)
            graph.made_from(self.build(graph.description, graph.where))
        code = self._instantiate(graph)
        if code:
            raise EngineError(f"the graph cannot be made again: {self._driver.error_name(code)}")
        graph.changed_in_window = False
        graph.version += 1
        for item, node in zip(graph.built.nodes, graph.first_nodes, strict=True):
            item.node, item.enabled = node, True
        self._handles.bind("CUgraphExec", graph.captured, graph.executable)
        for change in graph.changes:
            if code := change():
                raise EngineError(f"a graph cannot be changed again: {self._driver.error_name(code)}")

    # -- node by node -------------------------------------------------------------------------------------------

    def steps(self, graph: LiveGraph, stream: int, per_thread: bool, where: object) -> list[Step]:
        """What a launch does, as calls one after another in a stream."""
        if any(item.node.bodies for item in graph.built.nodes):
            self._note(_NOT_EXPANDED)
            whole = next(item.node for item in graph.built.nodes if item.node.bodies)
            launch = partial(self._driver.cuGraphLaunch.bare(per_thread), graph.executable, stream)
            return [Step(whole, launch, "whole graph")]
        found: list[Step] = []

        def add(items: list[LiveNode]) -> None:
            for item in items:
                if item.node.child is not None:
                    add(item.expanded)
                elif item.enabled and not self.nodes.is_empty(item.node):
                    step = self.nodes.step(item.node, stream, per_thread, graph.built.objects, where)
                    found.append(Step(item.node, step))

        add(graph.built.top)
        return found


def _exchange(items: list[LiveNode], nodes: list[Node]) -> None:
    """New parameters for nodes that stay what they are: handle, edges, attributes."""
    if len(items) != len(nodes):
        return
    for item, node in zip(items, nodes, strict=True):
        parts = dict(node.parts)
        if graphs.Part.ATTRIBUTES not in parts and graphs.Part.ATTRIBUTES in item.node.parts:
            parts[graphs.Part.ATTRIBUTES] = item.node.parts[graphs.Part.ATTRIBUTES]
        item.node = Node(
            item.node.handle, node.type, item.node.dependencies, parts, item.node.child, node.problem,
            item.node.bodies, node.chosen,
        )  # fmt: skip
