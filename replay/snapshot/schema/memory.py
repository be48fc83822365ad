"""Memory in a snapshot: contents as chunks, the ranges that the window touched, arrays and advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, Literal

from replay.errors import FormatError
from replay.records import dataclass
from replay.snapshot.wire import from_wire

CHUNK_BYTES = 256 * 1024  # memory is cut into chunks of this size; the last one of a range may be shorter
DIGEST_BYTES = 16  # BLAKE3, truncated
ZERO_DIGEST = bytes(DIGEST_BYTES)  # of a chunk of zeros, which is never stored
INLINE_BYTES = 4096  # attachments up to this size are inside their call, larger ones in chunks

MAXIMUM_RANGES = 4_000_000
MAXIMUM_RANGE_BYTES = 1 << 44
_ARRAY_LAYERED, _ARRAY_CUBEMAP = 1, 4  # CUDA_ARRAY3D_*
_ARRAY_FORMATS = {  # CUarray_format
    0x01: "uint8", 0x02: "uint16", 0x03: "uint32", 0x08: "int8", 0x09: "int16", 0x0A: "int32", 0x10: "half",
    0x20: "float",
}  # fmt: skip
# Properties of a range that is a block of an allocation: where that is, and how large
WHOLE_ADDRESS, WHOLE_BYTES = "allocation_address", "allocation_bytes"
MAXIMUM_ARRAY_PARTS = 64  # levels x planes


@dataclass(frozen=True)
class Contents:
    """Bytes kept as chunks: `digests` is the concatenation of one digest per CHUNK_BYTES."""

    size_bytes: int
    digests: bytes

    def __post_init__(self) -> None:
        count = -(-self.size_bytes // CHUNK_BYTES)
        if not 0 <= self.size_bytes <= MAXIMUM_RANGE_BYTES or len(self.digests) != count * DIGEST_BYTES:
            raise FormatError(
                f"contents of {self.size_bytes} bytes with {len(self.digests)} bytes of digests"
            )

    def chunk_digests(self) -> list[bytes]:
        """The digest of each chunk, in order; ZERO_DIGEST for zeros."""
        return [self.digests[at : at + DIGEST_BYTES] for at in range(0, len(self.digests), DIGEST_BYTES)]


def contents_in(value: Any) -> Iterator[Contents]:
    """Everything in an object that refers to chunks, also in kinds and fields that this version does not know."""
    if isinstance(value, dict):
        if value.keys() == {"size_bytes", "digests"}:
            yield from_wire(Contents, value)
        else:
            for item in value.values():
                yield from contents_in(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from contents_in(item)


PREFETCH, ATTACH = -1, -2  # MemoryHint.advice beside CUmem_advise


@dataclass(frozen=True)
class MemoryHint:
    """Advice about managed memory that was in force when the window opened.

    advice: CUmem_advise; -1 the last prefetch; -2 cuStreamAttachMemAsync. location_type, location_id: CUmemLocation
    (1 device, 2 host); of an attachment its flags and 0.
    """

    advice: int
    offset: int
    size_bytes: int
    location_type: int
    location_id: int


@dataclass(frozen=True)
class ArrayPart:
    """One mipmap level of a CUDA array, or one plane of it: `slices` (or layers) of `rows`."""

    level: int
    plane: int
    width_bytes: int
    rows: int
    slices: int

    @property
    def size_bytes(self) -> int:
        """Rows and slices one after another, without padding."""
        return self.width_bytes * self.rows * self.slices


@dataclass(frozen=True)
class ArrayShape:
    """A CUDA array as its creator described it, and how its contents are laid out: the parts one after another.

    Extents in elements, 0 as CUDA uses it (a height of 0: one dimension). `format` is a CUarray_format, `flags` are
    CUDA_ARRAY3D_*. handle_type says what the range's `owner` is.
    """

    handle_type: Literal["CUarray", "CUmipmappedArray"]
    width: int
    height: int
    depth: int
    format: int
    channels: int
    flags: int
    parts: list[ArrayPart]

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= MAXIMUM_ARRAY_PARTS:
            raise FormatError(f"an array of {len(self.parts)} parts")
        for part in self.parts:
            extents = (part.width_bytes, part.rows, part.slices)
            if not all(1 <= extent <= MAXIMUM_RANGE_BYTES for extent in extents) or not (
                0 <= part.level < MAXIMUM_ARRAY_PARTS and 0 <= part.plane < MAXIMUM_ARRAY_PARTS
            ):
                raise FormatError(f"an array with a part of {extents}")
        if self.size_bytes > MAXIMUM_RANGE_BYTES:
            raise FormatError(f"an array of {self.size_bytes} bytes")

    def __str__(self) -> str:
        """`2D 64 x 48, float x 2, layered, 3 levels`."""
        layers = self.flags & (_ARRAY_LAYERED | _ARRAY_CUBEMAP)
        dimensions = 1 + (self.height > 0) + (self.depth > 0 and not layers)
        extents = [self.width, self.height, self.depth][: max(dimensions, 3 if layers else 0)]
        words = [f"{dimensions}D {' x '.join(str(extent) for extent in extents if extent)}"]
        words.append(f"{_ARRAY_FORMATS.get(self.format, f'format {self.format:#x}')} x {self.channels}")
        words += ["layered"] if self.flags & _ARRAY_LAYERED else []
        words += ["cubemap"] if self.flags & _ARRAY_CUBEMAP else []
        levels = len({part.level for part in self.parts})
        return ", ".join([*words, *([f"{levels} levels"] if levels > 1 else [])])

    @property
    def size_bytes(self) -> int:
        """Of all parts."""
        return sum(part.size_bytes for part in self.parts)


@dataclass(frozen=True)
class Range:
    """One allocation that the window touched.

    A CUDA array has no address of its own: `address` tells it from others (FORMAT.md), `owner` is its handle, `array`
    its shape.

    `before` is what it held when the window opened, or just after it was allocated inside the window; `after` what
    it held when the window closed, or when it was freed. None: not captured (a note says why). Chunks of `after`
    that equal those of `before` have the same digest and cost nothing.
    """

    id: int
    kind: Literal["device", "managed", "host", "registered", "global", "array"]
    address: int
    size_bytes: int
    device: int
    context: int  # captured handle
    born_call: int | None = None  # number of the window call that allocated it; None: it was there before
    died_call: int | None = None  # number of the window call that freed it; None: it outlived the window
    before: Contents | None = None
    after: Contents | None = None
    name: str = ""  # of a global
    owner: int = 0  # captured CUmodule or CUlibrary handle of a global; handle of an array
    host_flags: int = 0  # cuMemHostAlloc or cuMemHostRegister flags
    host_address: int = 0  # of pinned memory whose device address differs
    array: ArrayShape | None = None
    function: str = ""  # symbol that allocated it; "" when no recorded call did
    physical: int = 0  # the same number for all mappings of one physical allocation (cuMemMap)
    # by name: pitch_bytes, row_bytes, attach_flags, pool, pool_location_type, ... of that allocation
    properties: dict[str, int] = field(default_factory=dict)
    hints: list[MemoryHint] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.id < 0:
            raise FormatError(f"a range of number {self.id}")
        if (self.kind == "array") != (self.array is not None):
            raise FormatError(
                f"range {self.id} is of kind {self.kind}, and {'no' if self.array is None else 'an'} array"
            )
        if self.array is not None and self.array.size_bytes != self.size_bytes:
            raise FormatError(
                f"range {self.id} has {self.size_bytes} bytes, its array {self.array.size_bytes}"
            )
