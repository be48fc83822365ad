"""Memory of this process that calls are given."""

from __future__ import annotations

import ctypes
from typing import Any

from replay.engine.arguments.prepared import Prepared


class Buffers:
    """Makes buffers; whoever asks keeps them. An exported program has other rules for them."""

    def make(self, data: bytes) -> Any:
        """A buffer with these bytes, of at least one."""
        return (ctypes.c_char * max(len(data), 1)).from_buffer_copy(data or b"\0")

    def of(self, prepared: Prepared, data: bytes) -> Any:
        """The same, valid as long as a call."""
        buffer = self.make(data)
        prepared.keep.append(buffer)
        return buffer

    def room(self, size_bytes: int) -> Any:
        """Zeroed bytes."""
        return (ctypes.c_char * max(size_bytes, 1))()

    def image(self, data: bytes) -> Any:
        """A module image, followed by the NUL that PTX needs."""
        return (ctypes.c_char * (len(data) + 1)).from_buffer_copy(data + b"\0")

    def put(self, live: int, source: Any, size_bytes: int) -> None:
        """Bytes of a buffer go into pinned memory, where the application's host code had put them."""
        ctypes.memmove(live, source, size_bytes)
