"""What the table cannot say about valid calls, and about what their custom parameters point to: which recipe and which
meaning each has. They are in the files beside this one, by family.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from .copies import (
    batch_of_boxes,
    batch_of_copies,
    batch_operation,
    copy_2d,
    copy_3d,
    locations,
    memory_operation,
    memory_operations,
    peer_copy,
    peer_rectangle,
    rectangle,
    unified_copy,
    unified_source,
    with_attributes,
)
from .launches import (
    attribute_value,
    launch_config,
    launch_parameters,
    no_extra,
    stream_attribute,
)
from .objects import (
    OPTIONS,
    creation_parameters,
    current_context,
    file_contents,
    image_file,
    low_pinned,
    mapping,
    option_lists,
    option_pairs,
    pool_access,
    pool_properties,
    registration,
    reserve,
    unmapping,
    variable,
    with_options,
)

if TYPE_CHECKING:
    from replay.api.vocabulary import Function

    from .caller import Caller
    from .recorder import Recorder


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


RECIPES: dict[str, Callable[[Caller, Function], dict[str, int]]] = {
    **dict.fromkeys(("cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2"), batch_of_copies),
    **dict.fromkeys(
        ("cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync_v2", "cuMemcpy3DWithAttributesAsync"), batch_of_boxes
    ),
    "cuMemcpyWithAttributesAsync": with_attributes,
    **dict.fromkeys(("cuStreamBatchMemOp", "cuStreamBatchMemOp_v2"), memory_operations),
    **dict.fromkeys(
        ("cuMemPrefetchBatchAsync", "cuMemDiscardBatchAsync", "cuMemDiscardAndPrefetchBatchAsync"), locations
    ),
    **dict.fromkeys(("cuMemcpy3DPeer", "cuMemcpy3DPeerAsync"), peer_copy),
    "cuStreamSetAttribute": stream_attribute,
    "cuMemPoolCreate": pool_properties,
    "cuMemPoolSetAccess": pool_access,
    "cuMemcpy": unified_copy,
    "cuMemcpyAsync": unified_copy,
    "cuModuleLoad": image_file("fname"),
    "cuModuleLoadDataEx": option_lists,
    "cuLibraryLoadData": option_lists,
    "cuLibraryLoadFromFile": with_options(image_file("fileName")),
    "cuMemHostGetDevicePointer": low_pinned,
    "cuMemHostRegister": registration,
    "cuMemHostRegister_v2": registration,
    "cuCtxCreate_v4": creation_parameters,
    "cuCtxDetach": current_context,
    "cuModuleGetGlobal": variable,
    "cuModuleGetGlobal_v2": variable,
    "cuLibraryGetGlobal": variable,
    "cuLibraryGetManaged": variable,
    "cuMemAddressReserve": reserve,
    "cuMemAddressFree": lambda caller, function: {"ptr": caller.reserved(), "size": 1 << 21},
    "cuMemMap": mapping,
    "cuMemUnmap": unmapping,
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


# (function, parameter) -> what it means
PARAMETERS: dict[tuple[str, str], Callable[[Recorder, Function, list[int]], Any]] = {
    ("cuMemcpy", "src"): unified_source,
    ("cuMemcpyAsync", "src"): unified_source,
    ("cuStreamSetAttribute", "param"): lambda recorder, function, words: attribute_value(
        recorder, words[1], words[2]
    ),
    ("cuModuleLoad", "fname"): file_contents(1),
    ("cuLibraryLoadFromFile", "fileName"): file_contents(1),
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


for _symbol in ("cuModuleLoadDataEx", "cuLibraryLoadData", "cuLibraryLoadFromFile"):
    for _keys, (_values, _count) in OPTIONS.items():
        PARAMETERS[_symbol, _keys] = partial(option_pairs, keys=_keys)
        OTHERWISE[_symbol, _values] = OTHERWISE[_symbol, _count] = None  # compared with the options


for _symbol in ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"):
    PARAMETERS[_symbol, "kernelParams"] = launch_parameters
    PARAMETERS[_symbol, "extra"] = no_extra


# C type of a custom parameter -> what is there
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
