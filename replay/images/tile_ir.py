"""Reads Tile IR bytecode, what CUDA Tile programs hand to the driver in place of PTX: its size, version and entries.

Untrusted input: every length is checked, and nothing but `ImageError` is raised. The layout is that of versions 13.1 to
13.5 as NVIDIA's `cuda-tile` writes them: a header, then sections of a type, a length and an alignment, and an end mark.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from replay.errors import ImageError
from replay.images.model import KernelInfo, ModuleInfo, Parameter
from replay.records import dataclass

TILE_IR_MAGIC = b"\x7fTileIR\0"
HEADER_BYTES = 12

_END, _STRINGS, _FUNCTIONS, _TYPES = 0, 1, 2, 5
_LAST_SECTION = 6
_ALIGNED = 0x80
_MAX_ALIGNMENT = 4096
_MAX_FUNCTIONS = 4096
_MAX_PARAMETERS = 4096
_MAX_DEPTH = 8
_MAX_NAME_BYTES = 4096
_ENTRY, _HINTS = 2, 4  # flags of a function

# Bytes of the values that a kernel can take: a tile without dimensions of one of these.
_SIMPLE = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 2, 7: 4, 8: 4, 9: 8, 10: 1, 11: 1, 18: 1}
_POINTER, _TILE, _FUNCTION = 12, 13, 16


class _Reader:
    """Numbers out of a stretch of bytes. Raises ImageError at its end."""

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data, self.position, self.end = data, position, len(data) if end is None else end

    def byte(self) -> int:
        self.skip(1)
        return self.data[self.position - 1]

    def number(self) -> int:
        """An unsigned number of 7 bits a byte, the lowest first, at most 64 bits."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise _damaged("a number of more than 64 bits")

    def skip(self, size: int) -> None:
        if size > self.end - self.position:
            raise _damaged("it is cut short")
        self.position += size

    def align(self, alignment: int, start: int = 0) -> None:
        self.skip(-(self.position - start) % alignment)


@dataclass(frozen=True)
class _Sections:
    version: tuple[int, int]
    size: int
    found: dict[int, tuple[int, int]]  # start and end of each


def tile_ir_size(data: bytes) -> int:
    """Exact size of the bytecode at the start of `data`, which may go on after it. Raises ImageError."""
    return _sections(data).size


def tile_ir_version(data: bytes) -> str:
    """ "13.1": of the bytecode, from its header alone. Raises ImageError."""
    if len(data) < HEADER_BYTES or not data.startswith(TILE_IR_MAGIC):
        raise _damaged("no header")
    return f"{data[8]}.{data[9]}"


def read_tile_ir(data: bytes) -> ModuleInfo:
    """Entries of the bytecode with their parameters. Its target is "", as it is not bound to one. Raises ImageError."""
    sections = _sections(data)
    strings, types = _table(data, sections, _STRINGS), _table(data, sections, _TYPES)
    kernels: dict[str, KernelInfo] = {}
    reader = _Reader(data, *sections.found.get(_FUNCTIONS, (0, 0)))
    count = reader.number() if sections.found.get(_FUNCTIONS) else 0
    if count > _MAX_FUNCTIONS:
        raise _damaged(f"{count} functions")
    for _ in range(count):
        name, signature, flags = reader.number(), reader.number(), reader.byte()
        reader.number()  # where its debug information is
        late = sections.version >= (13, 5)
        if flags & _ENTRY and (late or flags & _HINTS):
            _skip_attribute(reader, 0)
        if late:
            _skip_attribute(reader, 0)
        reader.skip(reader.number())
        if flags & _ENTRY:
            kernel = _kernel(strings(name), _parameter_sizes(types, signature))
            kernels[kernel.name] = kernel
    return ModuleInfo("tileir", "", tile_ir_version(data), kernels)


def tile_ir_strings(data: bytes) -> list[tuple[int, int]]:
    """Start and end of each string: names of functions, source files and their folders. Raises ImageError."""
    start, end = _sections(data).found.get(_STRINGS, (0, 0))
    reader = _Reader(data, start, end)
    count = reader.number() if end else 0
    reader.align(4, start)
    offsets = reader.position
    reader.skip(4 * count)
    starts = [reader.position + at for at in struct.unpack_from(f"<{count}I", data, offsets)]
    found = list(zip(starts, [*starts[1:], end], strict=True)) if count else []
    if any(not reader.position <= first <= last <= end for first, last in found):
        raise _damaged("a table that points past its end")
    return found


