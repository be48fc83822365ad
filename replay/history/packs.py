"""Many results in one file, so that an index is made without opening each: `NAME.rpack` in a folder of results.

A pack is zstd frames one after another. The first holds a msgpack map, `replay.results/1`: for each series what its
results have in common, a column for each fact that a list needs, and where the kernels of the newest were launched
(absent in older packs). The others are the result files, byte for byte.
A pack may be a stranger's: names, types and places in it are checked before anything is used, and its columns are worth
as much as a result file, which may also say anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgpack
import zstandard

from replay.errors import FileError, FormatError, LimitError, ReplayError, UsageError
from replay.harmless import escaped
from replay.reading import open_regular
from replay.results.store import MAXIMUM_FILE_BYTES, fields_of, write_whole
from replay.snapshot.container.output import sync_folder

FORMAT = "replay.results/1"
MOST_RESULTS = 1_000_000  # in one pack
_MOST_TABLE_BYTES = 512 << 20
_MOST_PACKED_BYTES = 256 << 20  # of results that are put into one pack
COMMON = ("kernel", "snapshot", "window", "device", "source", "variant")  # of a series
COLUMNS = (
    "name",
    "created_utc",
    "driver",
    "driver_version",
    "median_ns",
    "samples",
    "outputs",
    "offset",
    "size_bytes",
)
_NUMBER: set[type] = {int}
_TYPES: dict[str, set[type]] = {
    "driver_version": _NUMBER, "median_ns": {int, float, type(None)}, "samples": _NUMBER, "offset": _NUMBER,
    "size_bytes": _NUMBER,
}  # fmt: skip
_LARGEST = 1 << 63
_FOREIGN = FormatError("is no pack of results", next="`replay history DIR --pack` makes one")


def read_table(path: Path) -> Iterator[dict[str, Any]]:
    """Each series of a pack: `COMMON` and the lists `COLUMNS`, checked. Raises FileError, FormatError or LimitError."""
    with open(open_regular(path), "rb") as file:
        value, _ = _table(file, path)
    size, count = path.stat().st_size, 0
    series = value.get("series")
    if not isinstance(series, list):
        raise _foreign(path)
    for item in series:
        if not _is_sound(item, size):
            raise _foreign(path)
        count += len(item["name"])
        if count > MOST_RESULTS:
            raise LimitError(f"more than {MOST_RESULTS:,} results in one pack", where=path)
        yield item


def _table(file: Any, path: Path) -> tuple[dict[str, Any], int]:
    """The map of a pack, and how many bytes of the file it takes."""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    content, taken = bytearray(), 0
    try:
        while data := file.read(1 << 20):
            taken += len(data)
            content += decompressor.decompress(data)
            if len(content) > _MOST_TABLE_BYTES:
                raise LimitError("its table is larger than any that is written", where=path)
            if decompressor.eof:
                taken -= len(decompressor.unused_data)
                value = msgpack.unpackb(bytes(content))
                break
        else:
            raise _foreign(path)
    except (zstandard.ZstdError, ValueError, msgpack.UnpackException):
        raise _foreign(path) from None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise _foreign(path)
    return value, taken


def _foreign(path: Path) -> FormatError:
    return FormatError(_FOREIGN.what, where=path, next=_FOREIGN.next)


def _is_sound(item: Any, size: int) -> bool:
    if not isinstance(item, dict) or not {*COMMON, *COLUMNS} <= {*item}:
        return False
    if not all(type(item[name]) is (int if name == "window" else str) for name in COMMON):
        return False
    if type(item.get("launched_from", "")) is not str:
        return False
    columns = [item[name] for name in COLUMNS]
    if not all(type(column) is list and len(column) == len(columns[0]) for column in columns):
        return False
    if not all({*map(type, item[name])} <= _TYPES.get(name, {str}) for name in COLUMNS):
        return False
    numbers = [
        value for name in _TYPES for value in (min, max) if item[name] for value in _ends(item[name], value)
    ]
    fits = all(-_LARGEST <= number < _LARGEST for number in numbers)
    inside = all(
        a >= 0 and 0 < b <= size - a for a, b in zip(item["offset"], item["size_bytes"], strict=True)
    )
    return fits and inside and all(map(_is_name, item["name"])) and _is_short(item)


def _ends(column: list[Any], end: Callable[..., Any]) -> list[Any]:
    return [end(known)] if (known := [value for value in column if value is not None]) else []


def _is_short(item: dict[str, Any]) -> bool:
    return all(len(text) <= 40 for text in item["created_utc"]) and not any(
        value is not None and not 0 <= value < _LARGEST for value in item["median_ns"]
    )


def _is_name(name: str) -> bool:
    """Of a result file inside a folder: nothing that leads out of it."""
    parts = name.split("/")
    return (
        name.endswith(".rres")
        and name.isprintable()
        and len(name) < 1000
        and not any(part == "" or part.startswith(".") for part in parts)
    )


def make_pack(
    folder: Path, names: Sequence[str], facts_of: Callable[[dict[str, Any]], tuple[Any, ...]]
) -> tuple[Path, list[str]] | None:
    """Put result files of a folder into one new pack beside them, and remove each that is in it afterwards. Those that
    are no results stay. facts_of: columns of an index from the fields of a result. Returns the pack, and whose results
    are in it: as many of the first as one pack takes; None where there is none. Raises FileError."""
    series: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    places: dict[tuple[Any, ...], tuple[str, str]] = {}  # of each, of its newest result
    frames: list[bytes] = []
    taken: list[tuple[str, os.stat_result]] = []
    offset = 0
    for name in names[:MOST_RESULTS]:
        try:
            with open(open_regular(folder / name, follow_links=False), "rb", buffering=0) as file:
                status, data = os.fstat(file.fileno()), file.read(MAXIMUM_FILE_BYTES)
            (
                created,
                kernel,
                snapshot,
                window,
                device,
                driver,
                version,
                source,
                variant,
                median,
                samples,
                outputs,
                launched_from,
            ) = facts_of(fields_of(data, str(folder / name)))
        except (ReplayError, KeyError, TypeError, ValueError, AttributeError, IndexError):
            continue
        if offset + len(data) > _MOST_PACKED_BYTES and frames:
            break
        key = kernel, snapshot, window, device, source, variant
        columns = series.setdefault(key, {column: [] for column in COLUMNS})
        places[key] = max(places.get(key, ("", "")), (created, launched_from))
        row = (name, created, driver, version, median, samples, outputs, offset, len(data))
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
        frames.append(data)
        taken.append((name, status))
        offset += len(data)
    if not frames:
        return None
    path = folder / f"{datetime.now(timezone.utc):%Y%m%d%H%M%S}-{token_hex(4)}.rpack"
    write_whole(path, b"".join([_packed_table(series, places), *frames]))
    sync_folder(folder)  # nothing is removed before its copy is where it stays
    for name, status in taken:
        file_path = folder / name
        try:
            now = os.stat(file_path, follow_symlinks=False)
            if (now.st_ino, now.st_size, now.st_mtime_ns) == (
                status.st_ino,
                status.st_size,
                status.st_mtime_ns,
            ):
                file_path.unlink()
        except FileNotFoundError:  # somebody else removed it
            continue
        except OSError as error:
            raise FileError.of(error, file_path) from None
    return path, [name for name, _ in taken]


def _packed_table(
    series: dict[tuple[Any, ...], dict[str, list[Any]]], places: dict[tuple[Any, ...], tuple[str, str]]
) -> bytes:
    """The first frame. Offsets count from its end, which it does not know."""
    rows = [
        {**dict(zip(COMMON, key, strict=True)), "launched_from": places[key][1], **columns}
        for key, columns in series.items()
    ]
    table = msgpack.packb({"format": FORMAT, "series": rows})
    return zstandard.ZstdCompressor(level=6, write_checksum=True).compress(table)


def unpack(paths: Sequence[Path], target: Path) -> int:
    """Write the result files of packs into a folder that is not there yet. Returns how many. Raises FileError,
    FormatError, LimitError, UsageError."""
    try:
        target.mkdir()
    except FileExistsError:
        raise UsageError("is there already", where=target, next="name a new folder") from None
    except OSError as error:
        raise FileError.of(error, target) from None
    written: set[str] = set()
    for path in paths:
        with open(open_regular(path), "rb") as file:
            _, begin = _table(file, path)
            for item in read_table(path):
                for name, offset, size in zip(item["name"], item["offset"], item["size_bytes"], strict=True):
                    if name in written:
                        continue
                    file.seek(begin + offset)
                    place = target / name
                    try:
                        place.parent.mkdir(parents=True, exist_ok=True)
                    except OSError as error:
                        raise FileError.of(error, escaped(str(place.parent))) from None
                    data = file.read(size)
                    if len(data) < size:
                        raise FormatError("is cut short", where=path, next="take another copy of it")
                    write_whole(place, data)
                    written.add(name)
    return len(written)
