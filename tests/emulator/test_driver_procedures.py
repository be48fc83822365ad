"""cuGetProcAddress, error names, the exported symbols."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import driver_api as api
import pytest
from driver_api import Driver

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "emulator" / "driver" / "generated"
ROWS = re.findall(r"^PROC\((\w+), (\d+), (\d), (\w+)\)$", (GENERATED / "procedures.inc").read_text(), re.M)


def address_of(library: Driver, symbol: str) -> int:
    return ctypes.cast(getattr(library.library, symbol), ctypes.c_void_p).value or 0


def look_up(library: Driver, name: str, version: int, flags: int = 0) -> tuple[int, int, int]:
    """(error, address, status)"""
    address, status = ctypes.c_void_p(), ctypes.c_int(-1)
    error = library.cuGetProcAddress_v2(name, api.out(address), version, flags, api.out(status))
    return error, address.value or 0, status.value


def test_every_row_up_to_the_version_is_found_and_later_ones_are_not(library: Driver):
    assert len(ROWS) > 600
    for name, version, flags, symbol in ROWS:
        error, address, status = look_up(library, name, int(version), int(flags))
        if int(version) > 13000:
            assert error == api.INVALID_VALUE, name
        else:
            assert (error, address, status) == (0, address_of(library, symbol), 0), (name, version, flags)


@pytest.mark.parametrize(
    ("name", "version", "flags", "symbol"),
    [
        ("cuMemAlloc", 13000, 0, "cuMemAlloc_v2"),
        ("cuMemAlloc", 3010, 0, "cuMemAlloc"),
        ("cuCtxCreate", 12040, 0, "cuCtxCreate_v3"),
        ("cuCtxCreate", 13000, 0, "cuCtxCreate_v4"),
        ("cuLaunchKernel", 13000, 0, "cuLaunchKernel"),
        ("cuLaunchKernel", 13000, 2, "cuLaunchKernel_ptsz"),
        ("cuMemcpyHtoD", 13000, 2, "cuMemcpyHtoD_v2_ptds"),
        ("cuMemAlloc", 13000, 2, "cuMemAlloc_v2"),  # no twin
        ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
        ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
        ("cuEventElapsedTime", 12080, 0, "cuEventElapsedTime_v2"),
        ("cuEventElapsedTime", 12000, 0, "cuEventElapsedTime"),
    ],
)
def test_version_and_stream_kind_pick_the_symbol(library: Driver, name, version, flags, symbol):
    assert look_up(library, name, version, flags) == (0, address_of(library, symbol), 0)


def test_what_is_not_found_is_said_in_the_status(library: Driver):
    assert look_up(library, "cuNoSuchFunction", 13000) == (0, 0, 1)
    assert look_up(library, "", 0) == (0, 0, 1)
    assert look_up(library, "cuLaunchKernelEx", 11000) == (0, 0, 2)
    assert look_up(library, "cuMemAlloc", 13010)[0] == api.INVALID_VALUE
    assert look_up(library, "cuMemAlloc", 13000, 8)[0] == api.INVALID_VALUE
    address = ctypes.c_void_p()
    assert library.cuGetProcAddress("cuNoSuchFunction", api.out(address), 13000, 0) == api.NOT_FOUND
    assert library.cuGetProcAddress_v2("cuInit", api.out(address), 13000, 0, None) == api.SUCCESS


def test_private_tables_are_not_found(library: Driver):
    table = ctypes.c_void_p(1)
    assert library.cuGetExportTable(api.out(table), bytes(16)) == api.NOT_FOUND
    assert table.value is None


def test_every_error_has_its_name_and_text(library: Driver):
    rows = re.findall(
        r'^ERROR\((\d+), "(\w+)", "(.+)"\)$',
        (GENERATED.parent / "procedures" / "errors.inc").read_text(),
        re.M,
    )
    assert len(rows) > 100
    for number, name, text in rows:
        for function, expected in (("cuGetErrorName", name), ("cuGetErrorString", text)):
            answer = ctypes.c_char_p()
            library.do(function, int(number), api.out(answer))
            assert answer.value == expected.encode()
    answer = ctypes.c_char_p(b"x")
    assert library.cuGetErrorName(12345, api.out(answer)) == api.INVALID_VALUE
    assert answer.value is None


def test_functions_outside_the_driver_say_so(library: Driver):
    assert library.cuGreenCtxCreate(api.out(api.handle()), 0, 0, 0) == api.NOT_SUPPORTED


def test_library_exports_the_driver_api_alone(emulator_dir: Path):
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(emulator_dir / "libcuda.so.1")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    symbols = {line.split()[-1] for line in listing.splitlines()}
    assert {row[3] for row in ROWS} <= symbols
    assert all(symbol.startswith("cu") for symbol in symbols)


def test_functions_that_are_not_there_are_named_once(fresh):
    done = fresh("print([d.cuGreenCtxDestroy(0), d.cuGreenCtxDestroy(0), d.cuCoredumpSetAttribute(0, 0, 0)])")
    assert done.stdout.strip() == "[801, 801, 801]"
    assert done.stderr.count("cuGreenCtxDestroy is not implemented") == 1
    assert done.stderr.count("cuCoredumpSetAttribute is not implemented") == 1
