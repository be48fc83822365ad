"""Layouts of the address space in which a worker is started, so that captured addresses are free in it.

What a process maps before it can hold anything (its program, libraries, stack) lies where the kernel puts it: mappings
from the top of the address space downwards, the stack above, each at another random place. Device memory was captured
in the same stretch, so now and then the two meet. A process of the older layout maps from a third of the address space
upwards, where nothing of an ordinary application is, and one without randomisation has its stack at the very top.
docs/relocation.md has what each is worth, measured.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_ADDR_NO_RANDOMIZE, _ADDR_COMPAT_LAYOUT = 0x0040000, 0x0200000  # personality(2)
_FLAGS = {
    "random": 0,
    "fixed": _ADDR_NO_RANDOMIZE,
    "bottom_up": _ADDR_COMPAT_LAYOUT,
    "bottom_up_fixed": _ADDR_COMPAT_LAYOUT | _ADDR_NO_RANDOMIZE,
}

# The first worker is started as any process is; only where its addresses were taken another kind follows, the one that
# is farthest from all captured memory first.
ORDER = ("random", "bottom_up_fixed", "bottom_up", "fixed", "random")
# Of a stranger's snapshot: who knows where a process has its code has half of a way into it.
RANDOMISED_ORDER = ("random", "bottom_up", "random", "bottom_up", "random")

_ASK = 0xFFFFFFFF

_libc = ctypes.CDLL(None, use_errno=True)
_libc.personality.argtypes = [ctypes.c_ulong]
_libc.personality.restype = ctypes.c_int


@contextmanager
def started_in(layout: str) -> Iterator[str]:
    """Processes that this thread starts meanwhile get the layout. Gives the one that they do get: a container may not
    permit the change, and randomisation that somebody has switched off for this process comes back where it may."""
    before = _libc.personality(_ASK)
    wanted = before & ~(_ADDR_NO_RANDOMIZE | _ADDR_COMPAT_LAYOUT) | _FLAGS[layout]
    changed = before >= 0 and wanted != before and _libc.personality(wanted) >= 0
    now = wanted if changed else max(before, 0)
    try:
        yield name_of(now)
    finally:
        if changed:
            _libc.personality(before)


def name_of(personality: int) -> str:
    """The layout that a personality gives, one of those of `ORDER`."""
    flags = personality & (_ADDR_NO_RANDOMIZE | _ADDR_COMPAT_LAYOUT)
    return next(name for name, known in _FLAGS.items() if known == flags)
