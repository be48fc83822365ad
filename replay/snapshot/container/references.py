"""Chunks whose bytes are not in the file: a reference says how to put them together. FORMAT.md has the grammar.

Pure functions. Nothing here trusts a length, and no reference says where a store or a file of weights is.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from replay.errors import DamagedError
from replay.patterns import compiled_later
from replay.snapshot.container.frames import DIGEST_BYTES, MAX_CHUNK_BYTES
from replay.store.model import Part, Reference, WeightsName

REFERENCED = 1 << 30  # in the length of a chunk record: it is that of a reference

_LENGTH = struct.Struct("<I")
_LITERAL = struct.Struct("<BI")  # 0, length; the bytes follow
_OF_WEIGHTS = struct.Struct("<B16sQI")  # 1, digest of the file, offset in it, length
_SIZE = struct.Struct("<Q")
_MAX_WEIGHTS_BYTES = 1 << 44
_FILE_NAME = compiled_later(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
_HUB_NAME = compiled_later(r"([A-Za-z0-9_][A-Za-z0-9._-]{0,95}/[A-Za-z0-9_][A-Za-z0-9._-]{0,95})?")


def pack_reference(length: int, parts: Sequence[Part]) -> bytes:
    """What takes the place of a chunk of `length` bytes. No parts: it is in a store, under its digest."""
    pieces = [_LENGTH.pack(length)]
    for part in parts:
        if part.weights:
            pieces.append(_OF_WEIGHTS.pack(1, part.weights, part.offset, part.length))
        else:
            pieces += (_LITERAL.pack(0, part.length), part.literal)
    return b"".join(pieces)


def unpack_reference(data: bytes) -> Reference:
    """Raises DamagedError."""
    if len(data) < _LENGTH.size:
        raise _impossible()
    length = int(_LENGTH.unpack_from(data)[0])
    parts: list[Part] = []
    at, left = _LENGTH.size, length
    while at < len(data):
        of_weights = data[at] == 1
        layout = _OF_WEIGHTS if of_weights else _LITERAL
        if data[at] > 1 or at + layout.size > len(data):
            raise _impossible()
        fields = layout.unpack_from(data, at)
        at += layout.size
        if of_weights:
            part = Part(fields[3], weights=fields[1], offset=fields[2])
        else:
            part = Part(fields[1], literal=data[at : at + fields[1]])
            at += part.length
        left -= part.length
        outside = part.offset + part.length > _MAX_WEIGHTS_BYTES
        if part.length <= 0 or at > len(data) or outside:
            raise _impossible()
        parts.append(part)
    if not 0 < length <= MAX_CHUNK_BYTES or (parts and left):
        raise _impossible()
    return Reference(length, tuple(parts))


def pack_weights(name: WeightsName) -> bytes:
    """What the file says of one of weights that references need."""
    return _SIZE.pack(name.size_bytes) + f"{name.name}\0{name.hub}".encode()


def unpack_weights(digest: bytes, data: bytes) -> WeightsName:
    """Raises DamagedError, also for a name that could lead out of a folder."""
    try:
        name, _, hub = data[_SIZE.size :].decode("ascii").partition("\0")
        size_bytes = int(_SIZE.unpack_from(data)[0])
    except (struct.error, UnicodeDecodeError):
        raise DamagedError("a name of weights cannot be read") from None
    good = _FILE_NAME.fullmatch(name) and _HUB_NAME.fullmatch(hub) and len(digest) == DIGEST_BYTES
    if not good or size_bytes > _MAX_WEIGHTS_BYTES:
        raise DamagedError("a name of weights is none")
    return WeightsName(digest, size_bytes, name, hub)


def _impossible() -> DamagedError:
    return DamagedError("a reference to contents elsewhere is impossible")
