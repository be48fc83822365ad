"""What the table cannot say about valid calls, and about what their custom parameters point to. All of it is here.

`EXCEPTIONS` are the captured functions without a round trip, with reasons; docs/coverage.md is made from it too.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replay.api.vocabulary import Function

    from .caller import Caller
    from .recorder import Recorder

# ---- captured functions that are not tested here -----------------------------------------------------------

_GRAPHS = "its graph is compared by tests/end_to_end/test_graph_replays.py on the CPU driver"
EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col", "cuTensorMapEncodeIm2colWide",
            "cuTensorMapReplaceAddress",
        ),
        "called again only for maps that stand in parameters or memory; see test_tensor_maps.py",
    ),
    **dict.fromkeys(
        (
            "cuStreamBeginCapture", "cuStreamBeginCapture_v2", "cuStreamBeginCaptureToGraph", "cuStreamEndCapture",
            "cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_v2",
        ),
        _GRAPHS,
    ),
    **dict.fromkeys(
        ("cuGraphAddHostNode", "cuGraphHostNodeSetParams", "cuGraphExecHostNodeSetParams"),
        "a graph with a host function is refused: it is the application's own code",
    ),
    **dict.fromkeys(
        ("cuGraphAddMemAllocNode", "cuGraphAddMemFreeNode"),
        "memory of graphs is placed beforehand; see tests/end_to_end/test_graphs.py",
    ),
}  # fmt: skip

# Captured functions of which a setup has nothing, by the newest symbol that does the same.
_SUMMED_UP = "which context is current is summed up by cuCtxSetCurrent"
_PLACED = "memory is placed from the ranges of the snapshot"
NOT_OF_A_SETUP: dict[str, str] = {
    **dict.fromkeys(("cuCtxSetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"), _SUMMED_UP),
    **dict.fromkeys(
        (
            "cuFuncSetBlockShape", "cuFuncSetSharedSize", "cuParamSetSize", "cuParamSeti", "cuParamSetf", "cuParamSetv",
        ),
        "a launch holds all of it",
    ),
    "cuCtxAttach": "counts the users of a context that exists",
    "cuCtxDisablePeerAccess": "takes back what a call before it did",
    **dict.fromkeys(("cuProfilerStart", "cuProfilerStop"), "bound the window"),
    **dict.fromkeys(
        (
            "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemImportFromShareableHandle",
            "cuMemRetainAllocationHandle", "cuMemSetAccess",
            "cuMemAdvise", "cuMemAdvise_v2", "cuMemHostGetDevicePointer_v2", "cuMemPoolTrimTo",
            "cuStreamAttachMemAsync",
        ),
        _PLACED,
    ),
}  # fmt: skip

# ---- how a replay is told apart from the application, on purpose -------------------------------------------

# captured function -> the one that is called instead, beside those that the table's `same_as` names
INSTEAD = {
    "cuModuleLoad": "cuModuleLoadData",
    "cuLibraryLoadFromFile": "cuLibraryLoadData",
    "cuIpcOpenEventHandle": "cuEventCreate",
}

# (captured function, parameter) -> what the replay gives there; None: not compared, for the reason beside it
OTHERWISE: dict[tuple[str, str], Any] = {
    ("cuIpcOpenEventHandle", "handle"): 2,  # CU_EVENT_DISABLE_TIMING: a plain event
    ("cuCtxCreate_v4", "ctxCreateParams"): None,  # affinity and graphics clients belong to the application
}

# captured function -> what its call is compared with, made from what the replay's driver was given
TRANSLATED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}

# A handle of one type is taken where another is asked for.
ALSO_ACCEPTED = {"CUfunction": ("CUkernel",)}

# ---- kernels, images ---------------------------------------------------------------------------------------

LAYOUT = (
    (0, 8),
    (8, 4),
    (16, 8),
)  # offset and size of each kernel parameter: an address, a number, an address
BUFFER_BYTES = 24

PTX = """.version 8.0
.target sm_80
.address_size 64
.global .align 8 .u64 variable;
.visible .entry kernel(.param .u64 a, .param .u32 b, .param .u64 c) { ret; }
"""


def image_at(address: int) -> str:
    """The images of these tests are PTX."""
    return ctypes.string_at(address).decode()


def new_image(caller: Caller) -> str:
    return f"// {caller.rng.getrandbits(64):x}\n{PTX}"


def _word(address: int) -> int:
    return int(ctypes.c_uint64.from_address(address).value)


def parameter_buffer(recorder: Recorder, at: int) -> dict[str, Any]:
    """The packed parameters of a launch."""
    first, number, second = struct.unpack("<QI4xQ", ctypes.string_at(at, BUFFER_BYTES))
    return {"a": recorder.address(first), "b": number, "c": recorder.address(second)}


def packed_parameters(kernel_params: int, extra: int) -> bytes:
    """The parameters of a launch, whether they came as pointers or through `extra`."""
    if kernel_params:
        packed = bytearray(BUFFER_BYTES)
        for place, (offset, size) in enumerate(LAYOUT):
            packed[offset : offset + size] = ctypes.string_at(_word(kernel_params + 8 * place), size)
        return bytes(packed)
    found: dict[int, int] = {}
    while extra and _word(extra):
        found[_word(extra)] = _word(extra + 8)
        extra += 16
    assert _word(found[2]) == BUFFER_BYTES
    return ctypes.string_at(found[1], BUFFER_BYTES)


def launch_parameters(recorder: Recorder, function: Function, words: list[int]) -> Any:
    given = dict(zip((p.name for p in function.parameters), words, strict=True))
    packed = packed_parameters(given["kernelParams"], given.get("extra", 0))
    buffer = ctypes.create_string_buffer(packed, BUFFER_BYTES)
    return parameter_buffer(recorder, ctypes.addressof(buffer))


def launch_config(recorder: Recorder, function: Function, words: list[int], at: int) -> Any:
    *geometry, stream, attributes, count = struct.unpack("<7I4xQQI4x", ctypes.string_at(at, 56))
    described = []
    for place in range(count):
        data = ctypes.string_at(attributes + 72 * place, 72)
        kind = int.from_bytes(data[:4], "little")
        value: Any = data[8:].hex()
        if kind == 1:  # access policy window: an address first
            value = [recorder.address(_word(attributes + 72 * place + 8)), data[16:].hex()]
        elif kind in (7, 12):  # events
            value = [recorder.handle("CUevent", _word(attributes + 72 * place + 8)), data[16:].hex()]
        described.append([kind, value])
    return [geometry, recorder.handle("CUstream", stream), described]


def _no_extra(recorder: Recorder, function: Function, words: list[int]) -> Any:
    return "described with kernelParams"


# ---- copies of rectangles ----------------------------------------------------------------------------------

# One side of CUDA_MEMCPY2D and CUDA_MEMCPY3D
_SIDE_2D = struct.Struct("<QQI4xQQQQ")  # x, y, type, host, device, array, pitch
_SIDE_3D = struct.Struct(
    "<QQQQI4xQQQQQQ"
)  # x, y, z, level, type, host, device, array, reserved, pitch, height


def _rows(recorder: Recorder, at: int, three: bool, read: bool) -> list[Any]:
    side = _SIDE_3D if three else _SIDE_2D
    extent_at = at + 2 * side.size
    width, height = _word(extent_at), _word(extent_at + 8)
    depth = _word(extent_at + 16) if three else 1
    described: list[Any] = [width, height, depth]
    for place in range(2):
        values = side.unpack(ctypes.string_at(at + place * side.size, side.size))
        if three:
            x, y, z, level, kind, host, device, array, _, pitch, rows = values
        else:
            x, y, kind, host, device, array, pitch = values
            z, level, rows = 0, 0, height
        pitch, rows = pitch or width, rows or height
        if kind == 3:
            described.append([recorder.handle("CUarray", array), x, y, z, level])
        elif kind == 1 and place == 0:
            start = host + x + y * pitch + z * pitch * rows
            data = b"".join(
                ctypes.string_at(start + line * pitch + page * pitch * rows, width)
                for page in range(depth)
                for line in range(height)
            )
            described.append(data.hex())
        elif kind == 1:
            described.append("host memory")
        else:
            described.append([recorder.address(device), x, y, z, pitch, rows])
    return described


def rectangle_rows(recorder: Recorder, at: int, three: bool) -> list[Any]:
    """What a copy of a rectangle moves, from CUDA_MEMCPY2D or CUDA_MEMCPY3D."""
    return _rows(recorder, at, three, True)


def device_rectangle(caller: Caller) -> bytes:
    """A CUDA_MEMCPY3D between two places in device memory."""
    size = (caller.rng.randrange(1, 40), caller.rng.randrange(1, 6), caller.rng.randrange(1, 4))
    return b"".join(_side(caller, True, False, *size) for _ in range(2)) + struct.pack("<QQQ", *size)


def copy_2d(recorder: Recorder, function: Function, words: list[int], at: int) -> Any:
    return _rows(recorder, at, False, True)


def copy_3d(recorder: Recorder, function: Function, words: list[int], at: int) -> Any:
    return _rows(recorder, at, True, True)


def _side(caller: Caller, three: bool, host: bool, width: int, height: int, depth: int) -> bytes:
    x, y, z = caller.rng.randrange(4), caller.rng.randrange(3), caller.rng.randrange(2) if three else 0
    pitch, rows = width + x + caller.rng.randrange(9), height + y
    size = pitch * rows * (depth + z)
    at = caller.buffer(caller.rng.randbytes(size)) if host else caller.block(size)
    where = (1, at, 0) if host else (2, 0, at)
    if three:
        return _SIDE_3D.pack(x, y, z, 0, *where, 0, 0, pitch, rows)
    return _SIDE_2D.pack(x, y, *where, 0, pitch)


def rectangle(caller: Caller, function: Function) -> dict[str, int]:
    three = "3D" in function.symbol
    width, height = caller.rng.randrange(1, 40), caller.rng.randrange(1, 6)
    depth = caller.rng.randrange(1, 4) if three else 1
    from_host = caller.rng.random() < 0.5
    data = _side(caller, three, from_host, width, height, depth)
    data += _side(caller, three, not from_host and caller.rng.random() < 0.5, width, height, depth)
    data += struct.pack("<QQQ" if three else "<QQ", *((width, height, depth) if three else (width, height)))
    return {"pCopy": caller.buffer(data)}


# ---- batches, and copies with attributes ----------------------------------------------------------------------

_OPERAND = struct.Struct("<I4xQQQIi")  # type, address, row length, layer height, location
_MEMORY_OPERATION = struct.Struct("<I4xQQ4x4x16x")  # operation, address, value


def batch_operation(recorder: Recorder, at: int) -> Any:
    """CUDA_MEMCPY3D_BATCH_OP between two places in memory."""
    sides = []
    for place in range(2):
        kind, address, *rest = _OPERAND.unpack(ctypes.string_at(at + place * _OPERAND.size, _OPERAND.size))
        sides.append([kind, recorder.address(address), rest])
    return [*sides, ctypes.string_at(at + 80, 32).hex()]


def memory_operation(recorder: Recorder, at: int) -> Any:
    """CUstreamBatchMemOpParams that writes or awaits a value."""
    kind, address, value = _MEMORY_OPERATION.unpack(ctypes.string_at(at, _MEMORY_OPERATION.size))
    return [kind, recorder.address(address), value]


def _attributes() -> bytes:
    return struct.pack("<IIiIiI", 1, 0, 0, 0, 0, 0)  # in the order of the stream


def _batch_of_copies(caller: Caller, function: Function) -> dict[str, int]:
    count = caller.rng.randrange(1, 4)
    sizes = [caller.rng.randrange(1, 60) for _ in range(count)]
    return {
        "dsts": caller.buffer(struct.pack(f"<{count}Q", *map(caller.block, sizes))),
        "srcs": caller.buffer(struct.pack(f"<{count}Q", *map(caller.block, sizes))),
        "sizes": caller.buffer(struct.pack(f"<{count}Q", *sizes)),
        "count": count,
        "attrs": caller.buffer(_attributes()),
        "attrsIdxs": caller.buffer(bytes(8)),
        "numAttrs": 1,
    }


def _batch_of_boxes(caller: Caller, function: Function) -> dict[str, int]:
    names = {parameter.name for parameter in function.parameters}
    count = caller.rng.randrange(1, 4) if "numOps" in names else 1
    data = b""
    for _ in range(count):
        width, height, depth = (caller.rng.randrange(1, 20) for _ in range(3))
        for _ in range(2):
            data += _OPERAND.pack(1, caller.block(32 * 24 * 20), 32, 24, 1, 0)
        data += struct.pack("<QQQII", width, height, depth, 1, 0)
    return {"numOps": count, "opList": caller.buffer(data), "op": caller.buffer(data), "flags": 0}


def _with_attributes(caller: Caller, function: Function) -> dict[str, int]:
    size = caller.rng.randrange(1, 60)
    return {
        "dst": caller.block(size), "src": caller.block(size), "size": size, "attr": caller.buffer(_attributes())
    }  # fmt: skip


def _memory_operations(caller: Caller, function: Function) -> dict[str, int]:
    count = caller.rng.randrange(1, 4)
    data = b"".join(
        _MEMORY_OPERATION.pack(2, caller.block(8), caller.rng.getrandbits(32)) for _ in range(count)
    )
    return {"count": count, "paramArray": caller.buffer(data)}


def _locations(caller: Caller, function: Function) -> dict[str, int]:
    count = caller.rng.randrange(1, 4)
    return {
        "dptrs": caller.buffer(struct.pack(f"<{count}Q", *(caller.block(64) for _ in range(count)))),
        "sizes": caller.buffer(struct.pack(f"<{count}Q", *(64 for _ in range(count)))),
        "count": count,
        "prefetchLocs": caller.buffer(struct.pack("<Ii", 1, 0)),
        "prefetchLocIdxs": caller.buffer(bytes(8)),
        "numPrefetchLocs": 1,
        "flags": 0,
    }


def _peer_rectangle(caller: Caller, function: Function) -> dict[str, int]:
    """CUDA_MEMCPY3D_PEER has contexts where CUDA_MEMCPY3D has reserved words."""
    data = bytearray(device_rectangle(caller))
    for side in range(2):
        struct.pack_into("<Q", data, side * _SIDE_3D.size + 64, caller.main)
    return {"pCopy": caller.buffer(bytes(data))}


def peer_rectangle(recorder: Recorder, function: Function, words: list[int], at: int) -> Any:
    contexts = [recorder.handle("CUcontext", _word(at + side * _SIDE_3D.size + 64)) for side in range(2)]
    return [contexts, rectangle_rows(recorder, at, True)]


# ---- recipes: the arguments of calls that random words by role do not make valid ---------------------------


def launch(caller: Caller, function: Function) -> dict[str, int]:
    """A kernel of LAYOUT with two addresses in memory."""
    rng = caller.rng
    packed = struct.pack("<QI4xQ", caller.block(64), rng.getrandbits(28), caller.block(64))
    given = {
        parameter.name: rng.randrange(1, 9)
        for parameter in function.parameters
        if parameter.name.startswith(("gridDim", "blockDim"))
    }
    names = {parameter.name for parameter in function.parameters}
    if "extra" in names and rng.random() < 0.5:
        size = caller.buffer(struct.pack("<Q", BUFFER_BYTES))
        extra = caller.buffer(struct.pack("<5Q", 1, caller.buffer(packed), 2, size, 0))
        given.update(kernelParams=0, extra=extra)
    else:
        pointers = [caller.buffer(packed[offset : offset + bytes_]) for offset, bytes_ in LAYOUT]
        given["kernelParams"] = caller.buffer(struct.pack("<3Q", *pointers))
        if "extra" in names:
            given["extra"] = 0
    if "config" in names:
        attributes = [
            struct.pack("<I4xi60x", 8, rng.randrange(-3, 3)),  # priority
            struct.pack("<I4xi60x", 2, rng.randrange(2)),  # cooperative
            struct.pack("<I4xQQfII36x", 1, caller.block(256), 128, 0.5, 1, 2),  # access policy window
            struct.pack("<I4xQii48x", 7, caller.object("CUevent"), 0, 1),  # programmatic event
        ]
        chosen = rng.sample(attributes, rng.randrange(len(attributes) + 1))
        geometry = [rng.randrange(1, 9) for _ in range(6)]
        config = struct.pack(
            "<7I4xQQI4x", *geometry, rng.randrange(1024), caller.object("CUstream"),
            caller.buffer(b"".join(chosen)) if chosen else 0, len(chosen),
        )  # fmt: skip
        given["config"] = caller.buffer(config)
    return given


def _old_offset(caller: Caller, function: Function) -> dict[str, int]:
    return {"hfunc": caller.object("CUfunction"), "offset": 4 * caller.rng.randrange(8)}


def _old_vector(caller: Caller, function: Function) -> dict[str, int]:
    return {**_old_offset(caller, function), "numbytes": caller.rng.randrange(1, 40)}


def _old_launch(caller: Caller, function: Function) -> dict[str, int]:
    """Everything that it is launched with is told to the function before, in several pieces."""
    f = caller.object("CUfunction")
    packed = struct.pack("<QI4xQ", caller.block(64), caller.rng.getrandbits(28), caller.block(64))
    caller.make("cuFuncSetBlockShape", hfunc=f, **{axis: caller.rng.randrange(1, 9) for axis in "xyz"})
    caller.make("cuFuncSetSharedSize", hfunc=f, bytes=caller.rng.randrange(1024))
    caller.make("cuParamSetv", hfunc=f, offset=0, ptr=caller.buffer(bytes(24)), numbytes=24)
    for offset, size in LAYOUT:
        if size == 4:
            number = int.from_bytes(packed[offset : offset + 4], "little")
            caller.make(
                caller.rng.choice(["cuParamSeti", "cuParamSetf"]), hfunc=f, offset=offset, value=number
            )
        else:
            caller.make(
                "cuParamSetv", hfunc=f, offset=offset, ptr=caller.buffer(packed[offset:]), numbytes=size
            )
    caller.make("cuParamSetSize", hfunc=f, numbytes=BUFFER_BYTES)
    grid = {p.name: caller.rng.randrange(1, 9) for p in function.parameters if p.name.startswith("grid")}
    return {"f": f, **grid}


def _described_old_launch(recorder: Recorder, function: Function, words: list[int]) -> Any:
    """In the words of cuLaunchKernel."""
    given = dict(zip((p.name for p in function.parameters), words, strict=True))
    state = recorder.old_launch(given["f"])
    assert state["size"] == BUFFER_BYTES
    buffer = ctypes.create_string_buffer(bytes(state["bytes"][:BUFFER_BYTES]), BUFFER_BYTES)
    return {
        "f": recorder.handle("CUfunction", given["f"]),
        "grid": [given.get("grid_width", 1), given.get("grid_height", 1), 1],
        "block": state["block"],
        "shared": state["shared"],
        "stream": recorder.handle("CUstream", given.get("hStream", 0)),
        "parameters": parameter_buffer(recorder, ctypes.addressof(buffer)),
    }


def as_old_launch(given: dict[str, Any]) -> dict[str, Any]:
    """What a cuLaunchKernel was given, in the same words."""
    return {
        "f": {
            "f": given["f"],
            "grid": [given[f"gridDim{axis}"] for axis in "XYZ"],
            "block": [given[f"blockDim{axis}"] for axis in "XYZ"],
            "shared": given["sharedMemBytes"],
            "stream": given["hStream"],
            "parameters": given["kernelParams"],
        }
    }


def _unified_copy(caller: Caller, function: Function) -> dict[str, int]:
    size = caller.rng.randrange(1, 200)
    return {"dst": caller.block(size), "src": caller.buffer(caller.rng.randbytes(size)), "ByteCount": size}


def _unified_source(recorder: Recorder, function: Function, words: list[int]) -> Any:
    return ctypes.string_at(words[1], words[2]).hex()


def _file(parameter: str) -> Callable[[Caller, Function], dict[str, int]]:
    def make(caller: Caller, function: Function) -> dict[str, int]:
        caller.files += 1
        path = caller.folder / f"{caller.files}.ptx"
        path.write_text(new_image(caller))
        return {parameter: caller.buffer(str(path).encode() + b"\0")}

    return make


def _file_contents(position: int) -> Callable[[Recorder, Function, list[int]], Any]:
    def describe(recorder: Recorder, function: Function, words: list[int]) -> Any:
        text = ctypes.string_at(words[position]).decode()
        if not text.startswith("/"):
            return text  # an image that stands in memory: what the replay was given
        with open(text) as file:
            return file.read()

    return describe


# Options that are numbers; the others point to buffers of the application.
_JIT_NUMBERS = (0, 1, 7, 8, 9, 11, 12, 14, 15)
_JIT_BUFFERS = frozenset((3, 4, 5, 6, 17, 18, 19))  # the engine asks for a log of its own
_OPTIONS = {
    "options": ("optionValues", "numOptions"),
    "jitOptions": ("jitOptionsValues", "numJitOptions"),
    "libraryOptions": ("libraryOptionValues", "numLibraryOptions"),
}


def _option_lists(caller: Caller, function: Function) -> dict[str, int]:
    given: dict[str, int] = {}
    names = {parameter.name for parameter in function.parameters}
    for keys, (values, count) in _OPTIONS.items():
        if keys in names:
            chosen = (
                [1] if keys == "libraryOptions" else caller.rng.sample(_JIT_NUMBERS, caller.rng.randrange(4))
            )
            given[keys] = caller.buffer(struct.pack(f"<{len(chosen)}I", *chosen))
            given[values] = caller.buffer(
                struct.pack(f"<{len(chosen)}Q", *(caller.rng.getrandbits(8) for _ in chosen))
            )
            given[count] = len(chosen)
    return given


def _option_pairs(recorder: Recorder, function: Function, words: list[int], keys: str) -> Any:
    given = dict(zip((p.name for p in function.parameters), words, strict=True))
    values, count = _OPTIONS[keys]
    pairs = [
        (ctypes.c_uint32.from_address(given[keys] + 4 * place).value, _word(given[values] + 8 * place))
        for place in range(given[count])
    ]
    return [pair for pair in pairs if keys == "libraryOptions" or pair[0] not in _JIT_BUFFERS]


def _with_options(
    other: Callable[[Caller, Function], dict[str, int]],
) -> Callable[[Caller, Function], dict[str, int]]:
    return lambda caller, function: {**_option_lists(caller, function), **other(caller, function)}


def _low_pinned(caller: Caller, function: Function) -> dict[str, int]:
    """Its device address has 32 bits."""
    low = caller.recorder.memory.device(4096, low=True)
    return {"p": caller.make("cuMemHostRegister_v2", p=low, bytesize=4096)["p"]}


def _creation_parameters(caller: Caller, function: Function) -> dict[str, int]:
    return {"ctxCreateParams": caller.buffer(bytes(24))}


def _current_context(caller: Caller, function: Function) -> dict[str, int]:
    return {"ctx": caller.fresh("CUcontext")}


def _variable(caller: Caller, function: Function) -> dict[str, int]:
    return {"name": caller.buffer(b"variable\0")}


def _reserve(caller: Caller, function: Function) -> dict[str, int]:
    return {"size": 1 << 21, "alignment": 0, "addr": 0}


def _map(caller: Caller, function: Function) -> dict[str, int]:
    return {
        "ptr": caller.reserved(),
        "size": 1 << 21,
        "offset": 0,
        "handle": caller.object("CUmemGenericAllocationHandle"),
    }


def _unmap(caller: Caller, function: Function) -> dict[str, int]:
    return {"ptr": caller.mapped(), "size": 1 << 21}


_OLD_LAUNCHES = ("cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync")


def _pool_properties(caller: Caller, function: Function) -> dict[str, int]:
    """CUmemPoolProps with random contents, on the device there is, without the memory that Windows wants."""
    rest = caller.rng.randbytes(64)
    return {"poolProps": caller.buffer(caller.rng.randbytes(8) + struct.pack("<IIQ", 1, 0, 0) + rest)}


def _pool_access(caller: Caller, function: Function) -> dict[str, int]:
    """CUmemAccessDesc of the device there is, and of the host."""
    return {"map": caller.buffer(struct.pack("<6I", 1, 0, caller.rng.randrange(4), 2, 0, 3)), "count": 2}


RECIPES: dict[str, Callable[[Caller, Function], dict[str, int]]] = {
    **dict.fromkeys(_OLD_LAUNCHES, _old_launch),
    **dict.fromkeys(("cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"), _batch_of_copies),
    **dict.fromkeys(
        ("cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync_v2", "cuMemcpy3DWithAttributesAsync"), _batch_of_boxes
    ),
    "cuMemcpyWithAttributesAsync": _with_attributes,
    **dict.fromkeys(("cuStreamBatchMemOp", "cuStreamBatchMemOp_v2"), _memory_operations),
    **dict.fromkeys(
        ("cuMemPrefetchBatchAsync", "cuMemDiscardBatchAsync", "cuMemDiscardAndPrefetchBatchAsync"), _locations
    ),
    **dict.fromkeys(("cuMemcpy3DPeer", "cuMemcpy3DPeerAsync"), _peer_rectangle),
    "cuMemPoolCreate": _pool_properties,
    "cuMemPoolSetAccess": _pool_access,
    "cuParamSeti": _old_offset,
    "cuParamSetf": _old_offset,
    "cuParamSetv": _old_vector,
    "cuMemcpy": _unified_copy,
    "cuMemcpyAsync": _unified_copy,
    "cuModuleLoad": _file("fname"),
    "cuModuleLoadDataEx": _option_lists,
    "cuLibraryLoadData": _option_lists,
    "cuLibraryLoadFromFile": _with_options(_file("fileName")),
    "cuMemHostGetDevicePointer": _low_pinned,
    "cuCtxCreate_v4": _creation_parameters,
    "cuCtxDetach": _current_context,
    "cuModuleGetGlobal": _variable,
    "cuModuleGetGlobal_v2": _variable,
    "cuLibraryGetGlobal": _variable,
    "cuLibraryGetManaged": _variable,
    "cuMemAddressReserve": _reserve,
    "cuMemAddressFree": lambda caller, function: {"ptr": caller.reserved(), "size": 1 << 21},
    "cuMemMap": _map,
    "cuMemUnmap": _unmap,
    "cuMemSetAccess": lambda caller, function: {"ptr": caller.mapped(), "size": 1 << 21},
    "cuMemRetainAllocationHandle": lambda caller, function: {"addr": caller.mapped()},
    **dict.fromkeys(
        (
            "cuMemcpy2D_v2",
            "cuMemcpy2DUnaligned_v2",
            "cuMemcpy2DAsync_v2",
            "cuMemcpy3D_v2",
            "cuMemcpy3DAsync_v2",
        ),
        rectangle,
    ),
}

# How a handle of a type is made, where the table has several ways or the first is not the simplest.
MAKERS = {
    "CUcontext": "cuCtxCreate_v2",
    "CUmodule": "cuModuleLoadData",
    "CUlibrary": "cuLibraryLoadData",
    "CUfunction": "cuModuleGetFunction",
    "CUkernel": "cuLibraryGetKernel",
    "CUstream": "cuStreamCreate",
    "CUevent": "cuEventCreate",
    "CUmemoryPool": "cuMemPoolCreate",
    "CUmemGenericAllocationHandle": "cuMemCreate",
}

# ---- descriptions ------------------------------------------------------------------------------------------

# (function, parameter) -> what it means
PARAMETERS: dict[tuple[str, str], Callable[[Recorder, Function, list[int]], Any]] = {
    ("cuMemcpy", "src"): _unified_source,
    ("cuMemcpyAsync", "src"): _unified_source,
    ("cuModuleLoad", "fname"): _file_contents(1),
    ("cuLibraryLoadFromFile", "fileName"): _file_contents(1),
}
# Graphs are compared when they are made executable, and as they are when they are launched: graphs.py.
_GRAPH_MAKERS = (
    "cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams",
)  # fmt: skip
for _symbol in _GRAPH_MAKERS:
    PARAMETERS[_symbol, "hGraph"] = lambda recorder, function, words: recorder.graphs.describe_graph(words[1])
    INSTEAD[_symbol] = "cuGraphInstantiateWithFlags"
    TRANSLATED[_symbol] = lambda given: {"hGraph": given["hGraph"]}
PARAMETERS["cuGraphLaunch", "hGraph"] = lambda recorder, function, words: recorder.graphs.describe_executable(
    words[0]
)
SEEN_AT_LAUNCH = frozenset(
    (
        "cuGraphExecUpdate", "cuGraphExecUpdate_v2", "cuGraphExecKernelNodeSetParams",
        "cuGraphExecKernelNodeSetParams_v2", "cuGraphExecMemcpyNodeSetParams", "cuGraphExecMemsetNodeSetParams",
        "cuGraphExecChildGraphNodeSetParams", "cuGraphExecEventRecordNodeSetEvent",
        "cuGraphExecEventWaitNodeSetEvent", "cuGraphExecBatchMemOpNodeSetParams", "cuGraphExecNodeSetParams",
        "cuGraphNodeSetEnabled",
    )
)  # fmt: skip
for _symbol in _OLD_LAUNCHES:
    PARAMETERS[_symbol, "f"] = _described_old_launch
    INSTEAD[_symbol] = "cuLaunchKernel"
    TRANSLATED[_symbol] = as_old_launch
for _symbol in ("cuModuleLoadDataEx", "cuLibraryLoadData", "cuLibraryLoadFromFile"):
    for _keys, (_values, _count) in _OPTIONS.items():
        PARAMETERS[_symbol, _keys] = partial(_option_pairs, keys=_keys)
        OTHERWISE[_symbol, _values] = OTHERWISE[_symbol, _count] = None  # compared with the options
for _symbol in ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"):
    PARAMETERS[_symbol, "kernelParams"] = launch_parameters
    PARAMETERS[_symbol, "extra"] = _no_extra

# C type of a custom parameter -> what stands there
CUSTOM_TYPES: dict[str, Callable[[Recorder, Function, list[int], int], Any]] = {
    "const CUlaunchConfig *": launch_config,
    "const CUDA_MEMCPY2D *": copy_2d,
    "const CUDA_MEMCPY3D *": copy_3d,
    "const CUDA_MEMCPY3D_PEER *": peer_rectangle,
    "CUDA_GRAPH_INSTANTIATE_PARAMS *": lambda recorder, function, words, at: ctypes.string_at(
        at, 8
    ).hex(),  # flags
    "CUctxCreateParams *": lambda recorder, function, words, at: ctypes.string_at(at, 24).hex(),
}

# C type of an element -> what is in it, where bytes do not say
STRUCTS: dict[str, Callable[[Recorder, int], Any]] = {
    "CUDA_MEMCPY3D_BATCH_OP": batch_operation,
    "CUstreamBatchMemOpParams": memory_operation,
}
