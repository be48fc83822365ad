"""A folder to work in beside the file that is being made."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from replay import interrupts
from replay.beside import SUFFIX
from replay.errors import FileError


@contextmanager
def workplace(output: Path) -> Iterator[Path]:
    """A private folder beside `output`, which goes away with what is in it. Those that killed processes left go, too:
    who works in one holds a lock on it. Raises FileError."""
    pattern = f".{glob.escape(output.name)}.????????{SUFFIX}"
    for left in glob.glob(os.path.join(glob.escape(str(output.parent)), pattern)):
        with suppress(OSError):
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
    try:
        with interrupts.held():
            folder = Path(mkdtemp(SUFFIX, f".{output.name}.", output.parent))
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise FileError.of(error, output.parent) from None
    try:
        with suppress(OSError):  # where a folder knows no locks, nothing is removed
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        with interrupts.held():
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
