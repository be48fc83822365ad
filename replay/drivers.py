"""Which libcuda.so.1 a command uses, and where the native parts of this package are.

A driver is the system's (an NVIDIA driver that the loader finds and whose device files exist), one in another folder,
or the built-in CPU driver. Nothing here loads a driver into this process: looking happens in a short-lived child, so
that the command which asks stays free to start workers of its own.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from replay import settings
from replay.errors import CaptureError, EngineError, UsageError
from replay.records import dataclass

SONAME = "libcuda.so.1"
LINKER_NAME = "libcuda.so"
INTERPOSER_NAME = "libreplay_interposer.so"
STAND_IN_NAME = "libreplay_driver.so"
SUBMISSION_NAME = "libreplay_submit.so"
SCANNING_NAME = "libreplay_scan.so"

# What this program is installed with; some of it is imported when it is first needed.
PACKAGES = ("numpy", "cuda", "elftools", "lz4", "zstandard", "msgpack", "blake3")

# Device files of the Linux driver, and of the same driver under Windows Subsystem for Linux.
_DEVICE_FILES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))

# A variable that only the built-in driver reads. Its name is in the library, so a copy of it is recognised.
EMULATED_DEVICE = "Emulated CPU device"  # its name, of the built-in CPU driver
_EMULATOR_MARK = b"REPLAY_EMULATOR_DRIVER_VERSION"

# What the loader of a program with the same environment would take, printed as a path with links resolved.
_ASK_LOADER = """
import ctypes, sys
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit(1)
for line in open("/proc/self/maps"):
    path = line.rstrip("\\n").split(None, 5)[5:]
    if path and path[0].rsplit("/", 1)[-1].startswith("libcuda.so"):
        print(path[0])
        break
"""


@dataclass(frozen=True)
class Driver:
    """A libcuda.so.1 that was chosen.

    name: "system", "emulator", or the folder the user named.
    library: the file itself. folder: what to put on LD_LIBRARY_PATH so that programs find it; None when the loader
    finds it anyway.
    reason: one line for stderr when the choice needs saying, else "".
    """

    name: str
    library: Path
    folder: Path | None
    emulated: bool
    reason: str = ""


def native_folder() -> Path:
    """The folder of the shim and the built-in driver: `_native` of the package, or REPLAY_NATIVE_DIR."""
    named = settings.NATIVE_DIR.value()
    return Path(named).absolute() if named else Path(__file__).resolve().parent / "_native"


def interposer_library() -> Path:
    """The shim that is preloaded into applications. Raises CaptureError when this installation has none."""
    return _part_of_capture(INTERPOSER_NAME, "the interposer")


def stand_in_library() -> Path:
    """What applications find as libcuda.so.1 under capture. Raises CaptureError when this installation has none."""
    return _part_of_capture(STAND_IN_NAME, "the stand-in for the driver")


def _part_of_capture(name: str, what: str) -> Path:
    path = native_folder() / name
    if not path.is_file():
        raise CaptureError(
            f"{what} is not installed",
            where=path,
            next="install replay with `pip install .`, or set REPLAY_NATIVE_DIR",
        )
    return path


def submission_library() -> Path | None:
    """The loop that submits a window's calls; None when this installation has none, and Python does it."""
    path = native_folder() / SUBMISSION_NAME
    return path if path.is_file() else None


def scanning_library() -> Path | None:
    """What goes through raw records for packing; None when this installation has none, and Python does it."""
    path = native_folder() / SCANNING_NAME
    return path if path.is_file() else None


def emulator_library() -> Path:
    """The built-in CPU driver. Raises EngineError when this installation has none."""
    path = native_folder() / "emulator" / SONAME
    if not path.is_file():
        raise EngineError(
            "the built-in CPU driver is not installed",
            where=path,
            next="install replay with `pip install .`, or set REPLAY_NATIVE_DIR",
        )
    return path


def find_driver(choice: str | None = None, environ: Mapping[str, str] | None = None) -> Driver:
    """The driver that `choice` names: "emulator", "system", a folder that holds a libcuda.so.1, or such a file. None
    takes the system's where an NVIDIA driver is present, else the built-in one, and then `reason` says so.

    environ: the environment in which programs will look for it; None is this process's.
    Raises UsageError for a folder without a driver, EngineError when the driver asked for is not there.
    """
    if choice == "emulator":
        return Driver("emulator", (library := emulator_library()), library.parent, emulated=True)
    if choice not in (None, "", "system"):
        return _driver_in(Path(str(choice)))
    library_path = system_library(environ)
    if library_path is not None and is_emulator(library_path):
        # The user put the built-in driver on the loader's path; that is a choice too.
        return Driver(
            "emulator", library_path, library_path.parent, True, "the loader finds the built-in CPU driver"
        )
    device_files = any(path.exists() for path in _DEVICE_FILES)
    if library_path is not None and (device_files or choice == "system"):
        return Driver("system", library_path, None, emulated=False)
    if choice == "system":
        raise EngineError("this machine has no NVIDIA driver", where=SONAME, next="use `--driver emulator`")
    missing = (
        "no NVIDIA driver" if library_path is None else f"{library_path} is there, but no NVIDIA device files"
    )
    library = emulator_library()
    return Driver("emulator", library, library.parent, True, f"{missing}; using the built-in CPU driver")


def system_library(environ: Mapping[str, str] | None = None) -> Path | None:
    """The libcuda.so.1 that the loader gives to a program with this environment, links resolved; None if none."""
    child = dict(os.environ if environ is None else environ)
    # The answer must not come from a shim that is itself preloaded, and asking must not start a capture.
    child.pop("LD_PRELOAD", None)
    return _loaded_with(tuple(sorted(child.items())))


@cache
def _loaded_with(environment: tuple[tuple[str, str], ...]) -> Path | None:
    command = [sys.executable, "-I", "-S", "-c", _ASK_LOADER]
    try:
        answer = subprocess.run(command, env=dict(environment), capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    path = os.fsdecode(answer.stdout.rstrip(b"\n"))
    return Path(path) if answer.returncode == 0 and path else None


def is_emulator(library: Path) -> bool:
    """Whether a libcuda.so.1 is the built-in CPU driver or a copy of it."""
    try:
        with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            return content.find(_EMULATOR_MARK) >= 0
    except (OSError, ValueError):
        return False


def _driver_in(place: Path) -> Driver:
    library = place / SONAME if place.is_dir() else place
    if not library.is_file():
        raise UsageError(
            f"no {SONAME} there",
            where=place,
            next="--driver takes `system`, `emulator`, or a folder that holds one",
        )
    library = library.absolute()
    return Driver(str(place), library, library.parent, is_emulator(library))
