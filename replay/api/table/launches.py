"""Launches, occupancy, tensor maps."""

from __future__ import annotations

from typing import Any

from replay.api.rows import ALWAYS, CUSTOM, HOST, NEVER, OPAQUE, RECORDED, WINDOW, F, inputs, updated
from replay.api.vocabulary import Effect

# fmt: off

# ---- launches and occupancy -------------------------------------------------------------------------------

_LAUNCH: dict[str, Any] = {"kernelParams": CUSTOM, "custom": "launch", "enter": "launch_enter"}

F(330, "cuLaunchKernel", WINDOW, Effect.LAUNCH, "f", extra=CUSTOM, **_LAUNCH)
F(331, "cuLaunchKernelEx", WINDOW, Effect.LAUNCH, "f", config=CUSTOM, extra=CUSTOM, **_LAUNCH)
F(332, "cuLaunchCooperativeKernel", WINDOW, Effect.LAUNCH, "f", **_LAUNCH)
F(900, "cuLaunchCooperativeKernelMultiDevice", WINDOW, shares=True, launchParamsList=OPAQUE,
  unsupported="launches on several devices at once, deprecated since CUDA 11.3: its parameters are not followed")
F(340, "cuOccupancyMaxActiveBlocksPerMultiprocessor", NEVER)
F(341, "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", NEVER)
F(342, "cuOccupancyMaxPotentialBlockSize", NEVER)
F(343, "cuOccupancyMaxPotentialBlockSizeWithFlags", NEVER)
F(344, "cuOccupancyAvailableDynamicSMemPerBlock", NEVER)
F(345, "cuOccupancyMaxActiveClusters", NEVER)
F(346, "cuOccupancyMaxPotentialClusterSize", NEVER)

# ---- tensor maps: host-side encoders, the result travels in kernel parameters or in memory -------------------------

_MAP: dict[str, Any] = {"globalAddress": HOST, "globalDim": inputs("tensorRank"), "globalStrides": CUSTOM,
                        "elementStrides": inputs("tensorRank"), "custom": "tensor_map",
                        "enter": "tensor_map_enter", "after": "follow_tensor_map"}

F(370, "cuTensorMapEncodeTiled", ALWAYS, boxDim=inputs("tensorRank"), replayed=RECORDED, **_MAP)
F(371, "cuTensorMapEncodeIm2col", ALWAYS, pixelBoxLowerCorner=CUSTOM, pixelBoxUpperCorner=CUSTOM, replayed=RECORDED,
  **_MAP)
F(372, "cuTensorMapEncodeIm2colWide", ALWAYS, replayed=RECORDED, **_MAP)
F(373, "cuTensorMapReplaceAddress", ALWAYS, tensorMap=updated(), globalAddress=HOST, replayed=RECORDED,
  after="follow_tensor_map")
