"""Modules, libraries, their variables, and contexts."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from replay.api.parts import find_part
from replay.api.vocabulary import Function
from replay.engine.arguments.builder import Arguments, Builder, Rebuild
from replay.engine.arguments.prepared import Prepared

# CUjit_option whose value is a number. Of all others it is a pointer into the application, the count of what one points
# to (19, 26, 28), or nothing that this version knows: none of these is passed on.
_JIT_NUMBERS = frozenset((0, 1, *range(7, 17), *range(20, 25), *range(29, 36)))
_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BYTES = 5, 6
_JIT_LOGS = frozenset((2, 3, 4, 5, 6))  # what the compiler told the application: nothing is lost without
_LIBRARY_NUMBERS = frozenset((1,))  # CU_LIBRARY_BINARY_IS_PRESERVED
_LOG_BYTES = 4096


def _options(
    builder: Builder, prepared: Prepared, keys: str, values: str, numbers: frozenset[int]
) -> tuple[list[int], list[int]]:
    """An option array and its values: those of `numbers`, which point to nothing."""
    key_bytes = builder.optional(prepared, keys) or b""
    value_bytes = builder.optional(prepared, values) or b""
    pairs = list(
        zip(
            (key for (key,) in struct.iter_unpack("<I", key_bytes[: len(key_bytes) // 4 * 4])),
            (value for (value,) in struct.iter_unpack("<Q", value_bytes[: len(value_bytes) // 8 * 8])),
            strict=False,
        )
    )
    kept = [(key, value) for key, value in pairs if key in numbers]
    for key, _ in pairs:
        if key not in numbers and key not in _JIT_LOGS:
            builder.note(
                f"{prepared.call.function} was not given option {key} ({keys}): its value points into the application"
            )
    return [key for key, _ in kept], [value for _, value in kept]


def _option_arguments(prepared: Prepared, keys: list[int], values: list[int]) -> tuple[Any, Any, int]:
    if not keys:
        return None, None, 0
    key_array = (ctypes.c_uint32 * len(keys))(*keys)
    value_array = (ctypes.c_void_p * len(values))(*values)
    prepared.keep += [key_array, value_array]
    return key_array, value_array, len(keys)


def _with_log(builder: Builder, prepared: Prepared, keys: list[int], values: list[int]) -> None:
    """Ask the driver for the reason when it refuses an image."""
    log = builder.buffer(prepared, bytes(_LOG_BYTES))
    keys += [_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BYTES]
    values += [ctypes.addressof(log), _LOG_BYTES]


def _module_load_data_ex(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    keys, values = _options(builder, prepared, "options", "optionValues", _JIT_NUMBERS)
    _with_log(builder, prepared, keys, values)
    options, option_values, count = _option_arguments(prepared, keys, values)
    return {"options": options, "optionValues": option_values, "numOptions": count}


def _module_load(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    return {"fname": builder.images.of(prepared, "fname", 1)}


def _library_load_data(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    keys, values = _options(builder, prepared, "jitOptions", "jitOptionsValues", _JIT_NUMBERS)
    jit, jit_values, jit_count = _option_arguments(prepared, keys, values)
    keys, values = _options(builder, prepared, "libraryOptions", "libraryOptionValues", _LIBRARY_NUMBERS)
    library, library_values, library_count = _option_arguments(prepared, keys, values)
    return {
        "jitOptions": jit, "jitOptionsValues": jit_values, "numJitOptions": jit_count,
        "libraryOptions": library, "libraryOptionValues": library_values, "numLibraryOptions": library_count,
    }  # fmt: skip


def _library_load_file(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    return _library_load_data(builder, prepared, function) | {
        "fileName": builder.images.of(prepared, "fileName", 1)
    }


def _get_global(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    """Where the driver put a variable; from now on captured pointers to it go there."""
    address, size = ctypes.c_uint64(0), ctypes.c_uint64(0)
    prepared.keep += [address, size]
    if prepared.call.by_capture:
        prepared.context = prepared.call.arguments[0]  # FORMAT.md
    outputs = prepared.call.outputs
    captured = find_part(outputs, "name", 1)
    if not isinstance(captured, bytes) or len(captured) != 16:
        captured = b"".join(
            part.ljust(8, b"\0") if isinstance(part := outputs.get(name, b""), bytes) else bytes(8)
            for name in ("dptr", "bytes")
        )
    captured_address, captured_bytes = struct.unpack("<QQ", captured[:16])

    def bind() -> None:
        if captured_address:
            place = captured_address, captured_bytes, address.value, size.value
            builder.appearing.variable(*place, by=prepared.call)

    prepared.then.append(bind)
    return {"dptr": ctypes.addressof(address), "bytes": ctypes.addressof(size)}


def _create_context(builder: Builder, prepared: Prepared, function: Function) -> Arguments:
    position = next(i for i, p in enumerate(function.parameters) if p.name == "ctxCreateParams")
    if prepared.call.arguments[position]:
        builder.note("cuCtxCreate_v4 was given no creation parameters: they point into the application")
    return {"ctxCreateParams": None}


BUILDERS: dict[str, Rebuild] = {
    "module": _module_load_data_ex,
    "module_file": _module_load,
    "library": _library_load_data,
    "library_file": _library_load_file,
    "variable": _get_global,
    "context": _create_context,
}
