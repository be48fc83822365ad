"""What NVIDIA's driver exports, beside the table."""

from __future__ import annotations

from conftest import RealDriver
from elftools.elf.elffile import ELFFile

from replay.api import functions

# Interfaces with headers of their own (docs/coverage.md), and the debugger's, which no program calls.
ELSEWHERE = ("cuGL", "cuEGL", "cuVDPAU", "cuGraphicsGL", "cuGraphicsEGL", "cuGraphicsVDPAU", "cudbg")
# Declared in no header that NVIDIA publishes, nor found by cuGetProcAddress.
UNDECLARED = {"cuMemGetAttribute", "cuMemGetAttribute_v2"}
EGL = {"cuGraphicsResourceGetMappedEglFrame"}


def exports(real: RealDriver) -> set[str]:
    with real.library.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        return {
            symbol.name
            for symbol in symbols
            if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["type"] == "STT_FUNC"
        }


def test_every_export_is_in_the_table_or_named(real: RealDriver) -> None:
    found = {name for name in exports(real) if name.startswith("cu")}
    assert len(found) > 590
    unknown = found - functions.by_symbol().keys()
    assert {name for name in unknown if not name.startswith(ELSEWHERE)} == UNDECLARED | EGL


def test_every_function_of_its_version_is_exported(real: RealDriver) -> None:
    found = exports(real)
    claimed = {
        symbol
        for function in functions.all_functions()
        for symbol, since in ((function.symbol, function.since), (function.twin, function.twin_since))
        if symbol and since <= real.version
    }
    assert len(claimed) > 500
    assert claimed - found == set()
