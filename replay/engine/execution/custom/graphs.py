"""Executable graphs: rebuilt from their descriptions, changed as the application changed them, launched whole or node
by node.

Memory that a graph allocates is placed beforehand, at its captured address, like all other memory; so its allocation
and free nodes are replayed as empty nodes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from replay.api import graphs
from replay.api.graphs import Description, Graph, Node, NodeType
from replay.api.vocabulary import Function
from replay.engine.driver import call
from replay.engine.execution.custom.common import Arguments, Rebuild
from replay.engine.execution.custom.graph_nodes import NodeParameters
from replay.engine.execution.custom.graph_steps import MAXIMUM_COMMANDS, NodeRunner, Step
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

# Flags of instantiation: 2 uploads at once (which the first launch does as well), 4 allows launches from the device
_FLAGS_KEPT, _FLAG_DEVICE_LAUNCH = 1 | 8, 4

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


class LiveNode:
    """A node of a rebuilt graph. depth: nodes that it is inside of."""

    def __init__(self, node: Node, live: int, depth: int, position: int) -> None:
        self.node, self.live, self.depth = node, live, depth
        self.position = position  # among all nodes: what order of its own graph is turned into
        self.enabled = True
        self.expanded: list[LiveNode] = []  # of a child graph: its nodes, each behind those it depends on


@dataclass
class BuiltGraph:
    """A live graph: all of its nodes, those of the outermost graph in topological order, and what its kernels name."""

    handle: int
    nodes: list[LiveNode] = field(default_factory=list)
    top: list[LiveNode] = field(default_factory=list)
    objects: dict[int, int] = field(default_factory=dict)
    device_handles: dict[int, int] = field(
        default_factory=dict
    )  # those of `objects` that came with their nodes


class LiveGraph:
    """An executable graph of this replay, with the graph that it is made from, which stays for making it again."""

    def __init__(self, captured: int, flags: int, description: Description, where: object) -> None:
        self.captured, self.flags, self.context = captured, flags, description.context
        self.description, self.where = description, where
        self.template = self.executable = 0
        self.nodes: list[LiveNode] = []  # a child graph's nodes behind the one that holds it
        self.top: list[LiveNode] = []  # of the outermost graph, each behind those it depends on
        self.first_nodes: list[Node] = []  # what the nodes were when it was instantiated
        self.changes: list[Callable[[], int]] = []  # by the setup, in order
        self.objects: dict[int, int] = {}  # of this graph alone: see graph_nodes.Objects
        self.of_setup = False
        self.changed_in_window = False
        self.version = 0

    @property
    def is_changed_by_kernels(self) -> bool:
        """Whether a launch may leave it otherwise than it was."""
        return any(node.device_handle for node in self.first_nodes)

    def find(self, captured_node: int, where: object) -> LiveNode:
        """The node that stands for a captured one. Raises EngineError when there is none."""
        for item in self.nodes:
            if item.node.handle == captured_node:
                return item
        raise EngineError(f"changes node {captured_node:#x}, which its graph does not have", where=where)


class LiveGraphs:
    """Every executable graph of a replay, by its captured handle."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._alive: dict[int, LiveGraph] = {}
        self._of_setup: dict[int, LiveGraph] = {}
        self._of_window: list[LiveGraph] = []
        self.nodes = NodeParameters(executor)
        self.best_effort = False
        self.expand = False
        self.runner = NodeRunner(executor.driver)

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
        graph = ctypes.c_uint64(0)
        call(self._executor.driver, "cuGraphCreate", ctypes.addressof(graph), 0)
        built = BuiltGraph(graph.value)
        built.top = self._fill(graph.value, description.graph, description.context, 0, built, where)
        for item in built.nodes:  # whose parameters name a node that came later
            words = set(item.node.addresses()) if item.node.type == NodeType.KERNEL else set()
            if words & built.device_handles.keys():
                parameters, _keep = self.nodes.kernel(item.node, built.objects, where)
                call(self._executor.driver, "cuGraphKernelNodeSetParams_v2", item.live, parameters)
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
                child = ctypes.c_uint64(0)
                call(
                    self._executor.driver, "cuGraphChildGraphNodeGetGraph", item.live, ctypes.addressof(child)
                )
                inside = [child.value]
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
                self._executor.note(_CHANGED_BY_KERNELS)
        for item in here:
            self._connect(live, item, here)
        try:
            return [here[place] for place in graph.order()]
        except ValueError as error:
            raise EngineError(str(error), where=where) from None

    def _refuse(self, node: Node, where: object) -> None:
        if node.type in (NodeType.MEM_ALLOC, NodeType.MEM_FREE):
            self._executor.note(_MEMORY_NODES)
        if not node.problem:
            return
        text = f"has a {node.type_name} node: {node.problem}"
        if not self.best_effort:
            raise EngineError(
                text, where=where, next="--best-effort replays the graph with empty nodes in their place"
            )
        self._executor.note(f"left out: a graph that the window launches {text}")

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
            call(self._executor.driver, "cuGraphAddDependencies_v2", live, sources, targets, data, count)
        else:
            call(self._executor.driver, "cuGraphAddDependencies", live, sources, targets, count)

    # -- what calls do ------------------------------------------------------------------------------------------

    def instantiate(
        self, captured: int, description: Description, flags: int, in_setup: bool, where: object
    ) -> tuple[int, int]:
        """CUresult, and the live CUgraphExec."""
        made = LiveGraph(captured, flags, description, where)
        code = self._instantiate(made)
        if code == 0:
            made.of_setup = in_setup
            self._alive[captured] = made
        if not in_setup:
            self._of_window.append(made)
        return code, made.executable

    def _instantiate(self, made: LiveGraph) -> int:
        driver = self._executor.driver
        if not made.template:
            built = self.build(made.description, made.where)
            made.template, made.nodes, made.top, made.objects = (
                built.handle,
                built.nodes,
                built.top,
                built.objects,
            )
            made.first_nodes = [item.node for item in made.nodes]
        executable = ctypes.c_uint64(0)
        code = driver.function("cuGraphInstantiateWithFlags")(
            ctypes.addressof(executable), made.template, made.flags & _FLAGS_KEPT
        )
        made.executable = executable.value
        if code == 0 and made.is_changed_by_kernels:  # these must be on the device before they are launched
            code = driver.function("cuGraphUpload")(made.executable, 0)
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
                graph.executable, item.live, node, description.context or graph.context, graph.objects, where
            )
        if code == 0:
            _exchange([item], [node])
        return code

    def set_enabled(self, graph: LiveGraph, captured_node: int, enabled: int, where: object) -> int:
        """Switch a node on or off."""
        item = graph.find(captured_node, where)
        code = self._executor.driver.function("cuGraphNodeSetEnabled")(graph.executable, item.live, enabled)
        if code == 0:
            item.enabled = bool(enabled)
        return code

    def set_child(self, graph: LiveGraph, captured_node: int, description: Description, where: object) -> int:
        """Give the nodes in a child graph node the parameters of those of another graph."""
        item = graph.find(captured_node, where)
        built = self.build(description, where)
        driver = self._executor.driver
        code = driver.function("cuGraphExecChildGraphNodeSetParams")(
            graph.executable, item.live, built.handle
        )
        driver.function("cuGraphDestroy")(built.handle)
        if code == 0:
            first = graph.nodes.index(item) + 1
            end = first
            while end < len(graph.nodes) and graph.nodes[end].depth > item.depth:
                end += 1
            _exchange(graph.nodes[first:end], [new.node for new in built.nodes])
        return code

    def update(self, graph: LiveGraph, description: Description, where: object) -> int:
        """Give the whole graph the parameters of another one of the same shape."""
        built = self.build(description, where)
        driver = self._executor.driver
        info = (ctypes.c_uint64 * 3)()  # CUgraphExecUpdateResultInfo
        code = driver.function("cuGraphExecUpdate_v2")(graph.executable, built.handle, ctypes.addressof(info))
        driver.function("cuGraphDestroy")(built.handle)
        if code == 0:
            graph.objects.update(built.objects)
            _exchange(graph.nodes, [new.node for new in built.nodes])
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
        driver = self._executor.driver
        for made in self._of_window:
            driver.function("cuGraphDestroy")(made.template)
        self._of_window.clear()
        self._alive = dict(self._of_setup)
        for graph in self._alive.values():
            if graph.changed_in_window:
                self._make_again(graph)

    def _make_again(self, graph: LiveGraph) -> None:
        driver = self._executor.driver
        driver.function("cuGraphExecDestroy")(graph.executable)
        if graph.is_changed_by_kernels:  # such a graph is made executable once
            driver.function("cuGraphDestroy")(graph.template)
            graph.template = 0
        code = self._instantiate(graph)
        if code:
            raise EngineError(f"the graph cannot be made again: {self._executor.driver.error_name(code)}")
        graph.changed_in_window = False
        graph.version += 1
        for item, node in zip(graph.nodes, graph.first_nodes, strict=True):
            item.node, item.enabled = node, True
        self._executor.handles.bind("CUgraphExec", graph.captured, graph.executable)
        for change in graph.changes:
            if code := change():
                raise EngineError(
                    f"a graph cannot be changed again: {self._executor.driver.error_name(code)}"
                )

    # -- node by node -------------------------------------------------------------------------------------------

    def steps(self, graph: LiveGraph, stream: int, per_thread: bool, where: object) -> list[Step]:
        """What a launch does, as calls one after another in a stream."""
        if any(item.node.bodies for item in graph.nodes):
            self._executor.note(_NOT_EXPANDED)
            whole = next(item.node for item in graph.nodes if item.node.bodies)
            launch = self._executor.driver.function("cuGraphLaunch", per_thread)
            return [Step(whole, partial(launch, graph.executable, stream), "whole graph")]
        found: list[Step] = []

        def add(items: list[LiveNode]) -> None:
            for item in items:
                if item.node.child is not None:
                    add(item.expanded)
                elif item.enabled and not self.nodes.is_empty(item.node):
                    step = self.nodes.step(item.node, stream, per_thread, graph.objects, where)
                    found.append(Step(item.node, step))

        add(graph.top)
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


