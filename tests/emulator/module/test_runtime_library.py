"""What the CUDA runtime libraries of the CPU driver export, for each of the two versions there are."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import toolchain
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerSymSection
from places import REPOSITORY, RUNTIME_PROGRAMS

SOURCES = REPOSITORY / "emulator" / "runtime"
MAJORS = pytest.mark.parametrize("major", [12, 13])


def runtime_library(emulator_dir: Path, major: int) -> Path:
    library = emulator_dir / f"libcudart.so.{major}"
    if not library.exists() and runtime_headers(major) is None:
        pytest.skip(
            f"needs libcudart.so.{major}: make setup with CUDA {major} headers, or REPLAY_CUDA{major}_INCLUDE_DIR"
        )
    assert library.exists(), "left out of the build although its headers are here"
    return library


def vendor_library(major: int) -> Path | None:
    """The vendor's library of that version: the toolkit's of nvcc, or that of a wheel."""
    nvcc = toolchain.find_nvcc()
    places = [nvcc.libraries] if nvcc else []
    specification = importlib.util.find_spec("nvidia")
    for place in specification.submodule_search_locations or () if specification else ():
        places += [Path(place) / f"cu{major}" / "lib", Path(place) / "cuda_runtime" / "lib"]
    candidates = [place / f"libcudart.so.{major}" for place in places]
    return next((path for path in candidates if path.exists()), None)


def exported(library: Path) -> dict[str, tuple[str, str]]:
    """name -> (version, binding) of each defined dynamic symbol."""
    with open(library, "rb") as file:
        elf = ELFFile(file)
        definitions = elf.get_section_by_name(".gnu.version_d")
        versions = elf.get_section_by_name(".gnu.version")
        symbols = elf.get_section_by_name(".dynsym")
        assert isinstance(definitions, GNUVerDefSection)
        assert isinstance(versions, GNUVerSymSection)
        names = {
            version["vd_ndx"]: next(auxiliaries).name for version, auxiliaries in definitions.iter_versions()
        }
        found = {}
        for index, symbol in enumerate(symbols.iter_symbols()):
            if symbol["st_shndx"] in ("SHN_UNDEF", "SHN_ABS") or not symbol.name:
                continue
            number = versions.get_symbol(index)["ndx"]
            version = names.get(number & 0x7FFF, "") if isinstance(number, int) else ""
            found[symbol.name] = (version, symbol["st_info"]["bind"])
        return found


def listed(major: int) -> set[str]:
    """The public names in the list that the build reads."""
    other = 25 - major
    rows = re.findall(r"^(NAME\w*)\((\w+)\)", (SOURCES / "names.inc").read_text(), re.MULTILINE)
    return {name for kind, name in rows if kind != f"NAME_{other}"}


@MAJORS
def test_every_name_has_the_librarys_version(emulator_dir: Path, major: int) -> None:
    names = exported(runtime_library(emulator_dir, major))
    assert {version for version, _ in names.values()} == {f"libcudart.so.{major}"}
    assert all(name.startswith(("cuda", "__cuda")) for name in names)


@MAJORS
def test_every_public_name_is_exported(emulator_dir: Path, major: int) -> None:
    names = exported(runtime_library(emulator_dir, major)).keys()
    assert listed(major) - names == set()
    # Nothing is exported that the list does not have, but for what compiled code calls.
    assert {name for name in names - listed(major) if not name.startswith("__cuda")} == set()


@MAJORS
def test_the_vendors_library_has_no_other_names(emulator_dir: Path, major: int) -> None:
    vendor = vendor_library(major)
    if vendor is None:
        pytest.skip(
            f"needs NVIDIA's libcudart.so.{major}: install a toolkit or the wheel nvidia-cuda-runtime"
        )
    assert exported(vendor).keys() - exported(runtime_library(emulator_dir, major)).keys() == set()


@MAJORS
def test_needs_nothing_but_the_c_library(emulator_dir: Path, major: int) -> None:
    with open(runtime_library(emulator_dir, major), "rb") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        needed = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
        (soname,) = (tag.soname for tag in dynamic.iter_tags("DT_SONAME"))
    assert soname == f"libcudart.so.{major}"
    assert {name.split(".so")[0] for name in needed} <= {
        "libc",
        "libm",
        "libdl",
        "libpthread",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    }


@MAJORS
def test_what_is_not_supported_belongs_to_a_few_groups(emulator_dir: Path, major: int) -> None:
    """Weak definitions are those that answer cudaErrorNotSupported."""
    groups = (
        r"cuda(Graphics)?(EGL|GL|VDPAU)|cudaGraphics|FromEGLSync|ExternalMemory|ExternalSemaphore"
        r"|NvSciSync|AsyncNotification|ExecutionCtx|DevResource|DevSmResource|GreenCtx|Subgrid"
        r"|AtomicCapabilities|MultiDevice|WithAttributes|Recapture|ArrayToArray|__cudaRegisterUnifiedTable"
        r"|__cudaGetProcAddress|cudaGraph\w*(GetId|GetLocalId|GetToolsId|GetContainingGraph|NodeGetParams|Create_v2)"
        r"|cudaLaunchHostFunc_v2|cudaMemGetLocationInfo"
    )
    library = exported(runtime_library(emulator_dir, major))
    weak = {name for name, (_, binding) in library.items() if binding == "STB_WEAK"}
    assert {name for name in weak if not re.search(groups, name)} == set()
    assert "cudaImportExternalMemory" in weak


@MAJORS
def test_both_versions_work_in_one_process_through_ctypes(emulator_dir: Path, major: int) -> None:
    script = f"""
