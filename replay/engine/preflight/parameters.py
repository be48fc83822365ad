"""Whether the parameters of each captured launch fit the kernel that was loaded for it, before anything is launched.

A launch passes one pointer for each captured parameter, and the driver reads as many as the kernel has: with another
kernel behind the handle it would read beyond them. The driver says what the kernel has (cuFuncGetParamInfo, since CUDA
12.4); of an older one nothing is known here.
"""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING

from replay.engine.driver import Driver, DriverFunction
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.inputs import Prepared
    from replay.engine.session import Session

MAXIMUM_PARAMETERS = 32764  # bytes of a parameter buffer, and a parameter has at least one
_LAUNCHES = ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel")
_INVALID_VALUE = 1  # CUresult
_ASK = {"CUfunction": "cuFuncGetParamInfo", "CUkernel": "cuKernelGetParamInfo"}

Layout = tuple[tuple[int, int], ...]  # offset and size of each parameter


def check_parameters(session: Session) -> None:
    """Raises EngineError for the first launch whose captured parameters do not fit. Kernels that the window itself
    loads are not there yet: `LaunchCheck` looks at them later."""
    check = LaunchCheck(session)
    for prepared in session.window:
        check(prepared)


class LaunchCheck:
    """Compares the parameters of launches, each combination of kernel and captured places once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._layouts: dict[tuple[int, int | None], Layout | None] = {}

    def __call__(self, prepared: Prepared) -> None:
        """Raises EngineError when the captured parameters of a launch do not fit the kernel that is there now."""
        call = prepared.call
        if call.function not in _LAUNCHES or call.result not in (0, None):
            return
        handle = call.arguments[1 if call.function == "cuLaunchKernelEx" else 0]
        handles = self._session.executor.handles
        live = next((live for c_type in _ASK if (live := handles.find(c_type, handle))), None)
        if (handle, live) not in self._layouts:
            self._layouts[handle, live] = _of_handle(self._session, handle)
        layout = self._layouts[handle, live]
        if layout is None:
            return
        slots = self._session.executor.optional(prepared, "kernelParams", 1)
        buffer = self._session.executor.optional(prepared, "kernelParams")
        extra = self._session.executor.optional(prepared, "extra") if buffer is None else None
        if (problem := _compare(layout, slots, buffer, extra)) is not None:
            raise EngineError(
                f"the captured parameters do not fit the kernel: {problem}",
                where=prepared.where,
                next="the image is another one than was launched; `replay info` shows the kernels, `replay verify` "
                "checks the file",
            )


def _compare(layout: Layout, captured: bytes | None, buffer: bytes | None, extra: bytes | None) -> str | None:
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
    try:
        layout = layout_of(driver, _ASK[c_type], live)
    except EngineError:  # one that only takes notes
        return None
    return None if layout is None else _compare(layout, captured, buffer, None)


def _of_handle(session: Session, handle: int) -> Layout | None:
    for c_type, symbol in _ASK.items():
        live = session.executor.handles.find(c_type, handle)
        if live:
            return layout_of(session.driver, symbol, live)
    return None


def layout_of(driver: Driver, symbol: str, live: int) -> Layout | None:
    """What the driver says of a function or kernel; None when it cannot say."""
    try:
        ask: DriverFunction = driver.function(symbol)
    except EngineError:
        return None
    offset, size = ctypes.c_size_t(0), ctypes.c_size_t(0)
    found: list[tuple[int, int]] = []
    while len(found) < MAXIMUM_PARAMETERS:
        code = ask(live, len(found), ctypes.addressof(offset), ctypes.addressof(size))
        if code:
            # Behind the last parameter it is CUDA_ERROR_INVALID_VALUE.
            return tuple(found) if code == _INVALID_VALUE else None
        found.append((offset.value, size.value))
    return None
