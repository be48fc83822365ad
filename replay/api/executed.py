"""Which captured calls a replay makes again, and which not. The table alone: nothing here loads a driver."""

from __future__ import annotations

from replay.api.vocabulary import Effect, Function, Keep

ENCODERS = frozenset(("cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col", "cuTensorMapEncodeIm2colWide"))

# What these did is put into place before the first call.
PLACED_BEFOREHAND = {
    Effect.ALLOC, Effect.FREE, Effect.HOST_ALLOC, Effect.HOST_FREE, Effect.HOST_REGISTER, Effect.HOST_UNREGISTER,
    Effect.MANAGED_ALLOC, Effect.MAP, Effect.UNMAP, Effect.IMPORT,
}  # fmt: skip

_PLACED_BY_SYMBOL = (
    "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemRelease", "cuMemSetAccess",
    "cuMemRetainAllocationHandle", "cuMemHostGetDevicePointer_v2", "cuMemImportFromShareableHandle",
    "cuMemPoolImportFromShareableHandle",
)  # fmt: skip

# symbol -> why it is not executed; "" needs no mention
NOT_EXECUTED: dict[str, str] = {
    **dict.fromkeys(("cuInit", "cuProfilerStart", "cuProfilerStop", *_PLACED_BY_SYMBOL), ""),
    # A launch holds all that its function was told before.
    **dict.fromkeys(
        (
            "cuFuncSetBlockShape",
            "cuFuncSetSharedSize",
            "cuParamSetSize",
            "cuParamSeti",
            "cuParamSetf",
            "cuParamSetv",
        ),
        "",
    ),
    # Each iteration of the window would give back a reference that the setup took once.
    "cuDevicePrimaryCtxRelease_v2": "",
    # What they encode stands in parameters and memory, and is encoded anew there (tensor_maps.py).
    **dict.fromkeys((*ENCODERS, "cuTensorMapReplaceAddress"), ""),
    "cuDevicePrimaryCtxReset_v2": "it would free the memory that the next iteration starts from",
}


def executes(function: Function) -> bool:
    """Whether calls of a function are made again, and not put into place beforehand or left out."""
    return (
        function.keep in (Keep.WINDOW, Keep.ALWAYS)
        and function.effect not in PLACED_BEFOREHAND
        and function.effect not in (Effect.BEGIN_CAPTURE, Effect.END_CAPTURE)
        and function.meaning not in NOT_EXECUTED
    )
