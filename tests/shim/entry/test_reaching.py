"""Every way in which a program reaches the driver leads to the shim's wrappers, and nothing else changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import fakes
import pytest
import sanitizers

from replay.api import functions
from replay.api.vocabulary import Keep

from ..conftest import Runner

SHIM, DRIVER = "libreplay_interposer.so", "libcuda.so.1"
DEEPBIND = pytest.param("deepbind", marks=sanitizers.in_the_way)
WAYS = ["local", "global", DEEPBIND, "dlmopen", "default", "self"]


def lines_of(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines())


@pytest.mark.parametrize("way", WAYS)
def test_dlsym_leads_to_the_wrappers_that_are_kept_and_to_no_others(
    run: Runner, program: Callable[..., Path], way: str
) -> None:
    done, capture = run([program("reach"), way])
    found = lines_of(done.stdout)
    assert (found["cuInit"], found["cuMemAlloc_v2"]) == (SHIM, SHIM)
    assert found["cuDriverGetVersion"] == DRIVER  # keep=NEVER: not swapped in
    assert found["results"] == "0 0 0"
    assert capture.only.symbols() == ["cuInit", "cuMemAlloc_v2"]
    assert [call.result for call in capture.only.calls] == [0, 0]


def test_directly_linked_programs_reach_the_wrappers(
    run: Runner, program: Callable[..., Path], fake_dir: Path
) -> None:
    linked = program("reach", "-DDIRECT", f"-L{fake_dir}", "-l:libcuda.so.1", output="reach-linked")
    done, capture = run([linked, "direct"])
    assert lines_of(done.stdout)["cuDriverGetVersion"] == DRIVER
    assert capture.only.symbols() == ["cuInit", "cuMemAlloc_v2"]


@pytest.mark.parametrize("way", ["absent", "absent-self"])
@pytest.mark.parametrize("capture", [True, False])
def test_a_program_that_finds_no_driver_still_finds_none(
    run: Runner, program: Callable[..., Path], way: str, capture: bool
) -> None:
    done, _ = run([program("reach"), way], **({} if capture else {"directory": None}))
    assert done.stdout == "absent: dlerror has the reason\n"


@pytest.mark.parametrize("way", [*WAYS, "absent"])
def test_without_a_capture_directory_the_shim_is_inert(
    run: Runner, program: Callable[..., Path], interposer: Path, tmp_path: Path, way: str
) -> None:
    done, _ = run([program("reach"), way], preload=False, also_preload=(interposer,))
    assert done.returncode == 0
    assert not list(tmp_path.glob("**/calls.*"))
    if way in ("local", "deepbind", "dlmopen"):
        assert lines_of(done.stdout)["cuMemAlloc_v2"] == DRIVER


@pytest.mark.parametrize("resolver", ["proc1", "proc2"])
@pytest.mark.parametrize("flags", [0, 1, 2])
@pytest.mark.parametrize("version", [2000, 3020, 7000, 11030, 12000, 13050])
def test_get_proc_address_swaps_by_name_version_and_flags(
    run: Runner, program: Callable[..., Path], resolver: str, flags: int, version: int
) -> None:
    names = sorted({function.name for function in functions.all_functions()})
    command = [program("reach"), resolver, flags, version, *names]
    plain, _ = run(command, preload=False)
    swapped, _ = run(command)
    resolvers = {"cuGetProcAddress", "cuGetProcAddress_v2"}
    table = functions.by_symbol()
    swaps = 0
    for before, after in zip(plain.stdout.splitlines()[1:], swapped.stdout.splitlines()[1:], strict=True):
        name, result, status, home, symbol = before.split()
        if home == "nowhere":
            assert after == before
            continue
        function = table[symbol]
        noted = bool(function.unsupported) or function.shares
        kept = symbol in resolvers or noted or function.keep != Keep.NEVER
        swaps += kept
        # The same symbol, from the shim when it is kept; result and symbolStatus as the driver gave them.
        found = f"{SHIM} replay_{symbol}" if kept else f"{DRIVER} {symbol}"
        assert after == f"{name} {result} {status} {found}"
    assert swaps > (50 if version >= 3020 else 5)
    assert swapped.stdout.splitlines()[0] == f"resolvers {SHIM} {SHIM}"


def test_a_version_above_the_drivers_is_refused_as_before(run: Runner, program: Callable[..., Path]) -> None:
    command = [program("reach"), "proc2", 0, 99000, "cuMemAlloc"]
    plain, _ = run(command, preload=False)
    swapped, _ = run(command)
    assert swapped.stdout.splitlines()[1] == plain.stdout.splitlines()[1] == "cuMemAlloc 1 9 nowhere -"


def test_a_version_above_an_older_drivers_swaps_what_that_driver_gives(
    run_emulated: Runner, program: Callable[..., Path]
) -> None:
    """A program made for CUDA 13 on a driver of 12.2: the newer version has more arguments."""
    run_emulated.environment["REPLAY_EMULATOR_DRIVER_VERSION"] = "12020"
    for resolver in ("proc1", "proc2"):
        done, _ = run_emulated([program("reach"), resolver, 0, 13000, "cuCtxCreate", "cuMemFree"])
        homes = [line.split()[3:] for line in done.stdout.splitlines()[1:]]
        assert homes == [[SHIM, "replay_cuCtxCreate_v3"], [SHIM, "replay_cuMemFree_v2"]]


def test_a_row_that_only_a_newer_driver_has_is_left_as_it_is(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    """Its prototype may be another one than that of the newest wrapper."""
    run.driver_dir = tmp_path / "newer"
    fakes.build_fake_driver(run.driver_dir, "-DNEWER")
    for resolver in ("proc1", "proc2"):
        done, _ = run([program("reach"), resolver, 0, 14000, "cuMemAlloc", "cuMemFree"])
        homes = [line.split()[3:] for line in done.stdout.splitlines()[1:]]
        assert homes == [[DRIVER, "cuMemAlloc_v9"], [SHIM, "replay_cuMemFree_v2"]]


@sanitizers.in_the_way
@pytest.mark.parametrize("order", ["shim first", "shim last"])
def test_dlsym_next_of_another_preloaded_library_still_works(
    run: Runner, program: Callable[..., Path], interposer: Path, order: str
) -> None:
    other = program("next", "-shared", "-fPIC", output="libnext.so")
    user = program("use_next", str(other), output="use_next")
    preload = (interposer, other) if order == "shim first" else (other, interposer)
    done, _ = run([user, "42"], preload=False, also_preload=preload)
    assert lines_of(done.stdout) == {"value": "42", "calls": "1", "atoi": "libc.so.6"}


def test_ctypes_reaches_the_wrappers(run: Runner) -> None:
    script = (
        "import ctypes; d = ctypes.CDLL('libcuda.so.1'); assert d.cuInit(0) == d.cuCtxSetCurrent(None) == 0"
    )
    _, capture = run([sys.executable, "-c", script])
    assert capture.only.symbols() == ["cuInit", "cuCtxSetCurrent"]


def test_cuda_bindings_reach_the_wrappers(run_emulated: Runner) -> None:
    pytest.importorskip("cuda.bindings.driver", reason="needs cuda.bindings: pip install cuda-bindings")
    script = """
