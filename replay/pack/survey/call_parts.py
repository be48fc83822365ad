"""Parts of a call that each function hands over in its own way: images, parameter buffers, the geometry of a launch."""

from __future__ import annotations

import struct
from functools import cache

from replay.api import structs
from replay.api.functions import by_id
from replay.api.vocabulary import Role
from replay.raw.attachments import RawAttachment
from replay.raw.events import RawCall

_LOADS_FILE = ("cuModuleLoad", "cuLibraryLoadFromFile")  # part 1 of the file's name is what the file holds


def is_image(call: RawCall, key: str) -> bool:
    """Whether an input of a call is a module image: given as such, or read from a file that the call names."""
    return key.partition(".")[0] in _image_parameters(call.function.id) and (
        "." in key or call.function.symbol not in _LOADS_FILE
    )


@cache
def _image_parameters(function: int) -> frozenset[str]:
    row = by_id()[function]
    if row.symbol in _LOADS_FILE:
        return frozenset(item.name for item in row.parameters if item.role == Role.STRING)
    return frozenset(item.name for item in row.parameters if item.role == Role.IMAGE)


def parameter_buffer(call: RawCall) -> RawAttachment | None:
    """The packed kernel parameters of a launch, however they were handed over."""
    return call.inputs.get("kernelParams.0") or call.inputs.get("extra.0") or call.inputs.get("f.2")


def launch_geometry(call: RawCall) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    """Grid, block and dynamic shared memory in bytes of a launch."""
    config = call.inputs.get("config.0")
    if config is not None and config.data is not None and len(config.data) >= 56:
        return structs.geometry(structs.read_struct(structs.CUlaunchConfig, config.data))
    shape = call.inputs.get("f.3")
    if shape is not None and shape.data is not None and len(shape.data) == 28:
        x, y, z, block_x, block_y, block_z, shared_bytes = struct.unpack("<7I", shape.data)
        return (x, y, z), (block_x, block_y, block_z), shared_bytes
    words = [call.argument(f"{what}Dim{axis}") & 0xFFFFFFFF for what in ("grid", "block") for axis in "XYZ"]
    shared_bytes = call.argument("sharedMemBytes") & 0xFFFFFFFF
    return (words[0], words[1], words[2]), (words[3], words[4], words[5]), shared_bytes


def stream_of(call: RawCall) -> int:
    """The stream of a launch."""
    config = call.inputs.get("config.0")
    if config is not None and config.data is not None and len(config.data) >= 56:
        return int(structs.read_struct(structs.CUlaunchConfig, config.data).hStream)
    return call.argument("hStream")
