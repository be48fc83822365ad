"""The file that a snapshot is written to: bytes in order, by a thread of its own, and its name once it is whole."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from replay.beside import open_beside
from replay.errors import FileError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

WRITES_UNDER_WAY = 8  # frames that wait for a slow disk, at most
# In one call of the kernel, which takes memory for its page cache in blocks as large as that: small ones are at hand,
# large ones cost three times as much as copying into them.
WRITE_BYTES = 128 << 10
# The disk begins with as much while more is compressed, so that the last sync is short
WRITEBACK_BYTES = 16 << 20

_SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h
_libc = ctypes.CDLL(None)


class OutputFile:
    """`path`, once `complete` has ended; until then a file of another name beside it. size_bytes: of what was appended.
    Not thread safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        self._writing: deque[Future[None]] = deque()
        self._handed_to_disk = 0
        self._disk: ThreadPoolExecutor | None = None
        self._temporary: Path | None = None
        self._descriptor = -1

    def open(self) -> None:
        """Raises FileError when the folder cannot be written, or the name is one of a folder."""
        if self.path.is_dir():
            raise FileError("is a folder", where=self.path, next="give the name of a file to write")
        try:
            self._descriptor, self._temporary = open_beside(self.path)
        except OSError as error:
            raise file_error(error, self.path) from None

    def append(self, data: bytes) -> None:
        """Hand bytes to the thread that writes. Raises FileError, also of what was appended before."""
        if self._disk is None:
            from concurrent.futures import ThreadPoolExecutor

            self._disk = ThreadPoolExecutor(1, "replay-disk")
        while len(self._writing) >= WRITES_UNDER_WAY:
            self._writing.popleft().result()
        self._writing.append(self._disk.submit(self._write, data, self.size_bytes))
        self.size_bytes += len(data)

    def complete(self, start: bytes = b"", durable: bool = True) -> None:
        """Write `start` over the first bytes, sync if durable, and give the file its name. Raises FileError."""
        try:
            while self._writing:
                self._writing.popleft().result()
            if start:
                os.pwrite(self._descriptor, start, 0)
            if durable:
                os.fsync(self._descriptor)
            assert self._temporary is not None
            os.replace(self._temporary, self.path)
            self._temporary = None
            if durable:
                sync_folder(self.path.parent)
        except OSError as error:
            raise file_error(error, self.path) from None

    def close(self) -> None:
        """Leave no file, unless it is complete. A second time it does nothing."""
        if self._disk is not None:
            self._disk.shutdown(cancel_futures=True)
            self._disk = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                self._temporary.unlink()
            self._temporary = None

    def _write(self, data: bytes, offset: int) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view[:WRITE_BYTES]) :]
        except OSError as error:
            raise file_error(error, self.path) from None
        end = offset + len(data)
        if end - self._handed_to_disk >= WRITEBACK_BYTES:
            _begin_writeback(self._descriptor, self._handed_to_disk, end - self._handed_to_disk)
            self._handed_to_disk = end


def _begin_writeback(descriptor: int, offset: int, length: int) -> None:
    """Tell the kernel to start writing these bytes, without waiting. Only a hint: errors show at the final fsync."""
    begin = getattr(_libc, "sync_file_range", None)
    if begin is not None:
        begin(
            descriptor, ctypes.c_int64(offset), ctypes.c_int64(length), ctypes.c_uint(_SYNC_FILE_RANGE_WRITE)
        )


def sync_folder(folder: Path) -> None:
    """What was renamed in it is on the disk afterwards, where the file system can do that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Some file systems cannot sync a folder; the rename itself has happened
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_error(error: OSError, path: object) -> FileError:
    """Of writing, with what can be done."""
    remedies = {
        errno.ENOSPC: "free some space or write to another disk",
        errno.EDQUOT: "free some space or write to another disk",
        errno.EACCES: "choose a folder that you may write to",
        errno.EROFS: "choose a folder that you may write to",
        errno.ENOENT: "create the folder first",
        errno.EFBIG: "write to a file system that takes larger files",
    }
    return FileError.of(error, path, next=remedies.get(error.errno or 0))
