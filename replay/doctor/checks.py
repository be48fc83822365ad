"""The checks. Each answers with findings and changes nothing on the machine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from replay import __version__
from replay.doctor.findings import Examination, Finding, Level, note, ok, problem
from replay.drivers import (
    LINKER_NAME,
    Driver,
    emulator_library,
    find_driver,
    interposer_library,
    stand_in_library,
    system_library,
)
from replay.engine.environment import worker_environment
from replay.errors import ReplayError
from replay.text import cuda_version, number, size

ASK_TIMEOUT_S = 60.0
LITTLE_SPACE_BYTES = 5 << 30
_DEVICE_LIBRARIES = ("cuda-bindings", "numpy", "msgpack", "zstandard", "blake3", "typer")


def examine(choice: str | None = None) -> Examination:
    """Every check. choice: the driver, as `--driver` takes it."""
    found: list[Finding] = []
    for area, check in CHECKS.items():
        try:
            found += check(choice)
        except ReplayError as error:
            found.append(problem(area, error.what, error.next or ""))
        except OSError as error:
            found.append(problem(area, f"cannot be looked at ({error.strerror or error})"))
    return Examination(found)


def package(choice: str | None) -> Iterator[Finding]:
    """This installation."""
    versions = []
    for name in _DEVICE_LIBRARIES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            yield problem("replay", f"{name} is not installed", f"pip install {name}")
    python = ".".join(map(str, sys.version_info[:3]))
    yield ok("replay", f"{__version__}, Python {python}, {', '.join(versions)}")


def driver(choice: str | None) -> Iterator[Finding]:
    """The driver that a command would take, and its devices."""
    chosen = find_driver(choice)
    if chosen.emulated:
        text = f"the built-in CPU driver, {chosen.library}"
        yield note(
            "driver",
            f"{chosen.reason or text}; its times are modelled, not measured",
            "" if choice else "install an NVIDIA driver for measured times, or go on without a GPU",
        )
    answer = ask_devices(chosen)
    if "devices" not in answer or answer["error"]:
        yield problem(
            "driver",
            f"{chosen.library}: {answer.get('error') or 'no answer'}",
            "check that the driver matches the kernel module (`nvidia-smi`), or use --driver emulator",
        )
        return
    version = int(answer["driver_version"])
    if not chosen.emulated:
        yield ok("driver", f"{chosen.library}, CUDA {cuda_version(version)}")
    if not answer["devices"]:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        cure = f"CUDA_VISIBLE_DEVICES is {hidden!r}" if hidden is not None else "look at `nvidia-smi`"
        yield problem("device", "the driver has no device", cure)
    for device in answer["devices"]:
        yield from _device(device, chosen.emulated)


def _device(device: dict[str, Any], emulated: bool) -> Iterator[Finding]:
    area, state = f"device {device['ordinal']}", device["state"]
    yield ok(
        area,
        f"{device['name']}, compute capability {device['compute_capability']}, "
        f"{size(int(device['total_memory_bytes']))}, {device['multiprocessors']} multiprocessors",
    )
    if device["prohibited"]:
        yield problem(area, "its compute mode is prohibited: no process may use it", "ask its administrator")
    elif device["compute_mode"]:
        yield note(area, f"its compute mode is {device['compute_mode']}: one process at a time")
    if emulated:
        return
    if device["unavailable"]:
        yield note(
            area,
            f"clocks are not known: {device['unavailable']}",
            "install nvidia-ml (part of the driver); times are then shown with their clocks",
        )
        return
    clock, highest = state.get("sm_clock_mhz"), state.get("maximum_sm_clock_mhz")
    if clock is not None:
        yield ok(
            area,
            f"SM clock {clock} of {highest} MHz, {state.get('temperature_c', '?')} °C, "
            f"{watts(state.get('power_draw_mw'))} of {watts(state.get('power_limit_mw'))} W",
        )
    if device["throttled"]:
        yield problem(
            area,
            f"slowed down now: {', '.join(device['throttled'])}",
            "let it cool down, or find what draws its power; times taken now are not comparable",
        )
    others = int(state.get("other_processes", 0))
    if others:
        yield problem(
            area,
            f"{number(others, 'other process', 'other processes')} on it",
            "`nvidia-smi` names them; times taken beside them are noisy",
        )


def watts(milliwatts: int | str | None) -> str:
    """Whole watts; "?" when it is not known."""
    return "?" if milliwatts is None else str(int(milliwatts) // 1000)


def ask_devices(chosen: Driver) -> dict[str, Any]:
    """What a driver says of its devices, in a process of its own: `devices`, and `error` where it does not answer."""
    path = [entry for entry in sys.path if entry]
    program = f"import sys; sys.path[:] = {path!r}; from replay.doctor.devices import main; main()"
    command = [sys.executable, "-c", program]
    try:
        done = subprocess.run(
            command,
            env=worker_environment(chosen),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"did not answer within {ASK_TIMEOUT_S:g} s"}
    try:
        return dict(json.loads(done.stdout.decode("utf-8", "replace").splitlines()[-1]))
    except (ValueError, IndexError):
        return {"error": f"whoever loads it ends with status {done.returncode}"}


def shim(choice: str | None) -> Iterator[Finding]:
    """The library that capture preloads, and the one that it puts before the driver."""
    library = interposer_library()
    stand_in_library()
    with tempfile.TemporaryDirectory(prefix="replay-doctor-") as folder:
        command = [
            sys.executable,
            "-c",
            f"print('{_LOADED}' if {library.name!r} in open('/proc/self/maps').read() else '')",
        ]
        plain = library if not set(" :") & set(str(library)) else Path(shutil.copy(library, folder))
        done = subprocess.run(
            command,
            env={**os.environ, "LD_PRELOAD": str(plain)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    said = done.stderr.strip().splitlines()[:1]
    if _LOADED not in done.stdout:
        yield problem(
            "capture",
            f"the shim is not loaded into programs{': ' + said[0] if said else ''}",
            "build replay on this machine (`pip install .`): its glibc may be older than the wheel's",
        )
        return
    yield ok("capture", f"the shim loads into programs: {library}")
    preloaded = os.environ.get("LD_PRELOAD")
    if preloaded:
        yield note("capture", f"LD_PRELOAD is set ({preloaded}); the shim goes in front of it")
    if any(Path(item).name.startswith(LINKER_NAME) for item in (preloaded or "").replace(":", " ").split()):
        yield problem(
            "driver",
            "LD_PRELOAD holds a driver, whose names come before those of programs",
            "name its folder in LD_LIBRARY_PATH instead",
        )


_LOADED = "loaded"


def cpu_driver(choice: str | None) -> Iterator[Finding]:
    """The built-in driver."""
    yield ok("CPU driver", str(emulator_library()))
    if system_library() is None and choice is None:
        yield ok("CPU driver", "is what commands use here")


def compilers(choice: str | None) -> Iterator[Finding]:
    """What --swap, --ptxas and --tileiras can use."""
    from replay.variants.assemblers.tools import ASSEMBLERS, broken, installed
    from replay.variants.compilers.toolkits import find_tools

    for name, kind in ASSEMBLERS.items():
        versions = [tool.version for tool in installed(kind)]
        if versions:
            yield ok("compilers", f"{name} {', '.join(versions)}")
        else:
            yield note("compilers", f"no {name}", f"--{name} VERSION fetches one; or install a CUDA toolkit")
        for folder in broken(kind):
            yield problem(
                "compilers",
                f"the {name} in {folder} does not answer: it is cut short, or of another kind of machine",
                f"rm -r {shlex.quote(str(folder))}; it is fetched again when it is needed",
            )
    nvcc = find_tools("nvcc")
    yield Finding(
        "compilers",
        Level.OK if nvcc else Level.NOTE,
        f"nvcc {', '.join(map(str, nvcc))}" if nvcc else "no nvcc",
        "" if nvcc else "`--swap KERNEL=FILE.cu` needs it or NVRTC (pip install nvidia-cuda-nvrtc)",
    )


def disk(choice: str | None) -> Iterator[Finding]:
    """Room for captures here, for temporary files, and for compilers that are fetched."""
    from replay.variants.assemblers.tools import PTXAS, cache_folder

    cache = next((parent for parent in cache_folder(PTXAS).parents if parent.is_dir()), Path("/"))
    places = {Path.cwd(): "here", Path(tempfile.gettempdir()): "temporary files", cache: "fetched compilers"}
    for folder, name in places.items():
        free = shutil.disk_usage(folder).free
        text = f"{size(free)} free, {name} ({folder})"
        if not os.access(folder, os.W_OK):
            yield problem(
                "disk",
                f"{folder} cannot be written",
                {
                    "here": "change to another folder",
                    "temporary files": "set TMPDIR",
                    "fetched compilers": "set XDG_CACHE_HOME",
                }[name],
            )
        elif free < LITTLE_SPACE_BYTES:
            yield problem(
                "disk",
                text,
                "a capture may need as much as the memory it reaches: free some, "
                "or limit it with --max-bytes",
            )
        else:
            yield ok("disk", text)


def kernel_settings(choice: str | None) -> Iterator[Finding]:
    """Settings of Linux that replays at the captured addresses depend on."""
    least = _read("/proc/sys/vm/mmap_min_addr")
    overcommit = _read("/proc/sys/vm/overcommit_memory")
    if overcommit == "2":
        yield problem(
            "memory",
            "vm.overcommit_memory is 2: holding the captured addresses may fail",
            "sysctl vm.overcommit_memory=0 (its default)",
        )
    else:
        yield ok("memory", f"vm.overcommit_memory {overcommit or '?'}, vm.mmap_min_addr {least or '?'}")
    try:
        os.memfd_create("replay-doctor")
    except OSError as error:
        yield problem(
            "memory", f"memfd_create fails ({error.strerror})", "allow it in the container's seccomp profile"
        )


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


# Area of a check that fails -> it, in the order of the table
CHECKS: dict[str, Callable[[str | None], Iterator[Finding]]] = {
    "replay": package,
    "driver": driver,
    "CPU driver": cpu_driver,
    "capture": shim,
    "compilers": compilers,
    "memory": kernel_settings,
    "disk": disk,
}