# ---- exceptions --------------------------------------------------------------------------------------------------


def _description(executor: Executor, prepared: Prepared) -> Description:
    key, _, part = graphs.DESCRIBED[prepared.call.function].rpartition(".")
    data = executor.optional(prepared, key, int(part))
    if data is None:
        raise EngineError("the graph was not described", where=prepared.where, next="capture again")
    try:
        description = graphs.parse_description(data)
    except ValueError as error:
        raise EngineError(str(error), where=prepared.where) from None
    if executor.node_words:
        for number, node in enumerate(description.graph.all_nodes(), 1):
            node.chosen.extend(executor.node_words.get((prepared.call.number, number), ()))
    return description


def _all_given(function: Function) -> Arguments:
    return {parameter.name: None for parameter in function.parameters}


def _instantiate(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    recorded = prepared.call
    captured = executor.captured_output(prepared, "phGraphExec")
    flags = 0
    if recorded.function == "cuGraphInstantiateWithFlags":
        flags = recorded.arguments[2]
    elif recorded.function == "cuGraphInstantiateWithParams":
        flags = int.from_bytes(executor.required(prepared, "instantiateParams")[:8], "little")
    if flags & _FLAG_DEVICE_LAUNCH:
        executor.note("a graph that kernels may launch was instantiated for launches by the host alone")
    description = _description(executor, prepared)
    made = (ctypes.c_uint64 * 1)()

    def run(*_: Any) -> int:
        code, made[0] = executor.graphs.instantiate(
            captured, description, flags, recorded.section == "setup", prepared.where
        )
        return code

    prepared.function = run
    prepared.outputs.append((made, "CUgraphExec", [captured]))
    return _all_given(function)


Act = Callable[[LiveGraph], int]


def _change(act_of: Callable[[Executor, Prepared], Act]) -> Rebuild:
    def rebuild(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
        act = act_of(executor, prepared)
        captured, in_setup = prepared.call.arguments[0], prepared.call.section == "setup"
        prepared.function = lambda *_: executor.graphs.change(captured, in_setup, prepared.where, act)
        return _all_given(function)

    return rebuild


def _set_parameters(executor: Executor, prepared: Prepared) -> Act:
    description, node = _description(executor, prepared), prepared.call.arguments[1]
    return lambda graph: executor.graphs.set_parameters(graph, node, description, prepared.where)


def _set_enabled(executor: Executor, prepared: Prepared) -> Act:
    _, node, enabled = prepared.call.arguments[:3]
    return lambda graph: executor.graphs.set_enabled(graph, node, enabled & 0xFFFFFFFF, prepared.where)


def _set_child(executor: Executor, prepared: Prepared) -> Act:
    description, node = _description(executor, prepared), prepared.call.arguments[1]
    return lambda graph: executor.graphs.set_child(graph, node, description, prepared.where)


def _update(executor: Executor, prepared: Prepared) -> Act:
    description = _description(executor, prepared)
    return lambda graph: executor.graphs.update(graph, description, prepared.where)


def _destroy(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    captured = prepared.call.arguments[0]
    prepared.then.append(lambda: executor.graphs.forget(captured))
    return {}


def _launch(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """With the host memory that the graph reads as it was; node by node when that was asked for."""
    captured, stream = prepared.call.arguments[:2]
    prepared.first += executor.graphs.nodes.host_sources(prepared)
    prepared.then.append(lambda: executor.graphs.launched(captured))
    if not executor.graphs.expand:
        return {}
    known: tuple[LiveGraph | None, int, int] = (None, 0, 0)
    steps: list[Step] = []
    prepared.commands = MAXIMUM_COMMANDS  # how many is known when it runs

    def run(*_: Any) -> int:
        nonlocal known, steps
        graph, per_thread = executor.graphs.live(captured, prepared.where), prepared.call.per_thread
        live = executor.handles.live("CUstream", stream)
        if known != (graph, graph.version, live):
            steps = executor.graphs.steps(graph, live, per_thread, prepared.where)
            known = (graph, graph.version, live)
        return executor.graphs.runner.run(steps, prepared.call.number, live, per_thread)

    prepared.function = run
    return {}


EXCEPTIONS: dict[str, Rebuild] = {
    **dict.fromkeys(graphs.MAKERS, _instantiate),
    **dict.fromkeys(graphs.DESCRIBED.keys() - {*graphs.MAKERS, *graphs.UPDATES}, _change(_set_parameters)),
    **dict.fromkeys(graphs.UPDATES, _change(_update)),
    graphs.CHILD_CHANGE: _change(_set_child),
    graphs.ENABLE: _change(_set_enabled),
    "cuGraphExecDestroy": _destroy,
    "cuGraphLaunch": _launch,
}
