"""Where a live kernel has its parameters, and whether captured ones fit it."""

from __future__ import annotations

import struct

from replay.engine.driver import Driver, DriverFailure
from replay.errors import EngineError

MAXIMUM_PARAMETERS = 32764  # bytes of a parameter buffer, and a parameter has at least one
_INVALID_VALUE = 1  # CUresult

Layout = tuple[tuple[int, int], ...]  # offset and size of each parameter


def compare(layout: Layout, captured: bytes | None, buffer: bytes | None, extra: bytes | None) -> str | None:
    """What does not fit; None when all does. buffer: of the parameters; extra: one that the application made itself,
    which may be longer. captured: the place of each parameter, where that is known."""
    end = max((offset + size for offset, size in layout), default=0)
    length = len(buffer or extra or b"")
    if captured is None:
        fits = length >= end if buffer is None else length == end
        return None if fits else f"it takes {end} bytes, {length} were captured"
    slots = tuple(struct.iter_unpack("<II", captured[: len(captured) // 8 * 8]))
    if len(slots) != len(layout):
        return f"it takes {len(layout)}, {len(slots)} were captured"
    for number, (there, here) in enumerate(zip(slots, layout, strict=True), 1):
        if there != here:
            is_, was = (f"{size} bytes at offset {offset}" for offset, size in (here, there))
            return f"parameter {number} has {is_}, captured were {was}"
    return None if length >= end else f"it takes {end} bytes, {length} were captured"


def misfit(driver: Driver, c_type: str, live: int, captured: bytes | None, buffer: bytes) -> str | None:
    """What of captured parameters does not fit the live kernel; None when all does, or the driver cannot say."""
    layout = layout_of(driver, c_type, live)
    return None if layout is None else compare(layout, captured, buffer, None)


def layout_of(driver: Driver, c_type: str, live: int) -> Layout | None:
    """What the driver says of a function or kernel; None when it cannot say, or only takes notes."""
    ask = driver.cuKernelGetParamInfo if c_type == "CUkernel" else driver.cuFuncGetParamInfo
    found: list[tuple[int, int]] = []
    try:
        while len(found) < MAXIMUM_PARAMETERS:
            found.append(ask(live, len(found)))
    except DriverFailure as failure:  # after the last parameter it is CUDA_ERROR_INVALID_VALUE
        return tuple(found) if failure.code == _INVALID_VALUE else None
    except EngineError:
        return None
    return None