from cuda.bindings import driver as d
def ok(answer):
    assert answer[0] == 0, answer
    return answer[1] if len(answer) > 1 else None
ok(d.cuInit(0)); device = ok(d.cuDeviceGet(0)); context = ok(d.cuDevicePrimaryCtxRetain(device))
ok(d.cuCtxSetCurrent(context)); memory = ok(d.cuMemAlloc(4096)); ok(d.cuMemFree(memory))
ok(d.cuDevicePrimaryCtxRelease(device))
"""
    done, capture = run_emulated([sys.executable, "-c", script])
    assert done.returncode == 0
    expected = ["cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc_v2", "cuMemFree_v2"]
    assert [name for name in capture.only.symbols() if name in expected] == expected
    assert capture.complete


def test_cuda_core_reaches_the_wrappers(run_emulated: Runner) -> None:
    pytest.importorskip("cuda.core", reason="needs cuda.core: pip install cuda-core")
    script = """
try:
    from cuda.core import Device
except ImportError:
    from cuda.core.experimental import Device
device = Device(); device.set_current()
stream = device.create_stream(); stream.sync(); stream.close()
"""
    done, capture = run_emulated([sys.executable, "-c", script])
    assert done.returncode == 0
    symbols = capture.only.symbols()
    assert "cuInit" in symbols
    assert any(name.startswith("cuStreamCreate") for name in symbols)
