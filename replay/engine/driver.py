"""The driver, reached through cuda.bindings; the only module that imports it.

cuda.bindings loads libcuda.so.1 and answers `cuGetProcAddress`; the functions themselves are called with the exact
ABI of the symbol that was captured, whose argument types come from the table. So any function of the table can be
replayed, in the version the application used, whether or not the binding wraps that version.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any

from replay.api.functions import by_symbol
from replay.api.vocabulary import Function, Parameter, Role, Term
from replay.errors import EngineError

SUCCESS = 0
OLDEST_VERSION = 12000  # cuda.bindings asks for cuGetProcAddress_v2, which came with it
CU_STREAM_LEGACY, CU_STREAM_PER_THREAD = 1, 2  # handles, whatever the default stream of a symbol

# CUdriverProcAddress_flags
_LEGACY_STREAM = 1
_PER_THREAD_STREAM = 2

_INTEGERS: dict[int, Any] = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
_FLOATS: dict[int, Any] = {4: ctypes.c_float, 8: ctypes.c_double}
_OUTPUTS: dict[str, Any] = {
    "int": ctypes.c_int32,
    "float": ctypes.c_float,
}  # C types that are no unsigned numbers

_STARTING = ("cuInit", "cuDevicePrimaryCtxRetain", "cuCtxCreate_v2")
_NO_ROOM = (1, 2, 304, 999)  # CUDA_ERROR_INVALID_VALUE, _OUT_OF_MEMORY, _OPERATING_SYSTEM, _UNKNOWN

DriverFunction = Callable[..., int]


class DriverFailure(EngineError):
    """A driver function returned an error. `code` is the CUresult, `name` its CUDA name."""

    def __init__(
        self, function: str, code: int, name: str, *, where: object = None, next: str | None = None
    ) -> None:
        self.function = function
        self.code = code
        self.name = name
        super().__init__(f"{function} returned {name}", where=where, next=next)

    @property
    def started_badly(self) -> bool:
        """Whether the driver, or a context, found no room for itself, as far as its errors tell."""
        return self.function in _STARTING and self.code in _NO_ROOM


class Driver(ABC):
    """What the engine needs of a driver. Each function of the table is an attribute: `driver.cuMemAlloc_v2(size)`."""

    @abstractmethod
    def function(self, symbol: str, per_thread: bool = False) -> DriverFunction:
        """The function of a symbol of the table; it takes one value per parameter and returns the CUresult."""

    @abstractmethod
    def error_name(self, code: int) -> str:
        """CUDA's name of a CUresult."""

    @abstractmethod
    def own(self, symbol: str) -> DriverFunction | None:
        """A function that is none of CUDA's, which the built-in CPU driver has; None where the driver lacks it."""

    def __getattr__(self, symbol: str) -> Operation:
        row = by_symbol().get(symbol)
        if row is None:
            raise AttributeError(f"the table has no {symbol}")
        operation = Operation(self, row)
        setattr(self, symbol, operation)  # the next time it is found without this
        return operation


class Operation:
    """A function of a driver, for calls that the engine makes itself.

    Outputs of one number or handle each may be left out of the arguments, all of them; then they are what a call gives:
    the only one, or a tuple.
    """

    def __init__(self, driver: Driver, row: Function) -> None:
        self._driver, self._symbol = driver, row.symbol
        self._parameter_count = len(row.parameters)
        self._outputs = [
            (position, _OUTPUTS.get(item.element) or _INTEGERS[item.element_bytes])
            for position, item in enumerate(row.parameters)
            if item.role == Role.OUT and item.count == Term() and item.element_bytes in _INTEGERS
        ]

    def code(self, *arguments: Any, per_thread: bool = False) -> int:
        """Call it with all arguments: the CUresult."""
        return self.bare(per_thread)(*arguments)

    def bare(self, per_thread: bool = False) -> DriverFunction:
        """The function itself, for many calls: it takes all arguments and gives the CUresult."""
        return self._driver.function(self._symbol, per_thread)

    def check(self, code: int) -> None:
        """Raises DriverFailure for a CUresult that is none of success."""
        if code != SUCCESS:
            raise DriverFailure(self._symbol, code, self._driver.error_name(code))

    def __call__(self, *arguments: Any) -> Any:
        """Raises DriverFailure."""
        if len(arguments) == self._parameter_count:
            return self.check(self.code(*arguments))
        words, values = list(arguments), [ctypes.c_uint64(0) for _ in self._outputs]
        for (position, _), value in zip(self._outputs, values, strict=True):
            words.insert(position, ctypes.addressof(value))
        self.check(self.code(*words))
        given = tuple(
            kind.from_buffer(value).value for (_, kind), value in zip(self._outputs, values, strict=True)
        )
        return given[0] if len(given) == 1 else given


