"""Where the calls of a window put their work: into one stream of one context each."""

from __future__ import annotations

from replay.api.functions import by_symbol
from replay.api.parts import find_struct
from replay.api.structs import CUlaunchConfig
from replay.api.vocabulary import Effect, Work
from replay.engine.arguments.prepared import Prepared
from replay.records import dataclass

LEGACY, PER_THREAD = 1, 2  # CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
_NO_WORK = (Work.NONE, Work.WAIT_VALUE, Work.VALUES)


@dataclass(frozen=True)
class Lane:
    """A stream of a context, both as captured. The default streams are one for each context: 0 is the legacy one,
    PER_THREAD that of the calling thread."""

    context: int
    stream: int


def is_launch(item: Prepared) -> bool:
    """Whether a call launches a kernel or a graph."""
    return by_symbol()[item.call.function].effect in (Effect.LAUNCH, Effect.GRAPH_LAUNCH)


def is_work(item: Prepared) -> bool:
    """Whether a call gives a device something to do. One that failed in the application did not."""
    works = by_symbol()[item.call.function].work not in _NO_WORK
    return item.call.result in (0, None) and (is_launch(item) or works)


def launch_streams(item: Prepared) -> list[int]:
    """The captured streams among a call's arguments, launch configuration included."""
    function = by_symbol()[item.call.function]
    streams = [
        item.call.arguments[position]
        for position, parameter in enumerate(function.parameters)
        if parameter.c_type == "CUstream"
    ]
    config = find_struct(item.call.inputs, "config", CUlaunchConfig)
    if config is not None:
        streams.append(config.hStream)
    return streams


def lane_of(item: Prepared) -> Lane:
    """Where a call puts its work; without a stream among its arguments that is the default one."""
    stream = (launch_streams(item) or [0])[0]
    if stream in (0, LEGACY):
        stream = PER_THREAD if stream == 0 and item.call.per_thread else 0
    return Lane(item.context, stream)
