"""Parts of a call that each function hands over in its own way: images, the geometry and stream of a launch."""

from __future__ import annotations

from replay.api import structs
from replay.api.parts import find_struct, split_key
from replay.raw.events import RawCall


def is_image(call: RawCall, key: str) -> bool:
    """Whether an input of a call is a module image: given as such, or read from a file that the call names."""
    wanted, wanted_part = split_key(call.function.image_input)
    parameter, part = split_key(key)
    return bool(wanted) and parameter == wanted and (part is not None or wanted_part is None)


def launch_geometry(call: RawCall) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    """Grid, block and dynamic shared memory in bytes of a launch."""
    config = find_struct(call.inputs, "config", structs.CUlaunchConfig)
    if config is not None:
        return structs.geometry(config)
    return structs.geometry(structs.CUlaunchConfig(*map(call.argument, structs.SHAPE_FIELDS)))


def stream_of(call: RawCall) -> int:
    """The stream of a launch."""
    config = find_struct(call.inputs, "config", structs.CUlaunchConfig)
    return call.argument("hStream") if config is None else int(config.hStream)