@cache
def _struct_by_value(size_bytes: int) -> Any:
    # Integer members only, which is what the ABIs look at: all structs that the driver takes by value are of integers.
    words = ctypes.c_uint32 * (size_bytes // 4)
    return type(f"Struct{size_bytes}", (ctypes.Structure,), {"_fields_": [("words", words)]})


def argument_type(parameter: Parameter) -> Any:
    """The ctypes type with which a parameter is passed."""
    if parameter.kind == "float":
        return _FLOATS[parameter.size_bytes]
    if parameter.kind == "struct":
        return _struct_by_value(parameter.size_bytes)
    if parameter.kind == "pointer":
        return ctypes.c_void_p
    return _INTEGERS[parameter.size_bytes]


def argument_value(parameter: Parameter, word: int) -> Any:
    """A captured 64-bit argument word as the value to pass."""
    if parameter.kind == "float":
        # By its bits: a signalling NaN does not survive as a Python float.
        bits = word & ((1 << 8 * parameter.size_bytes) - 1)
        return _FLOATS[parameter.size_bytes].from_buffer_copy(bits.to_bytes(parameter.size_bytes, "little"))
    if parameter.kind == "struct":
        if parameter.size_bytes > 8:
            raise EngineError(
                f"parameter {parameter.name} is a struct of {parameter.size_bytes} bytes by value"
            )
        return _struct_by_value(parameter.size_bytes).from_buffer_copy(
            (word & (2**64 - 1)).to_bytes(8, "little")[: parameter.size_bytes]
        )
    return word & ((1 << 8 * parameter.size_bytes) - 1)


def passed_value(parameter: Parameter, value: Any) -> Any:
    """An argument as a ctypes object, which makes a call twice as fast as converting it each time."""
    if isinstance(value, (int, float)):
        return argument_type(parameter)(value)
    if isinstance(value, ctypes.Array):
        return ctypes.c_void_p(ctypes.addressof(value))
    return value


class LoadedDriver(Driver):
    """The libcuda.so.1 that the loader finds in this process. Loading it happens here, not when this is imported."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver as bindings
        except ImportError as error:
            raise EngineError(
                f"cuda.bindings cannot be imported ({error})",
                next="install it with `pip install cuda-python`",
            ) from None
        self._bindings = bindings
        self._functions: dict[tuple[str, bool], DriverFunction] = {}
        self._names: dict[int, str] = {}
        try:
            (code,) = bindings.cuInit(0)
        except (
            Exception
        ) as error:  # cuda.bindings raises RuntimeError when libcuda.so.1 or a symbol is missing
            raise EngineError(
                f"the driver cannot be loaded ({error})", next="use `--driver emulator`"
            ) from None
        if int(code) != SUCCESS:
            raise DriverFailure(
                "cuInit",
                int(code),
                self.error_name(int(code)),
                next="check an NVIDIA driver with `nvidia-smi`",
            )
        version = ctypes.c_int32(0)
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
        if version.value < OLDEST_VERSION:
            has, needed = (f"{one // 1000}.{one % 1000 // 10}" for one in (version.value, OLDEST_VERSION))
            raise EngineError(
                f"this driver is of CUDA {has}, and a replay needs one of CUDA {needed} or later",
                next="update the NVIDIA driver, or choose another with --driver",
            )

    def function(self, symbol: str, per_thread: bool = False) -> DriverFunction:
        """The function of exactly this version. Raises EngineError when the driver has none."""
        found = self._functions.get((symbol, per_thread))
        if found is None:
            found = self._functions[symbol, per_thread] = self._look_up(by_symbol()[symbol], per_thread)
        return found

    def error_name(self, code: int) -> str:
        """CUDA's name of a CUresult; the number where the driver knows none."""
        if code not in self._names:
            try:
                pointer = ctypes.c_char_p()
                self.cuGetErrorName.code(code, ctypes.addressof(pointer))
                self._names[code] = (pointer.value or b"").decode("ascii", "replace") or f"error {code}"
            except EngineError:
                self._names[code] = f"error {code}"
        return self._names[code]

    def own(self, symbol: str) -> DriverFunction | None:
        """A function beside the driver API; None where the driver lacks it."""
        address = _exported(symbol)
        return ctypes.CFUNCTYPE(ctypes.c_int32)(address) if address else None

    def _look_up(self, function: Function, per_thread: bool) -> DriverFunction:
        twin = per_thread and bool(function.twin)
        version = function.twin_since if twin else function.since
        flags = _PER_THREAD_STREAM if twin else _LEGACY_STREAM
        code, pointer, *_ = self._bindings.cuGetProcAddress(function.name.encode(), version, flags)
        address = int(pointer or 0) if int(code) == SUCCESS else 0
        if not address:
            # A driver may have functions of a later release than the one it is of, as the built-in one does.
            address = _exported(function.twin if twin else function.symbol)
        if not address:
            raise EngineError(
                f"this driver has no {function.twin if twin else function.symbol}",
                next=f"it came with CUDA {version // 1000}.{version % 1000 // 10}; use a newer driver",
            )
        prototype = ctypes.CFUNCTYPE(
            ctypes.c_int32, *[argument_type(parameter) for parameter in function.parameters]
        )
        return prototype(address)


def _exported(symbol: str) -> int:
    """The address of a symbol of the libcuda.so.1 that is loaded; 0 if it has none."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL("libcuda.so.1"), symbol), ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


class _OlderManagement:
    """pynvml under the names of cuda.bindings' NVML module, which came with 13.2: device_get_mig_mode is
    nvmlDeviceGetMigMode. What it lacks is an AttributeError, as there."""

    _WRITTEN_OTHERWISE = {"Uuid": "UUID", "V2": "_v2", "V3": "_v3"}

    def __init__(self) -> None:
        import pynvml  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self._library = pynvml
        pynvml.nvmlInit()

    def __getattr__(self, name: str) -> Any:
        words = [word.capitalize() for word in name.split("_")]
        return getattr(
            self._library, "nvml" + "".join(self._WRITTEN_OTHERWISE.get(word, word) for word in words)
        )


def management_library() -> Any:
    """NVML: cuda.bindings' module, else pynvml; None where both, or the library that they load, are absent."""
    try:
        from cuda.bindings import nvml

        nvml.init_v2()
        return nvml
    except Exception:  # whatever the reason
        pass
    try:
        return _OlderManagement()
    except Exception:  # clocks are then recorded as unavailable
        return None
