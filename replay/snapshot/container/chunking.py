"""Where the bytes to store come from, cut into chunks, and the digest of each."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from replay.errors import FileError
from replay.snapshot.container import frames
from replay.snapshot.container.frames import MAX_CHUNK_BYTES, ZERO_DIGEST
from replay.snapshot.container.output import file_error

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ZEROS = bytearray(MAX_CHUNK_BYTES)

Hashed = list[tuple[bytes, memoryview]]  # digest and contents of each chunk of a group


class HasFileno(Protocol):
    """A file opened for reading."""

    def fileno(self) -> int: ...


def chunk_digest(view: memoryview) -> bytes:
    """The digest under which a chunk is stored; ZERO_DIGEST of zeros, which are not."""
    # Comparing with a bytearray is one memcmp that ends at the first difference; memoryview's own is a slow loop.
    zeros = _ZEROS if len(view) == MAX_CHUNK_BYTES else _ZEROS[: len(view)]
    return ZERO_DIGEST if view[0] == 0 and zeros == view else frames.digest(view)


def hash_group(read: Callable[[int, int], memoryview], offset: int, size: int, chunk_bytes: int) -> Hashed:
    """Several chunks that one read brings."""
    data = read_exactly(read, offset, size)
    views = (data[start : start + chunk_bytes] for start in range(0, size, chunk_bytes))
    return [(chunk_digest(view), view) for view in views]


def read_exactly(read: Callable[[int, int], memoryview], offset: int, size: int) -> memoryview:
    """Raises FileError when the source ends early."""
    data = read(offset, size)
    if len(data) != size:
        raise FileError(
            f"the data to store ends at byte {offset + len(data)}, {size - len(data)} bytes early"
        )
    return data


def reader(source: ReadableBuffer | HasFileno) -> tuple[Callable[[int, int], memoryview], bool]:
    """A function (offset, size) -> view, and whether it reads a file. A pread may return less than asked for."""
    if not hasattr(source, "fileno"):
        view = memoryview(source).cast("B")
        return lambda offset, size: view[offset : offset + size], False
    descriptor = source.fileno()

    def read(offset: int, size: int) -> memoryview:
        try:
            data = os.pread(descriptor, size, offset)
            while data and len(data) < size:
                more = os.pread(descriptor, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise file_error(error, getattr(source, "name", "the data to store")) from None
        return memoryview(data)

    return read, True
