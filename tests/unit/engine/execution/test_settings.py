"""What a window sets on objects that outlive it is set back before each run."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import SimpleNamespace

from replay.engine.arguments.prepared import Prepared
from replay.engine.execution.settings import WindowSettings
from replay.snapshot.schema import Call

FUNCTION, CAPTURED, STREAM, CONTEXT = 0x10, 0x1000, 0x20, 0x30
CARVEOUT, LIMIT_OF_PRINTF, PERSISTING = 9, 1, 6


class Settable:
    """A driver with one setting of each kind."""

    def __init__(self) -> None:
        self.values = {"attribute": -1 & 0xFFFFFFFF, "cache": 2, "limit": 4096, "stream": 77}
        self.resets = 0

    def function(self, symbol, per_thread=False):
        return getattr(self, symbol)

    def cuFuncGetAttribute(self, place, attribute, function):
        assert (attribute, function) == (CARVEOUT, FUNCTION)
        ctypes.c_uint32.from_address(place).value = self.values["attribute"]
        return 0

    def cuFuncSetAttribute(self, function, attribute, value):
        assert (function, attribute) == (FUNCTION, CARVEOUT)
        self.values["attribute"] = value
        return 0

    def cuFuncSetCacheConfig(self, function, value):
        self.values["cache"] = value
        return 0

    def cuCtxGetLimit(self, place, limit):
        ctypes.c_uint64.from_address(place).value = self.values["limit"]
        return 0

    def cuCtxSetLimit(self, limit, value):
        self.values["limit"] = value
        return 0

    def cuStreamGetAttribute(self, stream, attribute, place):
        ctypes.c_uint64.from_address(place).value = self.values["stream"]
        return 0

    def cuStreamSetAttribute(self, stream, attribute, place):
        self.values["stream"] = ctypes.c_uint64.from_address(place).value
        return 0

    @property
    def cuCtxResetPersistingL2Cache(self):
        return SimpleNamespace(code=self.reset)

    def reset(self):
        self.resets += 1
        return 0


def prepared(driver, number, function, *arguments, late=()):
    call = Call(number, function, "window", 1, [CAPTURED, *arguments[1:]], 0)
    return Prepared(call, CONTEXT, driver.function(function), list(arguments), late_arguments=list(late))


def test_settings_of_the_window_are_what_they_were_before_it():
    driver = Settable()
    new = ctypes.c_uint64(5)
    window = [
        prepared(driver, 1, "cuFuncSetAttribute", FUNCTION, CARVEOUT, 50),
        prepared(driver, 2, "cuFuncSetAttribute", FUNCTION, CARVEOUT, 100),
        prepared(driver, 3, "cuFuncSetCacheConfig", FUNCTION, 1),
        prepared(driver, 4, "cuCtxSetLimit", LIMIT_OF_PRINTF, 1 << 20),
        prepared(driver, 5, "cuStreamSetAttribute", STREAM, 1, ctypes.addressof(new)),
        prepared(driver, 6, "cuFuncSetAttribute", 0, CARVEOUT, 10, late=[(0, "CUfunction", CAPTURED)]),
    ]
    setup = [Call(0, "cuFuncSetCacheConfig", "setup", 1, [CAPTURED, 2], 0)]
    before = dict(driver.values)
    contexts, notes = [], []
    settings = WindowSettings(driver, setup, window, lambda context: True, contexts.append, notes.append)
    for _ in range(2):
        for item in window[:5]:
            item.function(*item.arguments)
        assert not driver.values.items() & before.items()
        settings.set_back()
        assert driver.values == before
    assert (set(contexts), notes, driver.resets) == ({CONTEXT}, [], 0)


def test_contexts_of_the_window_and_failed_calls_are_left_alone():
    driver = Settable()
    failed = prepared(driver, 1, "cuCtxSetLimit", LIMIT_OF_PRINTF, 1 << 20)
    failed.call = replace(failed.call, result=1)
    of_window = prepared(driver, 2, "cuCtxSetLimit", LIMIT_OF_PRINTF, 1 << 20)
    settings = WindowSettings(driver, [], [failed], lambda context: True, lambda context: None, print)
    other = WindowSettings(driver, [], [of_window], lambda context: False, lambda context: None, print)
    driver.values["limit"] = 1
    settings.set_back()
    other.set_back()
    assert driver.values["limit"] == 1


def test_memory_that_persists_in_the_cache_is_given_up_between_runs():
    driver = Settable()
    setup = [Call(0, "cuCtxSetLimit", "setup", 1, [PERSISTING, 1 << 20], 0)]
    WindowSettings(driver, setup, [], lambda context: True, lambda context: None, print).set_back()
    assert driver.resets == 1


def test_what_cannot_be_set_back_is_told():
    driver, notes = Settable(), []
    window = [prepared(driver, 1, "cuCtxSetLimit", LIMIT_OF_PRINTF, 1 << 20)]
    window[0].function = lambda limit, value: 0 if value > 4096 else 1
    WindowSettings(driver, [], window, lambda context: True, lambda context: None, notes.append).set_back()
    assert "call 1 cuCtxSetLimit" in notes[0]


def test_a_setup_with_a_function_that_nobody_knows_has_settings():
    setup = [Call(0, "cuFromTheFuture", "setup", 1, [PERSISTING, 1], 0)]
    WindowSettings(Settable(), setup, [], lambda context: True, lambda context: None, print).set_back()
