"""The exceptions to generic execution: calls whose arguments the table alone cannot rebuild.

The counterpart of `interposer/custom.c`; which parts a call has stands in `replay/capture/FORMAT.md`. Each function
here gets the executor, the call being prepared and its row, and returns the arguments it has rebuilt, by parameter
name; the others are built generically.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from replay.api.vocabulary import Function
from replay.engine.contents import patch
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execute import Executor
    from replay.engine.inputs import Prepared

Arguments = dict[str, Any]
Exception_ = Callable[["Executor", "Prepared", Function], Arguments]

_LAUNCH_PARAM_BUFFER_POINTER, _LAUNCH_PARAM_BUFFER_SIZE, _LAUNCH_PARAM_END = 1, 2, 0  # CU_LAUNCH_PARAM_*

# CUjit_option: buffers for logs (3 to 6) and the linker's symbol names and addresses (17, 18, 19 the count) are
# pointers into the application.
_JIT_POINTERS = frozenset((3, 4, 5, 6, 17, 18, 19))
_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BYTES = 5, 6
_LIBRARY_POINTERS = frozenset((0,))  # CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE
_LOG_BYTES = 4096

# CUlaunchConfig and CUlaunchAttribute, as cuda.h lays them out
_CONFIG_BYTES, _CONFIG_STREAM, _CONFIG_ATTRIBUTES, _CONFIG_COUNT = 56, 32, 40, 48
_ATTRIBUTE_BYTES, _ATTRIBUTE_VALUE = 72, 8
_ATTRIBUTE_ACCESS_POLICY, _ATTRIBUTE_EVENT, _ATTRIBUTE_COMPLETION, _ATTRIBUTE_UPDATABLE_NODE = 1, 7, 12, 13

_MEMORY_HOST, _MEMORY_DEVICE, _MEMORY_ARRAY, _MEMORY_UNIFIED = 1, 2, 3, 4  # CUmemorytype

# Offsets in CUDA_MEMCPY2D and CUDA_MEMCPY3D: of one side, then of the extent
_COPY_2D = {
    "bytes": 128, "source": (0, 8, None, 16, 24, 32, 48, None), "target": (56, 64, None, 72, 80, 88, 104, None),
    "extent": (112, 120, None),
}  # fmt: skip
_COPY_3D = {
    "bytes": 200, "source": (0, 8, 16, 32, 40, 48, 72, 80), "target": (88, 96, 104, 120, 128, 136, 160, 168),
    "extent": (176, 184, 192),
}  # fmt: skip


def _launch(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """The parameter buffer as an array of pointers where the layout is known, else through `extra`."""
    layout = executor.optional(prepared, "kernelParams", 1)
    data = executor.optional(prepared, "kernelParams")
    if data is None:
        data = executor.optional(prepared, "extra")
    names = {parameter.name for parameter in function.parameters}
    arguments: Arguments = {"kernelParams": None} | ({"extra": None} if "extra" in names else {})
    if not data:
        return arguments
    buffer = executor.buffer(prepared, data)
    address = ctypes.addressof(buffer)
    words = executor.words.get(prepared.call.number, [])
    content = bytearray(data)
    patch(content, 0, words, executor.addresses)
    ctypes.memmove(buffer, bytes(content), len(content))
    for word in words:
        # A variable of a module that the window itself loads has no address yet.
        if executor.addresses.find(word.target) is None and word.offset + 8 <= len(data):
            executor.late_word(prepared, address + word.offset, "CUdeviceptr", word.target)
    if layout is not None:
        slots = list(struct.iter_unpack("<II", layout[: len(layout) // 8 * 8]))
        if any(offset + size > len(data) for offset, size in slots):
            raise EngineError("the layout of the parameters exceeds their buffer", where=prepared.where)
        pointers = (ctypes.c_void_p * max(len(slots), 1))(*(address + offset for offset, _ in slots))
        prepared.keep.append(pointers)
        return arguments | {"kernelParams": pointers}
    if "extra" not in names:
        raise EngineError("the layout of the parameters was not captured", where=prepared.where)
    size = ctypes.c_size_t(len(data))
    extra = (ctypes.c_void_p * 5)(
        _LAUNCH_PARAM_BUFFER_POINTER,
        address,
        _LAUNCH_PARAM_BUFFER_SIZE,
        ctypes.addressof(size),
        _LAUNCH_PARAM_END,
    )
    prepared.keep += [size, extra]
    return arguments | {"extra": extra}


def _launch_ex(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """The launch configuration, with live handles and addresses in its attributes."""
    config = executor.required(prepared, "config")
    attributes = executor.optional(prepared, "config", 1) or b""
    if len(config) != _CONFIG_BYTES or len(attributes) % _ATTRIBUTE_BYTES:
        raise EngineError("the launch configuration has a broken length", where=prepared.where)
    kept = b""
    for at in range(0, len(attributes), _ATTRIBUTE_BYTES):
        attribute = attributes[at : at + _ATTRIBUTE_BYTES]
        if int.from_bytes(attribute[:4], "little") == _ATTRIBUTE_UPDATABLE_NODE:
            executor.note(
                "a launch attribute was left out: a device-updatable graph node exists only in a graph"
            )
        else:
            kept += attribute
    attribute_buffer = executor.buffer(prepared, kept)
    for at in range(0, len(kept), _ATTRIBUTE_BYTES):
        kind = int.from_bytes(kept[at : at + 4], "little")
        value = int.from_bytes(kept[at + _ATTRIBUTE_VALUE : at + _ATTRIBUTE_VALUE + 8], "little")
        place = ctypes.addressof(attribute_buffer) + at + _ATTRIBUTE_VALUE
        if kind == _ATTRIBUTE_ACCESS_POLICY and value:
            executor.late_word(prepared, place, "CUdeviceptr", value)
        elif kind in (_ATTRIBUTE_EVENT, _ATTRIBUTE_COMPLETION) and value:
            executor.late_word(prepared, place, "CUevent", value)
    rebuilt = bytearray(config)
    pointer = ctypes.addressof(attribute_buffer) if kept else 0
    rebuilt[_CONFIG_ATTRIBUTES : _CONFIG_ATTRIBUTES + 8] = pointer.to_bytes(8, "little")
    rebuilt[_CONFIG_COUNT : _CONFIG_COUNT + 4] = (len(kept) // _ATTRIBUTE_BYTES).to_bytes(4, "little")
    config_buffer = executor.buffer(prepared, bytes(rebuilt))
    stream = int.from_bytes(config[_CONFIG_STREAM : _CONFIG_STREAM + 8], "little")
    executor.late_word(prepared, ctypes.addressof(config_buffer) + _CONFIG_STREAM, "CUstream", stream)
    return _launch(executor, prepared, function) | {"config": config_buffer}


def _options(
    executor: Executor, prepared: Prepared, keys: str, values: str, dropped: frozenset[int]
) -> tuple[list[int], list[int]]:
    """An option array and its values, without those that point into the application."""
    key_bytes = executor.optional(prepared, keys) or b""
    value_bytes = executor.optional(prepared, values) or b""
    pairs = list(
        zip(
            (key for (key,) in struct.iter_unpack("<I", key_bytes[: len(key_bytes) // 4 * 4])),
            (value for (value,) in struct.iter_unpack("<Q", value_bytes[: len(value_bytes) // 8 * 8])),
            strict=False,
        )
    )
    kept = [(key, value) for key, value in pairs if key not in dropped]
    return [key for key, _ in kept], [value for _, value in kept]


def _option_arguments(prepared: Prepared, keys: list[int], values: list[int]) -> tuple[Any, Any, int]:
    if not keys:
        return None, None, 0
    key_array = (ctypes.c_uint32 * len(keys))(*keys)
    value_array = (ctypes.c_void_p * len(values))(*values)
    prepared.keep += [key_array, value_array]
    return key_array, value_array, len(keys)


def _with_log(executor: Executor, prepared: Prepared, keys: list[int], values: list[int]) -> None:
    """Ask the driver for the reason when it refuses an image."""
    log = executor.buffer(prepared, bytes(_LOG_BYTES))
    keys += [_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BYTES]
    values += [ctypes.addressof(log), _LOG_BYTES]


def _module_load_data_ex(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    keys, values = _options(executor, prepared, "options", "optionValues", _JIT_POINTERS)
    _with_log(executor, prepared, keys, values)
    options, option_values, count = _option_arguments(prepared, keys, values)
    return {"options": options, "optionValues": option_values, "numOptions": count}


def _module_load(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    return {"fname": executor.image(prepared, "fname", 1)}


def _library_load_data(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    keys, values = _options(executor, prepared, "jitOptions", "jitOptionsValues", _JIT_POINTERS)
    jit, jit_values, jit_count = _option_arguments(prepared, keys, values)
    keys, values = _options(executor, prepared, "libraryOptions", "libraryOptionValues", _LIBRARY_POINTERS)
    library, library_values, library_count = _option_arguments(prepared, keys, values)
    return {
        "jitOptions": jit, "jitOptionsValues": jit_values, "numJitOptions": jit_count,
        "libraryOptions": library, "libraryOptionValues": library_values, "numLibraryOptions": library_count,
    }  # fmt: skip


def _library_load_file(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    return _library_load_data(executor, prepared, function) | {
        "fileName": executor.image(prepared, "fileName", 1)
    }


def _get_global(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """Where the driver put a variable; from now on captured pointers to it go there."""
    address, size = ctypes.c_uint64(0), ctypes.c_uint64(0)
    prepared.keep += [address, size]
    outputs = prepared.call.outputs
    captured = outputs.get("name.1", b"")
    if not isinstance(captured, bytes) or len(captured) != 16:
        captured = b"".join(
            part.ljust(8, b"\0") if isinstance(part := outputs.get(name, b""), bytes) else bytes(8)
            for name in ("dptr", "bytes")
        )
    captured_address, captured_bytes = struct.unpack("<QQ", captured[:16])

    def bind() -> None:
        if captured_address:
            executor.addresses.bind(captured_address, max(captured_bytes, size.value), address.value)
            executor.on_global(captured_address, prepared.call.number)

    prepared.then.append(bind)
    return {"dptr": ctypes.addressof(address), "bytes": ctypes.addressof(size)}


def _create_context(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    position = next(i for i, p in enumerate(function.parameters) if p.name == "ctxCreateParams")
    if prepared.call.arguments[position]:
        executor.note("cuCtxCreate_v4 was given no creation parameters: they point into the application")
    return {"ctxCreateParams": None}


def _copy(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
    """cuMemcpy takes host and device addresses alike."""
    target, source, size = prepared.call.arguments[:3]
    arguments: Arguments = {}
    if executor.optional(prepared, "src", 1) is not None:
        arguments["src"] = _address(executor.host_source(prepared, "src", source, 1))
    elif executor.addresses.find(source) is None:
        raise EngineError("the host memory that it reads was not captured", where=prepared.where)
    if executor.addresses.find(target) is None:
        arguments["dst"] = _address(executor.host_target(prepared, "dst", target, size, 2))
    return arguments


def _address(value: Any) -> int:
    return value if isinstance(value, int) else ctypes.addressof(value)


def _copy_rectangle(layout: dict[str, Any]) -> Exception_:
    """cuMemcpy2D and 3D: host sides come from tightly packed rows, device sides are translated."""

    def rebuild(executor: Executor, prepared: Prepared, function: Function) -> Arguments:
        data = bytearray(executor.required(prepared, "pCopy"))
        if len(data) != layout["bytes"]:
            raise EngineError("the copy's description has a broken length", where=prepared.where)

        def get(offset: int, size: int = 8) -> int:
            return int.from_bytes(data[offset : offset + size], "little")

        def put(offset: int, value: int, size: int = 8) -> None:
            data[offset : offset + size] = value.to_bytes(size, "little")

        width, height, depth = (1 if offset is None else get(offset) for offset in layout["extent"])
        for side in ("source", "target"):
            x, y, z, memory_type, host, device, pitch, rows = layout[side]
            kind = get(memory_type, 4)
            if kind == _MEMORY_ARRAY:
                raise EngineError(
                    "copies to or from a CUDA array, which is not replayed yet", where=prepared.where
                )
            captured = get(host) if kind == _MEMORY_HOST else get(device)
            live = executor.addresses.find(captured)
            if live is not None:  # device memory, or pinned memory, which is compared as a range
                put(host if kind == _MEMORY_HOST else device, live)
                continue
            if side == "source":
                buffer = executor.buffer(prepared, executor.required(prepared, "pCopy", 1))
                if len(buffer) < width * height * depth:
                    raise EngineError("the host memory that it reads was not captured", where=prepared.where)
            else:
                total = width * height * depth
                if total > 1 << 30:
                    raise EngineError(f"copies {total} bytes to the host at once", where=prepared.where)
                buffer = executor.host_target(prepared, "pCopy", captured, total, 2)
            for offset in (x, y, z):
                if offset is not None:
                    put(offset, 0)
            put(memory_type, _MEMORY_HOST, 4)
            put(host, ctypes.addressof(buffer))
            put(pitch, width)
            if rows is not None:
                put(rows, height)
        return {"pCopy": executor.buffer(prepared, bytes(data))}

    return rebuild


EXCEPTIONS: dict[str, Exception_] = {
    "cuLaunchKernel": _launch,
    "cuLaunchCooperativeKernel": _launch,
    "cuLaunchKernelEx": _launch_ex,
    "cuModuleLoad": _module_load,
    "cuModuleLoadDataEx": _module_load_data_ex,
    "cuLibraryLoadData": _library_load_data,
    "cuLibraryLoadFromFile": _library_load_file,
    "cuModuleGetGlobal_v2": _get_global,
    "cuLibraryGetGlobal": _get_global,
    "cuLibraryGetManaged": _get_global,
    "cuCtxCreate_v4": _create_context,
    "cuMemcpy": _copy,
    "cuMemcpyAsync": _copy,
    **dict.fromkeys(
        ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DAsync_v2"), _copy_rectangle(_COPY_2D)
    ),
    **dict.fromkeys(("cuMemcpy3D_v2", "cuMemcpy3DAsync_v2"), _copy_rectangle(_COPY_3D)),
}

# Files of the application are not here; their contents were captured and are loaded from memory.
INSTEAD = {"cuModuleLoad": "cuModuleLoadData", "cuLibraryLoadFromFile": "cuLibraryLoadData"}

_IMAGE_ADVICE = {
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the image has no code for this device and no PTX; replay on the architecture "
    "it was captured on, or capture a build that includes PTX",
    "CUDA_ERROR_INVALID_PTX": "the PTX is for another architecture or newer than this driver",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the PTX is newer than this driver; use a newer driver",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND": "this driver lacks its PTX compiler; install it completely",
}


def advice(function: str, error: str) -> str | None:
    """What to do about a failed call of the setup."""
    return _IMAGE_ADVICE.get(error)
