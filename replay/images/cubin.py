"""Reads a cubin: a little-endian ELF64 file for machine 190, in ABI 7 (up to CUDA 12) or 8 (CUDA 13).

Untrusted input: every offset and size is checked against the file, and nothing but `ImageError` is raised. The meaning
of the `.nv.info` attributes was read off the output of nvcc 11.7 to 13.5, which NVIDIA does not document.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from replay.errors import ImageError
from replay.images.model import GlobalVariable, KernelInfo, ModuleInfo, Parameter

ELF_MAGIC = b"\x7fELF"
MACHINE_CUDA = 190
MAX_SECTIONS = 1 << 20
MAX_SYMBOLS = 1 << 22
MAX_PARAMETERS = 1 << 12  # a parameter buffer has at most 32,764 bytes; most of them are pointers

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PROGRAM = struct.Struct("<IIQQQQQQ")

_SHT_SYMTAB, _SHT_NOBITS, _SHT_SYMTAB_SHNDX = 2, 8, 18
_SHN_XINDEX = 0xFFFF
_STT_NOTYPE, _STT_OBJECT, _STT_FUNC = 0, 1, 2
_STO_ENTRY = 0x10  # st_other of a kernel, as against a device function
_STO_MANAGED = 0x04

# What the system keeps of the shared memory of each block. From this architecture on ptxas counts it in the sections of
# kernels, before their own.
RESERVED_SHARED_BYTES = 1024
_FIRST_WITH_RESERVED = 90

_ATTRIBUTE_MAX_THREADS = 0x05
_ATTRIBUTE_REQUIRED_THREADS = 0x10
_ATTRIBUTE_FRAME_BYTES = 0x11
_ATTRIBUTE_PARAMETER = 0x17
_ATTRIBUTE_PARAMETER_BYTES = 0x19
_ATTRIBUTE_REGISTERS = 0x2F
_ATTRIBUTE_CLUSTER = 0x3D
_ATTRIBUTE_LARGE_PARAMETER = 0x45
_THREAD_ATTRIBUTES = {_ATTRIBUTE_MAX_THREADS, _ATTRIBUTE_REQUIRED_THREADS, _ATTRIBUTE_CLUSTER}
_FORMAT_SIZED = 4


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int
    entry_size: int


class _Symbol(NamedTuple):
    name: str
    kind: int
    other: int
    section: int
    value: int
    size: int


def read_cubin(data: bytes) -> ModuleInfo:
    """Kernels with parameter layout and resources, and variables, of a cubin. Raises ImageError."""
    sections = _sections(data)
    by_name = {section.name: section for section in sections}
    symbols = _symbols(data, sections)
    resources = _resources(data, by_name.get(".nv.info"))
    kernels = {}
    abi, target = _target(data)
    reserved = RESERVED_SHARED_BYTES if int(target[3:]) >= _FIRST_WITH_RESERVED else 0
    for number, symbol in enumerate(symbols):
        if symbol.kind == _STT_FUNC and symbol.other & _STO_ENTRY and symbol.name:
            kernels[symbol.name] = _kernel(data, symbol.name, by_name, resources.get(number, {}), reserved)
    variables = dict(_variables(sections, symbols))
    return ModuleInfo("cubin", target, f"ABI {abi}", kernels, variables)


def cubin_variables(data: bytes) -> dict[str, GlobalVariable]:
    """Only the variables: much faster for a cubin of thousands of kernels. Raises ImageError."""
    sections = _sections(data)
    return dict(_variables(sections, _symbols(data, sections)))


def function_names(data: bytes) -> tuple[set[str], set[str]]:
    """Functions that a cubin has, and those that it only names. Raises ImageError."""
    symbols = [symbol for symbol in _symbols(data, _sections(data)) if symbol.name]
    there = {symbol.name for symbol in symbols if symbol.kind == _STT_FUNC and symbol.section}
    kinds = (_STT_NOTYPE, _STT_FUNC)
    absent = {symbol.name for symbol in symbols if symbol.kind in kinds and not symbol.section}
    return there, absent - there


def machine_code(data: bytes, kernel: str) -> bytes:
    """The instructions of one kernel as they are in the file, to tell whether two builds have the same.

    b"" when it has no such kernel. Raises ImageError.
    """
    section = next((item for item in _sections(data) if item.name == f".text.{kernel}"), None)
    if section is None or section.kind == _SHT_NOBITS:
        return b""
    return data[section.offset : section.offset + section.size]


def stored_sections(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, offset and bytes of each section that has contents in the file. Raises ImageError."""
    for section in _sections(data):
        if section.kind != _SHT_NOBITS:
            yield section.name, section.offset, section.size


