"""Blocks of PyTorch's caching allocator, from `torch.cuda.memory_snapshot()`. Not yet seen on a GPU (GT-TORCH-BLOCKS).

`replay capture --torch-blocks` installs this in every Python of the application. PyTorch itself is not imported here:
where the program has not done so, there are no blocks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from replay.hints import refresh_with

_IN_USE = ("active_allocated", "active_awaiting_free", "active_pending_free")


def blocks() -> Iterator[tuple[int, int]]:
    """(address, size_bytes) of every block in use."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None:
        return
    for segment in cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] in _IN_USE:
                yield block.get("address", address), block["size"]
            address += block["size"]


def install() -> None:
    """Let the capture ask for the blocks when it needs them."""
    refresh_with(blocks)