def _sections(data: bytes) -> _Sections:
    tile_ir_version(data)
    reader = _Reader(data, HEADER_BYTES)
    found: dict[int, tuple[int, int]] = {}
    while (header := reader.byte()) & ~_ALIGNED != _END:
        section = header & ~_ALIGNED
        if section > _LAST_SECTION or section in found:
            raise _damaged(f"a section of type {section}" + (" twice" if section in found else ""))
        size = reader.number()
        if header & _ALIGNED:
            alignment = reader.number()
            if not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
                raise _damaged(f"a section aligned to {alignment} bytes")
            reader.align(alignment)
        start = reader.position
        reader.skip(size)
        found[section] = (start, reader.position)
    return _Sections((data[8], data[9]), reader.position, found)


def _table(data: bytes, sections: _Sections, section: int) -> Callable[[int], bytes]:
    """Items by their number: a table has their offsets, of 4 bytes, before their bytes."""
    start, end = sections.found.get(section, (0, 0))
    reader = _Reader(data, start, end)
    count = reader.number() if end else 0
    reader.align(4, start)
    offsets = reader.position
    reader.skip(4 * count)
    first = reader.position

    def item(number: int) -> bytes:
        if number >= count:
            raise _damaged(f"item {number} of a table of {count}")
        at = struct.unpack_from("<I", data, offsets + 4 * number)[0]
        last = number + 1 == count
        to = end - first if last else struct.unpack_from("<I", data, offsets + 4 * number + 4)[0]
        if not at <= to <= end - first:
            raise _damaged("a table that points past its end")
        return data[first + at : first + to]

    return item


def _kernel(name: bytes, sizes: list[tuple[int, bool]]) -> KernelInfo:
    if len(name) > _MAX_NAME_BYTES:
        raise _damaged(f"a name of {len(name)} bytes")
    parameters, end = [], 0
    for size, is_pointer in sizes:
        offset = end + -end % size
        parameters.append(Parameter(offset, size, size, is_pointer=is_pointer))
        end = offset + size
    return KernelInfo(name.decode("utf-8", "replace"), tuple(parameters), end)


def _parameter_sizes(types: Callable[[int], bytes], signature: int) -> list[tuple[int, bool]]:
    """Bytes of each parameter, and whether it is a pointer."""
    reader = _Reader(types(signature))
    if reader.number() != _FUNCTION:
        raise _damaged("an entry whose type is no function")
    count = reader.number()
    if count > _MAX_PARAMETERS:
        raise _damaged(f"{count} parameters")
    return [_parameter_size(types, reader.number()) for _ in range(count)]


def _parameter_size(types: Callable[[int], bytes], number: int) -> tuple[int, bool]:
    tile = _Reader(types(number))
    if tile.number() == _TILE:
        element, dimensions = tile.number(), tile.number()
        kind = _Reader(types(element)).number()
        if dimensions == 0 and kind == _POINTER:
            return 8, True
        if dimensions == 0 and kind in _SIMPLE:
            return _SIMPLE[kind], False
    raise ImageError("Tile IR: a parameter of a type that is not known here")


def _skip_attribute(reader: _Reader, depth: int) -> None:
    """One attribute with its tag. Arrays and dictionaries hold others."""
    if depth > _MAX_DEPTH:
        raise _damaged("attributes nested too deeply")
    tag = reader.byte()
    if tag == 1:  # an integer: its type, its value
        reader.number()
        reader.number()
    elif tag == 3:
        reader.byte()
    elif tag in (4, 5):  # a type, a string
        reader.number()
    elif tag == 6:
        for _ in range(reader.number()):
            _skip_attribute(reader, depth + 1)
    elif tag in (10, 11):  # dictionaries
        for _ in range(reader.number()):
            reader.number()
            _skip_attribute(reader, depth + 1)
    else:
        raise ImageError(f"Tile IR: an attribute of kind {tag} at an entry, which is not known here")


def _damaged(what: str) -> ImageError:
    return ImageError(f"not usable Tile IR: {what}")
