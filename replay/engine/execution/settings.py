"""What calls of a window set for longer than the window: attributes of kernels and streams, limits, configurations.

Each is read before the window runs for the first time, and a restore sets it back: otherwise all runs but the first
would begin with what the one before has set. Memory that persists in the L2 cache is given up between runs, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from replay.api.functions import by_symbol
from replay.engine.driver import Driver
from replay.engine.execution.inputs import Prepared
from replay.snapshot.schema import Call

_VALUE_BYTES = 64  # of a CUlaunchAttributeValue, the largest
_HERE = -1  # among the arguments of a getter: where the value goes
_PERSISTING_L2 = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE


class _Setting(NamedTuple):
    """value: position of the value in the setter. getter: "" where there is none, which then begins with 0; arguments:
    of the getter, positions in the setter. by_address: the value is passed through a pointer."""

    value: int
    getter: str = ""
    arguments: tuple[int, ...] = ()
    by_address: bool = False


_SETTINGS = {
    "cuFuncSetAttribute": _Setting(2, "cuFuncGetAttribute", (_HERE, 1, 0)),
    "cuKernelSetAttribute": _Setting(1, "cuKernelGetAttribute", (_HERE, 0, 2, 3)),
    "cuFuncSetCacheConfig": _Setting(1),
    "cuKernelSetCacheConfig": _Setting(1),
    "cuFuncSetSharedMemConfig": _Setting(1),
    "cuCtxSetLimit": _Setting(1, "cuCtxGetLimit", (_HERE, 0)),
    "cuCtxSetCacheConfig": _Setting(0, "cuCtxGetCacheConfig", (_HERE,)),
    "cuCtxSetSharedMemConfig": _Setting(0, "cuCtxGetSharedMemConfig", (_HERE,)),
    "cuStreamSetAttribute": _Setting(2, "cuStreamGetAttribute", (0, 1, _HERE), by_address=True),
}


class _Back(NamedTuple):
    """A call that sets something back. buffer: what its value points to, kept alive."""

    context: int
    function: Callable[..., int]
    arguments: list[Any]
    where: str
    buffer: Any


class WindowSettings:
    """Of the calls of a window that are settled: what they set on objects that outlive it.

    setup: the calls before it. lives: whether a captured context is there before the window. be_in: makes one current.
    note: gets what cannot be set back.
    """

    def __init__(
        self,
        driver: Driver,
        setup: Iterable[Call],
        window: Iterable[Prepared],
        lives: Callable[[int], bool],
        be_in: Callable[[int], None],
        note: Callable[[str], None],
    ) -> None:
        self._driver, self._be_in, self._note = driver, be_in, note
        self._back: dict[tuple[Any, ...], _Back] = {}
        before = {  # what has no getter, as the setup left it
            (call.function, call.arguments[0]): call.arguments[_SETTINGS[call.function].value]
            for call in setup
            if call.function in _SETTINGS and call.result == 0 and not _SETTINGS[call.function].getter
        }
        window = list(window)
        for item in window:
            symbol = by_symbol()[item.call.function].meaning
            setting = _SETTINGS.get(symbol)
            if setting is None or item.late_arguments or item.call.result != 0 or not lives(item.context):
                continue  # an object of the window's own begins anew with each run
            key = (
                symbol,
                item.context,
                *(_key(v) for at, v in enumerate(item.arguments) if at != setting.value),
            )
            if key not in self._back:
                self._remember(key, symbol, setting, item, before.get((symbol, item.call.arguments[0]), 0))
        calls = [*setup, *(item.call for item in window)]
        self._persists = any(
            call.function == "cuCtxSetLimit" and call.arguments == [_PERSISTING_L2, size] and size
            for call in calls
            for size in call.arguments[1:]
        )

    def _remember(
        self, key: tuple[Any, ...], symbol: str, setting: _Setting, item: Prepared, without_getter: int
    ) -> None:
        buffer = ctypes.create_string_buffer(_VALUE_BYTES)
        value = without_getter
        if setting.getter:
            self._be_in(item.context)
            places = [
                ctypes.addressof(buffer) if place == _HERE else item.arguments[place]
                for place in setting.arguments
            ]
            if self._driver.function(setting.getter, item.call.per_thread)(*places):
                return  # what the driver does not tell it does not keep
            value = int.from_bytes(buffer.raw[:8], "little")
        arguments = list(item.arguments)
        arguments[setting.value] = ctypes.addressof(buffer) if setting.by_address else value
        self._back[key] = _Back(item.context, item.function, arguments, item.where, buffer)

    def set_back(self) -> None:
        """As it was before the window ran for the first time. Another context may be current afterwards."""
        for item in self._back.values():
            self._be_in(item.context)
            if item.function(*item.arguments):
                self._note(
                    f"what {item.where} sets could not be set back: all runs but the first begin with it"
                )
        if self._persists:
            self._driver.function("cuCtxResetPersistingL2Cache")()


def _key(value: Any) -> Any:
    return getattr(value, "value", value)
