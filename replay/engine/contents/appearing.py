"""Variables of modules and arrays: memory that calls bring with them, and that gets its contents when it is there."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable

from replay.api.functions import by_symbol, variable_getters
from replay.api.vocabulary import LOADED_TYPES
from replay.engine.driver import Driver, DriverFailure
from replay.engine.placing.addresses import AddressMap
from replay.engine.translation.contexts import CurrentContext
from replay.engine.translation.handles import HandleMap
from replay.errors import EngineError
from replay.planning.spans import is_global
from replay.snapshot.schema import Call, Range


class Appearing:
    """Tells the address map what has appeared, and loads it where the window brings it. load: writes the contents of a
    range. point_to: lets what points to a variable point there."""

    def __init__(
        self,
        addresses: AddressMap,
        ranges: Iterable[Range],
        load: Callable[[Range], None],
        point_to: Callable[[Range], None],
    ) -> None:
        self._addresses, self._load, self._point_to = addresses, load, point_to
        ranges = list(ranges)
        self._variables = [range_ for range_ in ranges if is_global(range_)]
        self._arrays = [range_ for range_ in ranges if range_.array is not None]
        self._at_start: set[int] = set()  # ids of ranges that have their contents before the window
        self._loaded: set[int] = set()  # and of those that got them in this run of it

    def begin(self, at_start: Iterable[Range] | None = None) -> None:
        """A run of the window begins. at_start: ranges that have their contents, from now on."""
        if at_start is not None:
            self._at_start = {range_.id for range_ in at_start}
        self._loaded.clear()

    def live_bytes(self, captured_bytes: int, told: int) -> int:
        """How large a variable is: the driver knows, whatever a snapshot says."""
        return told

    def array(self, c_type: str, captured: int, by: Call) -> None:
        """An array was made: from now on its contents can be moved. One that the window makes gets them here."""
        for range_ in self._arrays:
            shape = range_.array
            if shape is None or (shape.handle_type, range_.owner) != (c_type, captured):
                continue
            if (range_.born_call is None) if by.section == "setup" else (range_.born_call == by.number):
                self._addresses.bind_array(range_.address)
                if by.section == "window":
                    self._load(range_)

    def variable(self, captured: int, captured_bytes: int, live: int, live_bytes: int, by: Call) -> None:
        """A call asked where a variable is. One of a module that the window itself loaded gets its contents when it is
        first asked for."""
        self._addresses.bind(captured, self.live_bytes(captured_bytes, live_bytes), live)
        for range_ in self._variables if by.section == "window" else ():
            lives = (range_.born_call or 0) <= by.number and (
                range_.died_call is None or by.number < range_.died_call
            )
            known = range_.id in self._at_start or range_.id in self._loaded
            if range_.address == captured and lives and not known:
                self._loaded.add(range_.id)
                self._load(range_)
                self._point_to(range_)

    def find(self, driver: Driver, handles: HandleMap, contexts: CurrentContext, range_: Range) -> None:
        """Ask the module or library for a variable, if the setup loaded it; one of the window's own module comes
        later."""
        for c_type in sorted(LOADED_TYPES):
            owner = handles.find(c_type, range_.owner)
            if not owner or not range_.name:
                continue
            getters, managed = variable_getters(c_type), range_.kind == "managed"
            getter = next((one for one in getters if by_symbol()[one].managed == managed), getters[0])
            # A library's variables are there once for each context.
            known = handles.find("CUcontext", range_.context)
            contexts.switch(range_.context if known else 0)
            address, size = ctypes.c_uint64(0), ctypes.c_uint64(0)
            name = ctypes.create_string_buffer(range_.name.encode())
            code = driver.function(getter)(ctypes.addressof(address), ctypes.addressof(size), owner, name)
            if code:
                raise DriverFailure(getter, code, driver.error_name(code), where=f"variable {range_.name}")
            size_bytes = self.live_bytes(range_.size_bytes, size.value)
            if size_bytes < range_.size_bytes:
                raise EngineError(
                    f"variable {range_.name} has {size_bytes} bytes here, {range_.size_bytes} when captured"
                )
            self._addresses.bind(range_.address, range_.size_bytes, address.value)