def cubin_target(data: bytes) -> tuple[str, str]:
    """Architecture and ABI. Raises ImageError."""
    abi, target = _target(data)
    return target, f"ABI {abi}"


def cubin_size(data: bytes) -> int:
    """Exact size of the cubin at the start of `data`, which may go on after it. Raises ImageError."""
    header = _header(data)
    program_offset, section_offset, _, header_bytes, program_size, program_count = header[5:11]
    end = max(header_bytes, _HEADER.size)
    for section in _section_headers(data, header):
        if section[1] not in (0, _SHT_NOBITS):
            end = max(end, section[4] + section[5])
    count = _section_count(data, header)
    end = max(end, section_offset + count * _SECTION.size if count else 0)
    if program_count:
        _check(program_size == _PROGRAM.size, "program headers of an unknown size")
        end = max(end, program_offset + program_count * _PROGRAM.size)
        for index in range(program_count):
            fields = _unpack(data, _PROGRAM, program_offset + index * _PROGRAM.size)
            end = max(end, fields[2] + fields[5])
    _check(end <= len(data), "the file ends before its last section")
    return end


def _header(data: bytes) -> tuple[int, ...]:
    _check(data[:4] == ELF_MAGIC, "not an ELF file")
    header = _unpack(data, _HEADER, 0)
    identification = data[:16]
    _check(identification[4] == 2 and identification[5] == 1, "not a 64-bit little-endian ELF file")
    _check(header[2] == MACHINE_CUDA, f"an ELF file for machine {header[2]}, not for CUDA")
    return header


def _target(data: bytes) -> tuple[int, str]:
    """ABI and architecture. The place of the architecture in e_flags moved between the ABIs."""
    abi, flags = data[8], _header(data)[7]
    architecture = flags & 0xFF if abi <= 7 else flags >> 8 & 0xFF
    return abi, f"sm_{architecture}"


def _section_count(data: bytes, header: tuple[int, ...]) -> int:
    offset, size, count = header[6], header[11], header[12]
    if offset == 0:
        return 0
    _check(size == _SECTION.size, "section headers of an unknown size")
    if count == 0:  # more than 65,279 sections: the number is in the first header
        count = int(_unpack(data, _SECTION, offset)[5])
    _check(
        count <= MAX_SECTIONS and offset + count * _SECTION.size <= len(data),
        "more section headers than bytes",
    )
    return count


def _section_headers(data: bytes, header: tuple[int, ...]) -> list[tuple[int, ...]]:
    offset = header[6]
    count = _section_count(data, header)
    return [_unpack(data, _SECTION, offset + index * _SECTION.size) for index in range(count)]


def _sections(data: bytes) -> list[_Section]:
    header = _header(data)
    raw = _section_headers(data, header)
    if not raw:
        return []
    names_index = raw[0][6] if header[13] == _SHN_XINDEX else header[13]
    _check(names_index < len(raw), "section names in a section that does not exist")
    names = (raw[names_index][4], raw[names_index][5])
    sections = []
    for name, kind, _flags, _address, offset, size, link, _info, _align, entry_size in raw:
        if kind != _SHT_NOBITS:
            _check(offset + size <= len(data), "a section that reaches beyond the file")
        sections.append(_Section(_string(data, names, name), kind, offset, size, link, entry_size))
    return sections


