"""Hints of an allocator to `replay capture`: which blocks of its allocations are in use (docs/hints.md).

Without them a kernel that is given 3 MB of a segment of 20 GB reaches the whole segment. Everything here does nothing
where the program does not run under `replay capture`. Addresses and sizes are in bytes, device addresses as integers.

This module needs only the standard library, so that it can be copied into an application.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable

_REFRESH = ctypes.CFUNCTYPE(None)
_kept: list[object] = []  # what the shim may call for as long as the process lives


def _function(name: str, *types: object) -> Callable[..., None]:
    try:
        found = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError):
        return lambda *arguments: None
    found.restype, found.argtypes = None, types
    return found  # type: ignore[no-any-return]


_lives = _function("replay_hint_block_lives", ctypes.c_uint64, ctypes.c_uint64)
_ends = _function("replay_hint_block_ends", ctypes.c_uint64)
_refresh_with = _function("replay_hint_refresh_with", _REFRESH)


def active() -> bool:
    """Whether this process runs under `replay capture`."""
    return hasattr(ctypes.CDLL(None), "replay_hint_block_lives")


def block_lives(address: int, size_bytes: int) -> None:
    """The block [address, address + size_bytes) of some allocation is in use.

    The first such hint makes reach work by blocks in that allocation; others work as without hints.
    """
    _lives(address, size_bytes)


def block_ends(address: int) -> None:
    """The block that begins at `address` is in use no longer."""
    _ends(address)


def refresh_with(blocks: Callable[[], Iterable[tuple[int, int]]]) -> None:
    """Ask `blocks` for (address, size_bytes) of all blocks in use when a window opens, and when a kernel is given an
    address between blocks. An exception of it is taken for no answer."""

    def refresh() -> None:
        try:
            for address, size_bytes in blocks():
                _lives(address, size_bytes)
        except Exception:
            return

    called = _REFRESH(refresh)
    _kept.append(called)
    _refresh_with(called)
