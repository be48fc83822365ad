"""Hints to `replay capture` (docs/hints.md): which blocks of an allocator are in use; ranges of a framework.

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
_push = _function("replay_hint_range_push", ctypes.c_char_p, ctypes.c_char_p)
_pop = _function("replay_hint_range_pop", ctypes.c_char_p)


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


class Ranges:
    """Ranges of one domain, as those of NVTX: in the thread that calls, each inside those that were pushed before."""

    def __init__(self, domain: str) -> None:
        self._domain = ctypes.create_string_buffer(
            domain.encode()
        )  # the shim knows a domain by where its name is
        _kept.append(self._domain)

    def push(self, name: str) -> None:
        """A range begins."""
        _push(self._domain, name.encode("utf-8", "replace"))

    def pop(self) -> None:
        """The newest one ends."""
        _pop(self._domain)
