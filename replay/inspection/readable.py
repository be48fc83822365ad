"""Driver calls as people read them: `cuMemsetD8_v2(dstDevice=0x7f4000000000, uc=0, N=1024) -> SUCCESS`.

The input is a `schema.Call`, so this works on snapshots and on decoded raw captures alike. Nothing here raises for a
call that a stranger made up: what does not fit is shown as raw numbers.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from replay.api import structs
from replay.api.functions import by_symbol
from replay.api.launch_attributes import describe_attributes
from replay.api.parts import CONFIG_ATTRIBUTES, find_part
from replay.api.vocabulary import HANDLE_TYPES, Function, Parameter, Role

if TYPE_CHECKING:
    from replay.snapshot.schema import Attachment, Call

SHOWN_ELEMENTS = 6  # of an array
SHOWN_CHARACTERS = 60  # of a text

# CUresult of CUDA 13.0, without CUDA_ and CUDA_ERROR_.
_RESULTS = """
0 SUCCESS 1 INVALID_VALUE 2 OUT_OF_MEMORY 3 NOT_INITIALIZED 4 DEINITIALIZED 5 PROFILER_DISABLED
6 PROFILER_NOT_INITIALIZED 7 PROFILER_ALREADY_STARTED 8 PROFILER_ALREADY_STOPPED 34 STUB_LIBRARY
36 CALL_REQUIRES_NEWER_DRIVER 46 DEVICE_UNAVAILABLE 100 NO_DEVICE 101 INVALID_DEVICE 102 DEVICE_NOT_LICENSED
200 INVALID_IMAGE 201 INVALID_CONTEXT 202 CONTEXT_ALREADY_CURRENT 205 MAP_FAILED 206 UNMAP_FAILED 207 ARRAY_IS_MAPPED
208 ALREADY_MAPPED 209 NO_BINARY_FOR_GPU 210 ALREADY_ACQUIRED 211 NOT_MAPPED 212 NOT_MAPPED_AS_ARRAY
213 NOT_MAPPED_AS_POINTER 214 ECC_UNCORRECTABLE 215 UNSUPPORTED_LIMIT 216 CONTEXT_ALREADY_IN_USE
217 PEER_ACCESS_UNSUPPORTED 218 INVALID_PTX 219 INVALID_GRAPHICS_CONTEXT 220 NVLINK_UNCORRECTABLE
221 JIT_COMPILER_NOT_FOUND 222 UNSUPPORTED_PTX_VERSION 223 JIT_COMPILATION_DISABLED 224 UNSUPPORTED_EXEC_AFFINITY
225 UNSUPPORTED_DEVSIDE_SYNC 226 CONTAINED 300 INVALID_SOURCE 301 FILE_NOT_FOUND 302 SHARED_OBJECT_SYMBOL_NOT_FOUND
303 SHARED_OBJECT_INIT_FAILED 304 OPERATING_SYSTEM 400 INVALID_HANDLE 401 ILLEGAL_STATE 402 LOSSY_QUERY 500 NOT_FOUND
600 NOT_READY 700 ILLEGAL_ADDRESS 701 LAUNCH_OUT_OF_RESOURCES 702 LAUNCH_TIMEOUT 703 LAUNCH_INCOMPATIBLE_TEXTURING
704 PEER_ACCESS_ALREADY_ENABLED 705 PEER_ACCESS_NOT_ENABLED 708 PRIMARY_CONTEXT_ACTIVE 709 CONTEXT_IS_DESTROYED
710 ASSERT 711 TOO_MANY_PEERS 712 HOST_MEMORY_ALREADY_REGISTERED 713 HOST_MEMORY_NOT_REGISTERED
714 HARDWARE_STACK_ERROR 715 ILLEGAL_INSTRUCTION 716 MISALIGNED_ADDRESS 717 INVALID_ADDRESS_SPACE 718 INVALID_PC
719 LAUNCH_FAILED 720 COOPERATIVE_LAUNCH_TOO_LARGE 721 TENSOR_MEMORY_LEAK 800 NOT_PERMITTED 801 NOT_SUPPORTED
802 SYSTEM_NOT_READY 803 SYSTEM_DRIVER_MISMATCH 804 COMPAT_NOT_SUPPORTED_ON_DEVICE 805 MPS_CONNECTION_FAILED
806 MPS_RPC_FAILURE 807 MPS_SERVER_NOT_READY 808 MPS_MAX_CLIENTS_REACHED 809 MPS_MAX_CONNECTIONS_REACHED
810 MPS_CLIENT_TERMINATED 811 CDP_NOT_SUPPORTED 812 CDP_VERSION_MISMATCH 900 STREAM_CAPTURE_UNSUPPORTED
901 STREAM_CAPTURE_INVALIDATED 902 STREAM_CAPTURE_MERGE 903 STREAM_CAPTURE_UNMATCHED 904 STREAM_CAPTURE_UNJOINED
905 STREAM_CAPTURE_ISOLATION 906 STREAM_CAPTURE_IMPLICIT 907 CAPTURED_EVENT 908 STREAM_CAPTURE_WRONG_THREAD 909 TIMEOUT
910 GRAPH_EXEC_UPDATE_FAILURE 911 EXTERNAL_DEVICE 912 INVALID_CLUSTER_SIZE 913 FUNCTION_NOT_LOADED
914 INVALID_RESOURCE_TYPE 915 INVALID_RESOURCE_CONFIGURATION 916 KEY_ROTATION 999 UNKNOWN
"""

_STREAMS = {0: "0", 1: "CU_STREAM_LEGACY", 2: "CU_STREAM_PER_THREAD"}


@lru_cache(maxsize=1)
def _result_names() -> dict[int, str]:
    words = _RESULTS.split()
    return {int(number): name for number, name in zip(words[::2], words[1::2], strict=True)}


def result_name(result: int | None) -> str:
    """`SUCCESS`, `CUDA_ERROR_ILLEGAL_ADDRESS`, `CUresult 1234`, or `did not return` for None."""
    if result is None:
        return "did not return"
    name = _result_names().get(result)
    if name is None:
        return f"CUresult {result}"
    return name if result == 0 else f"CUDA_ERROR_{name}"


def describe(call: Call) -> str:
    """The call on one line: `name(argument=value, ...) -> result`. Never raises; control characters are escaped."""
    name = call.function
    function = by_symbol().get(name)
    if function is None:
        arguments = ", ".join(map(_hexadecimal, call.arguments))
    else:
        if call.per_thread and function.twin:
            name = function.twin
        arguments = ", ".join(_arguments(call, function))
    return f"{_printable(name)}({arguments}) -> {result_name(call.result)}"


def _arguments(call: Call, function: Function) -> list[str]:
    shown = []
    for position, parameter in enumerate(function.parameters):
        if position >= len(call.arguments):
            break
        word = call.arguments[position] & 0xFFFFFFFFFFFFFFFF
        before, after = call.inputs.get(parameter.name), call.outputs.get(parameter.name)
        shown.append(f"{parameter.name}={_argument(parameter, word, before, after, call)}")
    return shown


def _argument(
    parameter: Parameter, word: int, before: Attachment | None, after: Attachment | None, call: Call
) -> str:
    role = parameter.role
    if role == Role.VALUE:
        return _number(word, parameter.kind, parameter.size_bytes, parameter.c_type)
    if role == Role.HANDLE:
        return _handle(word, parameter.c_type)
    if role == Role.ADDRESS:
        return _hexadecimal(word)
    if word == 0:
        return "NULL"
    if role == Role.CUSTOM:
        return _custom(parameter, word, call)
    if role == Role.STRING and isinstance(before, bytes):
        return _text(before)
    if role == Role.IMAGE and isinstance(before, str):
        return f"image {_printable(before[:12])}"
    if role in (Role.IN, Role.OUT, Role.INOUT):
        parts = [_elements(parameter, value) for value in (before, after) if value is not None]
        return " -> ".join(parts) if parts else _hexadecimal(word)
    if role in (Role.HOST_READ, Role.HOST_WRITE):
        held = before if role == Role.HOST_READ else after
        return _hexadecimal(word) if held is None else f"{_hexadecimal(word)} <{_size(held)} bytes>"
    return _hexadecimal(word)


def _custom(parameter: Parameter, word: int, call: Call) -> str:
    whole = find_part(call.inputs, parameter.name)
    if whole is None:
        return _hexadecimal(word)
    if isinstance(whole, bytes):
        try:
            if parameter.name == "config":
                return _configuration(whole, call.inputs.get(CONFIG_ATTRIBUTES))
            if parameter.name == "pCopy":
                return _copy(whole)
        except ValueError:
            pass
    return f"<{_size(whole)} bytes>"


def _configuration(data: bytes, attributes: Attachment | None) -> str:
    config = structs.read_struct(structs.CUlaunchConfig, data)
    grid, block, shared_bytes = structs.geometry(config)
    parts = [f"grid {'x'.join(map(str, grid))}", f"block {'x'.join(map(str, block))}"]
    if shared_bytes:
        parts.append(f"shared {shared_bytes}")
    parts.append(f"stream {_handle(config.hStream, 'CUstream')}")
    if isinstance(attributes, bytes):
        parts += describe_attributes(attributes)
    return "{" + ", ".join(parts) + "}"


def _copy(data: bytes) -> str:
    copy = structs.read_struct(structs.copy_layout(data), data)
    sides = []
    for side in ("dst", "src"):
        kind = getattr(copy, f"{side}MemoryType")
        source = {structs.MemoryType.HOST: "Host", structs.MemoryType.ARRAY: "Array"}.get(kind, "Device")
        address = getattr(copy, side + source)
        sides.append(f"{side} {source.lower()} {_hexadecimal(address)} pitch {getattr(copy, side + 'Pitch')}")
    extent = f"{copy.WidthInBytes}x{copy.Height}" + (f"x{copy.Depth}" if hasattr(copy, "Depth") else "")
    return "{" + ", ".join([*sides, extent]) + "}"


def _elements(parameter: Parameter, value: Attachment) -> str:
    if not isinstance(value, bytes):
        return f"<{_size(value)} bytes>"
    width = parameter.element_bytes
    element = parameter.element
    if width not in (1, 2, 4, 8) or not value or len(value) % width:
        return f"<{len(value)} bytes>"
    if width == 1 and len(value) > 16:
        return f"<{len(value)} bytes>"
    count = len(value) // width
    numbers = struct.unpack_from(f"<{min(count, SHOWN_ELEMENTS)}{'xBHxIxxxQ'[width]}", value)
    if element in HANDLE_TYPES:
        shown = [_handle(number, element) for number in numbers]
    elif element == "CUdeviceptr" or "*" in element:
        shown = [_hexadecimal(number) for number in numbers]
    elif element in ("float", "double"):
        shown = [_number(number, "float", width, element) for number in numbers]
    else:
        shown = [_number(number, "integer", width, element) for number in numbers]
    if count > SHOWN_ELEMENTS:
        shown.append(f"... {count} in all")
    return "[" + ", ".join(shown) + "]"


def _number(word: int, kind: str, size_bytes: int, c_type: str) -> str:
    if kind == "struct" or size_bytes not in (1, 2, 4, 8):
        return _hexadecimal(word)
    raw = (word & (1 << 8 * size_bytes) - 1).to_bytes(size_bytes, "little")
    if kind == "float" and size_bytes in (4, 8):
        return repr(struct.unpack("<f" if size_bytes == 4 else "<d", raw)[0])
    signed = not c_type.startswith(("unsigned", "size_t", "cuuint", "CUmemGeneric", "unsigned char"))
    return str(int.from_bytes(raw, "little", signed=signed))


def _handle(word: int, c_type: str) -> str:
    if c_type == "CUstream" and word in _STREAMS:
        return _STREAMS[word]
    return _hexadecimal(word) if word else "NULL"


def _hexadecimal(word: int) -> str:
    return f"{word & 0xFFFFFFFFFFFFFFFF:#x}"


def _size(value: Attachment) -> int:
    return len(value) if isinstance(value, (bytes, str)) else value.size_bytes


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    clipped = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
    return '"' + _printable(clipped) + '"'


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
