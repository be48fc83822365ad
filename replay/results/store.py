"""The result file `.rres`: one msgpack map in one zstd frame. `zstd -dc FILE` and any msgpack library read it.

Writing goes to a temporary name, is synced and renamed. Reading trusts nothing: a result may come from a stranger too.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import msgpack
import zstandard

from replay import interrupts
from replay.beside import PRIVATE, not_written, open_beside, require_folder
from replay.errors import DamagedError, FileError, FormatError, LimitError, VersionError
from replay.harmless import escaped, harmless
from replay.privacy import private_value
from replay.reading import read_file
from replay.results.schema import FORMAT, RunResult
from replay.snapshot.schema import from_wire, to_wire

MAXIMUM_FILE_BYTES = 64 << 20
MAXIMUM_CONTENT_BYTES = 256 << 20
_FORMAT_NAME, _FORMAT_VERSION = FORMAT.split("/")


def write_result(path: str | os.PathLike[str], result: RunResult) -> None:
    """Write a result file, atomically. Raises FileError."""
    write_whole(path, result_data(result))


def result_data(result: RunResult) -> bytes:
    """The contents of a result file."""
    packed = msgpack.packb(private_value(to_wire(result)))
    return zstandard.ZstdCompressor(level=6, write_checksum=True).compress(packed)


def write_whole(path: str | os.PathLike[str], data: bytes, mode: int = PRIVATE) -> None:
    """Write a file, atomically: whoever looks finds the one before or all of this one. mode: before the umask. Raises
    FileError."""
    target = Path(path)
    require_folder(target)
    if target.exists() and not target.is_file():
        _write_through(target, data)
        return
    with interrupts.held():
        try:
            descriptor, temporary = open_beside(target, mode)
        except OSError as error:
            raise not_written(error, target) from None
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise not_written(error, target) from None
            raise


def _write_through(target: Path, data: bytes) -> None:
    """Into a device or a pipe (`-o /dev/null`, `-o /dev/stdout`), which must not be replaced by a file."""
    try:
        with open(target, "wb") as file:
            file.write(data)
    except OSError as error:
        raise FileError.of(error, target) from None


def read_result(path: str | os.PathLike[str]) -> RunResult:
    """Read a result file. Raises FileError, FormatError, VersionError, DamagedError or LimitError."""
    value = read_map(path)
    try:
        return from_wire(RunResult, value)
    except FormatError as error:
        raise FormatError(error.what, where=path) from None


def read_map(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The map of a result file, whose fields may be anything. Raises what `read_result` raises."""
    value = read_fields(path)
    try:
        return dict(harmless(value))
    except FormatError as error:
        raise FormatError(error.what, where=path) from None


def read_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """`read_map` for who needs a few fields: their texts are as they were written, and not to be shown. Raises what
    `read_result` raises."""
    source = os.fspath(path)
    return fields_of(read_file(source, MAXIMUM_FILE_BYTES), source)


def fields_of(data: bytes, source: str) -> dict[str, Any]:
    """`read_fields` of the bytes of a result file. source: its name, for errors."""
    value = _unpack(data, source)
    form = value.get("format") if isinstance(value, dict) else None
    name, _, version = str(form).partition("/") if isinstance(form, str) else ("", "", "")
    if name != _FORMAT_NAME:
        raise FormatError(
            "not a result of a replay", where=source, next="make one with `replay run SNAPSHOT -o FILE`"
        )
    if version != _FORMAT_VERSION:
        raise VersionError(
            f"result format {escaped(version[:20])}, and this replay reads {_FORMAT_VERSION}",
            where=source,
            next="install a newer replay",
        )
    return dict(value)


_KEPT = threading.local()  # a decompressor for each thread: making one costs more than most results


def _unpack(packed: bytes, source: str) -> Any:
    foreign = FormatError(
        "not a result of a replay", where=source, next="make one with `replay run SNAPSHOT -o FILE`"
    )
    if packed[:4] != zstandard.FRAME_HEADER[:4]:
        raise foreign
    try:
        parameters = zstandard.get_frame_parameters(packed)
        if parameters.content_size > MAXIMUM_CONTENT_BYTES:
            raise LimitError("its content is larger than any result", where=source)
        if not hasattr(_KEPT, "decompressor"):
            _KEPT.decompressor = zstandard.ZstdDecompressor()
        content = _KEPT.decompressor.decompress(packed, max_output_size=MAXIMUM_CONTENT_BYTES)
    except zstandard.ZstdError:
        raise DamagedError("damaged or cut short", where=source, next="run the replay again") from None
    try:
        return msgpack.unpackb(content)
    except (ValueError, msgpack.UnpackException):
        raise foreign from None
