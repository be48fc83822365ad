"""What calls of a window set for longer than the window: attributes of kernels and streams, limits, configurations.

Each is read before the window runs for the first time, and a restore sets it back: otherwise all runs but the first
would begin with what the one before has set. Memory that persists in the L2 cache is given up between runs, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from replay.api.functions import by_symbol
from replay.api.vocabulary import Function
from replay.engine.arguments.prepared import Prepared
from replay.engine.driver import Driver
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


def _setting_of(function: Function | None) -> _Setting | None:
    """What calls of a function set; None where they set nothing that stays. A setup may hold calls of functions that
    this version does not know, which are left out."""
    if function is None or not function.sets:
        return None
    names = [parameter.name for parameter in function.parameters]
    value = names.index(function.sets)
    asked = by_symbol()[function.getter].parameters if function.getter else ()
    positions = (names.index(item.name) if item.name in names else _HERE for item in asked)
    by_address = function.parameters[value].kind == "pointer"
    return _Setting(value, function.getter, tuple(positions), by_address)


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
        before = {}  # what has no getter, as the setup left it
        for call in setup:
            setting = _setting_of(by_symbol().get(call.function))
            if setting is not None and call.result == 0 and not setting.getter:
                before[call.function, call.arguments[0]] = call.arguments[setting.value]
        window = list(window)
        for item in window:
            symbol = by_symbol()[item.call.function].meaning
            setting = _setting_of(by_symbol()[symbol])
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
        limits = (
            call for call in calls if call.arguments[:1] == [_PERSISTING_L2] and call.arguments[1:] != [0]
        )
        known = (by_symbol().get(call.function) for call in limits)
        self._persists = any(item is not None and item.sets and item.takes("CUlimit") for item in known)

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
            self._driver.cuCtxResetPersistingL2Cache.code()


def _key(value: Any) -> Any:
    return getattr(value, "value", value)
