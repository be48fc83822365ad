"""Module images made by hand: cubins, PTX, and containers of them."""

from __future__ import annotations

import struct
from pathlib import Path

import zstandard

from replay import images

GOLDEN = Path(__file__).parents[2] / "golden" / "images"


STRUCTS = "_Z7structsc5Mixed6Vectors"


GENERIC = "_Z7genericIdLi4EEvPT_"


LAYOUTS = {
    "plain": [(0, 8), (8, 8), (16, 4)],
    STRUCTS: [(0, 1), (8, 40), (48, 16), (64, 2)],
    GENERIC: [(0, 8)],
    "_Z7nothingv": [],
}


def layouts(module: images.ModuleInfo) -> dict[str, list[tuple[int, int]]]:
    return {
        name: [(parameter.offset, parameter.size) for parameter in kernel.parameters]
        for name, kernel in module.kernels.items()
    }


def make_cubin(abi: int = 8, sm: int = 90, extra: bytes = b"") -> bytes:
    """An ELF file with one kernel `k(u64, {12 bytes})`, as ptxas lays it out, and three variables."""
    info = b"".join(
        [
            struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 1, 8, 12 << 18 | 0x1F000),
            struct.pack("<BBHIHHI", 4, 0x17, 12, 0, 0, 0, 8 << 18 | 0x1F000),
            struct.pack("<BBH", 3, 0x19, 20),
            struct.pack("<BBHIII", 4, 0x05, 12, 128, 2, 1),
            struct.pack("<BBH", 1, 0x99, 0),
        ]
    )
    resources = struct.pack("<BBHII", 4, 0x2F, 8, 1, 42) + struct.pack("<BBHII", 4, 0x11, 8, 1, 16)
    names = b"\0k\0var\0zero\0managed\0"
    symbols = [
        struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0),
        struct.pack("<IBBHQQ", 1, 0x12, 0x10, 3, 0, 64),
        struct.pack("<IBBHQQ", 3, 0x11, 0, 6, 4, 8),
        struct.pack("<IBBHQQ", 7, 0x11, 0, 7, 0, 100),
        struct.pack("<IBBHQQ", 12, 0x11, 4, 6, 0, 4),
    ]
    sections: list[
        tuple[str, int, bytes, int, int, int]
    ] = [  # name, type, data, link, entry size, nobits size
        (".strtab", 3, names, 0, 0, 0),
        (".text.k", 1, bytes(64), 0, 0, 0),
        (".symtab", 2, b"".join(symbols), 1, 24, 0),
        (".nv.info", 0x70000000, resources, 0, 0, 0),
        (".nv.global.init", 1, bytes(range(12)), 0, 0, 0),
        (".nv.global", 8, b"", 0, 0, 100),
        (".nv.info.k", 0x70000000, info, 0, 0, 0),
        (".nv.shared.k", 8, b"", 0, 0, 512),
    ]
    sections = [sections[0], sections[0], *sections[1:]]  # the text section is number 3, as the symbols say
    name_table = b"\0" + b"".join(item[0].encode() + b"\0" for item in sections) + b".shstrtab\0"
    body = bytearray(64)
    headers = [bytes(64)]
    name_offset = 1
    for name, kind, data, link, entry, nobits in sections:
        headers.append(
            struct.pack(
                "<IIQQQQIIQQ", name_offset, kind, 0, 0, len(body), len(data) or nobits, link, 0, 1, entry
            )
        )
        name_offset += len(name) + 1
        body += data
    headers.append(struct.pack("<IIQQQQIIQQ", name_offset, 3, 0, 0, len(body), len(name_table), 0, 0, 1, 0))
    body += name_table
    body += bytes(-len(body) % 8)
    flags = sm if abi == 7 else sm << 8
    identification = b"\x7fELF\x02\x01\x01\x33" + bytes([abi]) + bytes(7)
    body[:64] = struct.pack(
        "<16sHHIQQQIHHHHHH",
        *(identification, 2, 190, 1, 0, 0, len(body), flags, 64, 56, 0, 64, len(headers), len(headers) - 1),
    )
    return bytes(body) + b"".join(headers) + extra


