"""Live memory of every kind: read and written by the host, through the driver where that has to do it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from replay.engine.contents.arrays import LiveArrays
from replay.engine.contents.loading import Piece
from replay.engine.driver import CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, Driver
from replay.engine.placing.addresses import AddressMap
from replay.errors import EngineError
from replay.inspection.pieces import describe
from replay.planning.spans import is_array, is_host
from replay.snapshot.schema import CHUNK_BYTES, Range

ZEROS = bytes(CHUNK_BYTES)
WIDEST_VIEW_BYTES = 4 << 20  # enough for threads to share the work of a digest


class LiveMemory:
    """Where ranges live now. find_handle and inside: as `LiveArrays` has them."""

    def __init__(
        self,
        driver: Driver,
        addresses: AddressMap,
        find_handle: Callable[[str, int], int | None] = lambda c_type, captured: None,
        inside: Callable[[int], AbstractContextManager[None]] = lambda context: nullcontext(),
    ) -> None:
        self._driver = driver
        self._addresses = addresses
        self.arrays = LiveArrays(driver, find_handle, inside)
        self._landing = ctypes.create_string_buffer(CHUNK_BYTES)
        self._wide_landing: bytearray | None = None
        self._shared_context: int | None = None  # while several threads write

    def find(self, range_: Range) -> int | None:
        """Where a range lives now, of an array its captured address, from which offsets are counted; None when it is
        not there."""
        return self._addresses.home(range_)

    def address(self, range_: Range) -> int:
        """The same of a range that has to be there. Raises EngineError."""
        found = self.find(range_)
        if found is None:
            raise EngineError(f"{describe(range_)} is not loaded", next="capture again with `--all`")
        return found

    def write(self, range_: Range, address: int, data: bytes | bytearray | Piece) -> None:
        """Copy to `address`."""
        # ctypes passes the inside of a bytes object without a copy.
        source: Any
        if isinstance(data, Piece):
            source = data.address
        else:
            source = data if isinstance(data, bytes) else (ctypes.c_char * len(data)).from_buffer(data)
        if is_array(range_):
            held = ctypes.create_string_buffer(bytes(data), len(data))
            self.arrays.write(range_, address - range_.address, len(data), ctypes.addressof(held))
        elif is_host(range_):
            ctypes.memmove(address, source, len(data))
        else:
            # On the default stream threads would wait for each other's copies.
            per_thread = self._shared_context is not None
            copy = self._driver.cuMemcpyHtoD_v2
            copy.check(copy.code(address, source, len(data), per_thread=per_thread))

    @contextmanager
    def shared(self) -> Iterator[None]:
        """While this lasts, other threads may `write` to what is no array, each inside `joined`."""
        self._shared_context = self._driver.cuCtxGetCurrent()
        try:
            yield
            self._finish_copies()
        finally:
            self._shared_context = None

    @contextmanager
    def joined(self) -> Iterator[None]:
        """What another thread does while this lasts may `write`; at the end, all of it has arrived."""
        assert self._shared_context is not None
        self._driver.cuCtxSetCurrent(self._shared_context)
        yield
        self._finish_copies()

    def _finish_copies(self) -> None:
        # A copy from pageable memory may return before it has arrived, and no other stream waits for that of a thread.
        self._driver.cuStreamSynchronize(CU_STREAM_PER_THREAD)

    def arrive(self) -> None:
        """Wait until everything that was written is there.

        A copy from pageable memory may return before that, a fill and a copy inside the device always may, and a
        stream of the window need not wait for the default stream ("API synchronization behavior").
        """
        self._driver.cuStreamSynchronize(CU_STREAM_LEGACY)

    def fill_zero(self, range_: Range, address: int, size: int) -> None:
        """Clear `size` bytes."""
        if is_array(range_):
            self.write(range_, address, ZEROS[:size])
        elif is_host(range_):
            ctypes.memset(address, 0, size)
        else:
            self._driver.cuMemsetD8_v2(address, 0, size)

    def read(self, range_: Range, address: int, size: int) -> bytes:
        """A copy of what is there."""
        if is_host(range_):
            return ctypes.string_at(address, size)
        if size <= CHUNK_BYTES:
            return self._read_chunk(range_, address, size)
        return b"".join(
            self._read_chunk(range_, address + at, min(CHUNK_BYTES, size - at))
            for at in range(0, size, CHUNK_BYTES)
        )

    def _read_chunk(self, range_: Range, address: int, size: int) -> bytes:
        if is_array(range_):
            self.arrays.read(range_, address - range_.address, size, ctypes.addressof(self._landing))
        else:
            self._driver.cuMemcpyDtoH_v2(self._landing, address, size)
        return ctypes.string_at(self._landing, size)

    def view(self, range_: Range, address: int, size: int) -> bytes | memoryview:
        """What memory holds; valid until the next call. At most WIDEST_VIEW_BYTES, of arrays a chunk."""
        if is_array(range_) or is_host(range_):
            return self.read(range_, address, size)
        if self._wide_landing is None:
            self._wide_landing = bytearray(WIDEST_VIEW_BYTES)
        landing = (ctypes.c_char * size).from_buffer(self._wide_landing)
        self._driver.cuMemcpyDtoH_v2(landing, address, size)
        return memoryview(self._wide_landing)[:size]
