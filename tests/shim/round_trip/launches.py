"""Valid launches, and what their parameters mean: one kernel stands for all."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay.api.vocabulary import Function

    from .caller import Caller
    from .recorder import Recorder


LAYOUT = (
    (0, 8),
    (8, 4),
    (16, 8),
)  # offset and size of each kernel parameter: an address, a number, an address


BUFFER_BYTES = 24


PTX = """.version 8.0
.target sm_80
.address_size 64
.global .align 8 .u64 variable;
.visible .entry kernel(.param .u64 a, .param .u32 b, .param .u64 c) { ret; }
"""


def image_at(address: int) -> str:
    """The images of these tests are PTX."""
    return ctypes.string_at(address).decode()


def new_image(caller: Caller) -> str:
    return f"// {caller.rng.getrandbits(64):x}\n{PTX}"


def word(address: int) -> int:
    return int(ctypes.c_uint64.from_address(address).value)


def parameter_buffer(recorder: Recorder, at: int) -> dict[str, Any]:
    """The packed parameters of a launch."""
    first, number, second = struct.unpack("<QI4xQ", ctypes.string_at(at, BUFFER_BYTES))
    return {"a": recorder.address(first), "b": number, "c": recorder.address(second)}


def packed_parameters(kernel_params: int, extra: int) -> bytes:
    """The parameters of a launch, whether they came as pointers or through `extra`."""
    if kernel_params:
        packed = bytearray(BUFFER_BYTES)
        for place, (offset, size) in enumerate(LAYOUT):
            packed[offset : offset + size] = ctypes.string_at(word(kernel_params + 8 * place), size)
        return bytes(packed)
    found: dict[int, int] = {}
    while extra and word(extra):
        found[word(extra)] = word(extra + 8)
        extra += 16
    assert word(found[2]) == BUFFER_BYTES
    return ctypes.string_at(found[1], BUFFER_BYTES)


def launch_parameters(recorder: Recorder, function: Function, words: list[int]) -> Any:
    given = dict(zip((p.name for p in function.parameters), words, strict=True))
    packed = packed_parameters(given["kernelParams"], given.get("extra", 0))
    buffer = ctypes.create_string_buffer(packed, BUFFER_BYTES)
    return parameter_buffer(recorder, ctypes.addressof(buffer))


def attribute_value(recorder: Recorder, kind: int, at: int) -> Any:
    """A CUlaunchAttributeValue of 64 bytes."""
    if kind == 1:  # access policy window: an address first
        return [recorder.address(word(at)), ctypes.string_at(at + 8, 56).hex()]
    if kind in (7, 12):  # events
        return [recorder.handle("CUevent", word(at)), ctypes.string_at(at + 8, 56).hex()]
    return ctypes.string_at(at, 64).hex()


def launch_config(recorder: Recorder, function: Function, words: list[int], at: int) -> Any:
    *geometry, stream, attributes, count = struct.unpack("<7I4xQQI4x", ctypes.string_at(at, 56))
    described = []
    for place in range(count):
        kind = word(attributes + 72 * place) & 0xFFFFFFFF
        described.append([kind, attribute_value(recorder, kind, attributes + 72 * place + 8)])
    return [geometry, recorder.handle("CUstream", stream), described]


def no_extra(recorder: Recorder, function: Function, words: list[int]) -> Any:
    return "described with kernelParams"


def access_policy(caller: Caller) -> bytes:
    """A CUlaunchAttributeValue with a CUaccessPolicyWindow."""
    return struct.pack("<QQfII36x", caller.block(256), 128, 0.5, 1, 2)


def stream_attribute(caller: Caller, function: Function) -> dict[str, int]:
    values = {
        1: access_policy(caller),
        3: struct.pack("<I60x", caller.rng.randrange(1, 5)),  # synchronization policy
        10: struct.pack("<I60x", caller.rng.randrange(2)),  # memory synchronization domain
    }
    kind = caller.rng.choice(list(values))
    return {"attr": kind, "param": caller.buffer(values[kind])}


def launch(caller: Caller, function: Function) -> dict[str, int]:
    """A kernel of LAYOUT with two addresses in memory."""
    rng = caller.rng
    packed = struct.pack("<QI4xQ", caller.block(64), rng.getrandbits(28), caller.block(64))
    given = {
        parameter.name: rng.randrange(1, 9)
        for parameter in function.parameters
        if parameter.name.startswith(("gridDim", "blockDim"))
    }
    names = {parameter.name for parameter in function.parameters}
    if "extra" in names and rng.random() < 0.5:
        size = caller.buffer(struct.pack("<Q", BUFFER_BYTES))
        extra = caller.buffer(struct.pack("<5Q", 1, caller.buffer(packed), 2, size, 0))
        given.update(kernelParams=0, extra=extra)
    else:
        pointers = [caller.buffer(packed[offset : offset + bytes_]) for offset, bytes_ in LAYOUT]
        given["kernelParams"] = caller.buffer(struct.pack("<3Q", *pointers))
        if "extra" in names:
            given["extra"] = 0
    if "config" in names:
        attributes = [
            struct.pack("<I4xi60x", 8, rng.randrange(-3, 3)),  # priority
            struct.pack("<I4xi60x", 2, rng.randrange(2)),  # cooperative
            struct.pack("<I4x", 1) + access_policy(caller),
            struct.pack("<I4xQii48x", 7, caller.object("CUevent"), 0, 1),  # programmatic event
        ]
        chosen = rng.sample(attributes, rng.randrange(len(attributes) + 1))
        geometry = [rng.randrange(1, 9) for _ in range(6)]
        config = struct.pack(
            "<7I4xQQI4x", *geometry, rng.randrange(1024), caller.object("CUstream"),
            caller.buffer(b"".join(chosen)) if chosen else 0, len(chosen),
        )  # fmt: skip
        given["config"] = caller.buffer(config)
    return given
