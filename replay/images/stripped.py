"""Module images without what only people read: comments and paths in PTX, debug sections of cubins, paths in the
headers of fat binaries and in Tile IR; if asked for, source lines of PTX (`.loc`, `.file`) too. Code, symbols and
the number of every line stay.

Each text is overwritten by one of the same length, so every offset holds. Untrusted input: ImageError and nothing else;
no byte is looked at for each of many sections or entries that claim it.
Link-time intermediate code and what is in no known format is kept as it is. That drivers load cubins whose debug
sections are zeros is not yet seen on a GPU (GT-IMAGE-DEBUG).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.errors import ImageError
from replay.images.cubin import ELF_MAGIC, stored_sections
from replay.images.fatbin import (
    CONTAINER_HEADER_BYTES,
    CONTAINER_MAGIC,
    MAX_ENTRY_BYTES,
    container_size,
    read_container,
    with_payload,
)
from replay.images.ptx import is_ptx
from replay.images.tile_ir import TILE_IR_MAGIC, tile_ir_strings

COMMENTS, SOURCE_PATHS, DEBUG_SECTIONS = "comments", "source paths", "debug sections"
SOURCE_LINES = "source lines"

_TOKEN = re.compile(
    rb"//[^\n]*|/\*.*?(?:\*/|\Z)|\.file\s+\d+\s+(\"[^\"\n]*\")|\"[^\"\n]*\"|\.section\s+\.(?:nv_)?debug\w*"
    rb"|\.loc[ \t][^\n/]*",
    re.DOTALL,
)
_TEXT = re.compile(rb"[^\s]+")
_REST_OF_FILE = re.compile(rb"(?:\s*,\s*\d+)*")  # time and size of the file
_BYTES = re.compile(rb"\.b8\s+[0-9][0-9, \t]*")
_NUMBER = re.compile(rb"\d+")
_READABLE = range(32, 127)
_SHORTEST_RUN = 3  # readable bytes in a row that are taken for text
# Of the names of sections that hold no text
_NO_TEXT = re.compile(r"\.(?:nv_)?debug_(?:abbrev|frame)")


def stripped(data: bytes, lines: bool = False) -> tuple[bytes, list[str]]:
    """`data` without them, and what was in it. lines: without source lines, and debug sections of PTX are blanks.
    Raises ImageError for what cannot be read."""
    found: set[str] = set()
    kept = _image(data, found, lines)
    return (kept, sorted(found)) if found else (data, [])


def texts_of_ptx(data: bytes) -> Iterator[bytes]:
    """Comments, names of source files and other texts in quotes: what is no code."""
    for token in _TOKEN.finditer(data):
        if not token[0].startswith((b".section", b".loc")):
            yield token[1] or token[0]


def _image(data: bytes, found: set[str], lines: bool) -> bytes:
    if int.from_bytes(data[:4], "little") == CONTAINER_MAGIC:
        return b"".join(_containers(data, found, lines))
    return _module(data, found, lines)


def _module(data: bytes, found: set[str], lines: bool) -> bytes:
    if data[:4] == ELF_MAGIC:
        return _cubin(data, found)
    if data.startswith(TILE_IR_MAGIC):
        return _tile_ir(data, found)
    return _ptx(data, found, lines) if is_ptx(data) else data


def _containers(data: bytes, found: set[str], lines: bool) -> Iterator[bytes]:
    """One container after the other: those of relocatable code follow the first."""
    position, room = 0, MAX_ENTRY_BYTES
    while int.from_bytes(data[position : position + 4], "little") == CONTAINER_MAGIC:
        size = container_size(data[position : position + CONTAINER_HEADER_BYTES])
        kept, room = _container(data[position : position + size], found, lines, room)
        yield kept
        position += size
    yield data[position:]


def _container(data: bytes, found: set[str], lines: bool, room: int) -> tuple[bytes, int]:
    """room: for uncompressed entries; with the container, what is left of it."""
    changed = []
    for entry in read_container(data):
        payload = None
        if entry.kind in ("ptx", "cubin", "tileir"):
            whole = entry.whole(room)
            room -= len(whole)
            kept = _module(whole, found, lines)
            payload = kept if kept != whole else None
        name = entry.file_name.rpartition("/")[2]
        if name != entry.file_name:
            found.add(SOURCE_PATHS)
        if payload is not None or name != entry.file_name:
            changed.append((entry, payload, name))
    return with_payload(data, changed) if changed else data, room


def _cubin(data: bytes, found: set[str]) -> bytes:
    kept, room = bytearray(data), len(data)
    for name, start, size in stored_sections(data):
        if not re.match(r"\.(?:nv_)?debug_", name) or _NO_TEXT.fullmatch(name):
            continue
        room -= size
        if room < 0:
            raise ImageError("not a usable cubin: its sections overlap")
        if data[start : start + size].strip(b"\0"):
            kept[start : start + size] = bytes(size)
            found.add(DEBUG_SECTIONS)
    return bytes(kept)


def _tile_ir(data: bytes, found: set[str]) -> bytes:
    kept = bytearray(data)
    for start, end in tile_ir_strings(data):
        folder = data.rfind(b"/", start, end) + 1
        if folder > start:
            found.add(SOURCE_PATHS)
            kept[start:folder] = b"x" * (folder - start)
    return bytes(kept)


def _ptx(data: bytes, found: set[str], lines: bool) -> bytes:
    kept, overwritten = bytearray(data), 0

    def blank(start: int, end: int, what: str) -> None:
        found.add(what)
        kept[start:end] = _TEXT.sub(lambda word: b" " * len(word[0]), bytes(kept[start:end]))

    for token in _TOKEN.finditer(data):
        text, start, end = token[0], token.start(), token.end()
        if text.startswith((b"//", b"/*")):
            blank(start, end, COMMENTS)
        elif lines and text.startswith((b".loc", b".file")):
            rest = _REST_OF_FILE.match(data, end) if text.startswith(b".file") else None
            blank(start, rest.end() if rest else end, SOURCE_LINES)
        elif path := token[1]:
            name = path[1:-1].rpartition(b"/")[2].rpartition(b"\\")[2]
            if len(name) + 2 < len(path):
                found.add(SOURCE_PATHS)
                kept[end - len(path) : end] = (b'"' + name + b'"').ljust(len(path))
        elif text.startswith(b".section") and end > overwritten:
            close = data.find(b"}", end)
            overwritten = close if close >= 0 else len(data)
            if lines:
                blank(start, overwritten + 1, DEBUG_SECTIONS)
            elif _overwrite(kept, end, overwritten):
                found.add(DEBUG_SECTIONS)
    return bytes(kept)


def _overwrite(kept: bytearray, start: int, end: int) -> bool:
    """Text in a debug section of PTX, which is a list of numbers, becomes one letter: of as many digits, so that every
    size stays. Whether there was any."""
    some = False
    length, told, waiting = (
        0,
        False,
        list[re.Match[bytes]](),
    )  # of the run; what of it is overwritten if it is text
    for line in _BYTES.finditer(kept, start, end):
        for number in _NUMBER.finditer(kept, line.start() + 3, line.end()):
            if len(number[0]) > 3 or int(number[0]) not in _READABLE:
                length, told, waiting = 0, False, []
                continue
            length += 1
            if number[0] not in (b"88", b"120"):
                told = True
                waiting.append(number)
            if told and length >= _SHORTEST_RUN:
                some = True
                for one in waiting:
                    kept[one.start() : one.end()] = b"120" if len(one[0]) == 3 else b"88"
                waiting = []
    return some
