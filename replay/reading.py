"""The one way in which a file that may be a stranger's is opened: a regular file, without waiting, with a bound.

A name can belong to a pipe that nobody writes into, to a device that has no end, or to a hole of a terabyte. So the
kind is looked at before and after opening, and nothing is read beyond what the reader says.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any, NoReturn

from replay.errors import FileError, FormatError, LimitError

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_REMEDIES = {FileNotFoundError: "check the name", PermissionError: "ask its owner for read permission"}
_KINDS = (
    (stat.S_ISDIR, "is a folder"), (stat.S_ISFIFO, "is a pipe, not a file"), (stat.S_ISSOCK, "is a socket, not a file"),
    (stat.S_ISCHR, "is a device, not a file"), (stat.S_ISBLK, "is a device, not a file"),
    (stat.S_ISLNK, "is a link, not a file"),
)  # fmt: skip
MAXIMUM_JSON_BYTES = 64 << 20


def open_regular(
    path: str | os.PathLike[str], folder_next: str = "name a file", follow_links: bool = True
) -> int:
    """A descriptor to read a regular file by. folder_next: what to advise where it is a folder. follow_links: False
    where somebody else has made the folder that the file is in. Raises FileError."""
    descriptor = -1
    try:
        # Opening a device may already do something
        _require_regular(os.stat(path, follow_symlinks=follow_links).st_mode, path, folder_next)
        descriptor = os.open(path, _FLAGS | (0 if follow_links else os.O_NOFOLLOW))
        _require_regular(os.fstat(descriptor).st_mode, path, folder_next)
    except BaseException as error:
        if descriptor >= 0:
            os.close(descriptor)
        if isinstance(error, FileError) or not isinstance(error, (OSError, ValueError)):
            raise
        what = getattr(error, "strerror", None) or str(error)
        remedy = next((text for kind, text in _REMEDIES.items() if isinstance(error, kind)), None)
        raise FileError(what.lower(), where=path, next=remedy) from error
    return descriptor


def _require_regular(mode: int, path: str | os.PathLike[str], folder_next: str) -> None:
    if stat.S_ISREG(mode):
        return
    what = next((text for is_kind, text in _KINDS if is_kind(mode)), "is not a regular file")
    raise FileError(what, where=path, next=folder_next if stat.S_ISDIR(mode) else "save it as a file first")


def read_file(path: str | os.PathLike[str], maximum_bytes: int, follow_links: bool = True) -> bytes:
    """All of a regular file. Raises FileError; LimitError when it has more than `maximum_bytes`."""
    # Without a buffer: the index of a history reads a hundred thousand of these.
    with open(open_regular(path, follow_links=follow_links), "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > maximum_bytes:
            raise LimitError(f"has {size} bytes, and {maximum_bytes} are the most", where=path)
        pieces = []
        left = maximum_bytes + 1
        try:
            while left and (piece := file.read(min(left, max(size, 1 << 16)))):
                pieces.append(piece)
                left -= len(piece)
        except OSError as error:
            raise FileError.of(error, path) from None
    if not left:
        raise LimitError(f"has more than {maximum_bytes} bytes", where=path)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_json(
    path: str | os.PathLike[str], maximum_bytes: int = MAXIMUM_JSON_BYTES, follow_links: bool = True
) -> Any:
    """The value of a JSON file. Raises FileError, LimitError, FormatError: nested too deeply, NaN, no JSON."""
    return parse_json(read_file(path, maximum_bytes, follow_links), path)


def parse_json(data: bytes, path: str | os.PathLike[str]) -> Any:
    """As `read_json`, of what was read from `path`."""
    try:
        return json.loads(data, parse_constant=_refuse)
    except RecursionError:
        raise FormatError("is nested too deeply", where=path) from None
    except ValueError as error:  # UnicodeDecodeError, and a number with too many digits, are such, too
        raise FormatError(f"is no JSON ({error})", where=path) from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