def make_entry(
    kind: int, sm: int, data: bytes, flags: int = 0x11, packing: str = "", name: bytes = b""
) -> bytes:
    packed, compressed = data, 0
    if packing == "zstd":
        packed, flags = zstandard.ZstdCompressor().compress(data), flags | 0x8000
        compressed = len(packed)
    elif packing == "lz4":
        from lz4 import block

        packed, flags = block.compress(data, store_size=False), flags | 0x2000
        compressed = len(packed)
    padded = packed + bytes(-len(packed) % 8)
    header_bytes = 64 + len(name) + (-len(name) % 8)
    head = struct.pack(
        "<HHIQIIHHIIIQQQ",
        *(kind, 0x0101, header_bytes, len(padded), compressed, 0, 8, 1, sm),
        *(64 if name else 0, len(name), flags, 0, len(data) if compressed else 0),
    )
    return head + name + bytes(-len(name) % 8) + padded


def make_container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def golden_ptx() -> bytes:
    return (GOLDEN / "kernels.ptx").read_bytes()


def ptx_with(*declarations: str) -> bytes:
    return "\n".join([".version 8.0\n.target sm_70", *declarations, ".entry k() { ret; }"]).encode()


def _number(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(0x80 | value & 0x7F)
        value >>= 7
    return bytes([*digits, value])


def _table(items: list[bytes]) -> bytes:
    starts = [sum(map(len, items[:at])) for at in range(len(items))]
    count = _number(len(items))
    return count + bytes(-len(count) % 4) + struct.pack(f"<{len(items)}I", *starts) + b"".join(items)


# Bytes of an element type in Tile IR and what they stand for
TILE_TYPES = {"i32": b"\x03", "i64": b"\x04", "f64": b"\x09", "i8": b"\x01", "pointer": b"\x0c\x00"}


def make_tile_ir(
    entries: dict[str, list[str]] | None = None,
    version: tuple[int, int] = (13, 1),
    hints: bytes = b"",
    strings: tuple[str, ...] = (),
    helper: str = "",
) -> bytes:
    """Tile IR whose entries take these parameters. hints: an attribute that each has. helper: a function that is no
    entry. Code is bytes that nobody reads."""
    entries = {"add": ["pointer", "i32", "f64"]} if entries is None else entries
    elements = [TILE_TYPES[name] for name in TILE_TYPES]
    tiles = [b"\x0d" + _number(at) + b"\0" for at in range(len(elements))]
    numbers = {name: len(elements) + at for at, name in enumerate(TILE_TYPES)}
    types, names, functions = [*elements, *tiles], [text.encode() for text in strings], b""
    late = version >= (13, 5)
    for name, parameters in {**({helper: []} if helper else {}), **entries}.items():
        is_entry = name != helper
        types.append(
            b"\x10"
            + _number(len(parameters))
            + b"".join(_number(numbers[item]) for item in parameters)
            + b"\0"
        )
        names.append(name.encode())
        flags = (2 | (4 if hints and not late else 0)) if is_entry else 0
        functions += _number(len(names) - 1) + _number(len(types) - 1) + bytes([flags]) + _number(1)
        if is_entry and (late or hints):
            functions += hints or b"\x0b\x00"
        functions += b"\x06\x00" if late else b""
        functions += _number(300) + b"\x5c" * 300
    image = b"\x7fTileIR\0" + bytes(version) + b"\0\0"
    parts = [
        (2, 8, _number(len(entries) + bool(helper)) + functions),
        (5, 4, _table(types)),
        (1, 4, _table(names)),
    ]
    for section, alignment, data in parts:
        head = bytes([section | 0x80]) + _number(len(data)) + _number(alignment)
        image += head
        image += b"\xcb" * (-len(image) % alignment) + data
    return image + b"\0"