import ctypes, os
first = ctypes.CDLL({str(runtime_library(emulator_dir, major))!r})
second = ctypes.CDLL({str(runtime_library(emulator_dir, 25 - major))!r})
version = ctypes.c_int()
for library, expected in ((first, {major}), (second, {25 - major})):
    assert library.cudaRuntimeGetVersion(ctypes.byref(version)) == 0
    assert version.value // 1000 == expected
pointer = ctypes.c_void_p()
assert first.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64)) == 0
assert second.cudaMemset(pointer, 7, ctypes.c_size_t(64)) == 0
data = ctypes.create_string_buffer(64)
assert first.cudaMemcpy(data, pointer, ctypes.c_size_t(64), 2) == 0
assert data.raw == bytes([7]) * 64
assert first.cudaFree(pointer) == 0
assert second.cudaFree(pointer) == 1 and second.cudaGetLastError() == 1 and first.cudaGetLastError() == 0
"""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator_dir)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# The libraries are those of 12.9 and 13.0; headers of 13.1 to 13.5 have these as well. The last one is no error.
OF_LATER_HEADERS = {
    "cudaErrorVersionTranslation",
    "cudaErrorInsufficientLoaderVersion",
    "cudaErrorStreamDetached",
    "cudaErrorGraphRecaptureFailure",
    "cudaErrorFabricNotReady",
    "cudaErrorApiFailureBase",
}


@MAJORS
def test_each_error_has_the_name_and_number_of_the_headers(emulator_dir: Path, major: int) -> None:
    library = ctypes.CDLL(str(runtime_library(emulator_dir, major)))
    library.cudaGetErrorName.restype = ctypes.c_char_p
    library.cudaGetErrorString.restype = ctypes.c_char_p
    for number, name, meaning in re.findall(
        r'^ERROR\((\d+), "(\w+)", "(.*)"\)', (SOURCES / "core" / "errors.inc").read_text(), re.MULTILINE
    ):
        assert library.cudaGetErrorName(int(number)).decode() == name
        assert library.cudaGetErrorString(int(number)).decode() == meaning
    assert library.cudaGetErrorName(1).decode() == "cudaErrorInvalidValue"
    nvcc = toolchain.find_nvcc()
    if nvcc is None or nvcc.version[0] != major:
        return
    header = (nvcc.include / "driver_types.h").read_text()
    for name, number in re.findall(r"^\s+(cudaError\w+)\s*=\s*(\d+)", header, re.MULTILINE):
        if name not in OF_LATER_HEADERS:
            assert library.cudaGetErrorName(int(number)).decode() == name


def runtime_headers(major: int) -> Path | None:
    """The folder with cuda_runtime_api.h of that version: named, of a wheel, or of nvcc's toolkit."""
    places = [Path(named)] if (named := os.environ.get(f"REPLAY_CUDA{major}_INCLUDE_DIR")) else []
    specification = importlib.util.find_spec("nvidia")
    for place in specification.submodule_search_locations or () if specification else ():
        places += [Path(place) / f"cu{major}" / "include", Path(place) / "cuda_runtime" / "include"]
    nvcc = toolchain.find_nvcc()
    places += [nvcc.include] if nvcc else []
    for place in places:
        header = place / "cuda_runtime_api.h"
        if header.exists() and re.search(
            rf"^#define CUDART_VERSION\s+{major}\d{{3}}$", header.read_text(), re.M
        ):
            return place
    return None


@pytest.mark.parametrize("per_thread", [False, True])
@MAJORS
def test_a_program_compiled_against_the_headers(
    emulator_dir: Path, tmp_path: Path, major: int, per_thread: bool
) -> None:
    library = runtime_library(emulator_dir, major)
    headers = runtime_headers(major)
    if headers is None:
        pytest.skip(
            f"needs the headers of the CUDA {major} runtime: install a toolkit or the wheel nvidia-cuda-runtime"
        )
    source = RUNTIME_PROGRAMS / "registered.c"
    command = [os.environ.get("CC") or "cc", "-std=gnu11", "-Wall", "-Wno-deprecated-declarations"]
    command += ["-isystem", str(headers), "-isystem", str(SOURCES / "fallback")]
    command += ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"] if per_thread else []
    program = tmp_path / "registered"
    subprocess.run([*command, str(source), "-o", str(program), str(library), "-ldl"], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator_dir)}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
