"""Captured functions without a round trip, and those of which a setup has nothing, with the reasons.

docs/coverage.md is made from this file too, which therefore imports nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


# Captured, so that a snapshot names them; a replay refuses them.
REFUSED: dict[str, str] = dict.fromkeys(
    ("cuGraphAddHostNode", "cuGraphHostNodeSetParams", "cuGraphExecHostNodeSetParams"),
    "a launch of a graph with a host function is refused: it is the application's own code",
)

EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col", "cuTensorMapEncodeIm2colWide",
            "cuTensorMapReplaceAddress",
        ),
        "called again only for maps in parameters or memory; see test_tensor_maps.py",
    ),
    **REFUSED,
    **dict.fromkeys(
        ("cuGraphAddMemAllocNode", "cuGraphAddMemFreeNode"),
        "memory of graphs is placed beforehand; see tests/end_to_end/replays/test_graph_programs.py",
    ),
}  # fmt: skip


# Captured functions of which a setup has nothing, by the newest symbol that does the same.
_SUMMED_UP = "which context is current is summed up by cuCtxSetCurrent"


_PLACED = "memory is placed from the ranges of the snapshot"


NOT_OF_A_SETUP: dict[str, str] = {
    **dict.fromkeys(("cuCtxSetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"), _SUMMED_UP),
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
