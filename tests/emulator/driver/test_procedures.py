"""cuGetProcAddress, error names, the exported symbols."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import driver_api as api
import pytest
from driver_api import Driver
from places import REPOSITORY

GENERATED = REPOSITORY / "emulator" / "driver" / "generated"
ROWS = re.findall(r"^PROC\((\w+), (\d+), (\d), (\w+)\)$", (GENERATED / "procedures.inc").read_text(), re.M)


def address_of(library: Driver, symbol: str) -> int:
    return ctypes.cast(getattr(library.library, symbol), ctypes.c_void_p).value or 0


def look_up(library: Driver, name: str, version: int, flags: int = 0) -> tuple[int, int, int]:
    """(error, address, status)"""
    address, status = ctypes.c_void_p(), ctypes.c_int(-1)
    error = library.cuGetProcAddress_v2(name, api.out(address), version, flags, api.out(status))
    return error, address.value or 0, status.value


NAMES = sorted({name for name, *_ in ROWS})
VERSIONS = (0, 2000, 3010, 3020, 4000, 6050, 7000, 10010, 11030, 12000, 12080, 13000, 13010, 100_000)


def expected(name: str, version: int, flags: int, driver: int) -> tuple[str, int]:
    """(symbol, status), as NVIDIA's driver was seen to answer (tests/real_driver): the newest row that is above neither
    version; with flag 2, of a function with twins the twins alone."""
    rows = [
        (int(since), kind, symbol) for of, since, kind, symbol in ROWS if of == name and int(since) <= driver
    ]
    kind = "2" if flags == 2 and any(kind == "2" for _, kind, _ in rows) else "0"
    rows = sorted(row for row in rows if row[1] == kind)
    found = [symbol for since, _, symbol in rows if since <= version]
    return (found[-1], 0) if found else ("", 2 if rows else 1)


def test_versions_flags_and_the_drivers_own_version_decide(library: Driver):
    """Of every name, at versions around those at which functions changed, and above the driver's."""
    assert len(ROWS) > 600
    for name in NAMES:
        for version in VERSIONS:
            for flags in (0, 1, 2):
                symbol, status = expected(name, version, flags, 13000)
                address = address_of(library, symbol) if symbol else 0
                assert look_up(library, name, version, flags) == (0, address, status), (name, version, flags)


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
    assert look_up(library, "cuLaunchKernel", 6050, 2) == (0, 0, 2)  # the twin is newer
    assert look_up(library, "cuMemAlloc", 13000, 8)[0] == api.INVALID_VALUE
    address = ctypes.c_void_p()
    assert library.cuGetProcAddress("cuNoSuchFunction", api.out(address), 13000, 0) == api.NOT_FOUND
    assert library.cuGetProcAddress_v2("cuInit", api.out(address), 13000, 0, None) == api.SUCCESS


def test_what_fails_leaves_the_pointer_as_it_was(library: Driver):
    """As NVIDIA's driver does; the second version says NULL where it succeeds with nothing found."""
    address, status = ctypes.c_void_p(1), ctypes.c_int(-1)
    assert library.cuGetProcAddress("cuNoSuchFunction", api.out(address), 13000, 0) == api.NOT_FOUND
    assert (
        library.cuGetProcAddress_v2("cuInit", api.out(address), 13000, 8, api.out(status))
        == api.INVALID_VALUE
    )
    assert (address.value, status.value) == (1, -1)


def test_private_tables_are_not_found(library: Driver):
    table = ctypes.c_void_p(1)
    assert library.cuGetExportTable(api.out(table), bytes(16)) == api.NOT_FOUND
    assert table.value is None


def test_every_error_has_its_name_and_text(library: Driver):
    rows = re.findall(
        r'^ERROR\((\d+), "(\w+)", "(.+)"\)$',
        (GENERATED.parent / "process" / "errors.inc").read_text(),
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
    assert {symbol for symbol in symbols if not symbol.startswith("cu")} == {
        "replayConfineMemory",
        "replayBeginMemory",
    }


def test_functions_that_are_not_there_are_named_once(fresh):
    done = fresh("print([d.cuGreenCtxDestroy(0), d.cuGreenCtxDestroy(0), d.cuCoredumpSetAttribute(0, 0, 0)])")
    assert done.stdout.strip() == "[801, 801, 801]"
    assert done.stderr.count("cuGreenCtxDestroy is not implemented") == 1
    assert done.stderr.count("cuCoredumpSetAttribute is not implemented") == 1


LINKED = """
#include <stdio.h>
int cuInit(unsigned), cuDeviceGetCount(int *);
int main(void) {
  int count = 0, before = cuDeviceGetCount(&count), first = cuInit(0), after = cuDeviceGetCount(&count);
  return printf("%d %d %d %d\\n", before, first, after, count) < 0;
}
"""


def test_programs_are_linked_by_the_linker_name_and_need_the_soname(emulator_dir: Path, tmp_path: Path):
    (tmp_path / "linked.c").write_text(LINKED)
    flags = [f"-L{emulator_dir}", "-lcuda"]
    subprocess.run(["cc", "linked.c", "-o", "linked", *flags], cwd=tmp_path, check=True)
    needed = subprocess.run(["readelf", "-d", "linked"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert "[libcuda.so.1]" in needed
    assert "[libcuda.so]" not in needed
    environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator_dir)}
    done = subprocess.run(["./linked"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "3 0 0 1\n"


@pytest.mark.parametrize(
    "names", [("libcuda.so", "libcuda.so.1"), ("libcuda.so.1", "libcuda.so")], ids=" ".join
)
def test_both_names_are_one_driver(emulator_dir: Path, names: tuple[str, str]):
    """What is done through one is seen through the other, whichever a program loads first."""
    script = f"""
import ctypes
first, second = map(ctypes.CDLL, {names})
count = ctypes.c_int()
print(second.cuDeviceGetCount(ctypes.byref(count)), first.cuInit(0), second.cuDeviceGetCount(ctypes.byref(count)))
"""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator_dir)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout == "3 0 0\n", done.stderr