def _symbols(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    table = next((section for section in sections if section.kind == _SHT_SYMTAB), None)
    if table is None:
        return []
    _check(table.entry_size == _SYMBOL.size, "symbols of an unknown size")
    _check(table.link < len(sections), "symbol names in a section that does not exist")
    names = (sections[table.link].offset, sections[table.link].size)
    extended = next((section for section in sections if section.kind == _SHT_SYMTAB_SHNDX), None)
    count = table.size // _SYMBOL.size
    _check(count <= MAX_SYMBOLS, "too many symbols")
    symbols = []
    for index in range(count):
        name, info, other, section, value, size = _unpack(data, _SYMBOL, table.offset + index * _SYMBOL.size)
        if section == _SHN_XINDEX and extended is not None and 4 * index + 4 <= extended.size:
            section = int.from_bytes(data[extended.offset + 4 * index :][:4], "little")
        symbols.append(_Symbol(_string(data, names, name), info & 15, other, section, value, size))
    return symbols


def _variables(sections: list[_Section], symbols: list[_Symbol]) -> Iterator[tuple[str, GlobalVariable]]:
    for symbol in symbols:
        if symbol.kind != _STT_OBJECT or not symbol.name or symbol.section >= len(sections):
            continue
        section = sections[symbol.section]
        base = section.name
        is_constant = base == ".nv.constant3" or base.startswith(".nv.constant3.")
        if not is_constant and base not in (".nv.global", ".nv.global.init"):
            continue
        stored = section.kind != _SHT_NOBITS
        _check(
            symbol.value + symbol.size <= section.size,
            f"variable {symbol.name[:80]!r} reaches beyond its section",
        )
        yield (
            symbol.name,
            GlobalVariable(
                symbol.name,
                symbol.size,
                "const" if is_constant else "global",
                initialised=stored,
                managed=bool(symbol.other & _STO_MANAGED),
                offset=section.offset + symbol.value if stored else None,
            ),
        )


def _records(data: bytes, section: _Section) -> Iterator[tuple[int, int, bytes]]:
    """(attribute, 16-bit value or payload size, payload) of every record of a `.nv.info` section."""
    if section.kind == _SHT_NOBITS:
        return
    position, end = section.offset, section.offset + section.size
    while position + 4 <= end:
        form, attribute, value = struct.unpack_from("<BBH", data, position)
        position += 4
        payload = b""
        if form == _FORMAT_SIZED:
            _check(position + value <= end, "an attribute that reaches beyond its section")
            payload = data[position : position + value]
            position += value
        yield attribute, value, payload


def _resources(data: bytes, section: _Section | None) -> dict[int, dict[int, int]]:
    """Symbol number -> attribute -> value, from the `.nv.info` section of the whole module."""
    found: dict[int, dict[int, int]] = {}
    for attribute, _value, payload in _records(data, section) if section else ():
        if len(payload) == 8:
            symbol, value = struct.unpack("<II", payload)
            found.setdefault(symbol, {})[attribute] = value
    return found


def _kernel(
    data: bytes, name: str, sections: dict[str, _Section], resources: dict[int, int], reserved: int
) -> KernelInfo:
    parameters: dict[int, Parameter] = {}
    total = 0
    threads: dict[int, tuple[int, int, int]] = {}
    info = sections.get(f".nv.info.{name}")
    for attribute, value, payload in _records(data, info) if info else ():
        if attribute == _ATTRIBUTE_PARAMETER and len(payload) == 12:
            _index, ordinal, offset, word = struct.unpack("<IHHI", payload)
            parameters[ordinal] = Parameter(offset, word >> 18)
        elif attribute == _ATTRIBUTE_LARGE_PARAMETER and len(payload) == 12:
            _index, ordinal, offset, size, _flags = struct.unpack("<IHHHH", payload)
            parameters[ordinal] = Parameter(offset, size)
        elif attribute == _ATTRIBUTE_PARAMETER_BYTES:
            total = value
        elif attribute in _THREAD_ATTRIBUTES and len(payload) == 12:
            threads[attribute] = struct.unpack("<III", payload)
        _check(len(parameters) <= MAX_PARAMETERS, "too many kernel parameters")
    _check(sorted(parameters) == list(range(len(parameters))), f"kernel {name[:80]!r} lacks a parameter")
    ordered = tuple(parameters[ordinal] for ordinal in range(len(parameters)))
    end = max((parameter.offset + parameter.size for parameter in ordered), default=0)
    section = sections.get(f".nv.shared.{name}")
    shared = section.size if section else 0
    reserved = reserved if shared >= reserved else 0
    return KernelInfo(
        name,
        ordered,
        max(total, end),
        registers=resources.get(_ATTRIBUTE_REGISTERS),
        shared_bytes=shared - reserved,
        local_bytes=resources.get(_ATTRIBUTE_FRAME_BYTES),
        max_threads=threads.get(_ATTRIBUTE_MAX_THREADS),
        required_threads=threads.get(_ATTRIBUTE_REQUIRED_THREADS),
        required_cluster=threads.get(_ATTRIBUTE_CLUSTER),
        reserved_shared_bytes=reserved,
    )


def _string(data: bytes, table: tuple[int, int], offset: int) -> str:
    start, end = table[0] + offset, table[0] + table[1]
    _check(end <= len(data) and start < end, "a name outside of its string table")
    stop = data.find(b"\0", start, end)
    _check(stop >= 0, "a name without an end")
    return data[start:stop].decode("utf-8", "replace")


def _unpack(data: bytes, form: struct.Struct, offset: int) -> tuple[int, ...]:
    _check(0 <= offset <= len(data) - form.size, "a table that reaches beyond the file")
    return form.unpack_from(data, offset)


def _check(condition: bool, problem: str) -> None:
    if not condition:
        raise ImageError(f"not a usable cubin: {problem}")
