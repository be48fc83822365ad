"""Reads a fat binary: the container in which nvcc packs cubins and PTX of several architectures.

Untrusted input: every offset and size is checked, a decompressed entry has a limit, and nothing but `ImageError` is
raised. NVIDIA does not document the layout; it was read off the output of nvcc 11.7 to 13.5.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal

from replay.errors import ImageError
from replay.records import dataclass

WRAPPER_MAGIC = 0x466243B1
CONTAINER_MAGIC = 0xBA55ED50
CONTAINER_HEADER_BYTES = 16
ENTRY_HEADER_BYTES = 64
WRAPPER_BYTES = 24

MAX_ENTRIES = 4096
MAX_ENTRY_BYTES = 512 << 20  # uncompressed; the largest seen in CUDA's own libraries have some 100 MB

FLAG_LZ4 = 0x2000
FLAG_ZSTD = 0x8000
FLAG_ARCHITECTURE_SPECIFIC = 0x100000  # "a": runs on exactly this architecture
FLAG_FAMILY_SPECIFIC = 0x200000  # "f"

_LZ4_MAX_RATIO = 256  # no LZ4 block expands further

_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")

EntryKind = Literal["ptx", "cubin", "lto", "tileir", "other"]
_KINDS: dict[int, EntryKind] = {1: "ptx", 2: "cubin", 8: "lto", 0x80: "tileir"}


@dataclass(frozen=True)
class Entry:
    """One image inside a container. `payload` is as stored; `contents()` decompresses it.

    sm: 90 for sm_90. variant: "a", "f" or "". file_name: of the source, mostly "".
    start, offset: of its header and of its payload in the container.
    """

    kind: EntryKind
    sm: int
    variant: str
    version: tuple[int, int]
    file_name: str
    flags: int
    start: int
    offset: int
    payload: bytes
    compressed_bytes: int
    uncompressed_bytes: int

    @property
    def target(self) -> str:
        """The architecture as compilers write it: "sm_90a", or "compute_90" for what is compiled later."""
        return f"{'sm' if self.kind == 'cubin' else 'compute'}_{self.sm}{self.variant}"

    @property
    def compression(self) -> Literal["", "lz4", "zstd"]:
        """How the payload is compressed, "" for not at all."""
        if self.compressed_bytes == 0:
            return ""
        return "lz4" if self.flags & FLAG_LZ4 else "zstd" if self.flags & FLAG_ZSTD else ""

    def contents(self, limit: int = MAX_ENTRY_BYTES) -> bytes:
        """The uncompressed image; PTX without the padding after its text. Raises ImageError beyond `limit` bytes."""
        data = self.whole(limit)
        return data.rstrip(b"\0") if self.kind == "ptx" else data

    def whole(self, limit: int = MAX_ENTRY_BYTES) -> bytes:
        """All that is stored, uncompressed. Raises ImageError beyond `limit` bytes."""
        if not self.flags & (FLAG_LZ4 | FLAG_ZSTD) or self.compressed_bytes == 0:
            data = self.payload
        else:
            _check(self.compressed_bytes <= len(self.payload), "an entry is shorter than its compressed size")
            packed = self.payload[: self.compressed_bytes]
            _check(0 < self.uncompressed_bytes <= limit, f"an entry of {self.uncompressed_bytes} bytes")
            data = _lz4(packed, self.uncompressed_bytes) if self.flags & FLAG_LZ4 else _zstd(packed, self)
        _check(len(data) <= limit, f"an entry of {len(data)} bytes")
        return data


def container_size(data: bytes) -> int:
    """Exact size of the container at the start of `data`, which may go on after it. Raises ImageError."""
    _check(len(data) >= CONTAINER_HEADER_BYTES, "a container that is cut short")
    magic, version, header_bytes, size = _CONTAINER.unpack_from(data)
    _check(magic == CONTAINER_MAGIC, "no container magic")
    _check(version == 1, f"container version {version}")
    _check(CONTAINER_HEADER_BYTES <= header_bytes <= 4096, f"a container header of {header_bytes} bytes")
    return int(header_bytes + size)


def read_container(data: bytes) -> list[Entry]:
    """The entries of a container, in order, still compressed. Raises ImageError."""
    end = container_size(data)
    _check(end <= len(data), f"the container ends {end - len(data)} bytes early")
    position = int(_CONTAINER.unpack_from(data)[2])
    entries: list[Entry] = []
    while position < end:
        _check(len(entries) < MAX_ENTRIES, "too many entries")
        _check(position + ENTRY_HEADER_BYTES <= end, "an entry header that reaches beyond the container")
        entry, position = _read_entry(data, position, end)
        entries.append(entry)
    return entries


def choose_cubin(entries: Sequence[Entry], sm: int) -> Entry | None:
    """The cubin that a device of architecture `sm` (90 for 9.0) runs: same major version, highest minor not above.

    "a" code runs on its own architecture only; "f" code also on later members of its family, which is not decided
    here, so it is taken on its own architecture only.
    """
    usable = [
        entry
        for entry in entries
        if entry.kind == "cubin"
        and entry.sm // 10 == sm // 10
        and (entry.sm == sm if entry.variant else entry.sm <= sm)
    ]
    return max(usable, key=lambda entry: (entry.sm, entry.variant == "a"), default=None)


def choose_ptx(entries: Sequence[Entry], sm: int) -> Entry | None:
    """The PTX that the driver would compile for a device of architecture `sm`: the highest one not above.

    "a" and "f" PTX is taken on exactly its own architecture.
    """
    usable = [
        entry
        for entry in entries
        if entry.kind == "ptx" and (entry.sm == sm if entry.variant else entry.sm <= sm)
    ]
    return max(usable, key=lambda entry: (entry.sm, entry.variant == "a"), default=None)


def usable_entries(entries: Sequence[Entry], sm: int) -> list[Entry]:
    """What a device of architecture `sm` may be given: cubins of the architecture it runs, and the PTX for it.

    A container may hold several modules, so all entries of the chosen architectures count. Entries of unknown kinds
    are usable, and so is everything when nothing is known to be.
    """
    cubin, ptx = choose_cubin(entries, sm), choose_ptx(entries, sm)
    chosen = {(item.kind, item.sm, item.variant) for item in (cubin, ptx) if item is not None}
    if not chosen:
        return list(entries)
    return [item for item in entries if item.kind == "other" or (item.kind, item.sm, item.variant) in chosen]


def container_of(data: bytes, entries: Sequence[Entry]) -> bytes:
    """A container that holds these entries of the container `data`, as they are there. Raises ImageError."""
    magic, version, header_bytes, _ = _CONTAINER.unpack_from(data)
    body = b"".join(data[item.start : item.offset + len(item.payload)] for item in entries)
    return (
        _CONTAINER.pack(magic, version, header_bytes, len(body)) + data[_CONTAINER.size : header_bytes] + body
    )


def with_payload(data: bytes, changed: Sequence[tuple[Entry, bytes | None, str]]) -> bytes:
    """The container `data` in which some entries have other contents (None: those they have), and another file name,
    which is no longer than theirs. Compressed contents stay compressed. Raises ImageError."""
    by_start = {entry.start: (entry, payload, name) for entry, payload, name in changed}
    parts = []
    for item in read_container(data):
        head, body = data[item.start : item.offset], item.payload
        if item.start in by_start:
            entry, payload, name = by_start[item.start]
            fields = list(_ENTRY.unpack_from(head))
            if payload is not None:
                fields[13] = len(payload) if entry.compression else fields[13]
                body = _packed(entry, payload)
                fields[3], fields[4] = (
                    len(body) + -len(body) % 8,
                    len(body) if entry.compression else fields[4],
                )
                body += bytes(-len(body) % 8)
            where, room = fields[9], fields[10]
            named = name.encode("utf-8", "replace")[:room].ljust(room, b"\0")
            head = _ENTRY.pack(*fields) + head[_ENTRY.size :]
            head = head[:where] + named + head[where + room :] if room else head
        parts.append(head + body)
    body = b"".join(parts)
    magic, version, header_bytes, _ = _CONTAINER.unpack_from(data)
    return (
        _CONTAINER.pack(magic, version, header_bytes, len(body)) + data[_CONTAINER.size : header_bytes] + body
    )


def _packed(entry: Entry, data: bytes) -> bytes:
    if entry.compression == "zstd":
        import zstandard

        return zstandard.ZstdCompressor().compress(data)
    if entry.compression == "lz4":
        from lz4 import block

        packed: bytes = block.compress(data, store_size=False)
        return packed
    return data


def _read_entry(data: bytes, position: int, end: int) -> tuple[Entry, int]:
    (
        kind,
        _version,
        header_bytes,
        payload_bytes,
        compressed_bytes,
        _options,
        minor,
        major,
        sm,
        name_offset,
        name_bytes,
        flags,
        _reserved,
        uncompressed_bytes,
    ) = _ENTRY.unpack_from(data, position)
    payload = position + header_bytes
    _check(header_bytes >= ENTRY_HEADER_BYTES and payload <= end, "an entry header of an impossible size")
    _check(payload_bytes <= end - payload, "an entry that reaches beyond the container")
    name = b""
    if name_bytes:
        _check(name_offset + name_bytes <= header_bytes, "a file name outside of its entry header")
        name = data[position + name_offset : position + name_offset + name_bytes].rstrip(b"\0")
    variant = "a" if flags & FLAG_ARCHITECTURE_SPECIFIC else "f" if flags & FLAG_FAMILY_SPECIFIC else ""
    entry = Entry(
        _KINDS.get(kind, "other"),
        sm,
        variant,
        (major, minor),
        name.decode("utf-8", "replace"),
        flags,
        position,
        payload,
        data[payload : payload + payload_bytes],
        compressed_bytes,
        uncompressed_bytes,
    )
    return entry, payload + payload_bytes


def _zstd(packed: bytes, entry: Entry) -> bytes:
    import zstandard

    try:
        # The decompressor allocates what the frame header says, so that is compared with what the entry says first.
        stated = zstandard.get_frame_parameters(packed).content_size
        unknown = stated == zstandard.CONTENTSIZE_UNKNOWN
        _check(unknown or stated == entry.uncompressed_bytes, "the two sizes of a compressed entry differ")
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=entry.uncompressed_bytes)
    except zstandard.ZstdError as error:
        raise ImageError(f"not a usable fat binary: a ZSTD entry cannot be decompressed ({error})") from None
    _check(len(data) == entry.uncompressed_bytes, "an entry has another size than stated")
    return data


def _lz4(packed: bytes, uncompressed_bytes: int) -> bytes:
    try:
        from lz4 import block
    except ImportError:
        raise ImageError(
            "the fat binary holds an LZ4-compressed entry", next="install the lz4 package (`pip install lz4`)"
        ) from None
    _check(uncompressed_bytes <= _LZ4_MAX_RATIO * len(packed), "an LZ4 entry that expands impossibly")
    try:
        data: bytes = block.decompress(packed, uncompressed_size=uncompressed_bytes)
    except (block.LZ4BlockError, ValueError) as error:
        raise ImageError(f"not a usable fat binary: an LZ4 entry cannot be decompressed ({error})") from None
    _check(len(data) == uncompressed_bytes, "an entry has another size than stated")
    return data


def _check(condition: bool, problem: str) -> None:
    if not condition:
        raise ImageError(f"not a usable fat binary: {problem}")
