"""Executable graphs: made, changed, launched and destroyed as the application did it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from replay.api import graphs
from replay.api.graphs import Description
from replay.api.structs import CUDA_GRAPH_INSTANTIATE_PARAMS, read_struct
from replay.api.vocabulary import Function
from replay.engine.arguments.builder import Arguments, Builder, Rebuild
from replay.engine.arguments.prepared import Prepared
from replay.engine.census import NOTHING
from replay.engine.graphs.live import LiveGraph
from replay.engine.graphs.steps import MAXIMUM_COMMANDS, Step
from replay.engine.translation.handles import captured_handles
from replay.errors import EngineError

_FLAG_DEVICE_LAUNCH = 4  # of instantiation


def _description(builder: Builder, prepared: Prepared) -> Description:
    key, _, part = graphs.DESCRIBED[prepared.call.function].rpartition(".")
    data = builder.optional(prepared, key, int(part))
    if data is None:
        raise EngineError("the graph was not described", where=prepared.where, next="capture again")
    try:
        description = graphs.parse_description(data)
    except ValueError as error:
        raise EngineError(str(error), where=prepared.where) from None
    sites = builder.translation.census.nodes
    for number, node in enumerate(description.graph.all_nodes(), 1) if sites else ():
        node.chosen.extend(sites.get((prepared.call.number, number), NOTHING).chosen)
    return description


def _all_given(function: Function) -> Arguments:
    return {parameter.name: None for parameter in function.parameters}


def _instantiate(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    recorded = prepared.call
    captured = next(iter(captured_handles(recorded, "phGraphExec")), 0)
    flags = 0
    names = [parameter.name for parameter in function.parameters]
    if "flags" in names:
        flags = recorded.arguments[names.index("flags")]
    elif "instantiateParams" in names:
        given = builder.required(prepared, "instantiateParams")
        try:
            flags = read_struct(CUDA_GRAPH_INSTANTIATE_PARAMS, given).flags
        except ValueError as error:
            raise EngineError(f"the parameters of a graph: {error}", where=prepared.where) from None
    if flags & _FLAG_DEVICE_LAUNCH:
        builder.note("a graph that kernels may launch was instantiated for launches by the host alone")
    description = _description(builder, prepared)
    made = (ctypes.c_uint64 * 1)()

    def run(*_: Any) -> int:
        code, made[0] = builder.graphs.instantiate(
            captured, description, flags, recorded.section == "setup", prepared.where
        )
        return code

    prepared.function = run
    prepared.outputs.append((made, "CUgraphExec", [captured]))
    return _all_given(function)


Act = Callable[[LiveGraph], int]


def _change(act_of: Callable[[Builder, Prepared], Act]) -> Rebuild:
    def rebuild(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
        act = act_of(builder, prepared)
        captured, in_setup = prepared.call.arguments[0], prepared.call.section == "setup"
        prepared.function = lambda *_: builder.graphs.change(captured, in_setup, prepared.where, act)
        return _all_given(function)

    return rebuild


def _set_parameters(builder: Builder, prepared: Prepared) -> Act:
    description, node = _description(builder, prepared), prepared.call.arguments[1]
    return lambda graph: builder.graphs.set_parameters(graph, node, description, prepared.where)


def _set_enabled(builder: Builder, prepared: Prepared) -> Act:
    _, node, enabled = prepared.call.arguments[:3]
    return lambda graph: builder.graphs.set_enabled(graph, node, enabled & 0xFFFFFFFF, prepared.where)


def _set_child(builder: Builder, prepared: Prepared) -> Act:
    description, node = _description(builder, prepared), prepared.call.arguments[1]
    return lambda graph: builder.graphs.set_child(graph, node, description, prepared.where)


def _update(builder: Builder, prepared: Prepared) -> Act:
    description = _description(builder, prepared)
    return lambda graph: builder.graphs.update(graph, description, prepared.where)


def _destroy(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    captured = prepared.call.arguments[0]
    prepared.then.append(lambda: builder.graphs.forget(captured))
    return {}


def _launch(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """With the host memory that the graph reads as it was; node by node when that was asked for."""
    captured, stream = prepared.call.arguments[:2]
    prepared.first += builder.graphs.nodes.host_sources(
        builder.optional(prepared, "hGraph", 1) or b"", prepared.where
    )
    prepared.then.append(lambda: builder.graphs.launched(captured))
    if not builder.graphs.expand:
        return {}
    known: tuple[LiveGraph | None, int, int] = (None, 0, 0)
    steps: list[Step] = []
    prepared.commands = MAXIMUM_COMMANDS  # how many is known when it runs

    def run(*_: Any) -> int:
        nonlocal known, steps
        graph, per_thread = builder.graphs.live(captured, prepared.where), prepared.call.per_thread
        live = builder.handles.live("CUstream", stream)
        if known != (graph, graph.version, live):
            steps = builder.graphs.steps(graph, live, per_thread, prepared.where)
            known = (graph, graph.version, live)
        return builder.graphs.runner.run(steps, prepared.call.number, live, per_thread)

    prepared.function = run
    return {}


BUILDERS: dict[str, Rebuild] = {
    "graph": _instantiate,
    "graph_node": _change(_set_parameters),
    "graph_update": _change(_update),
    "graph_child": _change(_set_child),
    "graph_enabled": _change(_set_enabled),
    "graph_end": _destroy,
    "graph_launch": _launch,
}
